/*
 * Reading a counter: groups are added up for each task, tasks for the counter; groups that lost
 * their hardware are found out and revived.
 */
#include "backends/perf/count/reading.h"

#include "backends/perf/record/sampling.h"
#include "core/base/clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    CHILD_TRIES = 12,
    CHILD_SPINS = 4,        /* of these at once */
    CHILD_PAUSE_NS = 50000, /* then the first pause; each is twice as long, 13 ms in all */
    GAP_NS = 1000000,
    ALONE_BYTES = 3 * sizeof(uint64_t)
};

/* The words that the kernel writes for a group with both times; for an event that is alone the
 * first is its value, and the last. */
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

static struct group_last *counter_last(const struct counter *counter, unsigned group)
{
    return counter->last ? (void *)(counter->last + group * counter_last_bytes(counter)) : NULL;
}

static void words_copy(uint64_t *to, const uint64_t *from, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        __atomic_store_n(&to[i], __atomic_load_n(&from[i], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* A child that is just being given its copies, or is ending, has lost its CPU: it needs one. */
static void pause_for_child(int tried)
{
    const struct timespec pause = {.tv_nsec = (long)CHILD_PAUSE_NS << (tried - CHILD_SPINS)};

    nanosleep(&pause, NULL);
}

/* 1 read, 0 nothing of it is on the hardware, -EIO. A child that is being born or is ending may not
 * match: again; -EAGAIN without patience. */
static int one_read(int fd, struct group_text *text, unsigned n, bool patient)
{
    for (int i = 0; i < CHILD_TRIES; i++) {
        if (i >= CHILD_SPINS && !patient)
            return -EAGAIN;
        if (i >= CHILD_SPINS)
            pause_for_child(i);
        ssize_t got = read(fd, text, sizeof *text);

        if (got == ALONE_BYTES) {
            text->value[0] = text->n;
            return 1;
        }
        if (got >= 0)
            return got >= (ssize_t)((3 + n) * sizeof(uint64_t)) ? 1 : got ? -EIO : 0;
        if (errno != ECHILD && errno != EINTR)
            break;
    }
    return -EIO;
}

/* The same with the members behind it that are groups of their own. */
static int group_read(const struct counter *counter, unsigned group, struct group_text *text,
                      bool patient)
{
    const int *fds = counter_fds(counter, group);
    int rc = one_read(fds[0], text, counter->shape.together, patient);

    for (unsigned i = counter->shape.together; rc > 0 && i < counter->shape.members; i++) {
        struct group_text own;

        rc = one_read(fds[i], &own, 1, patient);
        text->value[i] = own.value[0];
    }
    return rc;
}

/* The same for a pinned group, which may have lost its hardware: tried again once, else as last
 * known. */
static int pinned_read(struct counter *counter, unsigned group, struct group_text *text,
                       bool patient)
{
    struct group_last *last = counter_last(counter, group);
    int leader = counter_fds(counter, group)[0];
    int rc = group_read(counter, group, text, patient);

    if (!rc && counter_is_on(counter)) {
        ioctl(leader, PERF_EVENT_IOC_ENABLE, 0);
        rc = group_read(counter, group, text, patient);
    }
    if (rc > 0)
        words_copy(last->words, text->words, 2 + counter->shape.members);
    else if (!rc)
        words_copy(text->words, last->words, 2 + counter->shape.members);
    return rc;
}

/* The time during which a task's groups should have counted. `group`: its first one. */
static uint64_t witness_read(const struct counter *counter, unsigned group)
{
    struct {
        uint64_t value, enabled_ns, running_ns;
    } text;
    int fd = counter_fds(counter, group)[FD_WITNESS(counter->shape.members)];

    if (read(fd, &text, sizeof text) != sizeof text)
        return 0;
    return counter->shape.flags ? text.value : text.enabled_ns;
}

/* Findings are forgotten: it is tried again. */
void verdicts_clear(struct counter *counter)
{
    for (unsigned i = 0; counter->shape.hardware && i < counter->n_groups; i++) {
        struct group_last *last = counter_last(counter, i);

        if (last)
            __atomic_store_n(&last->off, false, __ATOMIC_RELAXED);
    }
}

/*
 * A group with an original that rests (its task sleeps) reads well, whatever happened to its
 * copies, which fail silently and stay off: it is off when the target ran for a while and the group
 * did not. When the gap has grown ENABLE on the original revives them. A read can take long: the
 * time to compare with next is that of now, not `covered`, when the witness said `witness` and the
 * group was not read yet.
 */
static bool copies_are_off(struct counter *counter, unsigned group, uint64_t covered,
                           uint64_t running, uint64_t witness)
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
    covered += witness_read(counter, group) - witness;
    __atomic_store_n(&last->judged_covered_ns, covered, __ATOMIC_RELAXED);
    __atomic_store_n(&last->judged_running_ns, running, __ATOMIC_RELAXED);
    __atomic_store_n(&last->off, off, __ATOMIC_RELAXED);
    return off;
}

static uint64_t scaled(uint64_t value, uint64_t enabled, uint64_t running)
{
    if (!running || running == enabled)
        return value;
    return (uint64_t)((unsigned __int128)value * enabled / running);
}

/*
 * One task: its groups are added up. The kernel's time enabled runs on all CPUs, in the group of
 * each: it is that of any of them, while no copy has ended (spread_enabled).
 */
static void task_add(struct group_text *sum, const struct group_text *text, unsigned n)
{
    if (text->enabled_ns > sum->enabled_ns)
        sum->enabled_ns = text->enabled_ns;
    sum->running_ns += text->running_ns;
    for (unsigned i = 0; i < n; i++)
        sum->value[i] += text->value[i];
}

static void reading_add(const struct counter *counter, struct reading *out,
                        const struct group_text *text, uint64_t covered_ns)
{
    out->covered_ns += covered_ns;
    out->enabled_ns += text->enabled_ns;
    out->running_ns += text->running_ns;
    for (unsigned i = 0; i < counter->shape.n; i++) {
        unsigned at = shape_place(&counter->shape, i);
        uint64_t value = text->value[counter->shape.extra + i];

        out->value[at] += value;
        out->estimate[at] += scaled(value, text->enabled_ns, text->running_ns);
    }
}

/*
 * When a thread or child ends, the kernel (6.18, and those before) adds to its origin what its
 * groups of other CPUs had at their last change of state: none of the sums has the whole time any
 * more. Without hardware a group runs whenever its task does on its CPU; with hardware the witness
 * has no CPU, so it has the time. It was read before the groups.
 */
static uint64_t spread_enabled(const struct counter *counter, const struct group_text *sum,
                               uint64_t witness)
{
    uint64_t enabled = counter->shape.hardware ? witness : sum->enabled_ns;

    if (counter->shape.spread == 1)
        return sum->enabled_ns;
    return enabled > sum->running_ns ? enabled : sum->running_ns;
}

/* All groups of a task, the first one given. 1, 0 when none of them is on the hardware, -EIO. */
static int task_read(struct counter *counter, unsigned first, struct group_text *sum, bool patient)
{
    struct group_text text;
    bool any = false;

    memset(sum, 0,
           offsetof(struct group_text, value) + counter->shape.members * sizeof sum->value[0]);
    for (unsigned i = first; i < first + counter->shape.spread; i++) {
        int rc = counter->shape.hardware ? pinned_read(counter, i, &text, patient)
                                         : group_read(counter, i, &text, patient);

        if (rc < 0)
            return rc;
        if (!rc && !counter->shape.hardware)
            return -EIO;
        any |= rc > 0;
        task_add(sum, &text, counter->shape.members);
    }
    return any;
}

/*
 * The kernel's times of a cgroup's events are wrong where a task of the cgroup runs at ENABLE: the
 * cgroup's clock was not started there, and the next switch adds the time since it last ran, or
 * since boot (6.18; others add it at ENABLE). The values of clock events are right. One is a member
 * of each group, another the witness of groups that can wait for hardware.
 */
static void cgroup_times(const struct counter *counter, struct group_text *text, uint64_t witness)
{
    text->running_ns = text->value[counter->shape.extra - 1];
    text->enabled_ns = witness > text->running_ns ? witness : text->running_ns;
}

/* 1, 0 when nothing of it is on the hardware, -EIO, -EAGAIN. */
static int sum_read(struct counter *counter, unsigned first, struct reading *out, bool patient)
{
    const bool hardware = counter->shape.hardware;
    const uint64_t witness = hardware ? witness_read(counter, first) : 0;
    struct group_text text;
    uint64_t covered;
    int rc = task_read(counter, first, &text, patient);

    if (rc < 0)
        return rc;
    if (counter->shape.flags)
        cgroup_times(counter, &text, witness);
    else
        text.enabled_ns = spread_enabled(counter, &text, witness);
    covered = hardware ? witness : text.enabled_ns;
    reading_add(counter, out, &text, covered);
    if (!hardware || !rc)
        return rc;
    return !copies_are_off(counter, first, covered, text.running_ns, witness);
}

int perf_read(struct counter *counter, struct reading *out, bool patient)
{
    unsigned off = 0;

    memset(out, 0, offsetof(struct reading, value));
    memset(out->value, 0, counter->shape.n * sizeof out->value[0]);
    memset(out->estimate, 0, counter->shape.n * sizeof out->estimate[0]);
    for (unsigned i = 0; i < counter->n_groups; i += counter->shape.spread) {
        int rc = sum_read(counter, i, out, patient);

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

/* With hardware another one, at most once in a millisecond of the target's time. */
unsigned perf_cost(const struct counter *counter)
{
    return counter->n_groups * (1 + counter->shape.members - counter->shape.together) +
           (counter->shape.hardware ? counter->n_groups / counter->shape.spread : 0);
}

/* Armed at attach by enable_on_exec; a first start has nothing to do. */
bool counter_is_armed(struct counter *counter)
{
    struct reading now;

    return counter->at_exec &&
           (!counter->begun || perf_read(counter, &now, true) || !now.enabled_ns);
}
