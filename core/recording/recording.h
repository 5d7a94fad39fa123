/*
 * What a PMC has beside its counters while it writes what they tell into its log: the backend's
 * buffers, and what makes records of the log from what comes out of them (PIDs of another
 * namespace, hidden samples, execs with their path, steps and exits that add up). Made and freed
 * without the engine's lock; drained without it by one at a time (own mutex); reference counted.
 */
#pragma once

#include "core/backend.h"
#include "core/log/log.h"
#include "core/recording/exits.h"

struct recording;

struct recording_plan {
    const struct host *host;
    struct host_state *host_state;
    const struct backend *backend;
    struct backend_state *backend_state;
    struct log *log;               /* the recording takes a reference of its own */
    uint64_t bytes;                /* of each CPU's kernel buffer */
    uint64_t tag;                  /* the PMC's id, for sink.ready() */
    unsigned n;                    /* events */
    bool samples, switches, exits; /* what the log is to have */
    bool stacks;                   /* samples have them: what perf needs to unwind is told, too */
    bool kernel;           /* samples of the kernel may be seen; else they are hidden, chains cut */
    struct pid_view *view; /* of the attacher; taken over on success */
    unsigned long fds_free, fds_quota;
    const char *fds_limit;
};

/* System calls. 0, or what the backend's recorder_new refuses. */
int recording_new(const struct recording_plan *plan, struct recording **out, struct err *err);
struct recording *recording_ref(struct recording *recording);
/* The last one frees: system calls, without the engine's lock; no counter may use it any more. */
void recording_unref(struct recording *recording);
struct recorder *recording_recorder(const struct recording *recording);
unsigned recording_fds(const struct recording *recording); /* memory only */

/*
 * Takes what the backend has into the log, without the engine's lock. all: also what is so young
 * that its order is not sure. False: another thread does so at this moment and all is false, or it
 * is held (recording_hold). *any: something was put.
 */
bool recording_drain(struct recording *recording, bool all, bool *any);
/* While held nothing comes into the log: what starts is told before what it records. */
void recording_hold(struct recording *recording, bool held);
/* Names, threads and mappings of a process (0: of all), and, once, of the kernel: records to be
 * put into the log behind `start`. What comes while it is made is taken, and put by the next drain.
 * System calls. */
void recording_inventory(struct recording *recording, pid_t pid, uint64_t time_ns,
                         struct buf *records);
/* Steps and exits so far, for the rest at the end: see exits.h. */
struct exits *recording_exits(struct recording *recording);

/*
 * For a later worker. Its recording begins anew: the processes that it records are there already
 * (recording_inventory), and what it says of those is not exact. told: so is the kernel.
 */
void recording_print(const struct recording *recording, struct buf *out);
int recording_adopt(const struct recording_plan *plan, bool told, const char *printed,
                    struct recording **out);
void recording_forget(struct recording *recording); /* frees memory, keeps descriptors */
