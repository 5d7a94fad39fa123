/*
 * Sideband records are records about tasks (FORK, EXIT, COMM, MMAP2), next to the samples and
 * counts. The events of the rings can write them for all tasks of each CPU. Two users:
 *
 * - struct sideband: a recorder for FORK, EXIT and exec records of all CPUs, open while it has a
 *   listener. Attaching uses it to decide which threads have inherited events; the lists of covered
 *   processes (count/descendants.c) follow it.
 * - track_…(): the recorder of a counter that samples a CPU or a cgroup. It needs the records of
 *   all tasks, because a task may execute its program on one CPU and run it on another.
 */
#pragma once

#include "backends/perf/state.h"
#include "core/log/record.h"

struct ring; /* recorder.h */

/*
 * Starts with the fields of struct record_task (core/log/record.h), so that struct tasks accepts
 * it. Types: FORK, EXIT, COMM (only of an exec), LOST (records are missing here). PIDs are those of
 * the daemon's PID namespace.
 */
struct side_record {
    struct record head;
    uint32_t pid, ppid, tid, ptid; /* the task; FORK: ppid and ptid are its creator */
    uint64_t time_ns;              /* CLOCK_MONOTONIC */
};

/*
 * receive() is called in order of time, by any thread that drains the rings, with the sideband's
 * lock: it must make no system calls. `about` is the process that the record is about. EXIT, COMM:
 * the task's. FORK: the creator's. LOST: 0.
 *
 * A listener with `chooses` only gets LOST and records about processes that it has chosen. The FORK
 * record of a new process is about two: first about the new process (whose PID is in use again),
 * then about the creator's. receive() may change only the choices of its own listener.
 */
struct side_listener {
    void (*receive)(void *arg, const struct side_record *record, uint32_t about);
    void *arg;
    bool chooses;
    LIST_HEAD(, side_choice) choices;
    LIST_ENTRY(side_listener) along;
};

/* Stores the processes that a record is about, in the order of the calls of receive(); 0: none. */
static inline void side_about(const struct side_record *record, uint32_t about[2])
{
    const bool fork = record->head.type == RECORD_FORK;

    about[0] = fork && record->pid == record->tid ? record->pid : 0;
    about[1] = fork ? record->ppid : record->head.type == RECORD_LOST ? 0 : record->pid;
}

/* Returns NULL on ENOMEM. Opens no rings yet. */
struct sideband *sideband_new(struct backend_state *state);
void sideband_free(struct sideband *sideband); /* NULL allowed; asserts that no listener is left */

/*
 * Adds a listener; the first one opens the rings. Returns 0 with the sideband entered (see
 * sideband_enter()), or -errno if the rings cannot be opened. Makes system calls: not with the
 * engine's lock.
 */
int sideband_listen(struct sideband *sideband, struct side_listener *listener);
/*
 * Starts to deliver records about a process to a listener that chooses. Call while the sideband is
 * entered, or from receive(). With since_ns, first delivers the latest records about the process
 * that are later than since_ns: rings are read one CPU after the other, so a record of a child can
 * be read before the FORK record of the child. Returns false on ENOMEM.
 */
bool sideband_choose(struct sideband *sideband, struct side_listener *listener, uint32_t pid,
                     uint64_t since_ns);
void sideband_unchoose(struct sideband *sideband, struct side_listener *listener, uint32_t pid);
/* Removes a listener; nothing is delivered to it after the return. The last one closes the rings.
 */
void sideband_unlisten(struct sideband *sideband, struct side_listener *listener);
/* Delivers all records of the rings, then none until sideband_leave(). Makes no system calls. */
void sideband_enter(struct sideband *sideband);
void sideband_leave(struct sideband *sideband);
/* Delivers all records of the rings; called after sink.drain_due(0). Not with the engine's lock. */
void perf_drain_sideband(struct backend_state *state);
/* Delivers a LOST record: records of a CPU are missing until its event was opened again. */
void sideband_deliver_loss(struct sideband *sideband);

/* ---- tracking; all need the setup lock ---- */

/*
 * Enables the events of a recorder's rings for one more counter. Their records belong to `set`, a
 * set number; if the events are enabled already, it is ignored. An event needs no further
 * descriptor, except after its CPU was offline: the kernel closed it, so another event replaces it.
 * Returns 0 or -errno.
 */
int track_begin(struct recorder *recorder, uint64_t set);
/* Undoes one track_begin(); after the last one the events are disabled. */
void track_end(struct recorder *recorder);
/* Like track_end(), but leaves the events on: their descriptors are closed or used by another
 * process. */
void track_forget(struct recorder *recorder);
/* Call when the CPU of this ring came online. back: the ring is from before the CPU went offline,
 * so its event is dead and is replaced. */
void track_cpu_online(struct recorder *recorder, struct ring *ring, bool back);
