/*
 * perf_attach(): from a plan to a counter, for each kind of target. How the tasks of a process are
 * opened is in attach_scan.c.
 */
#include "backends/perf/attach/attach.h"

#include "backends/perf/count/follow.h"
#include "backends/perf/probe/why.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int attach_late(const struct attach *attach)
{
    const struct task *task;
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
        target_said(&attach->plan->target), attach->plan->attach_ms, open, n, attach->plan->n,
        attach->plan->n == 1 ? "" : "s");
}

int attach_in_time(const struct attach *attach)
{
    const int rc = census_saw_all(&attach->census, attach->err);

    if (rc)
        return rc;
    if (!attach->plan->deadline_ns || monotonic_ns() < attach->plan->deadline_ns)
        return 0;
    return attach_late(attach);
}

int attach_fits(const struct attach *attach, size_t groups, size_t others)
{
    unsigned long stay = attach->fds_used + groups * attach->shape->per_task, need = stay + others;
    char more[64] = "";

    if (stay > attach->plan->fds_quota)
        return err_set(attach->err, P11,
                       "needs %lu file descriptors, and the quota has %lu left (%s): detach "
                       "targets or use fewer events",
                       stay, attach->plan->fds_quota, attach->plan->fds_limit);
    if (need <= attach->plan->fds_free)
        return 0;
    if (others)
        snprintf(more, sizeof(more), ", and %zu while attaching", others);
    return err_set(attach->err, P10,
                   "needs %lu file descriptors (%zu threads or CPUs, %u for each%s), and %lu are "
                   "left: raise LimitNOFILE= of pmcfs.service, or count fewer events",
                   need, groups + attach->fds_used / attach->shape->per_task,
                   attach->shape->per_task, more, attach->plan->fds_free);
}

int attach_refused(const struct attach *attach, int code, const struct perf_event_attr *failed)
{
    const struct shape *shape = attach->shape;
    unsigned at = (unsigned)(failed - shape->attr);
    struct why why = {.code = -code,
                      .attr = failed,
                      .event = "the event that checks times",
                      .target = &attach->plan->target,
                      .member = at > (shape->flags ? shape->extra : 0) && at < shape->members};

    if (code == -ETIME)
        return attach_late(attach);
    if (shape_is_clock(shape, at))
        why.event = "the clock of the cgroup";
    else if (at < shape->extra)
        why.event = "the event that tells switches and ends";
    else if (at < shape->members)
        why.event = attach->plan->events[shape_place(shape, at - shape->extra)].event->written;
    return why_refused(attach->err, &why);
}

/* Did a descendant lose its events after they were opened, though it lives? */
static bool some_dropped(const struct census *census)
{
    const struct task *task;

    TAILQ_FOREACH (task, &census->tasks, along)
        if (task->state == TASK_OPEN && task->dead && task->tid == task->pid &&
            task->pid != census->plan->target.pid && process_lives(task->pid))
            return true;
    return false;
}

static int attach_cover(struct attach *attach, struct counter *counter)
{
    counter->dropped = some_dropped(&attach->census);
    counter->covered = covered_new(attach->state->sideband, counter, census_cover, &attach->census);
    return counter->covered ? 0 : err_set(attach->err, E32, "no memory for the covered processes");
}

static int attach_watch(struct attach *attach, struct counter *counter)
{
    int rc = counter_watch_exit(counter, false);

    if (rc)
        return err_set(attach->err, P14,
                       "cannot watch the target for its exit: %s (is the locked memory of pmcfs's "
                       "user used up? Give pmcfs CAP_IPC_LOCK)",
                       err_errno_name(rc));
    return 0;
}

/* From the tasks that are open, one group each. */
static int attach_harvest(struct attach *attach, struct counter *counter)
{
    const struct census *census = &attach->census;
    unsigned n = (unsigned)(attach->fds_used / counter->shape.per_task);
    const struct task *task;

    if (!counter_make_groups(counter, n * counter->shape.spread))
        return err_set(attach->err, E32, "no memory for %u groups of events", n);
    n = 0;
    TAILQ_FOREACH (task, &census->tasks, along) {
        if (task->state != TASK_OPEN)
            continue;
        memcpy(counter_group(counter, n), task->groups,
               (size_t)counter->shape.spread * counter->shape.stride * sizeof *task->groups);
        n += counter->shape.spread;
    }
    counter->raced = attach->raced;
    counter->left_out = census->left_out;
    return 0;
}

/* A process, or one thread of it. */
static int attach_tasks(struct attach *attach, struct counter *counter)
{
    struct census *census = &attach->census;
    const struct target_ref *target = &attach->plan->target;
    int rc = census_open(census, attach->state, attach->plan, attach->err);

    /* Asked after the directory is held: from here on it cannot be another process. */
    if (!rc && (census->task_dir < 0 || (target->alive && !target->alive(target->alive_arg))))
        rc = err_set(attach->err, X09, "process %d has just exited", target_said(target));
    if (!rc)
        rc = attach_tries(attach);
    if (!rc && (!attach->fds_used || (target->alive && !target->alive(target->alive_arg)))) {
        rc = err_set(attach->err, X09, "%s %d exited while it was being attached",
                     target->kind == TARGET_THREAD ? "thread" : "process", target_said(target));
        attach_close_all(attach);
    }
    if (!rc) {
        rc = attach_harvest(attach, counter);
        if (rc)
            attach_close_all(attach);
        else if (counter->descendants)
            rc = attach_cover(attach, counter);
    }
    if (!rc)
        rc = attach_watch(attach, counter);
    census_close(census);
    return rc;
}

/* One group for each CPU: of a CPU, or of a cgroup. */
static int attach_cpus(struct attach *attach, struct counter *counter)
{
    const struct target_ref *target = &attach->plan->target;
    const struct perf_event_attr *failed = NULL;
    const bool cgroup = target->kind == TARGET_CGROUP;
    struct cpus cpus;
    unsigned n = 0;
    int rc;

    cpus_init(&cpus);
    if (cgroup)
        attach->state->host->cpus_online(attach->state->host_state, &cpus);
    else
        cpus_add(&cpus, target->cpu);
    rc = attach_fits(attach, cpus_count(&cpus), 0);
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

/* Descriptors that may still be opened, and stay. */
static unsigned long attach_spare(const struct attach *attach)
{
    const struct plan *plan = attach->plan;
    unsigned long most = plan->fds_free < plan->fds_quota ? plan->fds_free : plan->fds_quota;

    return most > attach->fds_used ? most - attach->fds_used : 0;
}

static int output_refused(const struct counter *counter, int rc, struct err *err)
{
    if (rc == -ENOMEM)
        return err_set(err, E32, "no memory to record %u tasks or CPUs", counter->n_groups);
    return err_set(err, P14, "the kernel refused to record %u tasks or CPUs: %s", counter->n_groups,
                   err_errno_name(rc));
}

int perf_attach(struct backend_state *state, const struct plan *plan, struct counter **out,
                struct err *err)
{
    struct attach attach = {.state = state, .plan = plan, .err = err};
    struct counter *counter = counter_new(state, plan);
    int rc;

    *out = NULL;
    if (!counter)
        return err_set(err, E32, "no memory for a counter");
    attach.shape = &counter->shape;
    event_patience(plan->deadline_ns);
    rc = counter_scope_is_process(counter) ? attach_tasks(&attach, counter)
                                           : attach_cpus(&attach, counter);
    event_patience(0);
    if (!rc) {
        rc = output_begin(counter, plan, false);
        rc = rc ? output_refused(counter, rc, err) : 0;
    }
    if (rc) {
        perf_free(counter);
        return rc;
    }
    follow_begin(counter, plan, attach_spare(&attach) / 4);
    shape_opened(&counter->shape);
    *out = counter;
    return 0;
}
