/*
 * Interrupts: a signal for who waits ends his request, wherever that is on its way.
 */
#include "fs/interrupt.h"

#include "fs/request.h"

#include <errno.h>

/* Tells a request with a slow work. Not fs_lock(): a reload waits for works, this one perhaps. */
static bool slow_interrupt(struct fs *fs, fuse_req_t req)
{
    struct request *rq;

    pthread_mutex_lock(&fs->lock);
    for (rq = fs->slow; rq && rq->req != req; rq = rq->slow_next)
        ;
    if (rq)
        rq->interrupted = true;
    pthread_mutex_unlock(&fs->lock);
    return rq != NULL;
}

/*
 * libfuse calls this with its request's lock held; the request may be anywhere on its way. One that
 * is parked ends at once; one with a slow work when the work ends, which may look.
 */
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

static void interrupt_hear(struct request *rq)
{
    if (!rq->hears_interrupt)
        fuse_req_interrupt_func(rq->req, request_interrupted, rq->fs);
    rq->hears_interrupt = true;
}

/* Then not fs_lock(): a reload waits for works, and they perhaps for this thread of the pool. */
void interrupt_hear_between(struct request *rq)
{
    fs_unlock(rq->fs);
    interrupt_hear(rq);
    pthread_mutex_lock(&rq->fs->lock);
}

void interrupt_slow_begin(struct request *rq)
{
    struct request **head = &rq->fs->slow;

    rq->slow_next = *head;
    rq->slow_link = head;
    if (*head)
        (*head)->slow_link = &rq->slow_next;
    *head = rq;
}

/* libfuse knew before it called back, so nothing between is missed. */
void interrupt_slow_hear(struct request *rq)
{
    interrupt_hear(rq);
    if (fuse_req_interrupted(rq->req))
        rq->interrupted = true;
}

void interrupt_slow_end(struct request *rq)
{
    if (!rq->slow_link)
        return;
    *rq->slow_link = rq->slow_next;
    if (rq->slow_next)
        rq->slow_next->slow_link = rq->slow_link;
    rq->slow_link = NULL;
}
