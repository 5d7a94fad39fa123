/*
 * What the kernel tells about births, ends and execs of all tasks: a recorder with rings that
 * tell by their own events of every CPU, and are open while there is a listener. Attaching decides
 * by it which threads have inherited; covered sets follow it.
 */
#pragma once

#include "backends/perf/state.h"
#include "core/log/record.h"

/*
 * How a struct record_task begins (core/log/record.h), so that tables of tasks take it: FORK, EXIT;
 * COMM: an exec; LOST: records are missing here. Numbers are those of the daemon's PID namespace.
 */
struct side_record {
    struct record head;
    uint32_t pid, ppid, tid, ptid; /* the task; FORK: and the thread that made it */
    uint64_t time_ns;              /* CLOCK_MONOTONIC */
};

/*
 * Called in order of time, in any thread that drains the rings, under the sideband's lock: it must
 * only touch memory.
 */
struct side_listener {
    void (*take)(void *arg, const struct side_record *record);
    void *arg;
    LIST_ENTRY(side_listener) along;
};

struct sideband *sideband_new(struct backend_state *state); /* NULL: no memory. Opens nothing yet */
void sideband_free(struct sideband *sideband);              /* NULL allowed; asserts no listener */

/*
 * Listen from now on; the first listener opens the rings. 0: it is entered (below), too; or -errno
 * when the rings cannot be had (no right, no memory): then nothing is registered. System calls: not
 * with the engine's lock held.
 */
int sideband_listen(struct sideband *sideband, struct side_listener *listener);
/* The last one closes the rings. Nothing is delivered after this returned. */
void sideband_ignore(struct sideband *sideband, struct side_listener *listener);
/* Deliver what the rings hold; nothing more is delivered until it is left. Memory only. */
void sideband_enter(struct sideband *sideband);
void sideband_leave(struct sideband *sideband);
/* Records are missing: what happened on a CPU until its event was opened again. */
void sideband_lose(struct sideband *sideband);
