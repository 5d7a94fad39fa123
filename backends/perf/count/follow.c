/*
 * Groups of single threads: opened, switched, and read at the exit of their thread. The recorder's
 * lock protects all of this.
 */
#include "backends/perf/count/counter.h"

#include "backends/perf/record/recorder.h"
#include "backends/perf/record/sampling.h"
#include "backends/proc.h"

#include "core/base/clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    HELD_UP_NS = 1000000000 /* after a blocked open, no thread is opened for this time */
};

struct followed {
    UT_hash_handle hh;
    pid_t tid, pid; /* pid 0: not known */
    bool begun;     /* counts while the PMC is on; false: waits for an exec */
    uint64_t root;
    int groups[]; /* spread × stride */
};

struct follow {
    const struct origin *origin;
    struct shape shape; /* of a single thread */
    unsigned long most_fds;
    unsigned n_fds; /* atomic */
    bool on, armed;
    uint64_t again_ns; /* no thread is opened before this time; see HELD_UP_NS */
    struct followed *threads;
};

/* ---- one thread ---- */

static struct followed *followed_find(const struct follow *follow, pid_t tid)
{
    struct followed *thread;

    HASH_FIND_INT(follow->threads, &tid, thread);
    return thread;
}

/* Returns the group of the CPU shape.cpu[at]. */
static int *followed_group(const struct follow *follow, struct followed *thread, unsigned at)
{
    return &thread->groups[at * follow->shape.stride];
}

static struct followed *followed_make(struct follow *follow, pid_t tid, pid_t pid, bool begun)
{
    const size_t bytes = (size_t)follow->shape.spread * follow->shape.stride * sizeof(int);
    struct followed *thread = calloc(1, sizeof *thread + bytes);

    if (!thread)
        return NULL;
    thread->tid = tid;
    thread->pid = pid;
    thread->begun = begun;
    memset(thread->groups, -1, bytes);
    HASH_ADD_INT(follow->threads, tid, thread);
    if (hash_has(thread))
        return thread;
    free(thread);
    return NULL;
}

static void followed_free(struct follow *follow, struct followed *thread)
{
    uint64_t kernel;

    for (unsigned i = 0; i < follow->shape.spread; i++)
        if (!ioctl(GROUP_FDS(followed_group(follow, thread, i))[0], PERF_EVENT_IOC_ID, &kernel))
            recorder_drop_id(follow->origin->recorder, kernel);
    groups_close(&follow->shape, thread->groups, follow->shape.spread);
    __atomic_sub_fetch(&follow->n_fds, follow->shape.per_task, __ATOMIC_RELAXED);
    HASH_DEL(follow->threads, thread);
    free(thread);
}

static void followed_switch(const struct follow *follow, struct followed *thread, bool on)
{
    for (unsigned i = 0; i < follow->shape.spread; i++)
        ioctl(GROUP_FDS(followed_group(follow, thread, i))[0],
              on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

static void followed_open(struct follow *follow, pid_t tid, pid_t pid, bool begun)
{
    const struct perf_event_attr *failed;
    struct followed *thread;
    int rc;

    if (followed_find(follow, tid) || follow->n_fds + follow->shape.per_task > follow->most_fds ||
        monotonic_ns() < follow->again_ns || !(thread = followed_make(follow, tid, pid, begun)))
        return;
    __atomic_add_fetch(&follow->n_fds, follow->shape.per_task, __ATOMIC_RELAXED);
    follow->shape.attr[0].enable_on_exec = !begun;
    rc = task_open(&follow->shape, tid, thread->groups, &failed);
    if (rc == -ETIME) /* the thread is executing a program; other threads may be, too */
        follow->again_ns = monotonic_ns() + HELD_UP_NS;
    for (unsigned i = 0; i < follow->shape.spread && !rc; i++)
        rc = group_output(follow->origin, &follow->shape, followed_group(follow, thread, i), false,
                          &thread->root);
    if (rc)
        followed_free(follow, thread);
    else if (follow->on && begun)
        followed_switch(follow, thread, true);
}

/* ---- records ---- */

/* The thread that executes a program gets the TID of its process's first thread, which has
 * exited. */
static void follow_exec(struct follow *follow, const struct record_comm *comm)
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

/* Result of read() for a group with both times. */
struct group_values {
    uint64_t n, enabled_ns, running_ns;
    uint64_t value[EXTRAS_MAX + SET_MAX];
};

/* Puts a LAST record with the final values of one CPU's group. */
static void put_last(const struct follow *follow, struct followed *thread, const int *group,
                     const struct record_task *end, const struct intake *intake)
{
    const struct origin *origin = follow->origin;
    const struct shape *shape = &follow->shape;
    struct group_values now;
    uint64_t value[1 + SET_MAX] = {thread->root};
    ssize_t got = read(GROUP_FDS(group)[0], &now, sizeof now);

    if (got < (ssize_t)((3 + shape->members) * sizeof(uint64_t)))
        return;
    for (unsigned i = 0; i < shape->n; i++)
        value[1 + shape_place(shape, i)] = now.value[shape->extra + i];
    values_put(&(struct note){.misc = RECORD_LAST,
                              .time = end->time,
                              .pid = end->pid,
                              .tid = end->tid,
                              .cpu = (uint32_t)GROUP_CPU(group),
                              .id = LOG_ID(origin->set, 0),
                              .n = 1 + shape->n,
                              .value = value},
               intake);
}

/* Handles every FORK, EXIT and COMM record of the counter, before it is put. */
static void follow_take(struct follow *follow, const struct record *record,
                        const struct intake *intake)
{
    if (record->type == RECORD_FORK) {
        const struct record_task *fork = (const void *)record;
        const struct followed *parent = followed_find(follow, (pid_t)fork->ptid);

        followed_open(follow, (pid_t)fork->tid, (pid_t)fork->pid,
                      parent ? parent->begun : !follow->armed);
    } else if (record->type == RECORD_EXIT) {
        const struct record_task *end = (const void *)record;
        struct followed *thread = followed_find(follow, (pid_t)end->tid);

        for (unsigned i = 0; thread && i < follow->shape.spread; i++)
            put_last(follow, thread, followed_group(follow, thread, i), end, intake);
        if (thread)
            followed_free(follow, thread);
    } else if (record->type == RECORD_COMM && record->misc & RECORD_EXECUTED) {
        follow_exec(follow, (const void *)record);
    }
}

/* ---- start, stop, create, free ---- */

static struct follow *follow_of(const struct counter *counter)
{
    return counter->origin ? counter->origin->follow : NULL;
}

void follow_switch(const struct counter *counter, bool on, bool armed)
{
    struct follow *follow = follow_of(counter);

    if (!follow)
        return;
    pthread_mutex_lock(&counter->recorder->lock);
    follow->on = on;
    if (on)
        follow->armed = armed;
    for (struct followed *thread = follow->threads; thread && !(on && armed);
         thread = thread->hh.next) {
        thread->begun |= on;
        followed_switch(follow, thread, on);
    }
    pthread_mutex_unlock(&counter->recorder->lock);
}

/* Creates the shape of a single thread: the events of the plan, flexible, after a context switch
 * event that writes their values. Returns NULL on ENOMEM. */
static struct follow *follow_new(const struct counter *counter, const struct plan *plan)
{
    struct follow *follow = calloc(1, sizeof *follow);
    struct plan single = *plan;

    single.target.kind = TARGET_THREAD;
    single.multiplex = true;
    if (!follow || shape_make(&follow->shape, counter->state, &single)) {
        free(follow);
        return NULL;
    }
    follow->shape.hardware = follow->shape.exit_watch = false;
    follow->shape.per_task = follow->shape.members * follow->shape.spread;
    follow->shape.extras[0] = EXTRA_SWITCH;
    sampling_extra_attr(counter->state, EXTRA_SWITCH, follow->shape.attr);
    return follow;
}

void follow_begin(struct counter *counter, const struct plan *plan, unsigned long most_fds)
{
    struct tids tids = {.list = {.n = 0}};
    struct follow *follow;

    if (!counter->recorder || counter->sampling || !counter_scope_is_process(counter) ||
        counter->shape.extras[0] != EXTRA_DUMMY || (!plan->steps && !plan->lasts) ||
        !(follow = follow_new(counter, plan)))
        return;
    follow->origin = counter->origin;
    follow->most_fds = most_fds;
    follow->on = counter_is_on(counter);
    follow->armed = counter->at_exec && counter_is_armed(counter);
    pthread_mutex_lock(&counter->recorder->lock);
    counter->origin->follow_take = follow_take;
    counter->origin->follow = follow;
    counter_tids(counter, &tids);
    for (size_t i = 0; i < tids.list.n; i++)
        followed_open(follow, tids.list.items[i], proc_tgid(tids.list.items[i]), !follow->armed);
    pthread_mutex_unlock(&counter->recorder->lock);
    free(tids.list.items);
}

void follow_free(struct follow *follow)
{
    if (!follow)
        return;
    while (follow->threads)
        followed_free(follow, follow->threads);
    shape_free(&follow->shape);
    free(follow);
}

unsigned follow_fds(const struct counter *counter)
{
    const struct follow *follow = follow_of(counter);

    return follow ? __atomic_load_n(&follow->n_fds, __ATOMIC_RELAXED) : 0;
}

unsigned long follow_most(const struct counter *counter)
{
    const struct follow *follow = follow_of(counter);

    return follow ? follow->most_fds : 0;
}
