#include "backends/perf/count/group.h"

#include "backends/perf/probe/pmu.h"
#include "backends/perf/record/sampling.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    SWAPPED_TRIES = 16, /* the leader may be in a child at the moment: the kernel swaps contexts */
    PARTED_TRIES = 500  /* for a task that creates children all the time */
};

/* Sets shape->order, ->hardware and ->n_grouped. Hardware events come first, because only a leader
 * can be pinned. If the set samples, only the internal and the hardware events are together, or the
 * first member alone if there is no hardware event. Returns false on ENOMEM. */
static bool shape_order(struct shape *shape, const struct plan *plan)
{
    unsigned n = 0, k = 0;

    for (unsigned i = 0; i < plan->n; i++)
        n += event_is_hardware(plan->events[i].event);
    shape->hardware = n > 0;
    shape->n_grouped = shape->members;
    if (plan->recorder && plan->sampling)
        shape->n_grouped = n ? shape->n_extras + n : 1;
    if (!n || n == plan->n)
        return true;
    shape->order = malloc(plan->n);
    for (int hardware = 1; hardware >= 0 && shape->order; hardware--)
        for (unsigned i = 0; i < plan->n; i++)
            if (event_is_hardware(plan->events[i].event) == hardware)
                shape->order[k++] = (uint8_t)i;
    return shape->order != NULL;
}

static void shape_attrs(struct shape *shape, struct backend_state *state, const struct plan *plan)
{
    bool task = target_is_task(&plan->target), alone = shape->members == 1 && !plan->recorder;
    uint64_t times = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;

    for (unsigned i = 0; i < shape->n_extras; i++) {
        sampling_extra_attr(state, shape->extras[i], &shape->attr[i]);
        if (plan->recorder)
            sampling_clock(&shape->attr[i]);
    }
    for (unsigned i = 0; i < shape->n; i++) {
        const struct plan_event *event = &plan->events[shape_plan_event(shape, i)];
        struct perf_event_attr *attr = &shape->attr[shape->n_extras + i];

        code_to_attr(event->event, event->user, event->kernel, attr);
        if (plan->recorder && plan->sampling)
            sampling_attr(plan, attr);
        else if (plan->recorder)
            sampling_clock(attr);
    }
    for (unsigned i = shape->members; i < shape->members + 2; i++)
        sampling_dummy_attr(&shape->attr[i]);
    if (shape->has_clock)
        sampling_extra_attr(state, EXTRA_CLOCK, SHAPE_TIME_CHECK(shape));
    for (unsigned i = 0; i < shape->members + 2; i++) {
        struct perf_event_attr *attr = &shape->attr[i];

        attr->inherit = shape->inherit;
        attr->inherit_thread = shape->inherit && !plan->descendants;
        /* GROUP makes reads slower. Only leaders and internal events that sample values need it. */
        attr->read_format = alone || (i && i >= shape->n_extras - shape->has_clock)
                                ? times
                                : times | PERF_FORMAT_GROUP;
    }
    shape->attr[0].pinned = shape->hardware && !plan->multiplex;
    for (unsigned i = 0; i < shape->members; i++) {
        const bool leads = i == 0 || i >= shape->n_grouped;

        shape->attr[i].disabled = leads;
        shape->attr[i].enable_on_exec = leads && task && plan->at_exec;
    }
    if (plan->recorder && task) { /* for CPUs and cgroups see track_begin() */
        sampling_sideband(&shape->attr[0]);
        shape->attr[0].mmap_data = plan->stack_bytes > 0;
        shape->attr[0].context_switch = plan->off_cpu;
    }
    SHAPE_TIME_CHECK(shape)->read_format = times;
    SHAPE_TIME_CHECK(shape)->enable_on_exec = task && plan->at_exec;
    SHAPE_EXIT_WATCH(shape)->watermark = 1;
}

void plan_limit_cpus(const struct backend_state *state, const struct plan *plan, struct cpus *cpus)
{
    const struct pmus *pmus = state->pmus;
    const struct cpus *counting = NULL;
    unsigned kinds = 0;

    for (unsigned i = 0; i < pmus->n; i++)
        kinds += pmus->list[i].kind == PMU_CORE;
    for (unsigned i = 0; kinds > 1 && i < plan->n; i++)
        if (plan->events[i].event->code[CODE_FLAGS] & CODE_HARDWARE)
            counting = &pmus->classes[plan->events[i].event->class_index].cpus;
    for (int cpu = cpus_next(cpus, 0); counting && cpu >= 0; cpu = cpus_next(cpus, cpu + 1))
        if (!cpus_has(counting, (unsigned)cpu))
            cpus_remove(cpus, (unsigned)cpu);
}

/*
 * Sets shape->task_groups, ->n_core_pmus and ->place. A task that writes records has a group for
 * each possible CPU, also for those that are offline now; see plan_limit_cpus(). Returns 0 or
 * -ENOMEM.
 */
static int shape_spread(struct shape *shape, const struct backend_state *state,
                        const struct plan *plan)
{
    const struct pmus *pmus = state->pmus;
    const bool tasks = target_is_task(&plan->target), records = tasks && plan->recorder;
    bool every_core = false;
    struct cpus cpus = {0};
    unsigned n = 0;

    for (unsigned i = 0; i < plan->n; i++)
        if (plan->events[i].event->code[CODE_FLAGS] & CODE_EVERY_CORE) {
            every_core = true;
            shape->n_core_pmus = pmus->classes[plan->events[i].event->class_index].n_core_pmus;
        }
    if (records) {
        state->host->cpus_possible(state->host_state, &cpus);
        plan_limit_cpus(state, plan, &cpus);
    }
    shape->place = calloc(cpus_count(&cpus) + pmus->n + 1, sizeof *shape->place);
    for (int cpu = cpus_next(&cpus, 0); shape->place && cpu >= 0; cpu = cpus_next(&cpus, cpu + 1))
        shape->place[n++] = (struct group_place){.cpu = cpu};
    for (unsigned i = 0; shape->place && tasks && !records && every_core && i < pmus->n; i++)
        if (pmus->list[i].kind == PMU_CORE && pmu_is_here(&pmus->list[i]))
            shape->place[n++] = (struct group_place){.cpu = -1, .core = pmus->list[i].type};
    if (shape->place && !records && n == 0)
        shape->place[n++] = (struct group_place){.cpu = -1};
    shape->task_groups = n;
    cpus_free(&cpus);
    return n ? 0 : -ENOMEM;
}

int shape_make(struct shape *shape, struct backend_state *state, const struct plan *plan)
{
    struct cpus online = {0};

    *shape = (struct shape){
        .n = plan->n,
        .inherit = plan->target.kind == TARGET_PROCESS,
        .exit_watch = plan->target.kind == TARGET_THREAD ||
                      (plan->target.kind == TARGET_PROCESS && plan->descendants),
        .watch_cpu = -1,
        .flags = plan->target.kind == TARGET_CGROUP ? PERF_FLAG_PID_CGROUP : 0,
        .has_clock = plan->target.kind == TARGET_CGROUP,
    };
    /* The exit watch events of a process share one ring, so they must be on one CPU. */
    if (plan->target.kind == TARGET_PROCESS) {
        state->host->cpus_online(state->host_state, &online);
        shape->watch_cpu = cpus_count(&online) ? cpus_next(&online, 0) : 0;
        cpus_free(&online);
    }
    shape->n_extras = sampling_extras(state, plan, shape->extras);
    if (shape->has_clock)
        shape->extras[shape->n_extras++] = EXTRA_CLOCK;
    shape->members = shape->n_extras + shape->n;
    shape->stride = 2 + shape->members + 2;
    shape->attr = calloc(shape->members + 2, sizeof *shape->attr);
    shape->filter = plan->filter ? strdup(plan->filter) : NULL;
    if ((plan->filter && !shape->filter) || !shape->attr || !shape_order(shape, plan) ||
        shape_spread(shape, state, plan)) {
        shape_free(shape);
        return -ENOMEM;
    }
    shape_attrs(shape, state, plan);
    shape->fds_per_task = shape->members * shape->task_groups + shape->hardware + shape->exit_watch;
    return 0;
}

void shape_drop_clock(struct shape *shape)
{
    const unsigned at = shape->n_extras - 1;

    memmove(&shape->attr[at], &shape->attr[at + 1],
            (shape->members + 2 - at - 1) * sizeof *shape->attr);
    shape->has_clock = false;
    shape->n_extras--;
    shape->members--;
    shape->stride--;
    shape->fds_per_task--;
    shape->n_grouped -= shape->n_grouped > 1;
}

void shape_free(struct shape *shape)
{
    shape_free_attrs(shape);
    free(shape->order);
}

void shape_free_attrs(struct shape *shape)
{
    free(shape->attr);
    free(shape->place);
    free(shape->filter);
    shape->filter = NULL;
    shape->attr = NULL;
    shape->place = NULL;
}

void groups_close(const struct shape *shape, int *groups, unsigned n)
{
    /* Members before the leader: else each would be a separate group for a moment. */
    while (n-- > 0)
        for (unsigned i = shape->members + 2; i-- > 0;)
            event_close(&GROUP_FDS(groups + (size_t)n * shape->stride)[i]);
}

/* Tries once to open a group. first: it is the first or only group of its task or CPU, and also has
 * the time_check event and the exit watch. Stores the index of the last event that was tried in
 * *at. Returns 0 or -errno. */
static int group_try(const struct shape *shape, pid_t pid, struct group_place place, bool first,
                     int *group, unsigned *at)
{
    int *fds = GROUP_FDS(group), rc = 0;

    memset(group, -1, shape->stride * sizeof *group);
    GROUP_TID(group) = shape->flags ? -1 : pid;
    GROUP_CPU(group) = place.cpu;
    for (unsigned i = 0; i < shape->members + 2 && !rc; i++) {
        const bool member = i > 0 && i < shape->n_grouped;
        struct perf_event_attr attr = shape->attr[i];
        int on = place.cpu;

        if (i == FD_TIME_CHECK(shape->members)) {
            if (!first || !shape->hardware)
                continue;
            on = shape->task_groups > 1 ? -1 : place.cpu;
        } else if (i == FD_EXIT_WATCH(shape->members)) {
            if (!first || !shape->exit_watch)
                continue;
            on = shape->watch_cpu;
        }
        *at = i;
        attr_bind(&attr, place.core);
        fds[i] = event_open(&attr, pid, on, member ? fds[0] : -1, shape->flags);
        if (fds[i] < 0)
            rc = fds[i];
        else if (shape->filter && i >= shape->n_extras && i < shape->members &&
                 attr.type == PERF_TYPE_TRACEPOINT &&
                 ioctl(fds[i], PERF_EVENT_IOC_SET_FILTER, shape->filter)) /* also in children */
            rc = -errno;
    }
    if (rc)
        groups_close(shape, group, 1);
    return rc;
}

/*
 * Returns true if a child was created while the group was being opened, and has inherited a part of
 * it. The kernel refuses (ECHILD) to read the group as long as that child lives. Kernels before
 * autumn 2023 add up values of different events instead, without an error.
 */
static bool has_part_in_child(const struct shape *shape, int leader)
{
    uint64_t counts[3 + SET_MAX + EXTRAS_MAX];

    return shape->inherit && shape->n_grouped > 1 && read(leader, counts, sizeof counts) < 0 &&
           errno == ECHILD;
}

/*
 * Opens a group; again if a child has inherited a part of it (-ETIME after PARTED_TRIES), or if a
 * member failed because of its leader. EINVAL: the leader is in a child at the moment. ENODEV
 * (newer kernels): the leader's task has exited; the next try to open the leader then fails with
 * ESRCH.
 */
static int group_open_at(const struct shape *shape, pid_t pid, struct group_place place, bool first,
                         int *group, const struct perf_event_attr **failed)
{
    unsigned at = 0;
    int rc = 0;

    for (int i = 0; i < SWAPPED_TRIES; i++) {
        rc = group_try(shape, pid, place, first, group, &at);
        for (int k = 0; !rc && has_part_in_child(shape, GROUP_FDS(group)[0]); k++) {
            groups_close(shape, group, 1);
            rc = k < PARTED_TRIES ? group_try(shape, pid, place, first, group, &at) : -ETIME;
        }
        if (at == 0 || !(rc == -ENODEV || (rc == -EINVAL && shape->inherit)))
            break;
    }
    *failed = &shape->attr[at];
    return rc;
}

int group_open(const struct shape *shape, pid_t pid, int cpu, int *group,
               const struct perf_event_attr **failed)
{
    return group_open_at(shape, pid, (struct group_place){.cpu = cpu}, true, group, failed);
}

int task_open(const struct shape *shape, pid_t tid, int *groups,
              const struct perf_event_attr **failed)
{
    int rc = 0;

    for (unsigned i = 0; i < shape->task_groups && !rc; i++) {
        rc = group_open_at(shape, tid, shape->place[i], i == 0, groups + (size_t)i * shape->stride,
                           failed);
        if (rc)
            groups_close(shape, groups, i);
    }
    return rc;
}
