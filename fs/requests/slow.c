/*
 * Slow requests are those that may give up their seat for long. One that may not be slow yet is
 * parked.
 */
#include "fs/requests/slow.h"

#include "fs/requests/request.h"

enum {
    SLOW_MAX = 8,
    SLOW_PER_USER = SLOW_MAX / 2
};

static bool slow_may(const struct fs *fs, uid_t payer)
{
    const struct request *rq;
    unsigned all = 0, of_user = 0;

    LIST_FOREACH (rq, &fs->slow, slow_entry) {
        all++;
        of_user += rq->call.payer == payer;
    }
    return all < SLOW_MAX && of_user < SLOW_PER_USER;
}

static void slow_let_in(struct request *rq)
{
    LIST_INSERT_HEAD(&rq->fs->slow, rq, slow_entry);
    rq->slow = true;
}

int slow_enter(struct request *rq)
{
    struct fs *fs = rq->fs;

    if (rq->slow || !rq->req || fs->stopping)
        return CALL_DONE;
    if (!slow_may(fs, rq->call.payer)) {
        rq->call.wait_for = SLOW_ID;
        rq->call.wait_until_ns = 0;
        return CALL_WAIT;
    }
    slow_let_in(rq);
    return CALL_DONE;
}

/* The oldest that may takes the place, so that no newcomer does. */
static void slow_admit_next(struct fs *fs)
{
    struct request *rq;

    TAILQ_FOREACH (rq, park_list(&fs->park, SLOW_ID), park_entry)
        if (rq->call.wait_for == SLOW_ID && slow_may(fs, rq->call.payer)) {
            slow_let_in(rq);
            park_ready(&fs->park, rq);
            return;
        }
}

void slow_leave(struct request *rq)
{
    if (!rq->slow)
        return;
    LIST_REMOVE(rq, slow_entry);
    rq->slow = false;
    slow_admit_next(rq->fs);
}
