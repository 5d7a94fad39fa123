/*
 * Reading and switching what attach.c has opened.
 */
#include "backends/perf/counter.h"

#include "backends/perf/switch.h"
#include "backends/perf/watch.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    CHILD_TRIES = 4,
    GAP_NS = 1000000
};

/* What the kernel writes for a group with both times. */
struct group_text {
    uint64_t n, enabled_ns, running_ns;
    uint64_t value[SET_MAX];
};

struct counter *counter_new(struct backend_state *state, const struct plan *plan,
                            const struct shape *shape)
{
    struct counter *counter = calloc(1, sizeof *counter);

    if (!counter)
        return NULL;
    counter->state = state;
    counter->target = plan->target;
    counter->target.alive = NULL;
    counter->target.alive_arg = NULL;
    counter->target.cgroup_fd = -1;
    counter->tag = plan->tag;
    counter->hardware = shape->hardware;
    counter->descendants = plan->descendants && plan->target.kind == TARGET_PROCESS;
    counter->at_exec = plan->at_exec;
    counter->multiplex = plan->multiplex;
    counter->n = shape->n;
    counter->stride = shape->stride;
    counter->per_group = shape->per_group;
    memcpy(counter->order, shape->order, sizeof counter->order);
    __atomic_add_fetch(&state->n_counters, 1, __ATOMIC_RELAXED);
    return counter;
}

static size_t last_bytes(const struct counter *counter)
{
    return sizeof(struct group_last) + counter->n * sizeof(uint64_t);
}

bool counter_make_groups(struct counter *counter, unsigned n_groups)
{
    size_t n_fds = (size_t)n_groups * counter->stride;

    counter->tasks = calloc(n_groups + 1, sizeof *counter->tasks);
    counter->fds = malloc((n_fds + 1) * sizeof *counter->fds);
    if (counter->hardware)
        counter->last = calloc(n_groups + 1, last_bytes(counter));
    if (counter->target.kind == TARGET_CGROUP)
        counter->skew = calloc(n_groups + 1, sizeof *counter->skew);
    if (!counter->tasks || !counter->fds || (counter->hardware && !counter->last) ||
        (counter->target.kind == TARGET_CGROUP && !counter->skew))
        return false;
    for (size_t i = 0; i < n_fds; i++)
        counter->fds[i] = -1;
    counter->n_groups = n_groups;
    return true;
}

int *counter_fds(const struct counter *counter, unsigned group)
{
    return counter->fds + (size_t)group * counter->stride;
}

static struct group_last *counter_last(const struct counter *counter, unsigned group)
{
    return counter->last ? (void *)(counter->last + group * last_bytes(counter)) : NULL;
}

static void last_keep(struct group_last *last, const struct group_text *text, unsigned n)
{
    __atomic_store_n(&last->enabled_ns, text->enabled_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&last->running_ns, text->running_ns, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < n; i++)
        __atomic_store_n(&last->value[i], text->value[i], __ATOMIC_RELAXED);
}

static void last_give(const struct group_last *last, struct group_text *text, unsigned n)
{
    text->enabled_ns = __atomic_load_n(&last->enabled_ns, __ATOMIC_RELAXED);
    text->running_ns = __atomic_load_n(&last->running_ns, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < n; i++)
        text->value[i] = __atomic_load_n(&last->value[i], __ATOMIC_RELAXED);
}

/*
 * The kernel's times of a cgroup's events jump at ENABLE, and go on while disabled (6.18: minutes
 * that nobody counted). They are taken relative to what they were right after each start.
 */
static void skew_start(struct counter *counter)
{
    struct group_text text;

    for (unsigned i = 0; counter->skew && i < counter->n_groups; i++) {
        struct skew *skew = &counter->skew[i];

        if (read(counter_fds(counter, i)[0], &text, sizeof text) <= 0)
            continue;
        __atomic_store_n(&skew->enabled_ns, text.enabled_ns - skew->kept_enabled_ns,
                         __ATOMIC_RELAXED);
        __atomic_store_n(&skew->running_ns, text.running_ns - skew->kept_running_ns,
                         __ATOMIC_RELAXED);
    }
}

/* At a stop: the times stand still from here. */
static void skew_stop(struct counter *counter)
{
    struct group_text text;

    for (unsigned i = 0; counter->skew && i < counter->n_groups; i++) {
        struct skew *skew = &counter->skew[i];

        if (read(counter_fds(counter, i)[0], &text, sizeof text) <= 0)
            continue;
        __atomic_store_n(&skew->kept_enabled_ns, text.enabled_ns - skew->enabled_ns,
                         __ATOMIC_RELAXED);
        __atomic_store_n(&skew->kept_running_ns, text.running_ns - skew->running_ns,
                         __ATOMIC_RELAXED);
    }
}

static void skew_apply(const struct counter *counter, unsigned group, struct group_text *text)
{
    const struct skew *skew = counter->skew ? &counter->skew[group] : NULL;

    if (!skew)
        return;
    if (__atomic_load_n(&counter->on, __ATOMIC_ACQUIRE)) {
        text->enabled_ns -= __atomic_load_n(&skew->enabled_ns, __ATOMIC_RELAXED);
        text->running_ns -= __atomic_load_n(&skew->running_ns, __ATOMIC_RELAXED);
    } else {
        text->enabled_ns = __atomic_load_n(&skew->kept_enabled_ns, __ATOMIC_RELAXED);
        text->running_ns = __atomic_load_n(&skew->kept_running_ns, __ATOMIC_RELAXED);
    }
}

/* 1 read, 0 nothing of it is on the hardware, -EIO. A child that is ending may not match: again. */
static int group_read(int fd, struct group_text *text, unsigned n)
{
    for (int i = 0; i < CHILD_TRIES; i++) {
        ssize_t got = read(fd, text, sizeof *text);

        if (got >= 0)
            return got >= (ssize_t)((3 + n) * sizeof(uint64_t)) ? 1 : got ? -EIO : 0;
        if (errno != ECHILD && errno != EINTR)
            break;
    }
    return -EIO;
}

static bool counter_is_on(const struct counter *counter)
{
    return __atomic_load_n(&counter->on, __ATOMIC_ACQUIRE);
}

/* After what a reader needs to know when it sees it. */
static void counter_set_on(struct counter *counter, bool on)
{
    __atomic_store_n(&counter->on, on, __ATOMIC_RELEASE);
}

/* The same for a pinned group, which may have lost its hardware: tried again once, else as last
 * known. */
static int pinned_read(struct counter *counter, unsigned group, struct group_text *text)
{
    struct group_last *last = counter_last(counter, group);
    int leader = counter_fds(counter, group)[0];
    int rc = group_read(leader, text, counter->n);

    if (!rc && counter_is_on(counter)) {
        ioctl(leader, PERF_EVENT_IOC_ENABLE, 0);
        rc = group_read(leader, text, counter->n);
    }
    if (rc > 0)
        last_keep(last, text, counter->n);
    else if (!rc)
        last_give(last, text, counter->n);
    return rc;
}

/* The time during which a group should have counted. */
static uint64_t witness_read(const struct counter *counter, unsigned group)
{
    struct {
        uint64_t value, enabled_ns, running_ns;
    } text;
    int fd = counter_fds(counter, group)[FD_WITNESS(counter->n)];

    return read(fd, &text, sizeof text) == sizeof text ? text.enabled_ns : 0;
}

/*
 * Copies in threads and children fail silently and stay off; when the gap has grown ENABLE on the
 * original revives them.
 */
static void gap_revive(struct counter *counter, unsigned group, uint64_t covered, uint64_t running)
{
    struct group_last *last = counter_last(counter, group);
    uint64_t gap = covered > running ? covered - running : 0;
    uint64_t known = __atomic_load_n(&last->gap_ns, __ATOMIC_RELAXED);

    if (counter->multiplex || gap < known + GAP_NS || !counter_is_on(counter))
        return;
    __atomic_store_n(&last->gap_ns, gap, __ATOMIC_RELAXED);
    ioctl(counter_fds(counter, group)[0], PERF_EVENT_IOC_ENABLE, 0);
}

/* What was found out is forgotten: it is tried again. */
static void verdicts_clear(struct counter *counter)
{
    for (unsigned i = 0; counter->hardware && i < counter->n_groups; i++)
        __atomic_store_n(&counter_last(counter, i)->off, false, __ATOMIC_RELAXED);
}

/*
 * A group whose original rests (its task sleeps) reads well, whatever happened to its copies: it is
 * off when the target ran for a while and the group did not. A read can take long: the time to
 * compare with next is that of now, not `covered`, when the witness said `witness` and the group
 * was not read yet.
 */
static bool copies_are_off(struct counter *counter, unsigned group, uint64_t covered,
                           uint64_t running, uint64_t witness)
{
    struct group_last *last = counter_last(counter, group);
    bool off = __atomic_load_n(&last->off, __ATOMIC_RELAXED) != 0;

    if (counter->multiplex || !counter_is_on(counter))
        return false;
    if (covered < __atomic_load_n(&last->judged_covered_ns, __ATOMIC_RELAXED) + GAP_NS)
        return off;
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

static void reading_add(const struct counter *counter, struct reading *out,
                        const struct group_text *text, uint64_t covered_ns)
{
    out->covered_ns += covered_ns;
    out->enabled_ns += text->enabled_ns;
    out->running_ns += text->running_ns;
    for (unsigned i = 0; i < counter->n; i++) {
        unsigned at = counter->order[i];

        out->value[at] += text->value[i];
        out->estimate[at] += scaled(text->value[i], text->enabled_ns, text->running_ns);
    }
}

static int hardware_read(struct counter *counter, unsigned group, struct reading *out)
{
    struct group_text text;
    uint64_t witness = witness_read(counter, group), covered = witness;
    int rc = pinned_read(counter, group, &text);
    if (rc < 0)
        return rc;
    if (counter->skew) {
        uint64_t enabled = text.enabled_ns;

        skew_apply(counter, group, &text);
        covered -= enabled - text.enabled_ns;
    }
    if (rc > 0)
        gap_revive(counter, group, covered, text.running_ns);
    reading_add(counter, out, &text, covered);
    return rc > 0 && copies_are_off(counter, group, covered, text.running_ns, witness) ? 0 : rc;
}

int perf_read(struct counter *counter, struct reading *out)
{
    struct group_text text;
    struct timespec now;
    unsigned off = 0;

    memset(out, 0, offsetof(struct reading, value));
    memset(out->value, 0, counter->n * sizeof out->value[0]);
    memset(out->estimate, 0, counter->n * sizeof out->estimate[0]);
    for (unsigned i = 0; i < counter->n_groups; i++) {
        int rc;

        if (counter->hardware) {
            rc = hardware_read(counter, i, out);
            off += rc == 0;
        } else {
            rc = group_read(counter_fds(counter, i)[0], &text, counter->n);
            if (rc > 0) {
                skew_apply(counter, i, &text);
                reading_add(counter, out, &text, text.enabled_ns);
            }
            rc = rc ? rc : -EIO;
        }
        if (rc < 0)
            return -EIO;
    }
    out->off = off && off == counter->n_groups && counter_is_on(counter);
    out->never_ran = out->enabled_ns && !out->running_ns;
    out->dropped = counter->covered && counter_dropped(counter);
    clock_gettime(CLOCK_MONOTONIC, &now);
    out->time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    return 0;
}

/* With hardware a third one, at most once in a millisecond of the target's time. */
unsigned perf_cost(const struct counter *counter)
{
    return counter->n_groups * (counter->hardware ? 2 : 1);
}

/* Armed at attach by enable_on_exec; a first start has nothing to do. */
static bool counter_is_armed(struct counter *counter)
{
    struct reading now;

    return counter->at_exec && (!counter->begun || perf_read(counter, &now) || !now.enabled_ns);
}

int perf_start(struct counter *counter, struct err *err)
{
    bool armed = counter_is_armed(counter), was_on = counter_is_on(counter);

    counter->begun = true;
    verdicts_clear(counter);
    if (!counter->skew)
        counter_set_on(counter, true);
    if (!armed && counter_switch(counter, true)) {
        counter_set_on(counter, was_on);
        return err_set(err, P14, "the kernel refused to start a counter of %u tasks or CPUs",
                       counter->n_groups);
    }
    if (!was_on)
        skew_start(counter);
    counter_set_on(counter, true); /* of a cgroup last: until then reads give the times kept */
    return 0;
}

int perf_stop(struct counter *counter)
{
    if (counter_is_on(counter))
        skew_stop(counter);
    counter_set_on(counter, false);
    return counter_switch(counter, false);
}

static bool counter_scope_is_process(const struct counter *counter)
{
    return counter->target.kind == TARGET_PROCESS || counter->target.kind == TARGET_THREAD;
}

static void counter_follow(const struct counter *counter)
{
    if (counter->listening)
        sideband_drain(counter->state->sideband);
}

static void counter_lock(const struct counter *counter)
{
    if (counter->listening)
        sideband_lock(counter->state->sideband);
}

static void counter_unlock(const struct counter *counter)
{
    if (counter->listening)
        sideband_unlock(counter->state->sideband);
}

void counter_processes(const struct counter *counter, void (*fn)(void *arg, pid_t pid), void *arg)
{
    counter_follow(counter);
    counter_lock(counter);
    covered_each(counter->covered, fn, arg);
    counter_unlock(counter);
}

void perf_facts_of(const struct counter *counter, struct counter_facts *out)
{
    bool process = counter_scope_is_process(counter);

    *out = (struct counter_facts){
        .threads = process ? counter->n_groups : 0,
        .descriptors = counter->n_groups * counter->per_group,
        .raced = counter->raced,
        .left_out = counter->left_out,
        .covered = process,
    };
    if (counter->covered) {
        counter_follow(counter);
        counter_lock(counter);
        out->covered = covered_count(counter->covered);
        counter_unlock(counter);
    }
}

bool perf_covers(struct counter *counter, pid_t pid)
{
    bool covers;

    if (!counter_scope_is_process(counter))
        return false;
    if (pid == counter->target.pid || !counter->covered)
        return pid == counter->target.pid;
    counter_follow(counter);
    counter_lock(counter);
    covers = covered_has(counter->covered, pid);
    counter_unlock(counter);
    return covers;
}

static void counter_release(struct counter *counter)
{
    watch_free(counter->watch);
    if (counter->listening)
        sideband_ignore(counter->state->sideband, &counter->listener);
    covered_free(counter->covered);
    __atomic_sub_fetch(&counter->state->n_counters, 1, __ATOMIC_RELAXED);
    free(counter->tasks);
    free(counter->fds);
    free(counter->last);
    free(counter->skew);
    free(counter);
}

void perf_forget(struct counter *counter)
{
    counter_release(counter);
}

void perf_free(struct counter *counter)
{
    size_t n = (size_t)counter->n_groups * counter->stride;
    int *fds = counter->fds;

    counter->fds = NULL;
    counter_release(counter); /* watches end before their descriptors do */
    while (n-- > 0)
        event_close(&fds[n]);
    free(fds);
}
