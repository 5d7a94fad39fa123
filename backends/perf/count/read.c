/*
 * Reading counters: adds up the groups of each task and the tasks of a counter, and detects and
 * revives groups that have lost their hardware counters.
 */
#include "backends/perf/count/counter.h"

#include "backends/perf/probe/pmu.h"
#include "backends/perf/record/sampling.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    CHILD_TRIES = 12,
    CHILD_SPINS = 4,        /* tries without a pause */
    CHILD_PAUSE_NS = 50000, /* the first pause; each further one is twice as long; 13 ms in all */
    GAP_NS = 1000000,
    ALONE_BYTES = 3 * sizeof(uint64_t)
};

/* Result of read() for a group with both times. A single event has its value instead of n, and
 * no value[]. */
struct group_counts {
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
 * is being created or exits the read fails with ECHILD: tries again, first at once, then after
 * pauses, because the child needs a CPU. If not patient, returns -EAGAIN instead of the first
 * pause. */
static int fd_read(int fd, struct group_counts *counts, bool patient)
{
    for (int i = 0; i < CHILD_TRIES; i++) {
        if (i >= CHILD_SPINS && !patient)
            return -EAGAIN;
        if (i >= CHILD_SPINS) {
            const struct timespec pause = {.tv_nsec = (long)CHILD_PAUSE_NS << (i - CHILD_SPINS)};

            nanosleep(&pause, NULL);
        }
        ssize_t got = read(fd, counts, sizeof *counts);

        if (got == ALONE_BYTES) {
            counts->value[0] = counts->n;
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
static int group_values(const struct counter *counter, unsigned group, struct group_counts *counts,
                        bool patient)
{
    const int *fds = counter_fds(counter, group);
    const unsigned together = counter->shape.n_grouped;
    int rc = fd_read(fds[0], counts, patient);
    const bool split = rc > 0 && together > 1 && counts->n != together;

    for (unsigned i = split ? 1 : together; rc > 0 && i < counter->shape.members; i++) {
        struct group_counts own;

        rc = fd_read(fds[i], &own, patient);
        counts->value[i] = own.value[0];
    }
    return rc;
}

/* Returns the time during which a task's groups should have counted, in ns; 0 if it cannot be read.
 * group: the first group of the task. */
static uint64_t time_check_read(const struct counter *counter, unsigned group)
{
    struct {
        uint64_t value, enabled_ns, running_ns;
    } counts;
    int fd = counter_fds(counter, group)[FD_TIME_CHECK(counter->shape.members)];

    if (read(fd, &counts, sizeof counts) != sizeof counts)
        return 0;
    return counter->shape.has_clock ? counts.value : counts.enabled_ns;
}

/*
 * Returns true if the inherited copies of a group have lost their hardware counters: the target ran
 * for a while and the group did not. A read shows no error as long as the task of the original
 * group sleeps, because copies fail silently and stay off. If the gap between covered and running
 * time has grown, ENABLE on the original group revives the copies.
 * time_check: the time from which `covered` was computed, read before the group. As the read of the
 * group can take long, judged_covered_ns is set by a second read of the time_check event.
 */
static bool copies_are_off(struct counter *counter, unsigned group, uint64_t covered,
                           uint64_t running, uint64_t time_check)
{
    struct group_last *last = counter_last(counter, group);
    const uint64_t gap = covered > running ? covered - running : 0;
    bool off = __atomic_load_n(&last->off_hardware, __ATOMIC_RELAXED) != 0;

    if (counter->multiplex || !counter_is_on(counter))
        return false;
    if (covered < __atomic_load_n(&last->judged_covered_ns, __ATOMIC_RELAXED) + GAP_NS)
        return off;
    if (gap >= __atomic_load_n(&last->gap_ns, __ATOMIC_RELAXED) + GAP_NS) {
        __atomic_store_n(&last->gap_ns, gap, __ATOMIC_RELAXED);
        for (unsigned i = 0; i < counter->shape.task_groups; i++)
            ioctl(counter_fds(counter, group + i)[0], PERF_EVENT_IOC_ENABLE, 0);
    }
    off = running <= __atomic_load_n(&last->judged_running_ns, __ATOMIC_RELAXED);
    covered += time_check_read(counter, group) - time_check;
    __atomic_store_n(&last->judged_covered_ns, covered, __ATOMIC_RELAXED);
    __atomic_store_n(&last->judged_running_ns, running, __ATOMIC_RELAXED);
    __atomic_store_n(&last->off_hardware, off, __ATOMIC_RELAXED);
    return off;
}

/* Adds the values and the time of a group to those of its part. The parts are in the order of the
 * core PMUs, as the groups of a task that are not bound to a CPU (shape_spread()). */
static void part_add(const struct counter *counter, unsigned group,
                     const struct group_counts *counts, struct reading *out)
{
    const struct shape *shape = &counter->shape;
    const struct class_info *classes = counter->state->pmus->classes;
    const int cpu = GROUP_CPU(counter_group(counter, group));
    unsigned part = cpu < 0 ? group % shape->task_groups : 0;

    while (cpu >= 0 && part < shape->n_core_pmus && !cpus_has(&classes[part].cpus, (unsigned)cpu))
        part++;
    if (part >= shape->n_core_pmus)
        return;
    uint64_t *value = &out->value[core_pmu_index(shape->n, part)];
    for (unsigned i = 0; i < shape->n; i++)
        value[shape_plan_event(shape, i)] += counts->value[shape->n_extras + i];
    value[shape->n] += shape->has_clock ? counts->value[shape->n_extras - 1] : counts->running_ns;
}

/*
 * Adds up all groups of a task, and adds the parts to *out; first is the index of the task's first
 * group. The groups of all CPUs have the same time enabled as long as no copy has ended (see
 * task_add()), so the sum has their maximum. A pinned group may have lost its hardware counters:
 * enables it and reads once more, and uses the last known values if that did not help. Returns 1, 0
 * if none of the groups has a hardware counter, -EIO or -EAGAIN.
 */
static int task_sum(struct counter *counter, unsigned first, struct group_counts *sum,
                    struct reading *out, bool patient)
{
    const unsigned members = counter->shape.members;
    struct group_counts counts;
    bool any = false;

    memset(sum, 0, offsetof(struct group_counts, value) + members * sizeof sum->value[0]);
    for (unsigned i = first; i < first + counter->shape.task_groups; i++) {
        int rc = group_values(counter, i, &counts, patient);

        if (counter->shape.hardware) {
            struct group_last *last = counter_last(counter, i);

            if (!rc && counter_is_on(counter)) {
                ioctl(counter_fds(counter, i)[0], PERF_EVENT_IOC_ENABLE, 0);
                rc = group_values(counter, i, &counts, patient);
            }
            if (rc > 0)
                words_copy(last->words, counts.words, 2 + members);
            else if (!rc)
                words_copy(counts.words, last->words, 2 + members);
        } else if (!rc) {
            rc = -EIO;
        }
        if (rc < 0)
            return rc;
        any |= rc > 0;
        part_add(counter, i, &counts, out);
        if (counts.enabled_ns > sum->enabled_ns)
            sum->enabled_ns = counts.enabled_ns;
        sum->running_ns += counts.running_ns;
        for (unsigned k = 0; k < members; k++)
            sum->value[k] += counts.value[k];
    }
    return any;
}

/*
 * Reads a task (or CPU) and adds it to *out, with the estimates: values scaled to the time enabled.
 * Returns 1, 0 if no group has a hardware counter or the inherited copies have lost theirs, -EIO or
 * -EAGAIN.
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
static int task_add(struct counter *counter, unsigned first, struct reading *out, bool patient)
{
    const struct shape *shape = &counter->shape;
    const uint64_t time_check = shape->hardware ? time_check_read(counter, first) : 0;
    struct group_counts counts;
    int rc = task_sum(counter, first, &counts, out, patient);

    if (rc < 0)
        return rc;
    uint64_t running = shape->has_clock ? counts.value[shape->n_extras - 1] : counts.running_ns;
    uint64_t enabled = shape->has_clock || shape->hardware ? time_check : counts.enabled_ns;
    if (enabled < running)
        enabled = running;
    if (!shape->has_clock && shape->task_groups == 1)
        enabled = counts.enabled_ns;
    uint64_t covered = shape->hardware ? time_check : enabled;
    out->covered_ns += covered;
    out->enabled_ns += enabled;
    out->running_ns += running;
    for (unsigned i = 0; i < shape->n; i++) {
        const unsigned at = shape_plan_event(shape, i);
        uint64_t value = counts.value[shape->n_extras + i];

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
    const unsigned values = core_pmu_index(counter->shape.n, counter->shape.n_core_pmus);
    unsigned off = 0;

    memset(out, 0, offsetof(struct reading, value));
    memset(out->value, 0, values * sizeof out->value[0]);
    memset(out->estimate, 0, values * sizeof out->estimate[0]);
    for (unsigned i = 0; i < counter->n_groups; i += counter->shape.task_groups) {
        int rc = task_add(counter, i, out, patient);

        if (rc < 0)
            return rc;
        off += rc == 0;
    }
    out->off_hardware =
        off && off == counter->n_groups / counter->shape.task_groups && counter_is_on(counter);
    out->never_ran = out->enabled_ns && !out->running_ns;
    out->descendant_lost = counter->descendant_lost;
    return counter->covered && !out->descendant_lost
               ? covered_lost_events(counter->covered, patient, &out->descendant_lost)
               : 0;
}

/* Leaves out the second read of time_check, which happens at most once per millisecond of the
 * target's time. */
unsigned perf_read_cost(const struct counter *counter)
{
    return counter->n_groups * (1 + counter->shape.members - counter->shape.n_grouped) +
           (counter->shape.hardware ? counter->n_groups / counter->shape.task_groups : 0);
}

/* enable_on_exec was set at attach: the first start has nothing to do, and the time enabled is 0
 * until the exec. */
bool counter_is_armed(struct counter *counter)
{
    struct reading now;

    return counter->at_exec &&
           (!counter->was_started || perf_read(counter, &now, true) || !now.enabled_ns);
}
