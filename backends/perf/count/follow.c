/*
 * Groups of single threads: opened, switched, and read at the exit of their thread. The threads are
 * a table of tasks (core/log/tasks.h), which FORK, EXIT and COMM records update. The recorder's
 * lock protects all of this.
 */
#include "backends/perf/count/counter.h"

#include "backends/perf/record/recorder.h"
#include "backends/perf/record/sampling.h"
#include "backends/proc.h"

#include "core/base/clock.h"
#include "core/log/tasks.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    HELD_UP_NS = 1000000000 /* after a blocked open, no thread is opened for this time */
};

/* A thread that is followed: the `own` of its struct task. */
struct followed {
    bool begun; /* counts while the PMC is on; false: waits for an exec */
    uint64_t root;
    int groups[]; /* task_groups × stride */
};

struct follow {
    const struct origin *origin;
    struct shape shape; /* of a single thread */
    unsigned long most_fds;
    unsigned n_fds; /* atomic */
    bool on, armed;
    uint64_t retry_ns; /* no thread is opened before this time; see HELD_UP_NS */
    struct tasks tasks;
    const struct intake *intake; /* while records are taken */
};

/* ---- one thread ---- */

/* Returns the group of the CPU shape.place[at]. */
static int *followed_group(const struct follow *follow, struct followed *thread, unsigned at)
{
    return &thread->groups[at * follow->shape.stride];
}

/* Closes the groups of a thread, which is removed from the table or cannot be followed. */
static void followed_close(void *arg, struct task *task)
{
    struct follow *follow = arg;
    struct followed *thread = task->own;
    uint64_t kernel;

    if (!thread)
        return;
    for (unsigned i = 0; i < follow->shape.task_groups; i++)
        if (!ioctl(GROUP_FDS(followed_group(follow, thread, i))[0], PERF_EVENT_IOC_ID, &kernel))
            recorder_drop_id(follow->origin->recorder, kernel);
    groups_close(&follow->shape, thread->groups, follow->shape.task_groups);
    __atomic_sub_fetch(&follow->n_fds, follow->shape.fds_per_task, __ATOMIC_RELAXED);
    task->own = NULL;
    free(thread);
}

static void followed_switch(const struct follow *follow, struct followed *thread, bool on)
{
    for (unsigned i = 0; i < follow->shape.task_groups; i++)
        ioctl(GROUP_FDS(followed_group(follow, thread, i))[0],
              on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

/* Opens the groups of a task, and starts them if the PMC is on and `begun`. Does nothing if task is
 * NULL or has groups. Without free descriptors or memory, for HELD_UP_NS after a blocked open, and
 * after any error the thread is not followed. */
static void followed_open(struct follow *follow, struct task *task, bool begun)
{
    const size_t bytes = (size_t)follow->shape.task_groups * follow->shape.stride * sizeof(int);
    const struct perf_event_attr *failed;
    struct followed *thread;

    if (!task || task->own || follow->n_fds + follow->shape.fds_per_task > follow->most_fds ||
        monotonic_ns() < follow->retry_ns || !(thread = calloc(1, sizeof *thread + bytes)))
        return;
    thread->begun = begun;
    memset(thread->groups, -1, bytes);
    task->own = thread;
    __atomic_add_fetch(&follow->n_fds, follow->shape.fds_per_task, __ATOMIC_RELAXED);
    follow->shape.attr[0].enable_on_exec = !begun;
    int rc = task_open(&follow->shape, (pid_t)task->tid, thread->groups, &failed);
    if (rc == -ETIME) /* the thread is executing a program; other threads may be, too */
        follow->retry_ns = monotonic_ns() + HELD_UP_NS;
    for (unsigned i = 0; i < follow->shape.task_groups && !rc; i++)
        rc = group_begin_output(follow->origin, &follow->shape, followed_group(follow, thread, i),
                                false, &thread->root);
    if (rc)
        followed_close(follow, task);
    else if (follow->on && begun)
        followed_switch(follow, thread, true);
}

/* ---- records ---- */

/* Result of read() for a group with both times. */
struct group_values {
    uint64_t n, enabled_ns, running_ns;
    uint64_t value[EXTRAS_MAX + SET_MAX];
};

/* A thread exited: puts one RECORD_VALUES with RECORD_LAST for each CPU's group, with its final
 * values. */
static void followed_end(void *arg, struct task *task, uint64_t time)
{
    const struct follow *follow = arg;
    const struct shape *shape = &follow->shape;
    struct followed *thread = task->own;
    uint64_t value[1 + SET_MAX];
    struct group_values now;

    for (unsigned i = 0; thread && i < shape->task_groups; i++) {
        const int *group = followed_group(follow, thread, i);

        if (read(GROUP_FDS(group)[0], &now, sizeof now) <
            (ssize_t)((3 + shape->members) * sizeof(uint64_t)))
            continue;
        value[0] = thread->root;
        for (unsigned k = 0; k < shape->n; k++)
            value[1 + shape_plan_event(shape, k)] = now.value[shape->n_extras + k];
        values_put(&(struct note){.misc = RECORD_LAST,
                                  .time = time,
                                  .pid = task->process->pid,
                                  .tid = task->tid,
                                  .cpu = (uint32_t)GROUP_CPU(group),
                                  .id = LOG_ID(follow->origin->set_number, 0),
                                  .n = 1 + shape->n,
                                  .value = value},
                   follow->intake);
    }
}

/* Called before a record of the counter is put, except samples and losses. Uses FORK, EXIT and, if
 * it is of an exec, COMM. */
static void follow_receive(struct follow *follow, const struct record *record,
                           const struct intake *intake)
{
    struct tasks *tasks = &follow->tasks;
    const struct task *task;

    follow->intake = intake;
    if (record->type == RECORD_FORK) {
        const struct record_task *fork = (const void *)record;

        task = tasks_find(tasks, fork->tid);
        if (task && task->own)
            return; /* follow_begin() listed it before its record was drained */
        task = tasks_find(tasks, fork->ptid);
        const struct followed *parent = task ? task->own : NULL;
        tasks_apply(tasks, record);
        followed_open(follow, tasks_find(tasks, fork->tid),
                      parent ? parent->begun : !follow->armed);
    } else if (record->type == RECORD_EXIT) {
        tasks_apply(tasks, record);
    } else if (record->type == RECORD_COMM && record->misc & RECORD_EXECUTED) {
        tasks_apply(tasks, record);
        task = tasks_find(tasks, ((const struct record_comm *)record)->tid);
        if (task && task->own)
            ((struct followed *)task->own)->begun = true;
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
    for (struct task *task = follow->tasks.threads; task && !(on && armed); task = task->hh.next) {
        struct followed *thread = task->own;

        if (!thread)
            continue;
        thread->begun |= on;
        followed_switch(follow, thread, on);
    }
    pthread_mutex_unlock(&counter->recorder->lock);
}

/* Makes the shape of a single thread: the events of the plan, flexible, after EXTRA_SWITCH, which
 * writes their values. Then opens the groups of the present threads. */
void follow_begin(struct counter *counter, const struct plan *plan, unsigned long most_fds)
{
    struct tids tids = {.list = {.n = 0}};
    struct plan single = *plan;
    struct follow *follow;

    if (!counter->recorder || counter->sampling || !counter_is_of_task(counter) ||
        counter->shape.extras[0] != EXTRA_DUMMY ||
        (!plan->values_at_switch && !plan->values_at_exit) || !(follow = calloc(1, sizeof *follow)))
        return;
    single.target.kind = TARGET_THREAD;
    single.multiplex = true;
    if (shape_make(&follow->shape, counter->state, &single)) {
        free(follow);
        return;
    }
    follow->shape.hardware = follow->shape.exit_watch = false;
    follow->shape.fds_per_task = follow->shape.members * follow->shape.task_groups;
    follow->shape.extras[0] = EXTRA_SWITCH;
    sampling_extra_attr(counter->state, EXTRA_SWITCH, follow->shape.attr);
    tasks_init(&follow->tasks);
    follow->tasks.thread_exited = followed_end;
    follow->tasks.thread_removed = followed_close;
    follow->tasks.arg = follow;
    follow->origin = counter->origin;
    follow->most_fds = most_fds;
    follow->on = counter_is_on(counter);
    follow->armed = counter->at_exec && counter_is_armed(counter);
    pthread_mutex_lock(&counter->recorder->lock);
    counter->origin->follow_receive = follow_receive;
    counter->origin->follow = follow;
    counter_tids(counter, &tids);
    for (size_t i = 0; i < tids.list.n; i++) {
        const pid_t tid = tids.list.items[i], pid = proc_tgid(tid);

        if (pid)
            followed_open(follow, tasks_thread(&follow->tasks, (uint32_t)pid, (uint32_t)tid, 0),
                          !follow->armed);
    }
    pthread_mutex_unlock(&counter->recorder->lock);
    free(tids.list.items);
}

void follow_free(struct follow *follow)
{
    if (!follow)
        return;
    tasks_free(&follow->tasks);
    shape_free(&follow->shape);
    free(follow);
}

unsigned follow_fds(const struct counter *counter)
{
    const struct follow *follow = follow_of(counter);

    return follow ? __atomic_load_n(&follow->n_fds, __ATOMIC_RELAXED) : 0;
}

unsigned long follow_max_fds(const struct counter *counter)
{
    const struct follow *follow = follow_of(counter);

    return follow ? follow->most_fds : 0;
}
