/*
 * A counter as one line of text for a reload, and its restoration from that line: "perf EVENTS
 * GROUPS raced left_out on begun MOST_FDS GROUP…" (follow_max_fds()). The descriptors stay open
 * with the same numbers. State that changes with each record or read is not in the text but is
 * collected again: covered processes, followed threads, groups that lost their hardware counters.
 */
#include "backends/perf/attach/census.h"
#include "backends/proc.h"
#include "core/base/arena.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void perf_print(const struct counter *counter, struct buf *out)
{
    buf_printf(out, "perf %u %u %u %u %u %u %lu", counter->shape.n, counter->n_groups,
               counter->raced, counter->left_out, __atomic_load_n(&counter->on, __ATOMIC_RELAXED),
               counter->was_started, follow_max_fds(counter));
    for (unsigned i = 0; i < counter->n_groups; i++) /* GROUP is "TID CPU FD FD…" */
        for (unsigned k = 0; k < counter->shape.stride; k++)
            buf_printf(out, " %d", counter_group(counter, i)[k]);
}

/* Reads a number and removes it from the text. Returns false if there is none. */
static bool number_scan(const char **text, int *number)
{
    char *end;

    *number = (int)strtol(*text, &end, 10);
    if (end == *text)
        return false;
    *text = end;
    return true;
}

/*
 * Reads the numbers of all groups, and sets the number of groups of a task as printed: since they
 * were opened, the kernel may have added or removed CPUs in the list of a core PMU. Version 0.2
 * opened the groups of a cgroup without a clock event, and printed four time values after each
 * group, which are ignored. Returns false if the number of numbers is wrong, if tasks have
 * different numbers of groups, or on ENOMEM.
 */
static bool groups_scan(struct counter *counter, unsigned n_groups, const char *text)
{
    struct shape *shape = &counter->shape;
    unsigned n = 0, times = 0, per_task = 1;
    int number;

    for (const char *at = text; number_scan(&at, &number);)
        n++;
    if (shape->has_clock && n != n_groups * shape->stride) {
        shape_drop_clock(shape);
        times = n == n_groups * (shape->stride + 4) ? 4 : 0;
    }
    const unsigned per_group = shape->stride + times;
    if (n != n_groups * per_group || !counter_make_groups(counter, n_groups))
        return false;
    for (unsigned i = 0; i < n; i++) {
        number_scan(&text, &number);
        if (i % per_group < shape->stride)
            counter_group(counter, i / per_group)[i % per_group] = number;
    }
    if (counter_is_of_task(counter) && n_groups) {
        while (per_task < n_groups &&
               GROUP_TID(counter_group(counter, per_task)) == GROUP_TID(counter_group(counter, 0)))
            per_task++;
        shape->fds_per_task += shape->members * per_task;
        shape->fds_per_task -= shape->members * shape->task_groups;
        shape->task_groups = per_task;
    }
    return n_groups % shape->task_groups == 0;
}

/* Collects the covered processes: the target, the processes that were attached, and their
 * descendants. */
static int counter_cover(struct counter *counter, const struct plan *plan)
{
    struct census census;
    struct err err = {0};
    struct census_task *task;
    int rc = census_open(&census, counter->state, plan, &err);

    for (unsigned i = 0; i < counter->n_groups; i += counter->shape.task_groups) {
        const pid_t pid = proc_tgid(GROUP_TID(counter_group(counter, i)));

        if (pid > 0)
            census_add_listed(&census, pid, pid, TASK_OPEN);
    }
    census.lost |= rc || census_list(&census, &err);
    TAILQ_FOREACH (task, &census.tasks, along) {
        task->state = TASK_OPEN;
        task->dead = !census_task_exists(&census, task->pid, task->tid);
    }
    counter->covered = covered_new(counter->state->sideband, counter, census_cover, &census);
    census_close(&census);
    return counter->covered ? 0 : -ENOMEM;
}

int perf_adopt(struct backend_state *state, const struct plan *plan, const char *printed,
               struct counter **out)
{
    struct counter *counter = counter_new(state, plan);
    unsigned n_events, n_groups, raced, on, begun;
    unsigned long most_fds;
    int used = 0, rc = 0;

    *out = NULL;
    if (!counter)
        return -ENOMEM;
    if (sscanf(printed, "perf %u %u %u %u %u %u %lu%n", &n_events, &n_groups, &raced,
               &counter->left_out, &on, &begun, &most_fds, &used) != 7 ||
        n_events != counter->shape.n || n_groups > 1u << 24)
        rc = -EINVAL;
    if (!rc) {
        counter->raced = raced;
        counter->on = on;
        counter->was_started = begun;
        rc = groups_scan(counter, n_groups, printed + used) ? 0 : -EINVAL;
    }
    for (unsigned i = 0; !rc && i < counter->n_groups; i++)
        for (unsigned k = 0; k < counter->shape.members + 2; k++)
            if (counter_fds(counter, i)[k] >= 0 && !fd_keep(counter_fds(counter, i)[k]))
                rc = -EBADF; /* not open */
    if (!rc && counter->descendants)
        rc = counter_cover(counter, plan);
    if (!rc)
        rc = counter_watch_exit(counter, true);
    if (!rc)
        rc = output_begin(counter, plan, true);
    if (!rc && counter_is_on(counter))
        rc = output_track(counter);
    if (rc) {
        perf_forget(counter);
        return rc;
    }
    follow_begin(counter, plan, most_fds);
    shape_free_attrs(&counter->shape);
    *out = counter;
    return 0;
}
