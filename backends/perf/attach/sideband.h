/*
 * What the kernel tells about births, ends and execs of all tasks: a dummy event per CPU whose ring
 * is open while somebody listens. Attaching decides by it who has inherited; covered sets follow
 * it.
 */
#pragma once

#include "backends/perf/state.h"

#include <stddef.h>

enum side_type {
    SIDE_FORK,
    SIDE_EXIT,
    SIDE_EXEC
};

struct side_record {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    enum side_type type;
    pid_t pid, tid;   /* who was born, ended, executed; in the daemon's PID namespace */
    pid_t ppid, ptid; /* SIDE_FORK: the thread that made it */
};

/* For qsort(). */
int side_by_time(const void *a, const void *b);

/*
 * Called with a batch in order of time, in whose thread ever the rings are drained, under the
 * sideband's lock: it must only touch memory. lost: records are missing before or in this batch.
 */
struct side_listener {
    void (*take)(void *arg, const struct side_record *records, size_t n, bool lost);
    void *arg;
    struct side_listener *next;
};

struct sideband *sideband_new(struct backend_state *state); /* NULL: no memory. Opens nothing yet */
void sideband_free(struct sideband *sideband);              /* NULL allowed; asserts no listener */

/*
 * Listen from now on; the first listener opens the rings. 0, or -errno when they cannot be had (no
 * right, no memory): then nothing is registered. System calls: not with the engine's lock held.
 */
int sideband_listen(struct sideband *sideband, struct side_listener *listener);
/* The last one closes the rings. Nothing is delivered after this returned. */
void sideband_ignore(struct sideband *sideband, struct side_listener *listener);
/* Deliver what the rings hold. Memory only. */
void sideband_drain(struct sideband *sideband);
/* The same, and fn runs under the lock between this delivery and the next. */
void sideband_sync(struct sideband *sideband, void (*fn)(void *arg), void *arg);
void sideband_lock(struct sideband *sideband);
void sideband_unlock(struct sideband *sideband);
/* Records are missing: what happened on a CPU until its event was opened again. */
void sideband_lose(struct sideband *sideband);
