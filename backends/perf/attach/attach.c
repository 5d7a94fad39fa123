/*
 * perf_attach(): creates a counter from a plan and opens its groups, for each kind of target.
 */
#include "backends/perf/attach/census.h"
#include "backends/perf/probe/probe.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TRIES_MAX = 3,             /* the first one without records, unless with descendants */
    ROUNDS_MAX = 2,            /* rounds of opening creators again, in one try */
    NEWCOMERS_MAX = 40,        /* rounds of opening newcomers, in one try */
    LOOK_DESCRIPTORS = 4,      /* temporary descriptors of reads of /proc */
    FORK_LIMIT_NS = 100000000, /* longest wait for threads that may be creating a child */
    FORK_POLL_US = 200,
};

struct attach {
    struct backend_state *state;
    const struct plan *plan;
    struct err *err;
    const struct shape *shape; /* the counter's */
    struct census census;
    unsigned long fds_used;
    uint64_t forks_end_ns; /* latest end of await_forks(); 0: not set yet */
    bool raced;
};

/* Sets P13: the plan's deadline has passed. */
static int attach_refuse_timeout(const struct attach *attach)
{
    const struct census_task *task;
    size_t open = 0, n = 0;

    TAILQ_FOREACH (task, &attach->census.tasks, along) {
        open += task->state == TASK_OPEN;
        n++;
    }
    return err_set(
        attach->err, P13,
        "attaching to process %d took longer than attach_ms (%lu milliseconds): %zu of %zu threads "
        "were attached, %u event%s each, and now none is. Raise attach_ms in admin/tunables, "
        "unless the process creates threads endlessly or hangs in execve",
        target_number(&attach->plan->target), attach->plan->attach_ms, open, n, attach->plan->n,
        attach->plan->n == 1 ? "" : "s");
}

/* Returns 0, P13 if the plan's deadline has passed, or E32 or P10 for a shortage. */
static int attach_check_limits(const struct attach *attach)
{
    const int rc = err_shortage(attach->err, attach->census.shortage);

    if (rc)
        return rc;
    if (!attach->plan->deadline_ns || monotonic_ns() < attach->plan->deadline_ns)
        return 0;
    return attach_refuse_timeout(attach);
}

/* Returns 0, P11 if the descriptors of `groups` more tasks or CPUs exceed the owner's quota, or P10
 * if together with `others` (temporary descriptors) they exceed the free descriptors of pmcfs. */
static int attach_fits(const struct attach *attach, size_t groups, size_t others)
{
    unsigned long stay = attach->fds_used + groups * attach->shape->fds_per_task,
                  need = stay + others;
    char more[64] = "";

    if (stay > attach->plan->fds_quota)
        return err_set(attach->err, P11,
                       "the target needs %lu file descriptors, and the quota has %lu left (%s): "
                       "detach targets or use fewer events",
                       stay, attach->plan->fds_quota, attach->plan->fds_limit_name);
    if (need <= attach->plan->fds_left)
        return 0;
    if (others)
        snprintf(more, sizeof(more), ", and %zu while attaching", others);
    return err_set(
        attach->err, P10,
        "the target needs %lu file descriptors (%zu threads or CPUs, %u for each%s), and "
        "pmcfs has %lu left: raise LimitNOFILE= of pmcfs.service, or count fewer events",
        need, groups + attach->fds_used / attach->shape->fds_per_task, attach->shape->fds_per_task,
        more, attach->plan->fds_left);
}

/* Sets the error for an event that the kernel refused. code: -errno, failed: an element of
 * shape->attr. */
static int attach_refused(const struct attach *attach, int code,
                          const struct perf_event_attr *failed)
{
    const struct shape *shape = attach->shape;
    unsigned at = (unsigned)(failed - shape->attr);
    struct why why = {.code = -code,
                      .attr = failed,
                      .event = "the event that checks times",
                      .target = &attach->plan->target,
                      .member = at > (shape->flags ? shape->n_extras : 0) && at < shape->members};

    if (code == -ETIME)
        return attach_refuse_timeout(attach);
    if (shape_is_clock(shape, at))
        why.event = "the clock of the cgroup";
    else if (at < shape->n_extras)
        why.event = "the event that reports context switches and exits";
    else if (at < shape->members)
        why.event =
            attach->plan->events[shape_plan_event(shape, at - shape->n_extras)].event->written;
    return why_refused(attach->err, &why);
}

/*
 * ---- tasks of a process ----
 *
 * Tasks are listed and opened, then newcomers are decided by FORK records. A thread that may have
 * inherited events is not opened. Instead the task from which the events came is closed, which also
 * removes the inherited copies, and all of these tasks are opened one by one. If tasks are still
 * unsure after two such rounds, or the list is still undecided after two further tries, the counter
 * is marked `raced`. Without descendants the first try uses no records: enough if no task was
 * created or exited.
 */

static void close_task(struct attach *attach, struct census_task *task)
{
    if (task->state != TASK_OPEN)
        return;
    groups_close(attach->shape, task->groups, attach->shape->task_groups);
    attach->fds_used -= attach->shape->fds_per_task;
    task->state = TASK_WAITING;
}

static void attach_close_all(struct attach *attach)
{
    struct census_task *task;

    TAILQ_FOREACH (task, &attach->census.tasks, along)
        close_task(attach, task);
}

/* Opens a task; sets its state to TASK_OPEN, or TASK_GONE if it has exited. Returns 0 or an error.
 */
static int open_task(struct attach *attach, struct census_task *task)
{
    const struct perf_event_attr *failed = NULL;

    if (!task->groups)
        task->groups =
            malloc((size_t)attach->shape->task_groups * attach->shape->stride * sizeof(int));
    if (!task->groups)
        return err_nomem(attach->err);
    task->open_begin_ns = monotonic_ns();
    int rc = task_open(attach->shape, task->tid, task->groups, &failed);
    task->open_end_ns = monotonic_ns();
    if (rc == -ESRCH) {
        task->state = TASK_GONE;
        return 0;
    }
    if (rc)
        return attach_refused(attach, rc, failed);
    attach->fds_used += attach->shape->fds_per_task;
    task->state = TASK_OPEN;
    task->admit_repeated = false;
    task->ran_ns = task->inherits_from_ns = 0;
    /* The TID may belong to a thread of another process now. */
    if (!census_check_fork(&attach->census, task)) {
        close_task(attach, task);
        task->state = TASK_GONE;
    }
    return 0;
}

static bool is_waiting(const struct census_task *task)
{
    return task->state == TASK_WAITING && !task->dead;
}

/* Opens all tasks that have inherited nothing. Sets *opened if there was one. */
static int open_waiting(struct attach *attach, bool *opened)
{
    struct census_task *task;
    size_t waiting = 0;

    TAILQ_FOREACH (task, &attach->census.tasks, along)
        waiting += is_waiting(task);
    *opened = waiting > 0;
    int rc = attach_fits(attach, waiting, LOOK_DESCRIPTORS);
    TAILQ_FOREACH (task, &attach->census.tasks, along) {
        if (!rc && is_waiting(task))
            rc = attach_check_limits(attach);
        if (!rc && is_waiting(task))
            rc = open_task(attach, task);
    }
    return rc;
}

/*
 * Waits until no open task is still creating a child whose creation started before the open; the
 * FORK records of such children have been written then. Returns false after FORK_LIMIT_NS or the
 * deadline of the plan.
 */
static bool await_forks(struct attach *attach)
{
    struct census_task *task;

    if (!attach->forks_end_ns)
        attach->forks_end_ns = monotonic_ns() + FORK_LIMIT_NS;
    TAILQ_FOREACH (task, &attach->census.tasks, along) {
        while (task->state == TASK_OPEN && !task->dead && !task->inherits_from_ns) {
            census_check_fork(&attach->census, task);
            if (task->inherits_from_ns)
                break;
            if (monotonic_ns() > attach->forks_end_ns || attach_check_limits(attach))
                return false;
            usleep(FORK_POLL_US);
        }
    }
    return true;
}

/*
 * Calls admit() again: a descendant may have executed a privileged program between the first call
 * and the open. (After the open the kernel detaches the events at such an exec.) If admit()
 * refuses, leaves the process out and closes its tasks.
 */
static void admit_descendants_again(struct attach *attach)
{
    const struct plan *plan = attach->plan;
    struct census_task *task, *out;
    pid_t checked = plan->target.pid;

    TAILQ_FOREACH (task, &attach->census.tasks, along) {
        if (!plan->admit || task->state != TASK_OPEN || task->admit_repeated)
            continue;
        task->admit_repeated = true;
        if (task->pid == plan->target.pid || task->pid == checked)
            continue;
        checked = task->pid;
        if (plan->admit(plan->admit_arg, checked) >= 0 ||
            !census_task_exists(&attach->census, task->pid, task->tid))
            continue;
        TAILQ_FOREACH (out, &attach->census.tasks, along)
            if (out->pid == checked && out->state != TASK_GONE) {
                close_task(attach, out);
                out->state = TASK_OUT_ALONE;
            }
        attach->census.left_out++;
    }
}

/* Opens newcomers until no more are found, or marks the attach as raced after NEWCOMERS_MAX
 * rounds. */
static int open_newcomers(struct attach *attach)
{
    bool opened = true;
    int rc = 0;

    for (int i = 0; opened && !rc && i < NEWCOMERS_MAX; i++) {
        attach->raced |= !await_forks(attach);
        census_list_again(&attach->census);
        rc = census_update(&attach->census, attach->err);
        if (!rc)
            rc = open_waiting(attach, &opened);
    }
    attach->raced |= opened;
    return rc;
}

/* Returns true if a live task that was created during the attach may not be counted. */
static bool some_task_unsure(const struct census *census)
{
    const struct census_task *task;

    TAILQ_FOREACH (task, &census->tasks, along)
        if (!task->dead &&
            (task->state == TASK_UNSURE || (task->state == TASK_WAITING && task->creator)))
            return true;
    return false;
}

/* Lists and opens all tasks once. If the census is undecided then, call attach_close_all() and
 * census_clear() before the next try. */
static int attach_try(struct attach *attach)
{
    struct census *census = &attach->census;
    struct census_task *task;
    bool opened;
    int rc = census_list(census, attach->err);

    attach->raced = false;
    attach->forks_end_ns = 0;
    if (!rc)
        rc = open_waiting(attach, &opened);
    if (rc || attach->plan->target.kind == TARGET_THREAD)
        return rc;
    rc = open_newcomers(attach);
    for (int i = 0; i < ROUNDS_MAX && !rc && some_task_unsure(census); i++) {
        attach->raced = false;
        /* Close the tasks from which unsure tasks may have inherited events, which also removes the
         * inherited copies. Tasks with such copies become TASK_WAITING, because a created_ns of 0
         * is before any open. */
        TAILQ_FOREACH (task, &census->tasks, along)
            if (task->state == TASK_UNSURE && !task->dead)
                close_task(attach, task->events_from);
        TAILQ_FOREACH (task, &census->tasks, along)
            if (task->events_from && task->events_from->state == TASK_WAITING)
                task->created_ns = 0;
        rc = census_update(census, attach->err);
        if (!rc)
            rc = open_waiting(attach, &opened);
        if (!rc)
            rc = open_newcomers(attach);
    }
    if (!rc)
        admit_descendants_again(attach);
    attach->raced |= census->undecided || some_task_unsure(census);
    return rc ? rc : attach_check_limits(attach);
}

/* ---- targets ---- */

/* Moves the groups of all open tasks to the counter. */
static int attach_groups(struct attach *attach, struct counter *counter)
{
    const struct census *census = &attach->census;
    unsigned n = (unsigned)(attach->fds_used / counter->shape.fds_per_task);
    const struct census_task *task;

    if (!counter_make_groups(counter, n * counter->shape.task_groups))
        return err_nomem(attach->err);
    n = 0;
    TAILQ_FOREACH (task, &census->tasks, along) {
        if (task->state != TASK_OPEN)
            continue;
        memcpy(counter_group(counter, n), task->groups,
               (size_t)counter->shape.task_groups * counter->shape.stride * sizeof *task->groups);
        n += counter->shape.task_groups;
    }
    counter->raced = attach->raced;
    counter->left_out = census->left_out;
    return 0;
}

/* Attaches to a process or one thread of it. */
static int attach_tasks(struct attach *attach, struct counter *counter)
{
    struct census *census = &attach->census;
    const struct target_ref *target = &attach->plan->target;
    const struct census_task *task;
    int rc = census_open(census, attach->state, attach->plan, attach->err);

    /* Checked after task_dir was opened: from here on another process with this PID is noticed. */
    if (!rc && (census->task_dir < 0 || (target->alive && !target->alive(target->alive_arg))))
        rc = err_set(attach->err, X09, "process %d has just exited", target_number(target));
    if (!rc)
        rc = attach_try(attach);
    for (int i = 1; i < TRIES_MAX && !rc && census->undecided; i++) {
        attach_close_all(attach);
        census_listen(census);
        census_clear(census);
        rc = attach_try(attach);
    }
    if (!rc && (!attach->fds_used || (target->alive && !target->alive(target->alive_arg))))
        rc = err_set(attach->err, X09, "%s %d exited while it was being attached",
                     target->kind == TARGET_THREAD ? "thread" : "process", target_number(target));
    if (!rc)
        rc = attach_groups(attach, counter);
    if (rc)
        attach_close_all(attach);
    if (!rc && counter->descendants) {
        /* A descendant that lives after its EXIT record has lost its events since the open. */
        TAILQ_FOREACH (task, &census->tasks, along)
            counter->descendant_lost |= !counter->descendant_lost && task->state == TASK_OPEN &&
                                        task->dead && task->tid == task->pid &&
                                        task->pid != target->pid && process_lives(task->pid);
        counter->covered = covered_new(attach->state->sideband, counter, census_cover, census);
        rc = counter->covered ? 0 : err_nomem(attach->err);
    }
    if (!rc) {
        rc = counter_watch_exit(counter, false);
        if (rc)
            rc =
                err_set(attach->err, P14,
                        "cannot watch the target for its exit: %s (is the locked memory of pmcfs's "
                        "user used up? Give pmcfs CAP_IPC_LOCK)",
                        err_errno_name(rc));
    }
    census_close(census);
    return rc;
}

/* Attaches to a CPU, or to a cgroup with one group for each online CPU that can count the
 * events. */
static int attach_cpus(struct attach *attach, struct counter *counter)
{
    const struct target_ref *target = &attach->plan->target;
    const struct perf_event_attr *failed = NULL;
    const bool cgroup = target->kind == TARGET_CGROUP;
    struct cpus cpus = {0};
    unsigned n = 0;

    if (cgroup) {
        attach->state->host->cpus_online(attach->state->host_state, &cpus);
        plan_limit_cpus(attach->state, attach->plan, &cpus);
    } else {
        cpus_add(&cpus, target->cpu);
    }
    int rc = attach_fits(attach, cpus_count(&cpus), 0);
    if (!rc && !counter_make_groups(counter, cpus_count(&cpus)))
        rc = err_nomem(attach->err);
    for (int cpu = cpus_next(&cpus, 0); !rc && cpu >= 0; cpu = cpus_next(&cpus, cpu + 1), n++) {
        rc = group_open(attach->shape, cgroup ? target->cgroup_fd : -1, cpu,
                        counter_group(counter, n), &failed);
        if (rc)
            rc = attach_refused(attach, rc, failed);
    }
    cpus_free(&cpus);
    return rc;
}

int perf_attach(struct backend_state *state, const struct plan *plan, struct counter **out,
                struct err *err)
{
    struct attach attach = {.state = state, .plan = plan, .err = err};
    struct counter *counter = counter_new(state, plan);
    unsigned long most_fds = plan->fds_left < plan->fds_quota ? plan->fds_left : plan->fds_quota;

    *out = NULL;
    if (!counter)
        return err_nomem(err);
    attach.shape = &counter->shape;
    event_set_deadline(plan->deadline_ns);
    int rc = counter_is_of_task(counter) ? attach_tasks(&attach, counter)
                                         : attach_cpus(&attach, counter);
    event_set_deadline(0);
    if (!rc) {
        rc = output_begin(counter, plan, false);
        if (rc == -ENOMEM)
            rc = err_nomem(err);
        else if (rc)
            rc = err_set(
                err, P14,
                "the kernel refused to record %u tasks or CPUs: %s: try again, or write log=off",
                counter->n_groups, err_errno_name(rc));
    }
    if (rc) {
        perf_free(counter);
        return rc;
    }
    /* A quarter of the descriptors that are left may be used for single threads. */
    most_fds = most_fds > attach.fds_used ? most_fds - attach.fds_used : 0;
    follow_begin(counter, plan, most_fds / 4);
    shape_free_attrs(&counter->shape);
    *out = counter;
    return 0;
}
