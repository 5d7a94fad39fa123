/*
 * Own groups of single threads: opened, switched, read at their end. A table of tasks
 * (core/tasks.h) says which threads there are.
 */
#include "backends/perf/follow.h"

#include "backends/perf/drain.h"
#include "backends/perf/probe/code.h"
#include "backends/perf/sampling.h"

#include "core/base/vec.h"
#include "core/log/tasks.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    BIRTHS_MAX = 4096 /* between two drains */
};

/* What belongs to a thread: struct task.own. */
struct followed {
    uint64_t root; /* 0: it is not open yet */
    bool begun;    /* it counts when the PMC is on: no exec is waited for */
    int fds[];     /* for each CPU: the leader, the events */
};

struct follow {
    struct counter *counter;
    struct recorder *recorder;
    struct perf_event_attr *attr; /* the leader, the events in the group's order */
    unsigned members, n_cpus;
    int *cpu;
    uint64_t set;
    unsigned long most_fds;
    pthread_mutex_t lock; /* of what follows */
    bool on, armed;
    struct tasks tasks;
    unsigned n_fds;
    VEC(pid_t) births;           /* threads to be opened */
    const struct intake *intake; /* of the call at work */
};

bool follow_is_needed(const struct counter *counter, const struct plan *plan)
{
    bool tasks = counter->target.kind == TARGET_PROCESS || counter->target.kind == TARGET_THREAD;

    return tasks && counter->recorder && !counter->sampling && (plan->steps || plan->lasts) &&
           counter->extras[0] == EXTRA_DUMMY;
}

/* Descriptors of a thread. */
static unsigned follow_each(const struct follow *follow)
{
    return follow->members * follow->n_cpus;
}

/* ---- one thread ---- */

static struct followed *followed_make(const struct follow *follow, bool begun)
{
    unsigned n = follow_each(follow);
    struct followed *followed = calloc(1, sizeof *followed + n * sizeof followed->fds[0]);

    if (!followed)
        return NULL;
    followed->begun = begun;
    for (unsigned i = 0; i < n; i++)
        followed->fds[i] = -1;
    return followed;
}

static int cpu_open(const struct follow *follow, struct followed *followed, pid_t tid, unsigned at)
{
    int *fds = &followed->fds[at * follow->members];
    unsigned cpu = (unsigned)follow->cpu[at];

    for (unsigned i = 0; i < follow->members; i++) {
        struct perf_event_attr attr = follow->attr[i];

        attr.enable_on_exec = i == 0 && !followed->begun;
        fds[i] = event_open(&attr, tid, (int)cpu, i ? fds[0] : -1, 0);
        if (fds[i] < 0)
            return fds[i];
    }
    return recorder_redirect(follow->recorder, fds[0], cpu);
}

static int cpu_learn(const struct follow *follow, struct followed *followed, unsigned at)
{
    struct id id = {
        .origin = follow->counter->origin, .cpu = (uint32_t)follow->cpu[at], .kind = ID_SWITCH};

    if (ioctl(followed->fds[at * follow->members], PERF_EVENT_IOC_ID, &id.kernel))
        return -errno;
    if (!followed->root)
        followed->root = id.kernel;
    id.root = followed->root;
    return recorder_add_id(follow->recorder, &id);
}

/* With the recorder's lock. Members before their leader. */
static void followed_free(const struct follow *follow, struct followed *followed)
{
    for (unsigned i = 0; i < follow->n_cpus; i++) {
        int fd = followed->fds[i * follow->members];
        uint64_t kernel;

        if (fd >= 0 && !ioctl(fd, PERF_EVENT_IOC_ID, &kernel))
            recorder_drop_id(follow->recorder, kernel);
    }
    for (unsigned i = follow_each(follow); i-- > 0;)
        event_close(&followed->fds[i]);
    free(followed);
}

static void followed_switch(const struct follow *follow, struct followed *followed, bool on)
{
    for (unsigned i = 0; i < follow->n_cpus && followed->root; i++)
        ioctl(followed->fds[i * follow->members],
              on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

/* The groups of a thread, known to the recorder. NULL: not followed; *rc says why. */
static struct followed *followed_open(struct follow *follow, pid_t tid, bool begun, int *rc)
{
    struct followed *followed = followed_make(follow, begun);

    *rc = followed ? 0 : -ENOMEM;
    for (unsigned i = 0; i < follow->n_cpus && !*rc; i++)
        *rc = cpu_open(follow, followed, tid, i);
    for (unsigned i = 0; i < follow->n_cpus && !*rc; i++)
        *rc = cpu_learn(follow, followed, i);
    if (!*rc || !followed)
        return followed;
    pthread_mutex_lock(&follow->recorder->lock);
    followed_free(follow, followed);
    pthread_mutex_unlock(&follow->recorder->lock);
    return NULL;
}

/* With the lock: is this thread to be opened, and as one that has begun? */
static bool is_wanted(const struct follow *follow, pid_t tid, bool *begun)
{
    const struct task *task = tasks_find(&follow->tasks, (uint32_t)tid);
    const struct followed *followed = task ? task->own : NULL;

    *begun = followed && followed->begun;
    return followed && !followed->root && follow->n_fds + follow_each(follow) <= follow->most_fds;
}

/* With the recorder's setup. False: it is executing a program, and has kept us waiting. */
static bool follow_open(struct follow *follow, pid_t tid)
{
    struct followed *opened;
    struct task *task;
    bool begun, wanted;
    int rc;

    pthread_mutex_lock(&follow->lock);
    wanted = is_wanted(follow, tid, &begun);
    pthread_mutex_unlock(&follow->lock);
    opened = wanted ? followed_open(follow, tid, begun, &rc) : NULL;
    if (!opened)
        return !wanted || rc != -ETIME;
    pthread_mutex_lock(&follow->recorder->lock);
    pthread_mutex_lock(&follow->lock);
    task = tasks_find(&follow->tasks, (uint32_t)tid);
    if (task && is_wanted(follow, tid, &begun)) {
        opened->begun |= begun;
        free(task->own);
        task->own = opened; /* it knows its descriptors */
        follow->n_fds += follow_each(follow);
        if (follow->on && opened->begun)
            followed_switch(follow, opened, true);
    } else {
        followed_free(follow, opened);
    }
    pthread_mutex_unlock(&follow->lock);
    pthread_mutex_unlock(&follow->recorder->lock);
    return true;
}

void follow_newcomers(struct follow *follow)
{
    pid_t *births;
    size_t n;

    if (!follow)
        return;
    pthread_mutex_lock(&follow->lock);
    births = follow->births.items;
    n = follow->births.n;
    follow->births.items = NULL;
    follow->births.n = follow->births.cap = 0;
    pthread_mutex_unlock(&follow->lock);
    for (size_t i = 0; i < n; i++)
        if (!follow_open(follow, births[i]))
            break; /* others would, too */
    free(births);
}

/* ---- records ---- */

/* With the lock. */
static void follow_add(struct follow *follow, struct task *task, bool begun)
{
    if (!task || task->own || follow->births.n >= BIRTHS_MAX ||
        vec_push(&follow->births, (pid_t)task->tid))
        return;
    task->own = followed_make(follow, begun);
}

static void take_fork(struct follow *follow, const struct record_task *fork)
{
    const struct task *maker = tasks_find(&follow->tasks, fork->ptid);
    const struct followed *made_by = maker ? maker->own : NULL;

    follow_add(follow, tasks_find(&follow->tasks, fork->tid),
               made_by ? made_by->begun : !follow->armed);
}

static void take_exec(struct follow *follow, const struct record_comm *comm)
{
    const struct task *task = tasks_find(&follow->tasks, comm->tid);

    if (task && task->own)
        ((struct followed *)task->own)->begun = true;
}

/* What the kernel writes for a group with both times. */
struct group_values {
    uint64_t n, enabled_ns, running_ns;
    uint64_t value[1 + SET_MAX];
};

static void tell_last(const struct follow *follow, const struct task *task, unsigned at,
                      uint64_t time)
{
    const struct counter *counter = follow->counter;
    const struct followed *followed = task->own;
    struct group_values now;
    uint64_t value[1 + SET_MAX] = {followed->root};
    ssize_t got = read(followed->fds[at * follow->members], &now, sizeof now);

    if (got < (ssize_t)((3 + follow->members) * sizeof(uint64_t)))
        return;
    for (unsigned i = 0; i < counter->n; i++)
        value[1 + counter->order[i]] = now.value[1 + i];
    values_put(&(struct note){.misc = RECORD_LAST,
                              .time = time,
                              .pid = task->process->pid,
                              .tid = task->tid,
                              .cpu = (uint32_t)follow->cpu[at],
                              .id = LOG_ID(follow->set, 0),
                              .n = 1 + counter->n,
                              .value = value},
               follow->intake);
}

static void task_ended(void *arg, struct task *task, uint64_t time)
{
    const struct follow *follow = arg;
    const struct followed *followed = task->own;

    for (unsigned i = 0; followed && followed->root && i < follow->n_cpus; i++)
        tell_last(follow, task, i, time);
}

static void task_freed(void *arg, struct task *task)
{
    struct follow *follow = arg;
    struct followed *followed = task->own;

    if (!followed)
        return;
    follow->n_fds -= followed->root ? follow_each(follow) : 0;
    followed_free(follow, followed);
}

void follow_record(struct follow *follow, const struct record *record, const struct intake *intake)
{
    bool executed = record->type == RECORD_COMM && record->misc & RECORD_EXECUTED;

    if (!follow || (record->type != RECORD_FORK && record->type != RECORD_EXIT && !executed))
        return;
    pthread_mutex_lock(&follow->lock);
    follow->intake = intake;
    tasks_take(&follow->tasks, record);
    if (record->type == RECORD_FORK)
        take_fork(follow, (const struct record_task *)record);
    else if (executed)
        take_exec(follow, (const struct record_comm *)record);
    pthread_mutex_unlock(&follow->lock);
}

/* ---- switching ---- */

void follow_switch(struct follow *follow, bool on, bool armed)
{
    if (!follow)
        return;
    pthread_mutex_lock(&follow->lock);
    follow->on = on;
    if (on)
        follow->armed = armed;
    for (struct task *task = follow->tasks.threads; task && !(on && armed); task = task->hh.next) {
        struct followed *followed = task->own;

        if (!followed)
            continue;
        followed->begun |= on;
        followed_switch(follow, followed, on);
    }
    pthread_mutex_unlock(&follow->lock);
}

unsigned follow_fds(struct follow *follow)
{
    unsigned n = 0;

    if (follow) {
        pthread_mutex_lock(&follow->lock);
        n = follow->n_fds;
        pthread_mutex_unlock(&follow->lock);
    }
    return n;
}

/* ---- made and freed ---- */

static void follow_attrs(struct follow *follow, const struct plan *plan)
{
    const struct counter *counter = follow->counter;

    sampling_extra_attr(counter->state, EXTRA_SWITCH, &follow->attr[0]);
    follow->attr[0].disabled = 1;
    for (unsigned i = 0; i < counter->n; i++) {
        const struct plan_event *event = &plan->events[counter->order[i]];

        code_to_attr(event->event, event->user, event->kernel, &follow->attr[1 + i]);
        follow->attr[1 + i].read_format = follow->attr[0].read_format;
        sampling_clock(&follow->attr[1 + i]);
    }
}

/* Without system calls, nothing open. NULL: no memory. */
static struct follow *follow_make(struct counter *counter, const struct plan *plan)
{
    struct follow *follow = calloc(1, sizeof *follow);

    if (!follow)
        return NULL;
    follow->counter = counter;
    follow->recorder = counter->recorder;
    follow->members = 1 + counter->n;
    follow->set = plan->set;
    follow->on = counter_is_on(counter);
    follow->armed = plan->at_exec && counter_is_armed(counter);
    tasks_init(&follow->tasks);
    follow->tasks.ended = task_ended;
    follow->tasks.freed = task_freed;
    follow->tasks.arg = follow;
    follow->attr = calloc(follow->members, sizeof *follow->attr);
    follow->cpu = calloc(counter->recorder->n_cpus + 1, sizeof *follow->cpu);
    pthread_mutex_init(&follow->lock, NULL);
    if (!follow->attr || !follow->cpu) {
        follow_free(follow);
        return NULL;
    }
    for (unsigned i = 0; i < counter->recorder->n_rings; i++)
        follow->cpu[follow->n_cpus++] = (int)counter->recorder->rings[i].cpu;
    follow_attrs(follow, plan);
    return follow;
}

pid_t task_process(pid_t tid)
{
    char path[40], line[128];
    pid_t pid = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/status", tid);
    file = fopen(path, "re");
    while (file && !pid && fgets(line, sizeof line, file))
        if (sscanf(line, "Tgid: %d", &pid) != 1)
            pid = 0;
    if (file)
        fclose(file);
    return pid;
}

static void thread_there(struct follow *follow, pid_t pid, pid_t tid)
{
    if (pid > 0 && tid > 0)
        follow_add(follow, tasks_thread(&follow->tasks, (uint32_t)pid, (uint32_t)tid, 0),
                   !follow->armed);
}

static void process_there(void *arg, pid_t pid)
{
    char path[32];
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%d/task", pid);
    dir = opendir(path);
    for (struct dirent *d; dir && (d = readdir(dir));)
        thread_there(arg, pid, (pid_t)strtol(d->d_name, NULL, 10));
    if (dir)
        closedir(dir);
}

void follow_begin(struct counter *counter, const struct plan *plan, unsigned long most_fds)
{
    const struct target_ref *target = &counter->target;
    struct recorder *recorder = counter->recorder;
    struct follow *follow;

    pthread_mutex_lock(&recorder->setup);
    follow = follow_make(counter, plan);
    if (follow) {
        follow->most_fds = most_fds;
        if (target->kind == TARGET_THREAD)
            thread_there(follow, task_process(target->tid), target->tid);
        else
            perf_processes(counter, process_there, follow);
        follow_newcomers(follow);
    }
    pthread_mutex_lock(&recorder->lock);
    counter->follow = follow;
    pthread_mutex_unlock(&recorder->lock);
    pthread_mutex_unlock(&recorder->setup);
}

unsigned long follow_most(const struct follow *follow)
{
    return follow ? follow->most_fds : 0;
}

void follow_free(struct follow *follow)
{
    if (!follow)
        return;
    pthread_mutex_lock(&follow->recorder->lock);
    tasks_free(&follow->tasks);
    pthread_mutex_unlock(&follow->recorder->lock);
    pthread_mutex_destroy(&follow->lock);
    free(follow->births.items);
    free(follow->attr);
    free(follow->cpu);
    free(follow);
}
