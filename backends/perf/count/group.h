/*
 * The group of one set of events on one task or CPU, and up to two more events next to it: a
 * time_check event, whose times show if the group lost its hardware counters, and the dummy event
 * of an exit watch (end_events.c).
 */
#pragma once

#include "backends/perf/probe/open.h"
#include "core/backend.h"

/*
 * The layout of all groups of a counter. A task has `task_groups` groups: one; one per CPU if it
 * writes records, because only an event of one CPU can write to that CPU's ring; or one per core
 * PMU for the generic events of a hybrid processor, because on a task the kernel counts with one
 * PMU only.
 */
struct shape {
    unsigned n;        /* events of the set */
    unsigned n_extras; /* internal events before those of the set: see extras[] */
    unsigned members;  /* n_extras + n */
    /*
     * The number of members, from the first on, in one perf event group; each further member is a
     * separate event. When a member samples too fast the kernel (6.16 and later) pauses its entire
     * group, and a tracepoint that is scheduled during the pause stops counting (6.18).
     */
    unsigned n_grouped;
    unsigned stride;       /* numbers stored for a group: see GROUP_FDS() */
    unsigned task_groups;  /* groups of a task */
    unsigned n_core_pmus;  /* of a value: class_info.n_core_pmus */
    unsigned fds_per_task; /* descriptors opened for a task or a CPU */
    int watch_cpu;         /* CPU of the exit watch's event; -1: any CPU */
    unsigned long flags;   /* of perf_event_open */
    bool has_clock;        /* of a cgroup: the last internal event is its clock */
    bool hardware;         /* an event of the set needs a hardware counter */
    bool inherit;
    bool exit_watch;
    uint8_t extras[3]; /* enum extra (sampling.h) */
    struct group_place {
        int cpu;       /* -1: any CPU */
        uint32_t core; /* type of the PMU that counts generic events; 0: that of the CPU */
    } * place;         /* of each of the groups of a task */
    uint8_t *order;    /* event of the group -> event of the plan; NULL: the same */
    struct perf_event_attr *attr; /* members, time_check, exit watch */
    char *filter;                 /* of the tracepoints of the set, or NULL */
};

/*
 * Removes the CPUs on which the hardware events of a plan cannot be counted: on a processor with
 * several kinds of cores, the kernel refuses an event of one kind on CPUs of another.
 */
void plan_limit_cpus(const struct backend_state *state, const struct plan *plan, struct cpus *cpus);
/* Makes the layout for a plan. Returns 0 or -ENOMEM. */
int shape_make(struct shape *shape, struct backend_state *state, const struct plan *plan);
void shape_free(struct shape *shape);
/* Frees attr, place and filter, which are used only to open groups. */
void shape_free_attrs(struct shape *shape);
/* Returns the index in the plan of an event of the group, counted without internal events. */
static inline unsigned shape_plan_event(const struct shape *shape, unsigned event)
{
    return shape->order ? shape->order[event] : event;
}
/* Adapts the layout to groups of a cgroup that version 0.2 opened: they have no clock event. Needs
 * shape->has_clock and the attrs. */
void shape_drop_clock(struct shape *shape);
/* Returns true if member `at` (internal events included) is the clock event of a cgroup's group.
 * Its value is the time that the group was scheduled. */
static inline bool shape_is_clock(const struct shape *shape, unsigned at)
{
    return shape->has_clock && at == shape->n_extras - 1;
}
#define SHAPE_TIME_CHECK(shape) (&(shape)->attr[(shape)->members])
#define SHAPE_EXIT_WATCH(shape) (&(shape)->attr[(shape)->members + 1])
/* The numbers of a group: its thread (-1: none, it is a CPU's), its CPU (-1: any), descriptors (-1:
 * not open). */
#define GROUP_TID(group) ((group)[0])
#define GROUP_CPU(group) ((group)[1])
#define GROUP_FDS(group) (&(group)[2])
/* Index of the other descriptors, which follow the members. */
#define FD_TIME_CHECK(members) (members)
#define FD_EXIT_WATCH(members) ((members) + 1)

/*
 * Opens the group of a CPU (with the shape's flags), not started. pid: -1, or the descriptor of a
 * cgroup. group has space for shape->stride numbers; after a failure all its descriptors are
 * closed. Stores the refused attr in *failed. Returns 0 or -errno.
 */
int group_open(const struct shape *shape, pid_t pid, int cpu, int *group,
               const struct perf_event_attr **failed);
/* Like group_open() for all groups of a task, task_groups × stride numbers, on the CPUs of
 * shape->place. time_check and exit watch are in the first group. */
int task_open(const struct shape *shape, pid_t tid, int *groups,
              const struct perf_event_attr **failed);
void groups_close(const struct shape *shape, int *groups, unsigned n);
