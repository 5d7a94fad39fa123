/*
 * What /proc says about the tasks of a target: which are there, which are still there, and whether
 * one may be in a fork. Only files that can be read while the task executes a program.
 */
#include "backends/perf/attach/task_list.h"
#include "backends/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LATE_RECORD_TRIES = 40,
    LATE_RECORD_US = 100,
    /* CPU time that making a child takes at most; of a process, with the copying of memory */
    THREAD_RUNS_NS = 300000,
    PROCESS_RUNS_NS = 20000000,
    TASK_PATH_BYTES = 64
};

/* Beneath the target's own directory, or (for openat, the same) from the root. */
static void task_path(const struct census *census, pid_t pid, pid_t tid, const char *file,
                      char path[static TASK_PATH_BYTES])
{
    int n = 0;

    if (pid != census->plan->target.pid)
        n = snprintf(path, TASK_PATH_BYTES, "/proc/%d/task/", pid);
    snprintf(path + n, TASK_PATH_BYTES - (size_t)n, "%d/%s", tid, file);
}

bool census_lives(const struct census *census, pid_t pid, pid_t tid)
{
    char path[TASK_PATH_BYTES];

    task_path(census, pid, tid, "", path);
    return !faccessat(census->task_dir, path, F_OK, 0);
}

/* NULL also when it is gone; without a descriptor, or memory, that is noted. */
static char *task_text(struct census *census, pid_t pid, pid_t tid, const char *file)
{
    char path[TASK_PATH_BYTES], *text;

    task_path(census, pid, tid, file, path);
    text = proc_text_at(census->task_dir, path);
    census_note(census, text ? 0 : -errno);
    return text;
}

/* The threads of a process, in an array (free). */
static size_t threads_of(struct census *census, pid_t pid, pid_t **tids)
{
    char path[TASK_PATH_BYTES] = ".";
    size_t n = 0;
    int rc;

    if (pid != census->plan->target.pid)
        snprintf(path, sizeof path, "/proc/%d/task", pid);
    rc = proc_numbers(census->task_dir, path, tids, &n);
    census_note(census, rc);
    return rc < 0 ? 0 : n;
}

/* Then what is listed does not matter any more: the attach is refused. */
static bool is_late(const struct census *census)
{
    return census->plan->deadline_ns && monotonic_ns() >= census->plan->deadline_ns;
}

void census_listed(struct census *census, pid_t tid, pid_t pid, enum task_state state)
{
    if (!census_find(census, tid))
        census_add(census, &(struct task){.tid = tid, .pid = pid, .state = state, .asked = true});
}

/* Of one thread: behind all others, so that their own threads and children are listed later. */
static int list_children(struct census *census, pid_t pid, pid_t tid, struct err *err)
{
    char *text = task_text(census, pid, tid, "children"), *at, *end;
    int rc = 0;

    for (at = text; at && !rc; at = end) {
        pid_t child = (pid_t)strtol(at, &end, 10);
        enum task_state state;

        if (end == at || child <= 0)
            break;
        if (census_find(census, child))
            continue;
        rc = census_ask(census, child, &state, err);
        if (!rc)
            census_listed(census, child, child, state);
    }
    free(text);
    return rc;
}

/* Threads of one process, and its children. */
static int list_process(struct census *census, const struct task *leader, struct err *err)
{
    pid_t *tids = NULL;
    size_t n = threads_of(census, leader->pid, &tids);
    int rc = 0;

    for (size_t i = 0; i < n && !rc && !is_late(census); i++) {
        census_listed(census, tids[i], leader->pid, leader->state);
        if (census->plan->descendants)
            rc = list_children(census, leader->pid, tids[i], err);
    }
    free(tids);
    return rc ? rc : census_saw_all(census, err);
}

int census_list(struct census *census, struct err *err)
{
    const pid_t pid = census->plan->target.pid;
    struct task *task;
    int rc = 0;

    census->looked_at = 1;
    if (census->plan->target.kind == TARGET_THREAD) {
        census_listed(census, census->plan->target.tid, pid, TASK_WAITING);
        return 0;
    }
    census_listed(census, pid, pid, TASK_WAITING);
    /* What is found on the way stands behind it. */
    TAILQ_FOREACH (task, &census->tasks, along)
        if (!rc && task->tid == task->pid && task->state != TASK_OUT)
            rc = list_process(census, task, err);
    return rc;
}

/*
 * A thread that is not known. Its record may still be under way; without one it was skipped by the
 * first list, or its creator is held up just before the record.
 */
static void newcomer_await(struct census *census, pid_t tid, pid_t pid)
{
    for (int i = 0; i < LATE_RECORD_TRIES && census->listening; i++) {
        if (census_update(census, NULL) || census_find(census, tid) ||
            !census_lives(census, pid, tid))
            return;
        usleep(LATE_RECORD_US);
    }
    census->undecided = true;
}

static void process_complete(struct census *census, pid_t pid)
{
    pid_t *tids = NULL;
    size_t n = threads_of(census, pid, &tids);

    for (size_t i = 0; i < n; i++)
        if (!census_find(census, tids[i]))
            newcomer_await(census, tids[i], pid);
    if (!census->listening && !census->plan->descendants)
        census->undecided |= n != HASH_COUNT(census->by_tid);
    free(tids);
}

void census_complete(struct census *census)
{
    const struct task *leader;

    TAILQ_FOREACH (leader, &census->tasks, along)
        if (leader->tid == leader->pid && leader->state != TASK_OUT && !is_late(census))
            process_complete(census, leader->pid);
}

/* Has it used so much CPU time since this was asked first that a birth of before that is over? */
static bool ran_enough(struct census *census, struct task *task)
{
    char *text = task_text(census, task->pid, task->tid, "schedstat");
    const uint64_t ran_ns = text ? strtoull(text, NULL, 10) : 0;

    free(text);
    if (!task->ran_ns)
        task->ran_ns = ran_ns;
    return ran_ns - task->ran_ns > (census->plan->descendants ? PROCESS_RUNS_NS : THREAD_RUNS_NS);
}

/* What sleeps where a signal would wake it, or is stopped, is in no fork: those wait otherwise. */
bool census_look(struct census *census, struct task *task)
{
    char *text = task_text(census, task->pid, task->tid, "status");
    const bool gone = !text && proc_is_gone(-errno);
    const char *state = text ? proc_field(text, "State") : NULL;
    const bool busy = state && strchr("RD", *state);

    free(text);
    if (!busy || ran_enough(census, task))
        task->through_ns = monotonic_ns();
    return !gone;
}
