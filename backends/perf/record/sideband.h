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
 * take() is called in order of time, in any thread that drains the rings, under the sideband's
 * lock: it must only touch memory. `about` is the process that the record is about: of EXIT and
 * COMM the task's; of FORK the creator's and, before that, if it is a new process, the task's own,
 * whose number is used again; 0 of LOST.
 *
 * A listener with `chooses` is called only about processes that it has chosen, and of LOST.
 */
struct side_listener {
    void (*take)(void *arg, const struct side_record *record, uint32_t about);
    void *arg;
    bool chooses;
    LIST_HEAD(, side_choice) choices;
    LIST_ENTRY(side_listener) along;
};

/* The processes that a record is about, in the order of the calls of take(); 0: none. */
static inline void side_about(const struct side_record *record, uint32_t about[2])
{
    const bool fork = record->head.type == RECORD_FORK;

    about[0] = fork && record->pid == record->tid ? record->pid : 0;
    about[1] = fork ? record->ppid : record->head.type == RECORD_LOST ? 0 : record->pid;
}

struct sideband *sideband_new(struct backend_state *state); /* NULL: no memory. Opens nothing yet */
void sideband_free(struct sideband *sideband);              /* NULL allowed; asserts no listener */

/*
 * Listen from now on; the first listener opens the rings. 0: it is entered (below), too; or -errno
 * when the rings cannot be had (no right, no memory): then nothing is registered. System calls: not
 * with the engine's lock held.
 */
int sideband_listen(struct sideband *sideband, struct side_listener *listener);
/*
 * A listener that chooses: from now on it is called about this process, or no longer. While the
 * sideband is entered, or from take(). With since_ns the listener is first called with the latest
 * records about the process that are later: CPUs' rings are read one after the other, so a
 * child's record can be read before the record of its birth. False: no memory.
 */
bool sideband_choose(struct sideband *sideband, struct side_listener *listener, uint32_t pid,
                     uint64_t since_ns);
void sideband_unchoose(struct sideband *sideband, struct side_listener *listener, uint32_t pid);
/* The last one closes the rings. Nothing is delivered after this returned. */
void sideband_ignore(struct sideband *sideband, struct side_listener *listener);
/* Deliver what the rings hold; nothing more is delivered until it is left. Memory only. */
void sideband_enter(struct sideband *sideband);
void sideband_leave(struct sideband *sideband);
/* Deliver what the rings hold: after sink.ready(0), by any thread. Not with the engine's lock. */
void perf_follow(struct backend_state *state);
/* Records are missing: what happened on a CPU until its event was opened again. */
void sideband_lose(struct sideband *sideband);
