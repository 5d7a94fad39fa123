/*
 * A recording fills the log of one PMC. It owns the backend's recorder (ring buffers) and turns its
 * records into log records: translates PIDs to the attacher's namespace, hides kernel samples, adds
 * paths to execs, and computes steps and exit counts. Reference counted. Create, drain and free a
 * recording without the engine's lock; a mutex lets one thread drain at a time.
 */
#pragma once

#include "core/backend.h"
#include "core/log/exits.h"
#include "core/log/log.h"

struct recording;

struct recording_plan {
    const struct host *host;
    struct host_state *host_state;
    const struct backend *backend;
    struct backend_state *backend_state;
    struct log *log;               /* the recording takes a reference */
    struct recorder_plan recorder; /* data_maps: samples have user stacks, and perf unwinds them */
    unsigned n;                    /* number of events */
    bool samples, switches, exits; /* record types for the log */
    bool kernel; /* false: hide kernel samples and remove kernel frames from call chains */
    struct pid_view *view; /* the attacher's PID namespace; owned by the recording on success */
};

/* Creates a recording, with system calls. Returns 0, E32, or the error of the backend's
 * recorder_new. */
int recording_new(const struct recording_plan *plan, struct recording **out, struct err *err);
struct recording *recording_ref(struct recording *recording);
/* Drops a reference; NULL is ignored. The last one frees the recording, with system calls: do not
 * hold the engine's lock, and close its counters first. */
void recording_unref(struct recording *recording);
struct recorder *recording_recorder(const struct recording *recording);
/* Returns the number of file descriptors that the recording holds. No system calls. */
unsigned recording_fds(const struct recording *recording);

struct drain_result {
    bool any;          /* a record was added */
    uint64_t until_ns; /* the log has the records up to this time; later drains add later ones */
};

/*
 * Moves the backend's records to the log. Call without the engine's lock. all: wait for a drain in
 * another thread, and include the newest records, whose order may still change. Returns false if
 * the recording is held, or if all is false and another thread drains.
 */
bool recording_drain(struct recording *recording, bool all, struct drain_result *out);
/* While held, drains that start later add nothing to the log: the `start` record must come first.
 * To wait for a drain in another thread, call recording_drain() with `all` after the hold. */
void recording_hold(struct recording *recording, bool held);
/* Appends records of the names, threads and mappings of a process (0: all) to `records`. The first
 * time also appends the kernel's mappings, if the log may have kernel samples. The caller puts the
 * records into the log after `start`. Makes system calls; records that arrive meanwhile go to the
 * log with the next drain. */
void recording_inventory(struct recording *recording, pid_t pid, uint64_t time_ns,
                         struct buf *records);
/* Lets the next drain read the inventory of this process: its names and mappings are in the log,
 * but not in this recording of an earlier worker. Takes no lock: call before the first drain. On
 * ENOMEM the process stays unknown. */
void recording_queue_inventory(void *recording, pid_t pid);
/* Puts the remainders of steps and exit counts into the log: see exits_remainder(), and
 * log_put_all_once() for `request`. Needs a hold, and no running drain. */
void recording_put_remainder(struct recording *recording, uint64_t request, uint64_t time_ns,
                             const uint64_t *counted, bool over);
/* Zeroes the totals: see exits_reset(). Needs a hold, and no running drain. */
void recording_reset(struct recording *recording, uint64_t request, bool runs);

/*
 * Moves a recording to a new worker: the old one prints it, the new one adopts it. The caller
 * calls recording_queue_inventory(), because processes are unknown; COUNT records of running
 * processes are not exact. kernel_found: the kernel's mappings are in the log already.
 * recording_adopt() returns 0, -EINVAL (also on ENOMEM), or the error of the backend or the host.
 */
void recording_print(const struct recording *recording, struct buf *out);
int recording_adopt(const struct recording_plan *plan, bool kernel_found, const char *printed,
                    struct recording **out);
/* Drops a reference; NULL is ignored. The last one keeps file descriptors and arena blocks for the
 * new worker. */
void recording_forget(struct recording *recording);
