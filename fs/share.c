/*
 * A user's debt is a moment: each request moves it on by eight times what it took. He has some
 * credit, so that a command that reads many files is not held; and nothing is held that could keep
 * others waiting in the kernel (a directory's lock). Commands can take long and are in a line of
 * their own: who attaches to a large process reads on.
 */
#include "fs/share.h"

#include "fs/request.h"

#include <assert.h>
#include <stdlib.h>

enum {
    SHARE = 8,            /* one in so many of a CPU's time */
    CREDIT_NS = 40000000, /* of debt: 5 ms of a CPU at once */
    GRAIN_NS = 250000,    /* those held end together, so that main is not woken for each */
    REQUEST_NS = 20000,   /* outside of the lock: waking, the kernel's part, the reply */
    ALONE_NS = 100000000  /* who has not asked for so long does not ask */
};

/*
 * By kind of line, what is owed at most for what has been done. Nobody is held for longer, but
 * other requests that hear of signals as long as commands, for those before them in their line.
 */
static const uint64_t owed_max_ns[2] = {50000000, 5000000000};

void share_init(struct share *share, struct fs *fs)
{
    *share = (struct share){.fs = fs, .deadline_ns = UINT64_MAX};
}

void share_free(struct share *share)
{
    for (size_t i = 0; i < share->n_users; i++)
        assert(!share->users[i].lines[0].held && !share->users[i].lines[1].held);
    free(share->users);
}

static bool line_is_free(const struct share_line *line, uint64_t now_ns)
{
    return !line->held && line->paid_ns + CREDIT_NS <= now_ns;
}

/* NULL: no memory. An entry of somebody who owes nothing is as good as a new one. */
static struct share_user *user_of(struct share *share, uid_t uid, uint64_t now_ns)
{
    struct share_user *user = NULL, *users;

    for (size_t i = 0; i < share->n_users; i++) {
        struct share_user *one = &share->users[i];

        if (one->uid == uid)
            return one;
        if (!user && line_is_free(&one->lines[0], now_ns) && line_is_free(&one->lines[1], now_ns))
            user = one;
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

static struct share_line *line_of(struct share *share, const struct request *rq, uint64_t now_ns)
{
    struct share_user *user = user_of(share, rq->call.uid, now_ns);

    return user ? &user->lines[rq->is_command] : NULL;
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

bool share_owes(struct share *share, struct request *rq, uint64_t now_ns)
{
    bool others = !rq->nobodys && others_ask(share, rq->call.uid, now_ns);
    const struct share_line *line;

    if (!others || !rq->patient || share->fs->stopping)
        return false;
    line = line_of(share, rq, now_ns);
    return line && (line->held || line->paid_ns > now_ns);
}

bool share_is_long(const struct request *rq)
{
    return rq->is_command;
}

/* In the order of their moments; most come last. */
static void line_add(struct share_line *line, struct request *rq)
{
    struct request **at = &line->held;

    if (line->held && line->held_last->held_until_ns <= rq->held_until_ns)
        at = &line->held_last->next;
    while (*at && (*at)->held_until_ns <= rq->held_until_ns)
        at = &(*at)->next;
    rq->next = *at;
    *at = rq;
    if (!rq->next)
        line->held_last = rq;
}

/* It is taken to cost what the last one did, until it is known. */
void share_hold(struct share *share, struct request *rq, uint64_t now_ns)
{
    struct share_line *line = line_of(share, rq, now_ns);
    const uint64_t most_ns = owed_max_ns[rq->is_command || rq->hears_interrupt];
    uint64_t until_ns = line->paid_ns > now_ns ? line->paid_ns : now_ns;

    if (until_ns > now_ns + most_ns)
        until_ns = now_ns + most_ns;
    rq->held_until_ns = (until_ns / GRAIN_NS + 1) * GRAIN_NS;
    if (rq->held_until_ns < share->deadline_ns)
        share->deadline_ns = rq->held_until_ns;
    rq->reserved_ns += line->last_ns * SHARE;
    line->reserved_ns += line->last_ns * SHARE;
    line->paid_ns += line->last_ns * SHARE;
    line_add(line, rq);
    engine_stat_add(share->fs->engine, STAT_HELD_BACK, 1);
}

static struct request *line_take(struct share_line *line, fuse_req_t req)
{
    struct request *before = NULL, *rq = line->held;

    while (rq && rq->req != req) {
        before = rq;
        rq = rq->next;
    }
    if (!rq)
        return NULL;
    if (before)
        before->next = rq->next;
    else
        line->held = rq->next;
    if (line->held_last == rq)
        line->held_last = before;
    rq->next = NULL;
    return rq;
}

struct request *share_take(struct share *share, fuse_req_t req)
{
    for (size_t i = 0; i < share->n_users; i++)
        for (unsigned kind = 0; kind < 2; kind++) {
            struct request *rq = line_take(&share->users[i].lines[kind], req);

            if (rq)
                return rq;
        }
    return NULL;
}

/* What was reserved goes first: it may be more than he owes by now. */
void share_charge(struct share *share, struct request *rq, uint64_t now_ns)
{
    struct share_line *line = rq->nobodys ? NULL : line_of(share, rq, now_ns);
    uint64_t took_ns = rq->worked_ns + REQUEST_NS, most_ns;

    if (!line)
        return;
    if (now_ns > rq->call.now_ns)
        took_ns += now_ns - rq->call.now_ns;
    line->last_ns = took_ns;
    line->reserved_ns -= rq->reserved_ns < line->reserved_ns ? rq->reserved_ns : line->reserved_ns;
    line->paid_ns -= rq->reserved_ns < line->paid_ns ? rq->reserved_ns : line->paid_ns;
    if (line->paid_ns + CREDIT_NS < now_ns)
        line->paid_ns = now_ns - CREDIT_NS;
    line->paid_ns += took_ns * SHARE;
    most_ns = now_ns + owed_max_ns[rq->is_command] + line->reserved_ns;
    if (line->paid_ns > most_ns)
        line->paid_ns = most_ns;
    rq->worked_ns = rq->reserved_ns = 0;
}

struct request *share_next(struct share *share, uint64_t now_ns)
{
    struct share_line *first = NULL;

    if (now_ns < share->deadline_ns)
        return NULL;
    share->deadline_ns = UINT64_MAX;
    for (size_t i = 0; i < 2 * share->n_users; i++) {
        struct share_line *line = &share->users[i / 2].lines[i % 2];

        if (line->held && line->held->held_until_ns < share->deadline_ns) {
            share->deadline_ns = line->held->held_until_ns;
            first = line;
        }
    }
    return first && share->deadline_ns <= now_ns ? line_take(first, first->held->req) : NULL;
}
