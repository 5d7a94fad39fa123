/*
 * perf_attach(): list first, open, then decide newcomers by FORK records, until nothing is open to
 * doubt. A thread that may have inherited is never opened; where that cannot be found out
 * everything is closed and begun again, and after some tries what is left is marked `raced`.
 */
#include "backends/perf/attach.h"

#include "backends/perf/watch.h"
#include "backends/perf/why.h"

#include <assert.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TRIES_MAX = 8,          /* whole attaches; the last one is lenient */
    ROUNDS_MAX = 400,       /* of opening newcomers, in one try */
    REOPENED_MAX = 200,     /* creators opened again, in one try */
    PROBE_DESCRIPTORS = 42, /* sharp.c, and a directory */
    THREAD_BIRTH_NS = 3000000,   /* after this long a birth that began before the opening is over */
    PROCESS_BIRTH_NS = 20000000, /* the same, with the copying of memory */
    BIRTH_POLL_US = 50,
    LENIENT_SHARE = 2,      /* after this part of the time only a lenient try is left */
};

int attach_in_time(const struct attach *attach)
{
    if (!attach->plan->deadline_ns || census_now_ns() < attach->plan->deadline_ns)
        return 0;
    return err_set(
        attach->err, P13,
        "attaching to process %d took longer than attach_ms: it makes threads faster than "
        "they can be opened, or is held up in an exec",
        attach->plan->target.pid);
}

int attach_fits(const struct attach *attach, size_t groups, size_t others)
{
    unsigned long need = attach->fds_used + groups * attach->shape.per_group + others;

    if (!attach->plan->fds_free || need <= attach->plan->fds_free)
        return 0;
    return err_set(attach->err, P10, "needs %lu descriptors, has %lu: %zu tasks or CPUs, %u each",
                   need, attach->plan->fds_free,
                   groups + attach->fds_used / attach->shape.per_group, attach->shape.per_group);
}

int attach_refused(const struct attach *attach, int code, const struct perf_event_attr *failed)
{
    const struct shape *shape = &attach->shape;
    size_t at = (size_t)(failed - shape->attr);
    struct why why = { .code = -code, .attr = failed, .event = "the witness of time",
                       .target = &attach->plan->target, .member = at > 0 && at < shape->n };

    if (at < shape->n)
        why.event = attach->plan->events[shape->order[at]].event->written;
    return why_refused(attach->err, &why);
}

void attach_close_task(struct attach *attach, struct task *task)
{
    if (task->state != TASK_OPEN)
        return;
    group_close(&attach->shape, task->fds);
    attach->fds_used -= attach->shape.per_group;
    task->state = TASK_WAITING;
    task->sharp = false;
}

int attach_open_task(struct attach *attach, size_t i)
{
    struct task *task = &attach->census.tasks[i];
    const struct perf_event_attr *failed = NULL;
    int rc;

    if (!task->fds)
        task->fds = malloc(attach->shape.stride * sizeof *task->fds);
    if (!task->fds)
        return err_set(attach->err, E32, "no memory for the descriptors of a thread");
    task->begin_ns = census_now_ns();
    rc = group_open(&attach->shape, task->tid, -1, task->fds, &failed);
    task->end_ns = census_now_ns();
    if (rc == -ESRCH) {
        task->state = TASK_GONE;
        return 0;
    }
    if (rc)
        return attach_refused(attach, rc, failed);
    attach->fds_used += attach->shape.per_group;
    task->state = TASK_OPEN;
    task->sharp = task->settled = false;
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

/* All tasks that were opened are known to be through with what they made before. */
static bool births_are_over(struct attach *attach)
{
    struct census *census = &attach->census;
    uint64_t grace = attach->plan->descendants ? PROCESS_BIRTH_NS : THREAD_BIRTH_NS;
    bool over = true;

    for (size_t i = 0; i < census->n; i++) {
        struct task *task = &census->tasks[i];

        if (task->state != TASK_OPEN || task->sharp || task->settled || task->dead)
            continue;
        task->settled = task->next_birth_ns != UINT64_MAX ||
                        census_now_ns() > task->end_ns + grace || !census_makes_child(census, task);
        over &= task->settled;
    }
    return over;
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

static void close_all(struct attach *attach)
{
    for (size_t i = 0; i < attach->census.n; i++)
        attach_close_task(attach, &attach->census.tasks[i]);
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
    return census->undecided ? 0 : await_births(attach);
}

/* Without FORK records: newcomers are seen, and cannot be judged. */
static int rescan_blindly(struct attach *attach)
{
    for (int i = 0; i < 2; i++)
        attach->raced |= !census_complete(&attach->census);
    return 0;
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
    if (!rc && census->undecided && attach->lenient)
        attach->raced = true;
    else if (!rc)
        *again = census->undecided;
    return rc;
}

static int attach_tries(struct attach *attach)
{
    uint64_t begin = census_now_ns(), deadline = attach->plan->deadline_ns;
    uint64_t share = deadline > begin ? (deadline - begin) / LENIENT_SHARE : 0;
    bool again = true;
    int rc = 0;

    for (int i = 1; again && !rc; i++) {
        attach->lenient = i >= TRIES_MAX || (deadline && census_now_ns() > begin + share);
        rc = attach_try(attach, &again);
        if (rc || again) {
            close_all(attach);
            census_clear(&attach->census);
        }
    }
    return rc;
}

struct cover {
    struct counter *counter;
    const struct census *census;
};

/*
 * With the sideband's lock: the set as of this moment; what comes after it is followed. Records
 * that the set was given before it was filled are in `incoming` too.
 */
static void cover_begin(void *arg)
{
    const struct cover *cover = arg;
    const struct census *census = cover->census;
    struct covered *covered = cover->counter->covered;

    covered_clear(covered);
    for (size_t i = 0; i < census->n; i++) {
        const struct task *task = &census->tasks[i];

        if ((task->state == TASK_OPEN || task->state == TASK_INHERITED) && !task->dead &&
            !covered_thread(covered, task->pid, 1))
            covered_doubt(covered);
    }
    covered_take(covered, census->incoming, census->n_incoming, census->lost);
}

static int attach_cover(struct attach *attach, struct counter *counter)
{
    struct sideband *sideband = attach->state->sideband;
    struct cover cover = { counter, &attach->census };

    counter->covered = covered_new();
    if (!counter->covered)
        return err_set(attach->err, E32, "no memory for the set of covered processes");
    counter->listener = (struct side_listener) { .take = covered_take, .arg = counter->covered,
                                                 .watched = true };
    counter->listening = sideband && !sideband_listen(sideband, &counter->listener);
    if (counter->listening && attach->census.listening) {
        sideband_sync(sideband, cover_begin, &cover);
        return 0;
    }
    cover_begin(&cover);
    covered_doubt(counter->covered);
    return 0;
}

static int attach_watch(struct attach *attach, struct counter *counter)
{
    int rc = 0;

    if (attach->shape.watch && counter->n_groups)
        counter->watch = watch_new(attach->state, counter->fds + FD_WATCH(counter->n),
                                   counter->stride, counter->n_groups,
                                   attach->state->sink->gone, counter->tag, &rc);
    if (rc)
        return err_set(attach->err, P14,
                       "the end of the target cannot be watched: %s (locked memory "
                       "of pmcfs's user used up? it needs CAP_IPC_LOCK)",
                       err_errno_name(rc));
    return 0;
}

/* From the tasks that are open, one group each. */
static int attach_harvest(struct attach *attach, struct counter *counter)
{
    const struct census *census = &attach->census;
    unsigned n = 0;

    for (size_t i = 0; i < census->n; i++)
        n += census->tasks[i].state == TASK_OPEN;
    if (!counter_make_groups(counter, n))
        return err_set(attach->err, E32, "no memory for %u groups of events", n);
    n = 0;
    for (size_t i = 0; i < census->n; i++) {
        struct task *task = &census->tasks[i];

        if (task->state != TASK_OPEN)
            continue;
        memcpy(counter_fds(counter, n), task->fds, counter->stride * sizeof *task->fds);
        counter->tasks[n++] = (struct counter_task) { task->tid, -1 };
    }
    counter->raced = attach->raced;
    counter->left_out = census->left_out;
    return 0;
}

static int attach_process(struct attach *attach, struct counter *counter)
{
    struct census *census = &attach->census;
    const struct target_ref *target = &attach->plan->target;
    int rc = census_open(census, attach->state, attach->plan, attach->err);

    if (rc)
        return rc;
    rc = attach_tries(attach);
    if (!rc && (!attach->fds_used || (target->alive && !target->alive(target->alive_arg)))) {
        rc = err_set(attach->err, X09, "process %d ended while it was being attached", target->pid);
        close_all(attach);
    }
    if (!rc) {
        rc = attach_harvest(attach, counter);
        if (rc)
            close_all(attach);
        else if (attach->plan->descendants)
            rc = attach_cover(attach, counter);
    }
    if (!rc)
        rc = attach_watch(attach, counter);
    census_close(census);
    return rc;
}

/* One group without a race: a thread, or a CPU of cpu or cgroup scope. */
static int attach_one(struct attach *attach, struct counter *counter, unsigned group, pid_t pid,
                      int cpu)
{
    const struct perf_event_attr *failed = NULL;
    int rc = group_open(&attach->shape, pid, cpu, counter_fds(counter, group), &failed);

    counter->tasks[group] = (struct counter_task) { cpu < 0 ? pid : -1, cpu };
    return rc ? attach_refused(attach, rc, failed) : 0;
}

static int attach_thread(struct attach *attach, struct counter *counter)
{
    const struct target_ref *target = &attach->plan->target;
    struct census held;
    int rc = census_open(&held, &(struct backend_state) { .sideband = NULL }, attach->plan,
                         attach->err);

    if (rc)
        return rc;
    rc = attach_fits(attach, 1, 0);
    if (!rc && !counter_make_groups(counter, 1))
        rc = err_set(attach->err, E32, "no memory");
    if (!rc)
        rc = attach_one(attach, counter, 0, target->tid, -1);
    if (!rc && (!census_lives(&held, &(struct task) { .tid = target->tid, .pid = target->pid }) ||
                (target->alive && !target->alive(target->alive_arg))))
        rc = err_set(attach->err, X09, "thread %d has just ended", target->tid);
    if (!rc)
        rc = attach_watch(attach, counter);
    census_close(&held);
    return rc;
}

static int attach_cpu(struct attach *attach, struct counter *counter)
{
    int rc = attach_fits(attach, 1, 0);

    if (!rc && !counter_make_groups(counter, 1))
        rc = err_set(attach->err, E32, "no memory");
    return rc ? rc : attach_one(attach, counter, 0, -1, (int)attach->plan->target.cpu);
}

static int attach_cgroup(struct attach *attach, struct counter *counter)
{
    struct cpus online;
    unsigned n = 0;
    int rc;

    cpus_init(&online);
    attach->state->host->cpus_online(attach->state->host_state, &online);
    rc = attach_fits(attach, cpus_count(&online), 0);
    if (!rc && !counter_make_groups(counter, cpus_count(&online)))
        rc = err_set(attach->err, E32, "no memory");
    for (int cpu = cpus_next(&online, 0); !rc && cpu >= 0; cpu = cpus_next(&online, cpu + 1))
        rc = attach_one(attach, counter, n++, attach->plan->target.cgroup_fd, cpu);
    cpus_free(&online);
    return rc;
}

static int first_cpu(const struct backend_state *state)
{
    struct cpus online;
    int cpu;

    cpus_init(&online);
    state->host->cpus_online(state->host_state, &online);
    cpu = cpus_next(&online, 0);
    cpus_free(&online);
    return cpu < 0 ? 0 : cpu;
}

int perf_attach(struct backend_state *state, const struct plan *plan, struct counter **out,
                struct err *err)
{
    static int (*const attach_kind[])(struct attach *, struct counter *) = {
        [TARGET_PROCESS] = attach_process,
        [TARGET_THREAD] = attach_thread,
        [TARGET_CPU] = attach_cpu,
        [TARGET_CGROUP] = attach_cgroup,
    };
    struct attach attach = { .state = state, .plan = plan, .err = err };
    struct counter *counter = NULL;
    int rc = -ENOMEM;

    if (!shape_make(&attach.shape, plan, first_cpu(state)))
        counter = counter_new(state, plan, &attach.shape);
    if (!counter)
        rc = err_set(err, E32, "no memory for a counter");
    else
        rc = attach_kind[plan->target.kind](&attach, counter);
    shape_free(&attach.shape);
    if (rc && counter)
        perf_free(counter);
    *out = rc ? NULL : counter;
    return rc;
}
