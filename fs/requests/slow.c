/*
 * Slow requests are those that gave up their seat. One that may not be slow yet is parked; parked
 * requests end at once when they are interrupted, slow ones are told, and may look
 * (call.interrupted).
 */
#include "fs/requests/slow.h"

#include "fs/requests/request.h"

#include <errno.h>

enum {
    SLOW_MAX = 8,
    SLOW_PER_USER = SLOW_MAX / 2
};

static bool slow_may(const struct fs *fs, uid_t payer)
{
    const struct request *rq;
    unsigned all = 0, of_user = 0;

    LIST_FOREACH (rq, &fs->slow, slow_entry) {
        all += rq->admitted;
        of_user += rq->admitted && rq->call.payer == payer;
    }
    return all < SLOW_MAX && of_user < SLOW_PER_USER;
}

void slow_enter_anyway(struct request *rq)
{
    if (!rq->slow)
        LIST_INSERT_HEAD(&rq->fs->slow, rq, slow_entry);
    rq->slow = true;
}

static void slow_let_in(struct request *rq)
{
    slow_enter_anyway(rq);
    rq->admitted = true;
}

int slow_enter(struct request *rq)
{
    struct fs *fs = rq->fs;

    if (rq->admitted || !rq->req || fs->stopping)
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
    bool admitted = rq->admitted;

    if (!rq->slow)
        return;
    LIST_REMOVE(rq, slow_entry);
    rq->slow = rq->admitted = false;
    if (admitted)
        slow_admit_next(rq->fs);
}

/* Not fs_lock(): a reload waits for slow requests, for this one perhaps. */
static bool slow_interrupt(struct fs *fs, fuse_req_t req)
{
    struct request *rq;

    pthread_mutex_lock(&fs->lock);
    LIST_FOREACH (rq, &fs->slow, slow_entry)
        if (rq->req == req && !rq->answered)
            break;
    if (rq)
        rq->interrupted = true;
    pthread_mutex_unlock(&fs->lock);
    return rq != NULL;
}

/* libfuse calls this with its request's lock held; the request may be anywhere on its way. */
static void request_interrupted(fuse_req_t req, void *data)
{
    struct fs *fs = data;
    struct request *rq;

    if (slow_interrupt(fs, req))
        return;
    fs_lock(fs);
    rq = park_take(&fs->park, req);
    if (rq)
        request_end(rq, -EINTR);
    else
        fs_unlock(fs);
}

void interrupt_hear(struct request *rq)
{
    if (!rq->hears_interrupt)
        fuse_req_interrupt_func(rq->req, request_interrupted, rq->fs);
    rq->hears_interrupt = true;
    if (fuse_req_interrupted(rq->req))
        rq->interrupted = true;
}
