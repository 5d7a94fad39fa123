/*
 * Opening the tasks of a process: list first, open, then decide newcomers by FORK records. A thread
 * that may have inherited is never opened: its creator is closed, which takes the events of what
 * has inherited from it as well, and all of them are opened one by one. After two such rounds, and
 * after two tries where the list itself is in doubt, the counter is marked `raced`. Before all that
 * it is tried without records, which mostly is enough: nothing was born, and nothing ended.
 */
#include "backends/perf/attach/attach.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    TRIES_MAX = 3,              /* the first one without records, where that can be */
    ROUNDS_MAX = 2,             /* of opening creators again, in one try */
    NEWCOMERS_MAX = 40,         /* of opening newcomers, in one try */
    LOOK_DESCRIPTORS = 4,       /* while it looks at tasks */
    BIRTH_LIMIT_NS = 100000000, /* a thread that may be making a child is waited for no longer */
    BIRTH_POLL_US = 200,
};

static void close_task(struct attach *attach, struct task *task)
{
    if (task->state != TASK_OPEN)
        return;
    groups_close(attach->shape, task->groups, attach->shape->spread);
    attach->fds_used -= attach->shape->per_task;
    task->state = TASK_WAITING;
}

void attach_close_all(struct attach *attach)
{
    struct task *task;

    TAILQ_FOREACH (task, &attach->census.tasks, along)
        close_task(attach, task);
}

/* 0 (also when it is gone: its state says so), or an error. */
static int open_task(struct attach *attach, struct task *task)
{
    const struct perf_event_attr *failed = NULL;
    int rc;

    if (!task->groups)
        task->groups = malloc((size_t)attach->shape->spread * attach->shape->stride * sizeof(int));
    if (!task->groups)
        return err_set(attach->err, E32, "no memory for the descriptors of a thread");
    task->begin_ns = monotonic_ns();
    rc = task_open(attach->shape, task->tid, task->groups, &failed);
    task->end_ns = monotonic_ns();
    if (rc == -ESRCH) {
        task->state = TASK_GONE;
        return 0;
    }
    if (rc)
        return attach_refused(attach, rc, failed);
    attach->fds_used += attach->shape->per_task;
    task->state = TASK_OPEN;
    task->confirmed = false;
    task->ran_ns = task->through_ns = 0;
    /* The number could have come to mean a thread of another process's. */
    if (!census_look(&attach->census, task)) {
        close_task(attach, task);
        task->state = TASK_GONE;
    }
    return 0;
}

static bool is_waiting(const struct task *task)
{
    return task->state == TASK_WAITING && !task->dead;
}

/* Opens all that have inherited nothing. *opened: some were. */
static int open_waiting(struct attach *attach, bool *opened)
{
    struct task *task;
    size_t waiting = 0;
    int rc;

    TAILQ_FOREACH (task, &attach->census.tasks, along)
        waiting += is_waiting(task);
    *opened = waiting > 0;
    rc = attach_fits(attach, waiting, LOOK_DESCRIPTORS);
    TAILQ_FOREACH (task, &attach->census.tasks, along) {
        if (!rc && is_waiting(task))
            rc = attach_in_time(attach);
        if (!rc && is_waiting(task))
            rc = open_task(attach, task);
    }
    return rc;
}

/* Closes the creators of those of which it is not known whether they have inherited: none of them
 * and of what was born below them has anything then. */
static void close_doubtful(struct attach *attach)
{
    struct tasks *tasks = &attach->census.tasks;
    struct task *task;

    TAILQ_FOREACH (task, tasks, along)
        if (task->state == TASK_UNSURE && !task->dead)
            close_task(attach, task->root);
    TAILQ_FOREACH (task, tasks, along)
        if (task->root && task->root->state == TASK_WAITING)
            task->born_ns = 0;
}

/*
 * Waits until what was opened is known to be through with what it made before; a child that it was
 * making then is told of by that time. False: it cannot be known, or there are newcomers.
 */
static bool await_births(struct attach *attach)
{
    struct task *task;

    if (!attach->births_end_ns)
        attach->births_end_ns = monotonic_ns() + BIRTH_LIMIT_NS;
    TAILQ_FOREACH (task, &attach->census.tasks, along) {
        while (task->state == TASK_OPEN && !task->dead && !task->through_ns) {
            census_look(&attach->census, task);
            if (task->through_ns)
                break;
            if (monotonic_ns() > attach->births_end_ns || attach_in_time(attach))
                return false;
            usleep(BIRTH_POLL_US);
        }
    }
    return true;
}

static void leave_process_out(struct attach *attach, pid_t pid)
{
    struct task *task;

    TAILQ_FOREACH (task, &attach->census.tasks, along) {
        if (task->pid != pid || task->state == TASK_GONE)
            continue;
        close_task(attach, task);
        task->state = TASK_OUT_ALONE;
    }
    attach->census.left_out++;
}

/*
 * A descendant may have executed a privileged program after admit() was asked and before it was
 * opened; one that does so later is taken away by the kernel.
 */
static void confirm_descendants(struct attach *attach)
{
    const struct plan *plan = attach->plan;
    struct task *task;
    pid_t asked = plan->target.pid;

    TAILQ_FOREACH (task, &attach->census.tasks, along) {
        if (!plan->admit || task->state != TASK_OPEN || task->confirmed)
            continue;
        task->confirmed = true;
        if (task->pid == plan->target.pid || task->pid == asked)
            continue;
        asked = task->pid;
        if (plan->admit(plan->admit_arg, asked) < 0 &&
            census_lives(&attach->census, task->pid, task->tid))
            leave_process_out(attach, asked);
    }
}

/* Opens newcomers until there are none. */
static int open_newcomers(struct attach *attach)
{
    bool opened = true;
    int rc = 0;

    for (int i = 0; opened && !rc && i < NEWCOMERS_MAX; i++) {
        attach->raced |= !await_births(attach);
        census_complete(&attach->census);
        rc = census_update(&attach->census, attach->err);
        if (!rc)
            rc = open_waiting(attach, &opened);
    }
    attach->raced |= opened;
    return rc;
}

/* Born while it was attached, and perhaps not counted. What is dead counts nothing any more. */
static bool some_doubtful(const struct census *census)
{
    const struct task *task;

    TAILQ_FOREACH (task, &census->tasks, along)
        if (!task->dead &&
            (task->state == TASK_UNSURE || (task->state == TASK_WAITING && task->creator)))
            return true;
    return false;
}

/* One whole attach. */
static int attach_try(struct attach *attach)
{
    struct census *census = &attach->census;
    bool opened;
    int rc = census_list(census, attach->err);

    attach->raced = false;
    attach->births_end_ns = 0;
    if (!rc)
        rc = open_waiting(attach, &opened);
    if (rc || attach->plan->target.kind == TARGET_THREAD)
        return rc;
    rc = open_newcomers(attach);
    for (int i = 0; i < ROUNDS_MAX && !rc && some_doubtful(census); i++) {
        attach->raced = false;
        close_doubtful(attach);
        rc = census_update(census, attach->err);
        if (!rc)
            rc = open_waiting(attach, &opened);
        if (!rc)
            rc = open_newcomers(attach);
    }
    if (!rc)
        confirm_descendants(attach);
    attach->raced |= census->undecided || some_doubtful(census);
    return rc ? rc : attach_in_time(attach);
}

int attach_tries(struct attach *attach)
{
    int rc = attach_try(attach);

    for (int i = 1; i < TRIES_MAX && !rc && attach->census.undecided; i++) {
        attach_close_all(attach);
        census_listen(&attach->census);
        census_clear(&attach->census);
        rc = attach_try(attach);
    }
    if (rc)
        attach_close_all(attach);
    return rc;
}
