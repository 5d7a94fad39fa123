/*
 * One set on one target: a group of descriptors for each task or CPU, opened by attach.c, read and
 * switched here. The functions are those of struct backend (core/backend.h).
 */
#pragma once

#include "backends/perf/count/descendants.h"
#include "backends/perf/count/group.h"
#include "backends/perf/state.h"

struct origin; /* recorder.h: what its records mean */

/* Last known readings of a group that can lose its hardware; relaxed atomics, reads run in
 * parallel. */
struct group_last {
    uint64_t gap_ns;                               /* when it was revived last */
    uint64_t judged_covered_ns, judged_running_ns; /* when `off` was found out last */
    uint64_t off;     /* 1: the target ran, and nothing of the group did */
    uint64_t words[]; /* time enabled, time running, the members */
};

struct counter {
    struct backend_state *state;
    uint64_t tag;
    struct {
        enum target_kind kind;
        pid_t pid, tid;
    } target;
    unsigned n_groups;
    unsigned left_out;
    bool descendants, at_exec, multiplex;
    bool on;    /* atomic: started, not stopped */
    bool begun; /* started at least once */
    bool sampling;
    bool tracks; /* it is among those of which every CPU tells (track.h) */
    bool raced;
    bool dropped;              /* a descendant lost its events while it was attached */
    struct shape shape;        /* its attrs only until it is opened */
    struct recorder *recorder; /* NULL: it only counts */
    struct origin *origin;
    int *groups;  /* n_groups × stride */
    char *last;   /* n_groups × struct group_last; only with hardware */
    struct covered *covered; /* with descendants, else NULL */
    struct guard *watch;     /* or NULL */
};

/* An empty counter for what the plan asks; attach.c and adopt fill in the groups. NULL: no memory.
 */
struct counter *counter_new(struct backend_state *state, const struct plan *plan);
/* Room for groups, all their numbers -1. False: no memory. */
bool counter_make_groups(struct counter *counter, unsigned n_groups);
static inline int *counter_group(const struct counter *counter, unsigned group)
{
    return counter->groups + (size_t)group * counter->shape.stride;
}
static inline int *counter_fds(const struct counter *counter, unsigned group)
{
    return GROUP_FDS(counter_group(counter, group));
}
/* Of one group's struct group_last. */
static inline size_t counter_last_bytes(const struct counter *counter)
{
    return sizeof(struct group_last) + (2 + counter->shape.members) * sizeof(uint64_t);
}
static inline bool counter_is_on(const struct counter *counter)
{
    return __atomic_load_n(&counter->on, __ATOMIC_ACQUIRE);
}
/* Of a process or of one thread. */
static inline bool counter_scope_is_process(const struct counter *counter)
{
    return counter->target.kind == TARGET_PROCESS || counter->target.kind == TARGET_THREAD;
}
/* It waits for its target's exec still. System calls. */
bool counter_is_armed(struct counter *counter);
/* What tells the end of its last task, where its shape has that. 0 or -errno. */
int counter_watch(struct counter *counter, bool late);
int perf_attach(struct backend_state *state, const struct plan *plan, struct counter **out,
                struct err *err); /* attach.c */
int perf_start(struct counter *counter, struct err *err);
int perf_stop(struct counter *counter);
int perf_read(struct counter *counter, struct reading *out, bool patient);
unsigned perf_cost(const struct counter *counter);
/* fn for every process known to be covered; memory only. */
void perf_processes(const struct counter *counter, void (*fn)(void *arg, pid_t pid), void *arg);
void perf_facts_of(const struct counter *counter, struct counter_facts *out);
bool perf_covers(struct counter *counter, pid_t pid);
void perf_print(const struct counter *counter, struct buf *out);
int perf_adopt(struct backend_state *state, const struct plan *plan, const char *printed,
               struct counter **out);
void perf_forget(struct counter *counter);
void perf_free(struct counter *counter);
