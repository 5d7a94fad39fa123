/*
 * Opening the tasks of a process: list first, open, then decide newcomers by FORK records, until
 * nothing is open to doubt. A thread that may have inherited is never opened; where that cannot be
 * found out everything is closed and begun again, and after some tries what is left is marked
 * `raced`.
 */
#include "backends/look.h"
#include "backends/perf/attach.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    TRIES_MAX = 8,          /* whole attaches; the last one is lenient */
    ROUNDS_MAX = 400,       /* of opening newcomers, in one try */
    REOPENED_MAX = 200,     /* creators opened again, in one try */
    PROBE_DESCRIPTORS = 42, /* sharp.c, and a directory */
    /* After this long a birth that began before the opening is over. The creator may lose its CPU
     * in the middle: with 3 ms 6 of 200 attaches in an emulated machine missed a thread, with 12
     * none. */
    THREAD_BIRTH_NS = 12000000,
    PROCESS_BIRTH_NS = 20000000, /* the same, with the copying of memory */
    BIRTH_RUNS_NS = 3000000, /* if whoever runs had so much of a CPU meanwhile; on a loaded machine
                                a fork that waits takes longer, too */
    BIRTH_LIMIT_NS = 500000000, /* then nobody knows */
    BIRTH_POLL_US = 50,
    LENIENT_SHARE = 2, /* after this part of the time only a lenient try is left */
};

void attach_close_task(struct attach *attach, struct task *task)
{
    if (task->state != TASK_OPEN)
        return;
    groups_close(&attach->shape, task->fds, attach->shape.spread);
    attach->fds_used -= attach->shape.per_task;
    task->state = TASK_WAITING;
    task->sharp = false;
}

int attach_open_task(struct attach *attach, size_t i)
{
    struct task *task = &attach->census.tasks[i];
    const struct perf_event_attr *failed = NULL;
    int rc;

    if (!task->fds)
        task->fds = malloc((size_t)attach->shape.spread * attach->shape.stride * sizeof *task->fds);
    if (!task->fds)
        return err_set(attach->err, E32, "no memory for the descriptors of a thread");
    task->begin_ns = census_now_ns();
    rc = task_open(&attach->shape, task->tid, task->fds, &failed);
    task->end_ns = census_now_ns();
    if (rc == -ESRCH) {
        task->state = TASK_GONE;
        return 0;
    }
    if (rc)
        return attach_refused(attach, rc, failed);
    attach->fds_used += attach->shape.per_task;
    task->state = TASK_OPEN;
    task->sharp = task->settled = task->confirmed = false;
    task->ran_ns = 0;
    /* The number could have come to mean a thread of somebody else's. */
    if (!census_lives(&attach->census, task)) {
        attach_close_task(attach, task);
        task->state = TASK_GONE;
    }
    return 0;
}

static size_t count_waiting(const struct census *census)
{
    size_t n = 0;

    for (size_t i = 0; i < census->n; i++)
        n += census->tasks[i].state == TASK_WAITING && !census->tasks[i].dead;
    return n;
}

/* Opens all that have inherited nothing. *opened counts them. */
static int open_waiting(struct attach *attach, size_t *opened)
{
    struct census *census = &attach->census;
    int rc = attach_fits(attach, count_waiting(census), PROBE_DESCRIPTORS);

    for (size_t i = 0; i < census->n && !rc; i++) {
        const struct task *task = &census->tasks[i];

        if (task->state != TASK_WAITING || task->dead)
            continue;
        rc = attach_in_time(attach);
        if (!rc)
            rc = attach_open_task(attach, i);
        ++*opened;
    }
    return rc;
}

/* The creator of a living task of which it is not known whether it has inherited; or -1. */
static int find_doubtful(const struct census *census)
{
    for (size_t i = 0; i < census->n; i++)
        if (census->tasks[i].state == TASK_UNSURE && !census->tasks[i].dead)
            return census->tasks[i].root;
    return -1;
}

/* It is through with a child that it was making when it was opened. */
static bool birth_is_over(struct attach *attach, struct task *task)
{
    struct census *census = &attach->census;
    const uint64_t grace_ns = attach->plan->descendants ? PROCESS_BIRTH_NS : THREAD_BIRTH_NS;
    const uint64_t now_ns = census_now_ns();
    const uint64_t since_ns = now_ns > task->end_ns ? now_ns - task->end_ns : 0;
    enum birth birth;
    uint64_t ran_ns = 0;

    if (task->next_birth_ns != UINT64_MAX)
        return true;
    birth = census_makes_child(census, task);
    if (birth == BIRTH_RUNNING) {
        ran_ns = census_ran_ns(census, task);
        task->ran_ns = task->ran_ns ? task->ran_ns : ran_ns;
    }
    if (birth == BIRTH_NONE || since_ns <= grace_ns)
        return birth == BIRTH_NONE;
    if (birth == BIRTH_VFORK ||
        (birth == BIRTH_RUNNING && (ran_ns == UINT64_MAX || ran_ns - task->ran_ns > BIRTH_RUNS_NS)))
        return true;
    attach->raced |= since_ns > BIRTH_LIMIT_NS;
    return since_ns > BIRTH_LIMIT_NS;
}

/* In a look: one for all of them. */
static long births_run(void *arg)
{
    struct attach *attach = arg;
    struct census *census = &attach->census;
    bool over = true;

    for (size_t i = 0; i < census->n; i++) {
        struct task *task = &census->tasks[i];

        if (task->state != TASK_OPEN || task->sharp || task->settled || task->dead)
            continue;
        task->settled = birth_is_over(attach, task);
        over &= task->settled;
    }
    return over;
}

/* All tasks that were opened are known to be through with what they made before. */
static bool births_are_over(struct attach *attach)
{
    struct census *census = &attach->census;
    long over;

    census->look_fd = -1;
    over = look_at(births_run, attach);
    census->starved |= over == -EMFILE || over == -ENFILE;
    if (census->look_fd >= 0)
        close(census->look_fd);
    return over > 0;
}

/* Waits for that. 1 when newcomers turned up, 0 when all is over, or an error. */
static int await_births(struct attach *attach)
{
    struct census *census = &attach->census;

    for (;;) {
        bool over = births_are_over(attach);
        int rc = census_update(census, attach->err);

        if (!rc)
            rc = attach_in_time(attach);
        if (rc || census->undecided)
            return rc;
        if (count_waiting(census) || find_doubtful(census) >= 0)
            return 1;
        if (over)
            return 0;
        usleep(BIRTH_POLL_US);
    }
}

void attach_close_all(struct attach *attach)
{
    for (size_t i = 0; i < attach->census.n; i++)
        attach_close_task(attach, &attach->census.tasks[i]);
}

static void leave_process_out(struct attach *attach, pid_t pid)
{
    struct census *census = &attach->census;

    for (size_t i = 0; i < census->n; i++) {
        struct task *task = &census->tasks[i];

        if (task->pid != pid || task->state == TASK_GONE)
            continue;
        attach_close_task(attach, task);
        task->state = TASK_OUT_ALONE;
    }
    census->left_out++;
}

/*
 * A descendant may have executed a privileged program after admit() was asked and before it was
 * opened; one that does so later is taken away by the kernel. True: some were left out.
 */
static bool confirm_descendants(struct attach *attach)
{
    const struct plan *plan = attach->plan;
    struct census *census = &attach->census;
    pid_t asked = 0;
    bool left_out = false;

    for (size_t i = 0; i < census->n && plan->admit; i++) {
        struct task *task = &census->tasks[i];

        if (task->state != TASK_OPEN || task->confirmed)
            continue;
        task->confirmed = true;
        if (task->pid == plan->target.pid || task->pid == asked)
            continue;
        asked = task->pid;
        if (plan->admit(plan->admit_arg, asked) >= 0 || !census_lives(census, task))
            continue;
        leave_process_out(attach, asked);
        left_out = true;
    }
    return left_out;
}

/* One step after the first opening: 1 something was done, 0 nothing is left, or an error. */
static int attach_round(struct attach *attach)
{
    struct census *census = &attach->census;
    size_t opened = 0;
    int rc = census_update(census, attach->err);
    int doubtful = rc ? -1 : find_doubtful(census);

    if (rc || census->undecided)
        return rc;
    if (doubtful >= 0 && attach->reopened < REOPENED_MAX) {
        rc = attach_open_sharp(attach, (size_t)doubtful);
        return rc ? rc : 1;
    }
    if (doubtful >= 0)
        census->undecided = true;
    rc = open_waiting(attach, &opened);
    if (rc || opened)
        return rc ? rc : 1;
    census_complete(census);
    rc = census->undecided ? 0 : await_births(attach);
    return rc == 0 && !census->undecided && confirm_descendants(attach) ? 1 : rc;
}

/* Without FORK records: newcomers are seen, and cannot be judged. */
static int rescan_blindly(struct attach *attach)
{
    for (int i = 0; i < 2; i++)
        attach->raced |= !census_complete(&attach->census);
    confirm_descendants(attach);
    return attach_in_time(attach);
}

/* One whole attach. *again: something could not be decided. */
static int attach_try(struct attach *attach, bool *again)
{
    struct census *census = &attach->census;
    size_t opened = 0;
    int rc = census_list(census, attach->err);

    *again = false;
    attach->reopened = 0;
    if (!rc)
        rc = open_waiting(attach, &opened);
    if (!rc && !census->listening)
        return rescan_blindly(attach);
    for (int round = 0; !rc; round++) {
        rc = attach_in_time(attach);
        if (!rc)
            rc = attach_round(attach);
        if (rc != 1)
            break;
        rc = 0;
        census->undecided |= round == ROUNDS_MAX;
    }
    if (!rc && census->undecided && attach->lenient) {
        attach->raced = true;
        confirm_descendants(attach);
    } else if (!rc)
        *again = census->undecided;
    return rc;
}

int attach_tries(struct attach *attach)
{
    uint64_t begin = census_now_ns(), deadline = attach->plan->deadline_ns;
    uint64_t share = deadline > begin ? (deadline - begin) / LENIENT_SHARE : 0;
    bool again = true;
    int rc = 0;

    for (int i = 1; again && !rc; i++) {
        attach->lenient = i >= TRIES_MAX || (deadline && census_now_ns() > begin + share);
        rc = attach_try(attach, &again);
        rc = rc ? rc : census_saw_all(&attach->census, attach->err);
        if (rc || again) {
            attach_close_all(attach);
            census_clear(&attach->census);
        }
    }
    return rc;
}
