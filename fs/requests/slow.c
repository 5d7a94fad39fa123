/*
 * Slow requests are those that may give up their seat for long. A request that may not be slow yet
 * is parked until one of its user's slots or of the shared ones is free.
 */
#include "fs/requests/slow.h"

#include "core/pmc/instance.h"
#include "core/pmc/rights.h"
#include "fs/requests/request.h"

#include <stdlib.h>

enum {
    SLOW_MAX = 8,
    SLOW_PER_USER = SLOW_MAX / 2,
    SLOW_ORDINARY = SLOW_MAX - 1 /* the last slot is the superuser's */
};

/* Instances give no one the superuser's slot: uid 0 of a container is an ordinary user there. */
static bool is_superuser(const struct request *rq)
{
    const struct call *call = &rq->call;

    if (call->rights)
        return call->rights->superuser;
    return call->payer == 0 && call->instance && call->instance->id == 0;
}

/* The number of slow requests of this request's user; -1: the request may not be slow now. */
static int slow_of_user(const struct request *rq, bool superuser)
{
    const struct request *other;
    int of_user = 0, ordinary = 0, all = 0;

    LIST_FOREACH (other, &rq->fs->slow, slow_entry) {
        all++;
        ordinary += !other->slow_superuser;
        of_user += other->slow_superuser == superuser &&
                   (superuser || other->slow_payer == rq->call.payer);
    }
    if (all >= SLOW_MAX || of_user >= SLOW_PER_USER || (!superuser && ordinary >= SLOW_ORDINARY))
        return -1;
    return of_user;
}

static void slow_let_in(struct request *rq, bool superuser)
{
    LIST_INSERT_HEAD(&rq->fs->slow, rq, slow_entry);
    rq->slow = true;
    rq->slow_superuser = superuser;
    rq->slow_payer = rq->call.payer;
}

int slow_enter(struct request *rq)
{
    struct fs *fs = rq->fs;

#ifdef PMCFS_DEBUG
    if (rq->op->locks_directory)
        abort(); /* whether or not a slot is free now */
#endif
    if (rq->slow || !rq->req)
        return CALL_DONE;
    rq->slow_superuser = is_superuser(rq);
    if (fs->stopping || slow_of_user(rq, rq->slow_superuser) < 0) { /* stopping: nothing waits */
        rq->call.wait_for = SLOW_ID;
        rq->call.wait_until_ns = 0;
        return CALL_WAIT;
    }
    slow_let_in(rq, rq->slow_superuser);
    return CALL_DONE;
}

/*
 * Gives the free slot to a waiting request, so that no newcomer takes it: to the user that has the
 * fewest slow requests, and there to the oldest.
 */
static void slow_admit_next(struct fs *fs)
{
    struct request *rq, *next = NULL;
    int fewest = SLOW_MAX;

    TAILQ_FOREACH (rq, park_list(&fs->park, SLOW_ID), park_entry) {
        const int of_user =
            rq->call.wait_for == SLOW_ID ? slow_of_user(rq, rq->slow_superuser) : -1;

        if (of_user >= 0 && of_user < fewest) {
            fewest = of_user;
            next = rq;
        }
    }
    if (!next)
        return;
    slow_let_in(next, next->slow_superuser);
    park_ready(&fs->park, next);
}

void slow_leave(struct request *rq)
{
    if (!rq->slow)
        return;
    LIST_REMOVE(rq, slow_entry);
    rq->slow = false;
    slow_admit_next(rq->fs);
}
