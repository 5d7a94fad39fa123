/*
 * One set of events on one task or CPU: a group of the kernel's, and beside it a witness of time
 * (for what can lose its counter) and a watch (which tells when the last covered task is dead).
 */
#pragma once

#include "backends/perf/probe/open.h"
#include "core/backend.h"

/*
 * What the groups of a plan look like; the same for every task of a counter. Where records are to
 * come from tasks a task has `spread` groups, one for each CPU: only events of one CPU can write
 * into its ring. Else it has one.
 */
struct shape {
    unsigned n;       /* events */
    unsigned extra;   /* events of our own before them: enum extra (sampling.h) */
    unsigned members; /* of a group: both */
    /*
     * The first of them are one group of the kernel's; each one behind them is a group of its own.
     * When a member samples too often the kernel (6.16 and later) pauses its whole group, and a
     * tracepoint that is scheduled while it is paused counts no more (6.18).
     */
    unsigned together;
    unsigned stride;   /* numbers kept for a group: see GROUP_FDS() */
    unsigned spread;   /* groups of a task */
    unsigned per_task; /* descriptors really opened, for a task or a CPU */
    int watch_cpu;
    unsigned long flags; /* of perf_event_open */
    bool hardware;       /* something in it takes counters of the processor */
    bool inherit;
    bool watch;
    uint8_t extras[3]; /* enum extra */
    int *cpu;          /* of those, -1: wherever it runs */
    uint8_t *order;    /* place among the events of a group -> place in the plan; NULL: the same */
    struct perf_event_attr *attr; /* members, the witness, the watch */
    char *filter;                 /* of tracepoints among the events, or NULL */
};

/* 0 or -ENOMEM. */
int shape_make(struct shape *shape, struct backend_state *state, const struct plan *plan);
void shape_free(struct shape *shape);   /* all of it */
void shape_opened(struct shape *shape); /* what is needed to open groups, only */
static inline unsigned shape_place(const struct shape *shape, unsigned at)
{
    return shape->order ? shape->order[at] : at;
}
/* The clock of a cgroup's group: a member whose value is the time the group was scheduled. */
static inline bool shape_is_clock(const struct shape *shape, unsigned at)
{
    return shape->flags && at == shape->extra - 1;
}
#define SHAPE_WITNESS(shape) (&(shape)->attr[(shape)->members])
#define SHAPE_WATCH(shape)   (&(shape)->attr[(shape)->members + 1])
/* The numbers of a group: its thread, -1: a CPU; its CPU, -1: wherever the task runs; and then
 * descriptors, -1: not there. */
#define GROUP_TID(group) ((group)[0])
#define GROUP_CPU(group) ((group)[1])
#define GROUP_FDS(group) (&(group)[2])
/* Places among these: members, then … */
#define FD_WITNESS(members) (members)
#define FD_WATCH(members)   ((members) + 1)

/*
 * Opens the group of a CPU (with the shape's flags), stopped. group has room for shape->stride
 * numbers; after a failure no descriptor is there. *failed is the attr that was refused. 0 or
 * -errno.
 */
int group_open(const struct shape *shape, pid_t pid, int cpu, int *group,
               const struct perf_event_attr **failed);
/* The same for all groups of a task, spread × stride. Witness and watch are in the first. */
int task_open(const struct shape *shape, pid_t tid, int *groups,
              const struct perf_event_attr **failed);
/* Closes n groups. */
void groups_close(const struct shape *shape, int *groups, unsigned n);
