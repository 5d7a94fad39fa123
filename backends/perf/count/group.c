/*
 * Groups: their attrs, opening, and reading. A read adds up the groups of each task and the tasks
 * of a counter, and detects and revives groups that have lost their hardware counters.
 */
#include "backends/perf/count/group.h"

#include "backends/perf/count/counter.h"
#include "backends/perf/probe/pmu.h"
#include "backends/perf/record/sampling.h"
#include "core/base/clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    SWAPPED_TRIES = 16, /* the leader may be in a child at the moment: the kernel swaps contexts */
    PARTED_TRIES = 500, /* for a task that creates children all the time */
    CHILD_TRIES = 12,
    CHILD_SPINS = 4,        /* tries without a pause */
    CHILD_PAUSE_NS = 50000, /* the first pause; each is twice as long, 13 ms in all */
    GAP_NS = 1000000,
    ALONE_BYTES = 3 * sizeof(uint64_t)
};

static bool plan_is_hardware(const struct plan_event *event)
{
    return event->event->code[CODE_FLAGS] & CODE_HARDWARE;
}

/* Sets shape->order, ->hardware and ->together. Hardware events come first, because only a leader
 * can be pinned. If the set samples, only the internal and the hardware events are together, or the
 * first member alone if there is no hardware event. Returns false on ENOMEM. */
static bool shape_order(struct shape *shape, const struct plan *plan)
{
    unsigned n = 0, k = 0;

    for (unsigned i = 0; i < plan->n; i++)
        n += plan_is_hardware(&plan->events[i]);
    shape->hardware = n > 0;
    shape->together = shape->members;
    if (plan->recorder && plan->sampling)
        shape->together = n ? shape->extra + n : 1;
    if (!n || n == plan->n)
        return true;
    shape->order = malloc(plan->n);
    for (int hardware = 1; hardware >= 0 && shape->order; hardware--)
        for (unsigned i = 0; i < plan->n; i++)
            if (plan_is_hardware(&plan->events[i]) == hardware)
                shape->order[k++] = (uint8_t)i;
    return shape->order != NULL;
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
    if (shape->clock)
        sampling_extra_attr(state, EXTRA_CLOCK, SHAPE_TIME_CHECK(shape));
    for (unsigned i = 0; i < shape->members + 2; i++) {
        struct perf_event_attr *attr = &shape->attr[i];

        attr->inherit = shape->inherit;
        attr->inherit_thread = shape->inherit && !plan->descendants;
        /* GROUP makes reads slower; only leaders and samples of steps and exits need it */
        attr->read_format =
            alone || (i && i >= shape->extra - shape->clock) ? times : times | PERF_FORMAT_GROUP;
    }
    shape->attr[0].pinned = shape->hardware && !plan->multiplex;
    for (unsigned i = 0; i < shape->members; i++) {
        const bool leads = i == 0 || i >= shape->together;

        shape->attr[i].disabled = leads;
        shape->attr[i].enable_on_exec = leads && task && plan->at_exec;
    }
    if (plan->recorder && task) { /* for CPUs and cgroups see track_begin() */
        sampling_sideband(&shape->attr[0]);
        shape->attr[0].mmap_data = plan->stack > 0;
        shape->attr[0].context_switch = plan->off_cpu;
    }
    SHAPE_TIME_CHECK(shape)->read_format = times;
    SHAPE_TIME_CHECK(shape)->enable_on_exec = task && plan->at_exec;
    SHAPE_EXIT_WATCH(shape)->watermark = 1;
}

/* Returns the flags (enum code_flag) of all events of a plan. */
static uint64_t plan_flags(const struct plan *plan)
{
    uint64_t flags = 0;

    for (unsigned i = 0; i < plan->n; i++)
        flags |= plan->events[i].event->code[CODE_FLAGS];
    return flags;
}

/*
 * Sets shape->spread and ->place. A task that writes records has a group for each possible CPU,
 * also for those that are offline now. Generic events of a hybrid processor are counted only on
 * CPUs whose PMU is known. Returns 0 or -ENOMEM.
 */
static int shape_spread(struct shape *shape, const struct backend_state *state,
                        const struct plan *plan)
{
    const struct pmus *pmus = state->pmus;
    const bool tasks = plan_is_of_tasks(plan), records = tasks && plan->recorder;
    const bool every_core = plan_flags(plan) & CODE_EVERY_CORE;
    struct cpus cpus;
    unsigned n = 0;
    bool ok = true;

    cpus_init(&cpus);
    if (records && every_core)
        ok = cpus_copy(&cpus, &pmus_kind(state->pmus, PMU_CORES)->cpus);
    else if (records)
        state->host->cpus_possible(state->host_state, &cpus);
    shape->place = calloc(cpus_count(&cpus) + pmus->n + 1, sizeof *shape->place);
    for (int cpu = cpus_next(&cpus, 0); shape->place && cpu >= 0; cpu = cpus_next(&cpus, cpu + 1))
        shape->place[n++] = (struct place){.cpu = cpu};
    for (unsigned i = 0; shape->place && tasks && !records && every_core && i < pmus->n; i++)
        if (pmus->list[i].kind == PMU_CORE && pmu_is_here(&pmus->list[i]))
            shape->place[n++] = (struct place){.cpu = -1, .core = pmus->list[i].type};
    if (shape->place && !records && n == 0)
        shape->place[n++] = (struct place){.cpu = -1};
    shape->spread = n;
    cpus_free(&cpus);
    return ok && n ? 0 : -ENOMEM;
}

/* Returns the CPU of all exit watch events: they share one ring, so they must be on one CPU. */
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
        .exit_watch = plan->target.kind == TARGET_THREAD ||
                      (plan->target.kind == TARGET_PROCESS && plan->descendants),
        .watch_cpu = plan->target.kind == TARGET_PROCESS ? first_cpu(state) : -1,
        .flags = plan->target.kind == TARGET_CGROUP ? PERF_FLAG_PID_CGROUP : 0,
        .clock = plan->target.kind == TARGET_CGROUP,
    };
    shape->extra = sampling_extras(state, plan, shape->extras);
    if (shape->clock)
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
    shape_attrs(shape, state, plan);
    shape->per_task = shape->members * shape->spread + shape->hardware + shape->exit_watch;
    return 0;
}

void shape_drop_clock(struct shape *shape)
{
    const unsigned at = shape->extra - 1;

    memmove(&shape->attr[at], &shape->attr[at + 1],
            (shape->members + 2 - at - 1) * sizeof *shape->attr);
    shape->clock = false;
    shape->extra--;
    shape->members--;
    shape->stride--;
    shape->per_task--;
    shape->together -= shape->together > 1;
}

void shape_free(struct shape *shape)
{
    shape_opened(shape);
    free(shape->order);
}

void shape_opened(struct shape *shape)
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

/* Opens a group once; the first one of a task also has the time_check event and the exit watch.
 * Stores the index of the last event that was tried in *at. Returns 0 or -errno. */
static int group_try(const struct shape *shape, pid_t pid, struct place place, bool first,
                     int *group, unsigned *at)
{
    int *fds = GROUP_FDS(group), rc = 0;

    memset(group, -1, shape->stride * sizeof *group);
    GROUP_TID(group) = shape->flags ? -1 : pid;
    GROUP_CPU(group) = place.cpu;
    for (unsigned i = 0; i < shape->members + 2 && !rc; i++) {
        const bool member = i > 0 && i < shape->together;
        struct perf_event_attr attr = shape->attr[i];
        int on = place.cpu;

        if (i == FD_TIME_CHECK(shape->members)) {
            if (!first || !shape->hardware)
                continue;
            on = shape->spread > 1 ? -1 : place.cpu;
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
        else if (shape->filter && i >= shape->extra && i < shape->members &&
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
    uint64_t text[3 + SET_MAX + EXTRAS_MAX];

    return shape->inherit && shape->together > 1 && read(leader, text, sizeof text) < 0 &&
           errno == ECHILD;
}

/*
 * Opens a group, and tries again if a member failed because of its leader. EINVAL: the leader is in
 * a child at the moment. ENODEV (newer kernels): the leader's task has exited; the next try to open
 * the leader then fails with ESRCH.
 */
static int any_group_open(const struct shape *shape, pid_t pid, struct place place, bool first,
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
    return any_group_open(shape, pid, (struct place){.cpu = cpu}, true, group, failed);
}

int task_open(const struct shape *shape, pid_t tid, int *groups,
              const struct perf_event_attr **failed)
{
    int rc = 0;

    for (unsigned i = 0; i < shape->spread && !rc; i++) {
        rc = any_group_open(shape, tid, shape->place[i], i == 0, groups + (size_t)i * shape->stride,
                            failed);
        if (rc)
            groups_close(shape, groups, i);
    }
    return rc;
}

/* ---- read ---- */

/* Result of read() for a group with both times. A single event has its value instead of n, and
 * no value[]. */
struct group_text {
    uint64_t n;
    union {
        struct {
            uint64_t enabled_ns, running_ns;
            uint64_t value[SET_MAX + EXTRAS_MAX];
        };
        uint64_t words[2 + SET_MAX + EXTRAS_MAX];
    };
};

static void words_copy(uint64_t *to, const uint64_t *from, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        __atomic_store_n(&to[i], __atomic_load_n(&from[i], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* Reads one descriptor. Returns 1, 0 if the group has no hardware counter, or -EIO. While a child
 * is being created or exits the read fails with ECHILD: tries again, after some tries with pauses,
 * as the child needs a CPU; instead of a pause returns -EAGAIN if not patient. */
static int fd_read(int fd, struct group_text *text, bool patient)
{
    for (int i = 0; i < CHILD_TRIES; i++) {
        if (i >= CHILD_SPINS && !patient)
            return -EAGAIN;
        if (i >= CHILD_SPINS) {
            const struct timespec pause = {.tv_nsec = (long)CHILD_PAUSE_NS << (i - CHILD_SPINS)};

            nanosleep(&pause, NULL);
        }
        ssize_t got = read(fd, text, sizeof *text);

        if (got == ALONE_BYTES) {
            text->value[0] = text->n;
            return 1;
        }
        if (got >= 0)
            return got > ALONE_BYTES ? 1 : got ? -EIO : 0;
        if (errno != ECHILD && errno != EINTR)
            break;
    }
    return -EIO;
}

/* Reads a group and the members that are separate events. When its CPU goes offline, the kernel
 * splits a group into separate events, which keep their values. Returns as fd_read(). */
static int group_values(const struct counter *counter, unsigned group, struct group_text *text,
                        bool patient)
{
    const int *fds = counter_fds(counter, group);
    const unsigned together = counter->shape.together;
    int rc = fd_read(fds[0], text, patient);
    const bool split = rc > 0 && together > 1 && text->n != together;

    for (unsigned i = split ? 1 : together; rc > 0 && i < counter->shape.members; i++) {
        struct group_text own;

        rc = fd_read(fds[i], &own, patient);
        text->value[i] = own.value[0];
    }
    return rc;
}

/* Returns the time during which a task's groups should have counted, in ns. group: its first one.
 */
static uint64_t time_check_read(const struct counter *counter, unsigned group)
{
    struct {
        uint64_t value, enabled_ns, running_ns;
    } text;
    int fd = counter_fds(counter, group)[FD_TIME_CHECK(counter->shape.members)];

    if (read(fd, &text, sizeof text) != sizeof text)
        return 0;
    return counter->shape.clock ? text.value : text.enabled_ns;
}

/*
 * Returns true if the inherited copies of a group have lost their hardware counters: the target ran
 * for a while and the group did not. A read shows no error as long as the task of the original
 * group sleeps, because copies fail silently and stay off. If the gap between covered and running
 * time has grown, ENABLE on the original group revives the copies.
 * `covered` was computed when the time_check event read `time_check`, before the group was read.
 * As a read can take long, the time to compare with next is that of a second time_check.
 */
static bool copies_are_off(struct counter *counter, unsigned group, uint64_t covered,
                           uint64_t running, uint64_t time_check)
{
    struct group_last *last = counter_last(counter, group);
    const uint64_t gap = covered > running ? covered - running : 0;
    bool off = __atomic_load_n(&last->off, __ATOMIC_RELAXED) != 0;

    if (counter->multiplex || !counter_is_on(counter))
        return false;
    if (covered < __atomic_load_n(&last->judged_covered_ns, __ATOMIC_RELAXED) + GAP_NS)
        return off;
    if (gap >= __atomic_load_n(&last->gap_ns, __ATOMIC_RELAXED) + GAP_NS) {
        __atomic_store_n(&last->gap_ns, gap, __ATOMIC_RELAXED);
        for (unsigned i = 0; i < counter->shape.spread; i++)
            ioctl(counter_fds(counter, group + i)[0], PERF_EVENT_IOC_ENABLE, 0);
    }
    off = running <= __atomic_load_n(&last->judged_running_ns, __ATOMIC_RELAXED);
    covered += time_check_read(counter, group) - time_check;
    __atomic_store_n(&last->judged_covered_ns, covered, __ATOMIC_RELAXED);
    __atomic_store_n(&last->judged_running_ns, running, __ATOMIC_RELAXED);
    __atomic_store_n(&last->off, off, __ATOMIC_RELAXED);
    return off;
}

/*
 * Adds up all groups of a task; first is the index of its first one. The groups of all CPUs have
 * the same time enabled as long as no copy has ended (see task_read_into()), so the sum has their
 * maximum. A pinned group may have lost its hardware counters: enables it and reads once more, and
 * uses the last known values if that did not help. Returns 1, 0 if none of the groups has a
 * hardware counter, -EIO or -EAGAIN.
 */
static int task_read(struct counter *counter, unsigned first, struct group_text *sum, bool patient)
{
    const unsigned members = counter->shape.members;
    struct group_text text;
    bool any = false;

    memset(sum, 0, offsetof(struct group_text, value) + members * sizeof sum->value[0]);
    for (unsigned i = first; i < first + counter->shape.spread; i++) {
        int rc = group_values(counter, i, &text, patient);

        if (counter->shape.hardware) {
            struct group_last *last = counter_last(counter, i);

            if (!rc && counter_is_on(counter)) {
                ioctl(counter_fds(counter, i)[0], PERF_EVENT_IOC_ENABLE, 0);
                rc = group_values(counter, i, &text, patient);
            }
            if (rc > 0)
                words_copy(last->words, text.words, 2 + members);
            else if (!rc)
                words_copy(text.words, last->words, 2 + members);
        } else if (!rc) {
            rc = -EIO;
        }
        if (rc < 0)
            return rc;
        any |= rc > 0;
        if (text.enabled_ns > sum->enabled_ns)
            sum->enabled_ns = text.enabled_ns;
        sum->running_ns += text.running_ns;
        for (unsigned k = 0; k < members; k++)
            sum->value[k] += text.value[k];
    }
    return any;
}

/*
 * Reads a task (or CPU) and adds it to *out, with the estimates: values scaled to the time enabled.
 * Returns 1, 0 if no group has a hardware counter, -EIO or -EAGAIN.
 *
 * The kernel's times of a cgroup's group are replaced. They are wrong if a task of the cgroup runs
 * at ENABLE: the kernel did not start the cgroup's clock there, so the next context switch adds the
 * time since it last ran, or since boot (6.18; other versions add it at ENABLE). The values of
 * clock events are right: one is a member of each group, another is the time_check event of groups
 * with hardware events.
 *
 * The time enabled of a task with one group per CPU is replaced, too. When a thread or child exits,
 * the kernel (6.18 and before) adds to the original groups of other CPUs the time up to the last
 * change of state of the copies, so no group has the full time. Without hardware events a group
 * runs whenever its task does on its CPU; with them, the time_check event, which is not bound to a
 * CPU, has the time. It was read before the groups, so it can be less than their running time.
 */
static int task_read_into(struct counter *counter, unsigned first, struct reading *out,
                          bool patient)
{
    const struct shape *shape = &counter->shape;
    const uint64_t time_check = shape->hardware ? time_check_read(counter, first) : 0;
    struct group_text text;
    uint64_t enabled, running, covered;
    int rc = task_read(counter, first, &text, patient);

    if (rc < 0)
        return rc;
    running = shape->clock ? text.value[shape->extra - 1] : text.running_ns;
    enabled = shape->clock || shape->hardware ? time_check : text.enabled_ns;
    if (enabled < running)
        enabled = running;
    if (!shape->clock && shape->spread == 1)
        enabled = text.enabled_ns;
    covered = shape->hardware ? time_check : enabled;
    out->covered_ns += covered;
    out->enabled_ns += enabled;
    out->running_ns += running;
    for (unsigned i = 0; i < shape->n; i++) {
        const unsigned at = shape_place(shape, i);
        uint64_t value = text.value[shape->extra + i];

        out->value[at] += value;
        if (running && running != enabled)
            value = (uint64_t)((unsigned __int128)value * enabled / running);
        out->estimate[at] += value;
    }
    if (!shape->hardware || !rc)
        return rc;
    return !copies_are_off(counter, first, covered, running, time_check);
}

int perf_read(struct counter *counter, struct reading *out, bool patient)
{
    unsigned off = 0;

    memset(out, 0, offsetof(struct reading, value));
    memset(out->value, 0, counter->shape.n * sizeof out->value[0]);
    memset(out->estimate, 0, counter->shape.n * sizeof out->estimate[0]);
    for (unsigned i = 0; i < counter->n_groups; i += counter->shape.spread) {
        int rc = task_read_into(counter, i, out, patient);

        if (rc < 0)
            return rc;
        off += rc == 0;
    }
    out->off = off && off == counter->n_groups / counter->shape.spread && counter_is_on(counter);
    out->never_ran = out->enabled_ns && !out->running_ns;
    out->dropped = counter->dropped;
    out->time_ns = monotonic_ns();
    return counter->covered && !out->dropped
               ? covered_dropped(counter->covered, patient, &out->dropped)
               : 0;
}

/* With hardware events, time_check is read twice at most once per millisecond of the target's
 * time. */
unsigned perf_cost(const struct counter *counter)
{
    return counter->n_groups * (1 + counter->shape.members - counter->shape.together) +
           (counter->shape.hardware ? counter->n_groups / counter->shape.spread : 0);
}

/* enable_on_exec was set at attach: the first start has nothing to do, and the time enabled is 0
 * until the exec. */
bool counter_is_armed(struct counter *counter)
{
    struct reading now;

    return counter->at_exec &&
           (!counter->begun || perf_read(counter, &now, true) || !now.enabled_ns);
}
