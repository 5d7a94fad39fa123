/*
 * Own groups of single threads: opened, switched, read at their end.
 */
#include "backends/perf/follow.h"

#include "backends/perf/code.h"
#include "backends/perf/recorder.h"
#include "backends/perf/sampling.h"
#include "backends/perf/steps.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    FOLLOW_BUCKETS = 256,
    BIRTHS_MAX = 4096 /* between two drains */
};

struct followed {
    struct followed *next; /* of the same bucket */
    pid_t pid, tid;
    uint64_t root;
    bool begun; /* it counts when the PMC is on: no exec is waited for */
    int fds[];  /* for each CPU: the leader, the events */
};

struct birth {
    pid_t pid, tid;
    bool begun;
};

struct follow {
    struct counter *counter;
    struct perf_event_attr *attr; /* the leader, the events in the group's order */
    unsigned members, n_cpus;
    int *cpu;
    uint64_t set;
    unsigned long most_fds;
    pthread_mutex_t lock; /* of what follows */
    bool on, armed;
    struct followed *bucket[FOLLOW_BUCKETS];
    unsigned n_fds;
    struct birth *births;
    size_t n_births, size_births;
};

bool follow_is_needed(const struct counter *counter, const struct plan *plan)
{
    bool tasks = counter->target.kind == TARGET_PROCESS || counter->target.kind == TARGET_THREAD;

    return tasks && counter->recorder && !counter->sampling && (plan->steps || plan->lasts) &&
           counter->extras[0] == EXTRA_DUMMY;
}

/* ---- who is followed ---- */

static struct followed **bucket_of(struct follow *follow, pid_t tid)
{
    return &follow->bucket[(unsigned)tid % FOLLOW_BUCKETS];
}

/* Where it hangs; *that is NULL when nobody has this number. */
static struct followed **followed_at(struct follow *follow, pid_t tid)
{
    struct followed **at = bucket_of(follow, tid);

    while (*at && (*at)->tid != tid)
        at = &(*at)->next;
    return at;
}

static void followed_link(struct follow *follow, struct followed *followed)
{
    struct followed **at = bucket_of(follow, followed->tid);

    followed->next = *at;
    *at = followed;
}

static struct birth *birth_of(struct follow *follow, pid_t tid)
{
    for (size_t i = 0; i < follow->n_births; i++)
        if (follow->births[i].tid == tid)
            return &follow->births[i];
    return NULL;
}

static unsigned follow_each(const struct follow *follow)
{
    return follow->members * follow->n_cpus;
}

/* Members before their leader. */
static void followed_close(const struct follow *follow, struct followed *followed)
{
    for (unsigned i = follow_each(follow); i-- > 0;)
        event_close(&followed->fds[i]);
}

/* ---- opening ---- */

static int group_of(const struct follow *follow, struct followed *followed, unsigned at)
{
    struct recorder *recorder = follow->counter->recorder;
    int *fds = &followed->fds[at * follow->members];
    unsigned cpu = (unsigned)follow->cpu[at];

    for (unsigned i = 0; i < follow->members; i++) {
        struct perf_event_attr attr = follow->attr[i];

        attr.enable_on_exec = i == 0 && !followed->begun;
        fds[i] = event_open(&attr, followed->tid, (int)cpu, i ? fds[0] : -1, 0);
        if (fds[i] < 0)
            return fds[i];
    }
    return recorder_redirect(recorder, fds[0], cpu);
}

static int group_learn(const struct follow *follow, struct followed *followed, unsigned at)
{
    struct id id = {
        .origin = follow->counter->origin, .cpu = (uint32_t)follow->cpu[at], .kind = ID_FOLLOW};

    if (ioctl(followed->fds[at * follow->members], PERF_EVENT_IOC_ID, &id.kernel))
        return -errno;
    if (!followed->root)
        followed->root = id.kernel;
    id.root = followed->root;
    return recorder_add_id(follow->counter->recorder, &id);
}

static int followed_learn(const struct follow *follow, struct followed *followed)
{
    int rc = 0;

    for (unsigned i = 0; i < follow->n_cpus && !rc; i++)
        rc = group_learn(follow, followed, i);
    return rc;
}

static void followed_unlearn(const struct follow *follow, struct followed *followed)
{
    for (unsigned i = 0; i < follow->n_cpus; i++) {
        int fd = followed->fds[i * follow->members];
        uint64_t kernel;

        if (fd >= 0 && !ioctl(fd, PERF_EVENT_IOC_ID, &kernel))
            recorder_drop_id(follow->counter->recorder, kernel);
    }
}

static void followed_switch(const struct follow *follow, struct followed *followed, bool on)
{
    for (unsigned i = 0; i < follow->n_cpus; i++)
        ioctl(followed->fds[i * follow->members],
              on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

static struct followed *followed_make(const struct follow *follow, pid_t pid, pid_t tid)
{
    unsigned n = follow_each(follow);
    struct followed *followed = malloc(sizeof *followed + n * sizeof followed->fds[0]);

    if (!followed)
        return NULL;
    *followed = (struct followed){.pid = pid, .tid = tid};
    for (unsigned i = 0; i < n; i++)
        followed->fds[i] = -1;
    return followed;
}

/* With the recorder's setup. False: it is executing a program, and has kept us waiting. */
static bool follow_open(struct follow *follow, pid_t pid, pid_t tid, bool begun)
{
    struct followed *followed;
    int rc = 0;

    if (follow->n_fds + follow_each(follow) > follow->most_fds)
        return true;
    followed = followed_make(follow, pid, tid);
    if (!followed)
        return true;
    followed->begun = begun;
    for (unsigned i = 0; i < follow->n_cpus && !rc; i++)
        rc = group_of(follow, followed, i);
    if (!rc)
        rc = followed_learn(follow, followed);
    if (rc) {
        pthread_mutex_lock(&follow->counter->recorder->lock);
        followed_unlearn(follow, followed);
        pthread_mutex_unlock(&follow->counter->recorder->lock);
        followed_close(follow, followed);
        free(followed);
        return rc != -ETIME;
    }
    pthread_mutex_lock(&follow->lock);
    if (follow->on && begun)
        followed_switch(follow, followed, true);
    followed_link(follow, followed);
    follow->n_fds += follow_each(follow);
    pthread_mutex_unlock(&follow->lock);
    return true;
}

void follow_newcomers(struct follow *follow)
{
    struct birth *births;
    size_t n;

    if (!follow)
        return;
    pthread_mutex_lock(&follow->lock);
    births = follow->births;
    n = follow->n_births;
    follow->births = NULL;
    follow->n_births = follow->size_births = 0;
    pthread_mutex_unlock(&follow->lock);
    for (size_t i = 0; i < n; i++)
        if (!follow_open(follow, births[i].pid, births[i].tid, births[i].begun))
            break; /* others would, too */
    free(births);
}

/* ---- records ---- */

static void follow_add_birth(struct follow *follow, const struct birth *birth)
{
    if (follow->n_births == follow->size_births) {
        size_t size = follow->size_births ? 2 * follow->size_births : 16;
        struct birth *births =
            size > BIRTHS_MAX ? NULL : realloc(follow->births, size * sizeof *births);

        if (!births)
            return;
        follow->births = births;
        follow->size_births = size;
    }
    follow->births[follow->n_births++] = *birth;
}

static void take_fork(struct follow *follow, const struct record_task *task)
{
    const struct followed *parent = *followed_at(follow, (pid_t)task->ptid);
    const struct birth *unborn = birth_of(follow, (pid_t)task->ptid);
    struct birth birth = {.pid = (pid_t)task->pid, .tid = (pid_t)task->tid};

    birth.begun = parent ? parent->begun : unborn ? unborn->begun : !follow->armed;
    follow_add_birth(follow, &birth);
}

/* What the kernel writes for a group with both times. */
struct group_values {
    uint64_t n, enabled_ns, running_ns;
    uint64_t value[1 + SET_MAX];
};

static void tell_last(const struct follow *follow, const struct followed *followed, unsigned at,
                      const struct record_task *task, struct steps *steps,
                      const struct intake *intake)
{
    const struct counter *counter = follow->counter;
    struct group_values now;
    uint64_t value[SET_MAX];
    ssize_t got = read(followed->fds[at * follow->members], &now, sizeof now);

    if (got < (ssize_t)((3 + follow->members) * sizeof(uint64_t)))
        return;
    for (unsigned i = 0; i < counter->n; i++)
        value[counter->order[i]] = now.value[1 + i];
    steps_take(steps,
               &(struct steps_sample){.pid = task->pid,
                                      .tid = task->tid,
                                      .cpu = (uint32_t)follow->cpu[at],
                                      .time = task->time,
                                      .root = followed->root,
                                      .set = follow->set,
                                      .end = true,
                                      .lower = true,
                                      .value = value},
               intake);
}

static void take_exit(struct follow *follow, const struct record_task *task, struct steps *steps,
                      const struct intake *intake)
{
    struct followed **at = followed_at(follow, (pid_t)task->tid), *followed = *at;
    struct birth *birth = birth_of(follow, (pid_t)task->tid);

    if (birth) /* too late */
        *birth = follow->births[--follow->n_births];
    if (!followed)
        return;
    for (unsigned i = 0; i < follow->n_cpus && steps; i++)
        tell_last(follow, followed, i, task, steps, intake);
    followed_unlearn(follow, followed);
    *at = followed->next;
    follow->n_fds -= follow_each(follow);
    followed_close(follow, followed);
    free(followed);
}

/* Who executes takes the number of its process; all its other threads have ended. */
static void take_exec(struct follow *follow, const struct record_comm *comm)
{
    struct followed **at = followed_at(follow, (pid_t)comm->pid), *followed = *at;
    struct birth *birth = birth_of(follow, (pid_t)comm->pid);

    for (size_t i = 0; i < FOLLOW_BUCKETS && !followed; i++) {
        for (at = &follow->bucket[i]; *at && (*at)->pid != (pid_t)comm->pid;)
            at = &(*at)->next;
        followed = *at;
    }
    if (followed && followed->tid != (pid_t)comm->pid) {
        *at = followed->next;
        followed->tid = (pid_t)comm->pid;
        followed_link(follow, followed);
    }
    if (followed)
        followed->begun = true;
    if (birth)
        birth->begun = true;
}

void follow_record(struct follow *follow, const struct record *record, struct steps *steps,
                   const struct intake *intake)
{
    if (!follow)
        return;
    pthread_mutex_lock(&follow->lock);
    if (record->type == RECORD_FORK)
        take_fork(follow, (const struct record_task *)record);
    else if (record->type == RECORD_EXIT)
        take_exit(follow, (const struct record_task *)record, steps, intake);
    else if (record->type == RECORD_COMM && record->misc & RECORD_EXECUTED)
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
    for (size_t i = 0; i < FOLLOW_BUCKETS && !(on && armed); i++) {
        for (struct followed *followed = follow->bucket[i]; followed; followed = followed->next) {
            followed->begun |= on;
            followed_switch(follow, followed, on);
        }
    }
    for (size_t i = 0; i < follow->n_births && on && !armed; i++)
        follow->births[i].begun = true;
    if (on)
        follow->armed = armed;
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

void follow_free(struct follow *follow)
{
    if (!follow)
        return;
    for (size_t i = 0; i < FOLLOW_BUCKETS; i++) {
        while (follow->bucket[i]) {
            struct followed *followed = follow->bucket[i];

            follow->bucket[i] = followed->next;
            followed_close(follow, followed);
            free(followed);
        }
    }
    pthread_mutex_destroy(&follow->lock);
    free(follow->births);
    free(follow->attr);
    free(follow->cpu);
    free(follow);
}

static struct follow *follow_make(struct counter *counter, const struct plan *plan,
                                  unsigned long most_fds)
{
    struct follow *follow = calloc(1, sizeof *follow);

    if (!follow)
        return NULL;
    follow->counter = counter;
    follow->members = 1 + counter->n;
    follow->set = plan->set;
    follow->most_fds = most_fds;
    follow->armed = plan->at_exec;
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

void follow_publish(struct counter *counter, struct follow *follow)
{
    pthread_mutex_lock(&counter->recorder->setup);
    pthread_mutex_lock(&counter->recorder->lock);
    counter->follow = follow;
    pthread_mutex_unlock(&counter->recorder->lock);
    pthread_mutex_unlock(&counter->recorder->setup);
}

struct follow *follow_new(struct counter *counter, const struct plan *plan, unsigned long most_fds)
{
    struct recorder *recorder = counter->recorder;
    struct follow *follow;

    pthread_mutex_lock(&recorder->setup);
    follow = follow_make(counter, plan, most_fds);
    for (unsigned i = 0; follow && i < counter->n_groups; i += counter->spread) {
        pid_t tid = counter->tasks[i].tid, pid = task_process(tid);

        if (pid)
            follow_open(follow, pid, tid, !plan->at_exec);
    }
    pthread_mutex_unlock(&recorder->setup);
    return follow;
}

struct again {
    struct follow *follow;
    bool begun;
};

static void process_again(void *arg, pid_t pid)
{
    const struct again *again = arg;
    char path[32];
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%d/task", pid);
    dir = opendir(path);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        pid_t tid = (pid_t)strtol(d->d_name, NULL, 10);

        if (tid > 0)
            follow_open(again->follow, pid, tid, again->begun);
    }
    if (dir)
        closedir(dir);
}

struct follow *follow_again(struct counter *counter, const struct plan *plan,
                            unsigned long most_fds)
{
    struct recorder *recorder = counter->recorder;
    struct again again = {.begun = !plan->at_exec || !counter_is_armed(counter)};

    pthread_mutex_lock(&recorder->setup);
    again.follow = follow_make(counter, plan, most_fds);
    if (again.follow) {
        again.follow->on = counter_is_on(counter);
        again.follow->armed = !again.begun;
        if (counter->target.kind == TARGET_THREAD)
            follow_open(again.follow, task_process(counter->target.tid), counter->target.tid,
                        again.begun);
        else
            perf_processes(counter, process_again, &again);
    }
    pthread_mutex_unlock(&recorder->setup);
    return again.follow;
}

unsigned long follow_most(const struct follow *follow)
{
    return follow ? follow->most_fds : 0;
}
