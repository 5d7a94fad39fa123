/*
 * A user's debt is a moment: each request moves it on by four times what it took. He has some
 * credit, so that a command that reads many files is not held; and nothing is held for long, nor
 * what could keep others waiting in the kernel (a directory's lock).
 */
#include "fs/share.h"

#include "fs/request.h"

#include <assert.h>
#include <stdlib.h>

enum {
    SHARE = 4,               /* one in so many of a CPU's time */
    CREDIT_NS = 20000000,    /* of debt: 5 ms of a CPU at once */
    HELD_NS = 50000000,      /* at most */
    GRAIN_NS = 250000,       /* those held end together, so that main is not woken for each */
    REQUEST_NS = 20000,      /* outside of the lock: waking, the kernel's part, the reply */
    ALONE_NS = 100000000,    /* who has not asked for so long does not ask */
    FIRST_NS = 20000 * SHARE /* what a held one is taken for until it is known */
};

void share_init(struct share *share, struct fs *fs)
{
    *share = (struct share){.fs = fs, .deadline_ns = UINT64_MAX};
}

void share_free(struct share *share)
{
    for (size_t i = 0; i < share->n_users; i++)
        assert(!share->users[i].held);
    free(share->users);
}

static bool user_is_free(const struct share_user *user, uint64_t now_ns)
{
    return !user->held && user->paid_ns + CREDIT_NS <= now_ns;
}

/* NULL: no memory. An entry of somebody who owes nothing is as good as a new one. */
static struct share_user *user_of(struct share *share, uid_t uid, uint64_t now_ns)
{
    struct share_user *user = NULL, *users;

    for (size_t i = 0; i < share->n_users; i++) {
        if (share->users[i].uid == uid)
            return &share->users[i];
        if (!user && user_is_free(&share->users[i], now_ns))
            user = &share->users[i];
    }
    if (!user) {
        users = reallocarray(share->users, share->n_users + 1, sizeof *users);
        if (!users)
            return NULL;
        share->users = users;
        user = &users[share->n_users++];
    }
    *user = (struct share_user){.uid = uid};
    return user;
}

/* Notes that he asks. Does somebody else, too? */
static bool others_ask(struct share *share, uid_t uid, uint64_t now_ns)
{
    struct share_asker *last = share->askers;

    if (last[0].uid != uid || !last[0].time_ns)
        last[1] = last[0];
    last[0] = (struct share_asker){uid, now_ns};
    return last[1].time_ns + ALONE_NS > now_ns;
}

static void user_hold(struct share *share, struct share_user *user, struct request *rq,
                      uint64_t now_ns)
{
    uint64_t until_ns = user->paid_ns > now_ns ? user->paid_ns : now_ns;

    if (until_ns > now_ns + HELD_NS)
        until_ns = now_ns + HELD_NS;
    rq->held_until_ns = (until_ns / GRAIN_NS + 1) * GRAIN_NS;
    if (rq->held_until_ns < share->deadline_ns)
        share->deadline_ns = rq->held_until_ns;
    rq->reserved_ns += FIRST_NS;
    user->paid_ns += FIRST_NS;
    rq->next = NULL;
    if (user->held)
        user->held_last->next = rq;
    else
        user->held = rq;
    user->held_last = rq;
    engine_stat_add(share->fs->engine, STAT_HELD_BACK, 1);
}

bool share_admit(struct share *share, struct request *rq, uint64_t now_ns)
{
    bool others = others_ask(share, rq->call.uid, now_ns);
    struct share_user *user;

    if (!rq->patient || share->fs->stopping)
        return true;
    user = user_of(share, rq->call.uid, now_ns);
    if (!user || (!user->held && (!others || user->paid_ns <= now_ns)))
        return true;
    user_hold(share, user, rq, now_ns);
    return false;
}

void share_charge(struct share *share, const struct request *rq, uint64_t now_ns)
{
    struct share_user *user = user_of(share, rq->call.uid, now_ns);
    uint64_t took_ns = rq->worked_ns + REQUEST_NS;

    if (!user)
        return;
    if (now_ns > rq->call.now_ns)
        took_ns += now_ns - rq->call.now_ns;
    if (user->paid_ns + CREDIT_NS < now_ns)
        user->paid_ns = now_ns - CREDIT_NS;
    user->paid_ns += took_ns * SHARE;
    user->paid_ns -= rq->reserved_ns;
    if (user->paid_ns > now_ns + HELD_NS)
        user->paid_ns = now_ns + HELD_NS;
}

struct request *share_next(struct share *share, uint64_t now_ns)
{
    uint64_t deadline_ns = UINT64_MAX;

    if (now_ns < share->deadline_ns)
        return NULL;
    for (size_t i = 0; i < share->n_users; i++) {
        struct share_user *user = &share->users[i];
        struct request *rq = user->held;

        if (rq && rq->held_until_ns <= now_ns) {
            user->held = rq->next;
            rq->next = NULL;
            return rq;
        }
        if (rq && rq->held_until_ns < deadline_ns)
            deadline_ns = rq->held_until_ns;
    }
    share->deadline_ns = deadline_ns;
    return NULL;
}
