/*
 * Deferred work: actions on an object that wait until the engine's lock is dropped. The queue's
 * entry is part of the object, so that deferring needs no memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

/*
 * Each kind has a queue. "After the publication" means that the lock was dropped in between, which
 * publishes the journal.
 */
enum work_kind {
    WORK_NONE, /* not queued */

    /* of a PMC */
    WORK_WAKE,     /* wake requests and pollers: with the lock, before the thread drops it */
    WORK_NAME,     /* the kernel forgets the name: after the publication, without the lock */
    WORK_SNAPSHOT, /* a snapshot for pollers: by a task, which drops the lock */
    WORK_DRAIN,    /* a drain of its recording: by a task; one task for each user */
    WORK_CHANGE,   /* the engine's own change: by a task, once the PMC is not busy */
    PMC_WORKS,

    WORK_INSTANCE = PMC_WORKS, /* the kernel forgets the name of an instance: after WORK_NAME */
    WORK_LINK,   /* free an unused link: after the publication, without the lock, by a task */
    WORK_RIGHTS, /* free unused rights: after a successful publication, with the lock */
    ENGINE_WORKS,

    WORK_PROC = ENGINE_WORKS, /* free an unused proc: in the queue of links */
    WORK_HANDLE, /* free a closed file: after a successful publication, without the lock */
    WORK_TEXT    /* free a text that a file kept: in the queue of closed files */
};

struct work {
    STAILQ_ENTRY(work) entry;
    enum work_kind kind; /* of the queue that contains it */
};
STAILQ_HEAD(work_queue, work);

/* Returns the object with this work as its member. */
#define WORK_OBJECT(work, type, member)                                                            \
    ((struct type *)(void *)((char *)(work)-offsetof(struct type, member)))

/* Appends the work. Returns false if it is queued already. */
static inline bool work_add(struct work_queue *queue, struct work *work, enum work_kind kind)
{
    if (work->kind)
        return false;
    work->kind = kind;
    STAILQ_INSERT_TAIL(queue, work, entry);
    return true;
}

/* Removes the first work and returns it, or NULL. Sets *kind to its kind, unless that is NULL. */
static inline struct work *work_take(struct work_queue *queue, enum work_kind *kind)
{
    struct work *work = STAILQ_FIRST(queue);

    if (!work)
        return NULL;
    STAILQ_REMOVE_HEAD(queue, entry);
    if (kind)
        *kind = work->kind;
    work->kind = WORK_NONE;
    return work;
}
