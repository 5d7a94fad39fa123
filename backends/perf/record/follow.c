/*
 * Own groups of single threads: opened, switched, read at their end.
 */
#include "backends/perf/record/follow.h"

#include "backends/perf/probe/code.h"
#include "backends/perf/probe/open.h"
#include "backends/perf/record/drain.h"
#include "backends/perf/record/sampling.h"

#include "core/base/clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    HELD_UP_NS = 1000000000 /* nothing is opened for so long after a thread that let us wait */
};

struct followed {
    UT_hash_handle hh;
    pid_t tid, pid; /* pid 0: not known */
    bool begun;     /* it counts when the PMC is on: no exec is waited for */
    uint64_t root;
    int fds[]; /* for each CPU: the leader, the events */
};

struct follow {
    const struct origin *origin;
    struct recorder *recorder;
    struct perf_event_attr *attr; /* the leader, the events in the group's order */
    unsigned members, n_cpus;
    unsigned long most_fds;
    unsigned n_fds; /* atomic */
    bool on, armed;
    uint64_t again_ns;
    struct followed *threads;
    unsigned cpu[];
};

/* ---- one thread ---- */

static struct followed *followed_find(const struct follow *follow, pid_t tid)
{
    struct followed *thread;

    HASH_FIND_INT(follow->threads, &tid, thread);
    return thread;
}

static unsigned follow_each(const struct follow *follow)
{
    return follow->members * follow->n_cpus;
}

/* One for each CPU. */
static int *leader_fd(const struct follow *follow, struct followed *thread, unsigned at)
{
    return &thread->fds[at * follow->members];
}

static struct followed *followed_make(struct follow *follow, pid_t tid, pid_t pid, bool begun)
{
    unsigned n = follow_each(follow);
    struct followed *thread = calloc(1, sizeof *thread + n * sizeof thread->fds[0]);

    if (!thread)
        return NULL;
    thread->tid = tid;
    thread->pid = pid;
    thread->begun = begun;
    for (unsigned i = 0; i < n; i++)
        thread->fds[i] = -1;
    HASH_ADD_INT(follow->threads, tid, thread);
    if (hash_has(thread))
        return thread;
    free(thread);
    return NULL;
}

/* The group of a CPU, known to the recorder. */
static int cpu_open(const struct follow *follow, struct followed *thread, unsigned at)
{
    int *fds = leader_fd(follow, thread, at), rc;
    struct id id = {
        .origin = (struct origin *)(uintptr_t)follow->origin,
        .cpu = follow->cpu[at],
        .kind = ID_SWITCH,
    };

    for (unsigned i = 0; i < follow->members; i++) {
        struct perf_event_attr attr = follow->attr[i];

        attr.enable_on_exec = i == 0 && !thread->begun;
        fds[i] = event_open(&attr, thread->tid, (int)follow->cpu[at], i ? fds[0] : -1, 0);
        if (fds[i] < 0)
            return fds[i];
    }
    rc = recorder_redirect(follow->recorder, fds[0], follow->cpu[at]);
    if (rc)
        return rc;
    if (ioctl(fds[0], PERF_EVENT_IOC_ID, &id.kernel))
        return -errno;
    if (!thread->root)
        thread->root = id.kernel;
    id.root = thread->root;
    return recorder_add_id(follow->recorder, &id);
}

/* Members before their leader. */
static void followed_free(struct follow *follow, struct followed *thread)
{
    for (unsigned i = 0; i < follow->n_cpus; i++) {
        int fd = *leader_fd(follow, thread, i);
        uint64_t kernel;

        if (fd >= 0 && !ioctl(fd, PERF_EVENT_IOC_ID, &kernel))
            recorder_drop_id(follow->recorder, kernel);
    }
    for (unsigned i = follow_each(follow); i-- > 0;)
        event_close(&thread->fds[i]);
    __atomic_sub_fetch(&follow->n_fds, follow_each(follow), __ATOMIC_RELAXED);
    HASH_DEL(follow->threads, thread);
    free(thread);
}

static void followed_switch(const struct follow *follow, struct followed *thread, bool on)
{
    for (unsigned i = 0; i < follow->n_cpus; i++)
        ioctl(*leader_fd(follow, thread, i), on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE,
              0);
}

static void followed_open(struct follow *follow, pid_t tid, pid_t pid, bool begun)
{
    struct followed *thread;
    int rc = 0;

    if (followed_find(follow, tid) || follow->n_fds + follow_each(follow) > follow->most_fds ||
        monotonic_ns() < follow->again_ns)
        return;
    thread = followed_make(follow, tid, pid, begun);
    if (!thread)
        return;
    __atomic_add_fetch(&follow->n_fds, follow_each(follow), __ATOMIC_RELAXED);
    for (unsigned i = 0; i < follow->n_cpus && !rc; i++)
        rc = cpu_open(follow, thread, i);
    if (rc == -ETIME) /* it is executing a program; others may, too */
        follow->again_ns = monotonic_ns() + HELD_UP_NS;
    if (rc)
        followed_free(follow, thread);
    else if (follow->on && begun)
        followed_switch(follow, thread, true);
}

void follow_thread(struct follow *follow, pid_t tid, pid_t pid)
{
    followed_open(follow, tid, pid, !follow->armed);
}

/* ---- records ---- */

static void take_fork(struct follow *follow, const struct record_task *fork)
{
    const struct followed *maker = followed_find(follow, (pid_t)fork->ptid);

    followed_open(follow, (pid_t)fork->tid, (pid_t)fork->pid,
                  maker ? maker->begun : !follow->armed);
}

/* The thread that executes takes the number of its process's first thread, which has ended. */
static void take_exec(struct follow *follow, const struct record_comm *comm)
{
    const pid_t tid = (pid_t)comm->tid;
    struct followed *thread = followed_find(follow, tid);

    for (struct followed *at = follow->threads; at && !thread; at = at->hh.next)
        if (at->pid == (pid_t)comm->pid)
            thread = at;
    if (!thread)
        return;
    thread->begun = true;
    if (thread->tid == tid)
        return;
    HASH_DEL(follow->threads, thread);
    thread->tid = tid;
    HASH_ADD_INT(follow->threads, tid, thread);
}

/* The words that the kernel writes for a group with both times. */
struct group_values {
    uint64_t n, enabled_ns, running_ns;
    uint64_t value[1 + SET_MAX];
};

static void tell_last(const struct follow *follow, struct followed *thread, unsigned at,
                      const struct record_task *end, const struct intake *intake)
{
    const struct origin *origin = follow->origin;
    struct group_values now;
    uint64_t value[1 + SET_MAX] = {thread->root};
    ssize_t got = read(*leader_fd(follow, thread, at), &now, sizeof now);

    if (got < (ssize_t)((3 + follow->members) * sizeof(uint64_t)))
        return;
    for (unsigned i = 0; i < origin->n; i++)
        value[1 + origin->order[i]] = now.value[1 + i];
    values_put(&(struct note){.misc = RECORD_LAST,
                              .time = end->time,
                              .pid = end->pid,
                              .tid = end->tid,
                              .cpu = follow->cpu[at],
                              .id = LOG_ID(origin->set, 0),
                              .n = 1 + origin->n,
                              .value = value},
               intake);
}

static void take_exit(struct follow *follow, const struct record_task *end,
                      const struct intake *intake)
{
    struct followed *thread = followed_find(follow, (pid_t)end->tid);

    if (!thread)
        return;
    for (unsigned i = 0; i < follow->n_cpus; i++)
        tell_last(follow, thread, i, end, intake);
    followed_free(follow, thread);
}

void follow_record(struct follow *follow, const struct record *record, const struct intake *intake)
{
    if (!follow)
        return;
    if (record->type == RECORD_FORK)
        take_fork(follow, (const void *)record);
    else if (record->type == RECORD_EXIT)
        take_exit(follow, (const void *)record, intake);
    else if (record->type == RECORD_COMM && record->misc & RECORD_EXECUTED)
        take_exec(follow, (const void *)record);
}

/* ---- switched, made and freed ---- */

void follow_switch(struct follow *follow, bool on, bool armed)
{
    follow->on = on;
    if (on)
        follow->armed = armed;
    if (on && armed)
        return;
    for (struct followed *thread = follow->threads; thread; thread = thread->hh.next) {
        thread->begun |= on;
        followed_switch(follow, thread, on);
    }
}

static void follow_attrs(const struct follow *follow, const struct plan *plan)
{
    sampling_extra_attr(follow->recorder->state, EXTRA_SWITCH, &follow->attr[0]);
    follow->attr[0].disabled = 1;
    for (unsigned i = 0; i < follow->origin->n; i++) {
        const struct plan_event *event = &plan->events[follow->origin->order[i]];
        struct perf_event_attr *attr = &follow->attr[1 + i];

        code_to_attr(event->event, event->user, event->kernel, attr);
        attr->read_format = follow->attr[0].read_format;
        sampling_clock(attr);
    }
}

struct follow *follow_new(const struct origin *origin, const struct plan *plan, bool on, bool armed,
                          unsigned long most_fds)
{
    struct recorder *recorder = origin->recorder;
    struct follow *follow = calloc(1, sizeof *follow + recorder->n_rings * sizeof follow->cpu[0]);

    if (!follow)
        return NULL;
    follow->origin = origin;
    follow->recorder = recorder;
    follow->members = 1 + origin->n;
    follow->most_fds = most_fds;
    follow->on = on;
    follow->armed = armed;
    follow->attr = calloc(follow->members, sizeof *follow->attr);
    if (!follow->attr) {
        free(follow);
        return NULL;
    }
    for (unsigned i = 0; i < recorder->n_rings; i++)
        follow->cpu[follow->n_cpus++] = recorder->rings[i].cpu;
    follow_attrs(follow, plan);
    return follow;
}

void follow_free(struct follow *follow)
{
    if (!follow)
        return;
    while (follow->threads)
        followed_free(follow, follow->threads);
    free(follow->attr);
    free(follow);
}

unsigned follow_fds(const struct follow *follow)
{
    return follow ? __atomic_load_n(&follow->n_fds, __ATOMIC_RELAXED) : 0;
}

unsigned long follow_most(const struct follow *follow)
{
    return follow ? follow->most_fds : 0;
}
