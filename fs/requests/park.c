/*
 * Parked requests and pollers: lists hashed by what they wait for, oldest first.
 */
#include "fs/requests/park.h"

#include "fs/requests/request.h"

#include <assert.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned bucket_of(uint64_t id)
{
    return (unsigned)(id % PARK_BUCKETS);
}

void park_init(struct park *park, struct fs *fs)
{
    *park = (struct park){.fs = fs, .deadline_ns = UINT64_MAX};
    TAILQ_INIT(&park->ready);
    for (unsigned i = 0; i < PARK_BUCKETS; i++)
        TAILQ_INIT(&park->waiting[i]);
}

void park_free(struct park *park)
{
    assert(TAILQ_EMPTY(&park->ready) && !park->users);
    for (unsigned i = 0; i < PARK_BUCKETS; i++)
        assert(TAILQ_EMPTY(&park->waiting[i]) && LIST_EMPTY(&park->polled[i]));
}

struct park_user {
    uid_t uid;
    uint64_t waiting; /* requests and pollers, at least one */
    UT_hash_handle hh;
};

static struct park_user *user_of(struct park *park, uid_t uid)
{
    struct park_user *user;

    HASH_FIND(hh, park->users, &uid, sizeof uid, user);
    return user;
}

static struct park_user *user_new(struct park *park, uid_t uid)
{
    struct park_user *user = calloc(1, sizeof *user);

    if (!user)
        return NULL;
    user->uid = uid;
    HASH_ADD(hh, park->users, uid, sizeof user->uid, user);
    if (hash_has(user))
        return user;
    free(user);
    return NULL;
}

/* Counts one more that waits among its user's. */
static int user_charge(struct park *park, struct request *rq)
{
    uint64_t limit =
        tunable_u64(engine_tunables(park->fs->tree.engine), TUNABLE_MAX_WAITING_PER_USER);
    struct park_user *user = user_of(park, rq->call.payer);

    if (!user && !(user = user_new(park, rq->call.payer)))
        return err_nomem(&rq->call.err);
    if (user->waiting >= limit)
        return err_set(&rq->call.err, P11,
                       "user %u has %llu requests that wait already "
                       "(tunable max_waiting_per_user)",
                       (unsigned)user->uid, (unsigned long long)user->waiting);
    user->waiting++;
    return 0;
}

static void user_discharge(struct park *park, uid_t uid)
{
    struct park_user *user = user_of(park, uid);

    if (--user->waiting > 0)
        return;
    HASH_DEL(park->users, user);
    free(user);
}

int park_admit(struct park *park, struct request *rq)
{
    int rc = rq->charged ? 0 : user_charge(park, rq);

    if (rc)
        return rc;
    rq->charged = true;
    rq->payer = rq->call.payer;
    if (!rq->op->text || rq->keeper)
        return CALL_WAIT;
    rq->kept_bytes = sizeof *rq + rq->hand->bytes;
    rc = engine_charge_wait(&rq->call, rq->kept_bytes, &rq->keeper);
    return rc ? rc : CALL_WAIT;
}

static void park_uncharge(struct request *rq)
{
    if (rq->keeper)
        engine_uncharge_wait(rq->keeper, rq->kept_bytes);
    rq->keeper = NULL;
}

void park_leave(struct park *park, struct request *rq)
{
    park_uncharge(rq);
    if (rq->charged)
        user_discharge(park, rq->payer);
    rq->charged = false;
}

void park_forget(struct park *park)
{
    struct request *rq;

    TAILQ_FOREACH (rq, &park->ready, park_entry)
        park_uncharge(rq);
    for (unsigned i = 0; i < PARK_BUCKETS; i++)
        TAILQ_FOREACH (rq, &park->waiting[i], park_entry)
            park_uncharge(rq);
}

struct park_list *park_list(struct park *park, uint64_t id)
{
    return &park->waiting[bucket_of(id)];
}

void park_add(struct park *park, struct request *rq)
{
    TAILQ_INSERT_TAIL(park_list(park, rq->call.wait_for), rq, park_entry);
    if (rq->call.wait_until_ns && rq->call.wait_until_ns < park->deadline_ns)
        park->deadline_ns = rq->call.wait_until_ns;
    engine_stat_add(park->fs->tree.engine, STAT_PARKED, 1);
}

/* Off the list of those that wait. */
static void park_remove(struct park *park, struct request *rq)
{
    TAILQ_REMOVE(park_list(park, rq->call.wait_for), rq, park_entry);
    engine_stat_add(park->fs->tree.engine, STAT_PARKED, -1);
}

void park_ready(struct park *park, struct request *rq)
{
    park_remove(park, rq);
    TAILQ_INSERT_TAIL(&park->ready, rq, park_entry);
}

struct request *park_next(struct park *park)
{
    struct request *rq = TAILQ_FIRST(&park->ready);

    if (rq)
        TAILQ_REMOVE(&park->ready, rq, park_entry);
    return rq;
}

struct request *park_take(struct park *park, uint64_t number)
{
    struct request *rq;

    TAILQ_FOREACH(rq, &park->ready, park_entry)
        if (hand_number(rq->hand) == number) {
            TAILQ_REMOVE(&park->ready, rq, park_entry);
            return rq;
        }
    for (unsigned i = 0; i < PARK_BUCKETS; i++)
        TAILQ_FOREACH(rq, &park->waiting[i], park_entry)
            if (hand_number(rq->hand) == number) {
                park_remove(park, rq);
                return rq;
            }
    return NULL;
}

static bool poll_any(const struct park *park, uint64_t id)
{
    const struct handle *h;

    LIST_FOREACH(h, &park->polled[bucket_of(id)], poll_entry)
    if (h->polled_id == id)
        return true;
    return false;
}

/* Requests become ready as their moment comes; gives the next moment of the others. */
static uint64_t requests_expire(struct park *park, unsigned bucket, uint64_t now_ns)
{
    uint64_t deadline_ns = UINT64_MAX;
    struct request *next;

    for (struct request *rq = TAILQ_FIRST(&park->waiting[bucket]); rq; rq = next) {
        uint64_t until_ns = rq->call.wait_until_ns ? rq->call.wait_until_ns : UINT64_MAX;
        next = TAILQ_NEXT(rq, park_entry);
        if (until_ns <= now_ns)
            park_ready(park, rq);
        else if (until_ns < deadline_ns)
            deadline_ns = until_ns;
    }
    return deadline_ns;
}

void poll_notify(int fd, uint64_t number)
{
    const struct {
        struct fuse_out_header head;
        struct fuse_notify_poll_wakeup_out poll;
    } message = {{.len = sizeof message, .error = FUSE_NOTIFY_POLL}, {.kh = number}};

    if (write(fd, &message, sizeof message) < 0)
        return; /* it was closed meanwhile */
}

static void poll_forget(struct park *park, struct handle *handle)
{
    handle->polls = false;
    LIST_REMOVE(handle, poll_entry);
    user_discharge(park, handle->poll_uid);
}

/* The kernel wakes it, and waits for nothing. */
static void poll_tell_one(struct park *park, struct handle *handle)
{
    poll_forget(park, handle);
    poll_notify(park->fs->hand->fuse_fd, handle->place.poll_number);
}

/* The same for pollers, which are told. */
static uint64_t pollers_expire(struct park *park, unsigned bucket, uint64_t now_ns)
{
    uint64_t deadline_ns = UINT64_MAX;
    struct handle *next;

    for (struct handle *h = LIST_FIRST(&park->polled[bucket]); h; h = next) {
        next = LIST_NEXT(h, poll_entry);
        if (h->due_ns && h->due_ns <= now_ns) {
            poll_tell_one(park, h);
            if (!poll_any(park, h->polled_id))
                engine_polled(park->fs->tree.engine, h->polled_id, false);
        } else if (h->due_ns && h->due_ns < deadline_ns) {
            deadline_ns = h->due_ns;
        }
    }
    return deadline_ns;
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

void park_expire(struct park *park, uint64_t now_ns)
{
    uint64_t deadline_ns = UINT64_MAX;

    if (now_ns < park->deadline_ns)
        return;
    for (unsigned i = 0; i < PARK_BUCKETS; i++) {
        deadline_ns = earlier(deadline_ns, requests_expire(park, i, now_ns));
        deadline_ns = earlier(deadline_ns, pollers_expire(park, i, now_ns));
    }
    park->deadline_ns = deadline_ns;
}

int poll_add(struct park *park, struct handle *handle, struct request *rq)
{
    int rc = handle->polls ? 0 : user_charge(park, rq);

    if (rc)
        return rc;
    handle->place.poll_number = rq->poll_number;
    handle->due_ns = rq->call.wait_until_ns;
    if (handle->due_ns)
        park->deadline_ns = earlier(park->deadline_ns, handle->due_ns);
    if (handle->polls)
        return 0;
    handle->polls = true;
    handle->poll_uid = rq->call.payer;
    handle->polled_id = rq->node.object;
    if (!poll_any(park, handle->polled_id))
        engine_polled(park->fs->tree.engine, handle->polled_id, true);
    LIST_INSERT_HEAD(&park->polled[bucket_of(handle->polled_id)], handle, poll_entry);
    return 0;
}

void poll_drop(struct park *park, struct handle *handle)
{
    if (!handle->polls)
        return;
    poll_forget(park, handle);
    if (!poll_any(park, handle->polled_id))
        engine_polled(park->fs->tree.engine, handle->polled_id, false);
}

void poll_tell(struct park *park)
{
    struct handle *h;

    for (unsigned i = 0; i < PARK_BUCKETS; i++)
        LIST_FOREACH(h, &park->polled[i], poll_entry)
    engine_polled(park->fs->tree.engine, h->polled_id, true);
}

void park_wake(struct park *park, uint64_t id)
{
    struct request *next;
    struct handle *next_handle;
    bool polled = false;

    for (struct request *rq = TAILQ_FIRST(park_list(park, id)); rq; rq = next) {
        next = TAILQ_NEXT(rq, park_entry);
        if (rq->call.wait_for == id)
            park_ready(park, rq);
    }
    for (struct handle *h = LIST_FIRST(&park->polled[bucket_of(id)]); h; h = next_handle) {
        next_handle = LIST_NEXT(h, poll_entry);
        if (h->polled_id != id)
            continue;
        poll_tell_one(park, h);
        polled = true;
    }
    if (polled)
        engine_polled(park->fs->tree.engine, id, false);
}
