/*
 * One set of events on one task or CPU: a group of the kernel's, and beside it a witness of time
 * (for what can lose its counter) and a watch (which tells when the last covered task is dead).
 */
#pragma once

#include "core/backend.h"

struct perf_event_attr;

/* perf_event_open(2) with CLOEXEC, tried again when a signal interrupts it. A descriptor or -errno.
 */
int event_open(const struct perf_event_attr *attr, pid_t pid, int cpu, int group,
               unsigned long flags);
/* Closes *fd if it is one and makes it -1. */
void event_close(int *fd);

/* What a group of a plan looks like; the same for every task of a counter. */
struct shape {
    unsigned n;      /* events */
    unsigned stride; /* descriptors kept for a group: events, witness, watch */
    bool hardware;   /* something in it takes counters of the processor */
    bool inherit;
    bool watch;
    int watch_cpu;
    unsigned per_group;           /* descriptors really opened */
    unsigned long flags;          /* of perf_event_open */
    uint8_t order[SET_MAX];       /* place in the group -> place in the plan */
    struct perf_event_attr *attr; /* n events, the witness, the watch, the probe */
};

/* 0 or -ENOMEM. */
int shape_make(struct shape *shape, const struct plan *plan, int watch_cpu);
void shape_free(struct shape *shape);
#define SHAPE_WITNESS(shape) (&(shape)->attr[(shape)->n])
#define SHAPE_WATCH(shape)   (&(shape)->attr[(shape)->n + 1])
#define SHAPE_PROBE(shape)   (&(shape)->attr[(shape)->n + 2])
/* Places in a group's descriptors. */
#define FD_WITNESS(n) (n)
#define FD_WATCH(n)   ((n) + 1)

/*
 * Opens a group, stopped. fds has room for shape->stride and is all -1 after a failure. *failed is
 * the attr that was refused. 0 or -errno.
 */
int group_open(const struct shape *shape, pid_t pid, int cpu, int *fds,
               const struct perf_event_attr **failed);
void group_close(const struct shape *shape, int *fds);
