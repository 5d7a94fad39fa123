/*
 * Making the attrs of a group, and opening it.
 */
#include "backends/perf/count/group.h"

#include "backends/perf/probe/open.h"
#include "backends/perf/record/sampling.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    SWAPPED_TRIES = 16, /* the leader may ride on a child: the kernel swaps equal contexts */
    PARTED_TRIES = 500  /* of a task that makes children all the time */
};

static bool plan_is_hardware(const struct plan_event *event)
{
    return event->event->code[CODE_FLAGS] & CODE_HARDWARE;
}

/* Hardware first: only a leader can be pinned. False: no memory. */
static bool shape_order(struct shape *shape, const struct plan *plan)
{
    unsigned k = 0;

    for (unsigned i = 0; i < plan->n; i++)
        k += plan_is_hardware(&plan->events[i]);
    shape->hardware = k > 0;
    if (!k || k == plan->n)
        return true;
    shape->order = malloc(plan->n);
    k = 0;
    for (int hardware = 1; hardware >= 0 && shape->order; hardware--)
        for (unsigned i = 0; i < plan->n; i++)
            if (plan_is_hardware(&plan->events[i]) == hardware)
                shape->order[k++] = (uint8_t)i;
    return shape->order != NULL;
}

/* Those that take counters of the processor; where nothing samples, all. */
static unsigned shape_together(const struct shape *shape, const struct plan *plan)
{
    unsigned n = 0;

    if (!plan->recorder || !plan->sampling)
        return shape->members;
    while (n < plan->n && plan_is_hardware(&plan->events[shape_place(shape, n)]))
        n++;
    return n ? shape->extra + n : 1;
}

static bool plan_is_of_tasks(const struct plan *plan)
{
    return plan->target.kind == TARGET_PROCESS || plan->target.kind == TARGET_THREAD;
}

static void shape_attrs(struct shape *shape, struct backend_state *state, const struct plan *plan)
{
    bool task = plan_is_of_tasks(plan), alone = shape->members == 1 && !plan->recorder;
    uint64_t times = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;

    for (unsigned i = 0; i < shape->extra; i++) {
        sampling_extra_attr(state, shape->extras[i], &shape->attr[i]);
        if (plan->recorder)
            sampling_clock(&shape->attr[i]);
    }
    for (unsigned i = 0; i < shape->n; i++) {
        const struct plan_event *event = &plan->events[shape_place(shape, i)];
        struct perf_event_attr *attr = &shape->attr[shape->extra + i];

        code_to_attr(event->event, event->user, event->kernel, attr);
        if (plan->recorder && plan->sampling)
            sampling_attr(plan, attr);
        else if (plan->recorder)
            sampling_clock(attr);
    }
    for (unsigned i = shape->members; i < shape->members + 2; i++)
        sampling_dummy_attr(&shape->attr[i]);
    if (shape->flags)
        sampling_extra_attr(state, EXTRA_CLOCK, SHAPE_WITNESS(shape));
    for (unsigned i = 0; i < shape->members + 2; i++) {
        struct perf_event_attr *attr = &shape->attr[i];

        attr->inherit = shape->inherit;
        attr->inherit_thread = shape->inherit && !plan->descendants;
        attr->read_format = alone ? times : times | PERF_FORMAT_GROUP; /* the dearer one */
    }
    shape->attr[0].pinned = shape->hardware && !plan->multiplex;
    for (unsigned i = 0; i < shape->members; i++) {
        const bool leads = i == 0 || i >= shape->together;

        shape->attr[i].disabled = leads;
        shape->attr[i].enable_on_exec = leads && task && plan->at_exec;
    }
    if (plan->recorder && task) { /* of CPUs and cgroups: track.h */
        sampling_sideband(&shape->attr[0]);
        shape->attr[0].mmap_data = plan->stack > 0;
    }
    SHAPE_WITNESS(shape)->read_format = times;
    SHAPE_WITNESS(shape)->enable_on_exec = task && plan->at_exec;
    SHAPE_WATCH(shape)->watermark = 1;
}

/* Where records of a task are wanted it has a group for each CPU that may ever be there. */
static int shape_spread(struct shape *shape, const struct backend_state *state,
                        const struct plan *plan)
{
    bool spread = plan->recorder && plan_is_of_tasks(plan);
    struct cpus possible;
    unsigned n = 0;

    cpus_init(&possible);
    if (spread)
        state->host->cpus_possible(state->host_state, &possible);
    shape->spread = spread ? cpus_count(&possible) : 1;
    shape->cpu = malloc((shape->spread + 1) * sizeof *shape->cpu);
    if (shape->cpu) {
        shape->cpu[0] = -1;
        for (int cpu = cpus_next(&possible, 0); cpu >= 0; cpu = cpus_next(&possible, cpu + 1))
            shape->cpu[n++] = cpu;
    }
    cpus_free(&possible);
    return shape->cpu && shape->spread ? 0 : -ENOMEM;
}

/* The watches of all tasks share one ring, so they are on one CPU. */
static int first_cpu(const struct backend_state *state)
{
    struct cpus online;
    int cpu;

    cpus_init(&online);
    state->host->cpus_online(state->host_state, &online);
    cpu = cpus_next(&online, 0);
    cpus_free(&online);
    return cpu < 0 ? 0 : cpu;
}

int shape_make(struct shape *shape, struct backend_state *state, const struct plan *plan)
{
    *shape = (struct shape){
        .n = plan->n,
        .inherit = plan->target.kind == TARGET_PROCESS,
        .watch = plan->target.kind == TARGET_THREAD ||
                 (plan->target.kind == TARGET_PROCESS && plan->descendants),
        .watch_cpu = plan->target.kind == TARGET_PROCESS ? first_cpu(state) : -1,
        .flags = plan->target.kind == TARGET_CGROUP ? PERF_FLAG_PID_CGROUP : 0,
    };
    shape->extra = sampling_extras(state, plan, shape->extras);
    if (shape->flags)
        shape->extras[shape->extra++] = EXTRA_CLOCK;
    shape->members = shape->extra + shape->n;
    shape->stride = 2 + shape->members + 2;
    shape->attr = calloc(shape->members + 2, sizeof *shape->attr);
    shape->filter = plan->filter ? strdup(plan->filter) : NULL;
    if ((plan->filter && !shape->filter) || !shape->attr || !shape_order(shape, plan) ||
        shape_spread(shape, state, plan)) {
        shape_free(shape);
        return -ENOMEM;
    }
    shape->together = shape_together(shape, plan);
    shape_attrs(shape, state, plan);
    shape->per_task = shape->members * shape->spread + shape->hardware + shape->watch;
    return 0;
}

void shape_free(struct shape *shape)
{
    shape_opened(shape);
    free(shape->order);
}

void shape_opened(struct shape *shape)
{
    free(shape->attr);
    free(shape->cpu);
    free(shape->filter);
    shape->filter = NULL;
    shape->attr = NULL;
    shape->cpu = NULL;
}

void groups_close(const struct shape *shape, int *groups, unsigned n)
{
    /* Members before the leader: else they would live on as groups of their own for a moment. */
    while (n-- > 0)
        for (unsigned i = shape->members + 2; i-- > 0;)
            event_close(&GROUP_FDS(groups + (size_t)n * shape->stride)[i]);
}

/* What place `at` of a group is opened on; -2: it is not there. */
static int place_cpu(const struct shape *shape, unsigned at, int cpu, bool first)
{
    if (at == FD_WITNESS(shape->members))
        return first && shape->hardware ? (shape->spread > 1 ? -1 : cpu) : -2;
    if (at == FD_WATCH(shape->members))
        return first && shape->watch ? shape->watch_cpu : -2;
    return cpu;
}

/* The kernel has it look at what a child inherits, too. */
static int filter_put(const struct shape *shape, unsigned at, int fd)
{
    const bool filtered = shape->filter && at >= shape->extra && at < shape->members &&
                          shape->attr[at].type == PERF_TYPE_TRACEPOINT;

    return filtered && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, shape->filter) ? -errno : 0;
}

static int group_try(const struct shape *shape, pid_t pid, int cpu, bool first, int *group,
                     unsigned *at)
{
    int *fds = GROUP_FDS(group), rc = 0;

    memset(group, -1, shape->stride * sizeof *group);
    GROUP_TID(group) = shape->flags ? -1 : pid;
    GROUP_CPU(group) = cpu;
    for (unsigned i = 0; i < shape->members + 2 && !rc; i++) {
        bool member = i > 0 && i < shape->together;
        int on = place_cpu(shape, i, cpu, first);

        if (on < -1)
            continue;
        fds[i] = event_open(&shape->attr[i], pid, on, member ? fds[0] : -1, shape->flags);
        rc = fds[i] < 0 ? fds[i] : filter_put(shape, i, fds[i]);
        *at = i;
    }
    if (rc)
        groups_close(shape, group, 1);
    return rc;
}

/*
 * A child was born while the group was being opened, and has inherited a part of it: the kernel
 * would refuse to read the group as long as that child lives. (Before autumn 2023 it adds up what
 * does not match, and says nothing.)
 */
static bool has_part_in_child(const struct shape *shape, int leader)
{
    uint64_t text[3 + SET_MAX + EXTRAS_MAX];

    return shape->inherit && shape->together > 1 && read(leader, text, sizeof text) < 0 &&
           errno == ECHILD;
}

/* Of members: EINVAL, where the leader rides on a child just now; newer kernels say ENODEV where
 * the leader's task has ended, which the next leader is told as ESRCH. */
static bool leader_is_lost(const struct shape *shape, int rc, unsigned at)
{
    return at > 0 && (rc == -ENODEV || (rc == -EINVAL && shape->inherit));
}

static int any_group_open(const struct shape *shape, pid_t pid, int cpu, bool first, int *group,
                          const struct perf_event_attr **failed)
{
    unsigned at = 0;
    int rc = 0;

    for (int i = 0; i < SWAPPED_TRIES && (i == 0 || leader_is_lost(shape, rc, at)); i++) {
        rc = group_try(shape, pid, cpu, first, group, &at);
        for (int k = 0; !rc && has_part_in_child(shape, GROUP_FDS(group)[0]); k++) {
            groups_close(shape, group, 1);
            rc = k < PARTED_TRIES ? group_try(shape, pid, cpu, first, group, &at) : -ETIME;
        }
    }
    *failed = &shape->attr[at];
    return rc;
}

int group_open(const struct shape *shape, pid_t pid, int cpu, int *group,
               const struct perf_event_attr **failed)
{
    return any_group_open(shape, pid, cpu, true, group, failed);
}

int task_open(const struct shape *shape, pid_t tid, int *groups,
              const struct perf_event_attr **failed)
{
    int rc = 0;

    for (unsigned i = 0; i < shape->spread && !rc; i++) {
        rc = any_group_open(shape, tid, shape->cpu[i], i == 0, groups + (size_t)i * shape->stride,
                            failed);
        if (rc)
            groups_close(shape, groups, i);
    }
    return rc;
}
