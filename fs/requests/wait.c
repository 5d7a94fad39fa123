/*
 * Wait queues: hash tables of requests and pollers by the object for which they wait, oldest first;
 * the slots of slow requests; and notifications to the kernel.
 */
#include "fs/requests/wait.h"

#include "core/pmc/pmc.h"
#include "fs/requests/request.h"
#include "fs/requests/serve.h"
#include "fs/tree/node.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned bucket_of(uint64_t id)
{
    return (unsigned)(id % WAIT_BUCKETS);
}

void wait_init(struct wait_queues *queues, struct fs *fs)
{
    *queues = (struct wait_queues){.fs = fs, .deadline_ns = UINT64_MAX};
    TAILQ_INIT(&queues->ready);
    for (unsigned i = 0; i < WAIT_BUCKETS; i++)
        TAILQ_INIT(&queues->waiting[i]);
}

struct wait_user {
    uid_t uid;
    uint64_t waiting; /* requests and pollers, at least one */
    UT_hash_handle hh;
};

/* Counts a waiting request or poller of a user. Returns 0, P11 if there are too many, or E32. */
static int waiting_count(struct wait_queues *queues, struct request *rq)
{
    uint64_t limit = tunable_u64(&queues->fs->tree.engine->tunables, TUNABLE_MAX_WAITING_PER_USER);
    struct wait_user *user;

    HASH_FIND(hh, queues->users, &rq->call.payer, sizeof user->uid, user);
    if (!user) {
        user = calloc(1, sizeof *user);
        if (!user)
            return err_nomem(&rq->call.err);
        user->uid = rq->call.payer;
        HASH_ADD(hh, queues->users, uid, sizeof user->uid, user);
        if (!hash_has(user)) {
            free(user);
            return err_nomem(&rq->call.err);
        }
    }
    if (user->waiting >= limit)
        return err_set(
            &rq->call.err, P11,
            "user %u has %llu waiting requests, and max_waiting_per_user allows no more: "
            "let some finish first",
            (unsigned)user->uid, (unsigned long long)user->waiting);
    user->waiting++;
    return 0;
}

static void waiting_uncount(struct wait_queues *queues, uid_t uid)
{
    struct wait_user *user;

    HASH_FIND(hh, queues->users, &uid, sizeof uid, user);
    if (--user->waiting > 0)
        return;
    HASH_DEL(queues->users, user);
    free(user);
}

int wait_charge(struct wait_queues *queues, struct request *rq)
{
    int rc = rq->waiting.counted ? 0 : waiting_count(queues, rq);

    if (rc)
        return rc;
    rq->waiting.counted = true;
    rq->waiting.uid = rq->call.payer;
    if (!rq->op->is_command || rq->waiting.charged)
        return CALL_WAIT;
    rq->waiting.bytes = sizeof *rq + rq->inflight->bytes;
    rc = engine_charge_request(&rq->call, rq->waiting.bytes, "a command that waits for others",
                               &rq->waiting.charged);
    return rc ? rc : CALL_WAIT;
}

static void wait_uncharge_text(struct request *rq)
{
    if (rq->waiting.charged)
        engine_uncharge_request(rq->waiting.charged, rq->waiting.bytes);
    rq->waiting.charged = NULL;
}

void wait_uncharge(struct wait_queues *queues, struct request *rq)
{
    wait_uncharge_text(rq);
    if (rq->waiting.counted)
        waiting_uncount(queues, rq->waiting.uid);
    rq->waiting.counted = false;
}

void wait_forget_charges(struct wait_queues *queues)
{
    struct request *rq;

    TAILQ_FOREACH (rq, &queues->ready, wait_entry)
        wait_uncharge_text(rq);
    for (unsigned i = 0; i < WAIT_BUCKETS; i++)
        TAILQ_FOREACH (rq, &queues->waiting[i], wait_entry)
            wait_uncharge_text(rq);
}

/* Notes a deadline; 0: none. */
static void deadline_add(struct wait_queues *queues, uint64_t deadline_ns)
{
    if (deadline_ns && deadline_ns < queues->deadline_ns)
        queues->deadline_ns = deadline_ns;
}

void wait_add(struct wait_queues *queues, struct request *rq)
{
    TAILQ_INSERT_TAIL(&queues->waiting[bucket_of(rq->call.wait_for)], rq, wait_entry);
    deadline_add(queues, rq->call.wait_until_ns);
    queues->fs->tree.engine->stats[STAT_WAITING]++;
}

static void wait_remove(struct wait_queues *queues, struct request *rq)
{
    TAILQ_REMOVE(&queues->waiting[bucket_of(rq->call.wait_for)], rq, wait_entry);
    queues->fs->tree.engine->stats[STAT_WAITING]--;
}

static void wait_make_ready(struct wait_queues *queues, struct request *rq)
{
    wait_remove(queues, rq);
    TAILQ_INSERT_TAIL(&queues->ready, rq, wait_entry);
}

struct request *wait_take(struct wait_queues *queues, uint64_t number)
{
    struct request *rq;

    TAILQ_FOREACH (rq, &queues->ready, wait_entry)
        if (rq->inflight->number == number) {
            TAILQ_REMOVE(&queues->ready, rq, wait_entry);
            return rq;
        }
    for (unsigned i = 0; i < WAIT_BUCKETS; i++)
        TAILQ_FOREACH (rq, &queues->waiting[i], wait_entry)
            if (rq->inflight->number == number) {
                wait_remove(queues, rq);
                return rq;
            }
    return NULL;
}

static bool has_pollers(const struct wait_queues *queues, uint64_t id)
{
    const struct handle *h;

    LIST_FOREACH (h, &queues->polled[bucket_of(id)], poller.entry)
        if (h->poller.object == id)
            return true;
    return false;
}

void poll_notify(int fd, uint64_t number)
{
    const struct {
        struct fuse_out_header head;
        struct fuse_notify_poll_wakeup_out poll;
    } message = {{.len = sizeof message, .error = FUSE_NOTIFY_POLL}, {.kh = number}};

    if (write(fd, &message, sizeof message) < 0)
        return; /* the file was closed */
}

static void poll_forget(struct wait_queues *queues, struct handle *handle)
{
    handle->poller.sleeps = false;
    LIST_REMOVE(handle, poller.entry);
    waiting_uncount(queues, handle->poller.uid);
}

void poll_drop(struct wait_queues *queues, struct handle *handle)
{
    if (!handle->poller.sleeps)
        return;
    poll_forget(queues, handle);
    if (!has_pollers(queues, handle->poller.object))
        engine_set_polled(queues->fs->tree.engine, handle->poller.object, false);
}

void wait_expire(struct wait_queues *queues, uint64_t now_ns)
{
    struct request *rq, *next;
    struct handle *h, *next_handle;

    if (now_ns < queues->deadline_ns)
        return;
    queues->deadline_ns = UINT64_MAX;
    for (unsigned i = 0; i < WAIT_BUCKETS; i++) {
        for (rq = TAILQ_FIRST(&queues->waiting[i]); rq; rq = next) {
            const uint64_t until_ns = rq->call.wait_until_ns;

            next = TAILQ_NEXT(rq, wait_entry);
            if (now_ns == UINT64_MAX || (until_ns && until_ns <= now_ns))
                wait_make_ready(queues, rq);
            else
                deadline_add(queues, until_ns);
        }
        for (h = LIST_FIRST(&queues->polled[i]); h; h = next_handle) {
            next_handle = LIST_NEXT(h, poller.entry);
            if (!h->poller.due_ns || h->poller.due_ns > now_ns) {
                deadline_add(queues, h->poller.due_ns);
                continue;
            }
            poll_drop(queues, h);
            poll_notify(queues->fs->inflight->fuse_fd, h->position.poll_number);
        }
    }
}

int poll_add(struct wait_queues *queues, struct handle *handle, struct request *rq)
{
    int rc = handle->poller.sleeps ? 0 : waiting_count(queues, rq);

    if (rc)
        return rc;
    handle->position.poll_number = rq->poll.number;
    handle_touch(&queues->fs->unpublished, handle);
    handle->poller.due_ns = rq->call.wait_until_ns;
    deadline_add(queues, handle->poller.due_ns);
    if (handle->poller.sleeps)
        return 0;
    handle->poller.sleeps = true;
    handle->poller.uid = rq->call.payer;
    handle->poller.object = rq->node.object;
    if (!has_pollers(queues, handle->poller.object))
        engine_set_polled(queues->fs->tree.engine, handle->poller.object, true);
    LIST_INSERT_HEAD(&queues->polled[bucket_of(handle->poller.object)], handle, poller.entry);
    return 0;
}

void poll_announce(struct wait_queues *queues)
{
    struct handle *h;

    for (unsigned i = 0; i < WAIT_BUCKETS; i++)
        LIST_FOREACH (h, &queues->polled[i], poller.entry)
            engine_set_polled(queues->fs->tree.engine, h->poller.object, true);
}

void wait_wake(struct wait_queues *queues, uint64_t id)
{
    struct request *next;
    struct handle *next_handle;
    bool polled = false;

    for (struct request *rq = TAILQ_FIRST(&queues->waiting[bucket_of(id)]); rq; rq = next) {
        next = TAILQ_NEXT(rq, wait_entry);
        if (rq->call.wait_for == id)
            wait_make_ready(queues, rq);
    }
    for (struct handle *h = LIST_FIRST(&queues->polled[bucket_of(id)]); h; h = next_handle) {
        next_handle = LIST_NEXT(h, poller.entry);
        if (h->poller.object != id)
            continue;
        poll_forget(queues, h);
        poll_notify(queues->fs->inflight->fuse_fd, h->position.poll_number);
        polled = true;
    }
    if (polled)
        engine_set_polled(queues->fs->tree.engine, id, false);
}

/* ---- slow requests ---- */

#define SLOW_ID UINT64_MAX /* pseudo object: requests that wait for a slow slot */

enum {
    SLOW_MAX = 8,
    SLOW_PER_USER = SLOW_MAX / 2,
    SLOW_ORDINARY = SLOW_MAX - 1 /* the last slot is the superuser's */
};

/* Returns the number of slow requests of the user, or -1 if the request gets no slot now. */
static int slow_of_user(const struct request *rq)
{
    const struct request *other;
    int of_user = 0, ordinary = 0, all = 0;

    LIST_FOREACH (other, &rq->fs->queues.slow, slow.entry) {
        all++;
        ordinary += !other->slow.superuser;
        of_user += other->slow.superuser == rq->slow.superuser &&
                   (rq->slow.superuser || other->slow.uid == rq->slow.uid);
    }
    if (all >= SLOW_MAX || of_user >= SLOW_PER_USER ||
        (!rq->slow.superuser && ordinary >= SLOW_ORDINARY))
        return -1;
    return of_user;
}

static void slow_take_slot(struct request *rq)
{
    LIST_INSERT_HEAD(&rq->fs->queues.slow, rq, slow.entry);
    rq->slow.has_slot = true;
}

/* Uid 0 in an instance is an ordinary user. Nothing gets a slot while the mount stops. */
int wait_enter_slow(struct call *call)
{
    struct request *rq = request_of(call);

#ifdef PMCFS_DEBUG
    if (rq->op->locks_directory)
        abort(); /* even if a slot is free */
#endif
    if (rq->slow.has_slot || !rq->req)
        return CALL_DONE;
    rq->slow.superuser = call->rights
                             ? call->rights->superuser
                             : call->payer == 0 && call->instance && call->instance->id == 0;
    rq->slow.uid = call->payer;
    if (rq->fs->stopping || slow_of_user(rq) < 0) {
        call->wait_for = SLOW_ID;
        call->wait_until_ns = 0;
        return CALL_WAIT;
    }
    slow_take_slot(rq);
    return CALL_DONE;
}

/*
 * Gives the free slot to a waiting request, so that no new request takes it: the oldest one of the
 * user with the fewest slow requests.
 */
void wait_leave_slow(struct request *rq)
{
    struct wait_queues *queues = &rq->fs->queues;
    struct request *other, *next = NULL;
    int fewest = SLOW_MAX;

    if (!rq->slow.has_slot)
        return;
    LIST_REMOVE(rq, slow.entry);
    rq->slow.has_slot = false;
    TAILQ_FOREACH (other, &queues->waiting[bucket_of(SLOW_ID)], wait_entry) {
        const int of_user = other->call.wait_for == SLOW_ID ? slow_of_user(other) : -1;

        if (of_user >= 0 && of_user < fewest) {
            fewest = of_user;
            next = other;
        }
    }
    if (!next)
        return;
    slow_take_slot(next);
    wait_make_ready(queues, next);
}

/* ---- notifications to the kernel ---- */

/*
 * Invalidates a name. The kernel ignores names that it does not know. If the process that sends
 * notifications does not proceed for a second, drops the name: the kernel then finds out at the
 * next open of it.
 */
static void entry_forget(struct fs *fs, uint64_t instance, unsigned number, const char *name)
{
    struct {
        struct fuse_out_header head;
        struct fuse_notify_inval_entry_out entry;
        char name[NAME_MAX + 1];
    } message = {.head.error = FUSE_NOTIFY_INVAL_ENTRY,
                 .entry.parent = node_id(NODE_INSTANCE, instance, number)};
    ssize_t n;

    _Static_assert(sizeof message <= NOTIFICATION_MAX, "the process receives it in one piece");
    message.entry.namelen = (uint32_t)strnlen(name, NAME_MAX);
    memcpy(message.name, name, message.entry.namelen);
    message.head.len = (uint32_t)(offsetof(__typeof__(message), name) + message.entry.namelen + 1);
    if (fs->notify_fd < 0)
        fs->notify_fd = loop_start_notifier(fs->loop);
    do
        n = send(fs->notify_fd, &message, message.head.len, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0 || errno == EAGAIN || fs->stopping)
        return;
    if (fs->notify_fd >= 0) /* the process was killed: the next name starts another one */
        close(fs->notify_fd);
    fs->notify_fd = -1;
    if (write(fs->inflight->fuse_fd, &message, message.head.len) < 0)
        return; /* the kernel does not know the name */
}

bool notify_next(struct fs *fs)
{
    struct gone_name gone;

    if (!engine_next_name(fs->tree.engine, &gone))
        return false;
    if (fs->stopping)
        return true;
    fs_unlock(fs);
    if (!gone.is_instance)
        entry_forget(fs, gone.instance, NUMBER_OWN_DIR, gone.name);
    if (gone.is_instance && gone.vanished)
        entry_forget(fs, 0, NUMBER_INSTANCES, gone.name);
    if (gone.is_instance)
        entry_forget(fs, 0, NUMBER_LIMITS, gone.name);
    fs_lock(fs);
    return true;
}

void notify_end(struct fs *fs)
{
    struct pollfd exits = {.events = POLLIN};
    bool waits;

    do {
        fs_lock(fs);
        waits = fs->is_notifying;
        exits.fd = fs->notify_fd;
        fs_unlock(fs);
        if (waits)
            poll(NULL, 0, 1);
    } while (waits);
    if (exits.fd >= 0 && shutdown(exits.fd, SHUT_WR) == 0)
        poll(&exits, 1, 1000);
}
