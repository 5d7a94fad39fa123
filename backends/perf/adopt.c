/*
 * A counter as one line of text for a reload, and its restoration from that line: "perf EVENTS
 * GROUPS raced left_out on begun follows GROUP…". The descriptors stay open with the same numbers.
 * State that changes with each record or read is not in the text but is collected again: covered
 * processes, followed threads, groups that lost their hardware counters.
 */
#include "backends/perf/attach/census.h"
#include "backends/proc.h"
#include "core/base/arena.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void perf_print(const struct counter *counter, struct buf *out)
{
    buf_printf(out, "perf %u %u %u %u %u %u %lu", counter->shape.n, counter->n_groups,
               counter->raced, counter->left_out, __atomic_load_n(&counter->on, __ATOMIC_RELAXED),
               counter->begun, follow_most(counter));
    for (unsigned i = 0; i < counter->n_groups; i++) /* GROUP is "TID CPU FD FD…" */
        for (unsigned k = 0; k < counter->shape.stride; k++)
            buf_printf(out, " %d", counter_group(counter, i)[k]);
}

/* Reads n numbers from the text. Returns false if it has fewer. */
static bool counter_scan_numbers(const char **text, uint64_t *value, unsigned n)
{
    char *end = NULL;

    errno = 0;
    for (unsigned i = 0; i < n; i++, *text = end) {
        value[i] = strtoull(*text, &end, 10); /* -1 is its complement */
        if (end == *text || errno)
            return false;
    }
    return true;
}

/*
 * Reads the numbers of all groups. Version 0.2 opened the groups of a cgroup without a clock event,
 * and printed four times after each group, which are ignored. Returns false if the number of
 * numbers is wrong, or on ENOMEM.
 */
static bool groups_scan(struct counter *counter, unsigned n_groups, const char *text)
{
    uint64_t number;
    unsigned n = 0, times = 0;

    for (const char *at = text; counter_scan_numbers(&at, &number, 1);)
        n++;
    if (counter->shape.clock && n != n_groups * counter->shape.stride) {
        shape_drop_clock(&counter->shape);
        times = n == n_groups * (counter->shape.stride + 4) ? 4 : 0;
    }
    const unsigned per_group = counter->shape.stride + times;
    if (n != n_groups * per_group || !counter_make_groups(counter, n_groups))
        return false;
    for (unsigned i = 0; i < n; i++) {
        counter_scan_numbers(&text, &number, 1);
        if (i % per_group < counter->shape.stride)
            counter_group(counter, i / per_group)[i % per_group] = (int)number;
    }
    return true;
}

/* Collects the covered processes: the target, the processes that were attached, and their
 * descendants. */
static int counter_cover(struct counter *counter, const struct plan *plan)
{
    struct census census;
    struct err err = {0};
    struct census_task *task;
    int rc = census_open(&census, counter->state, plan, &err);

    for (unsigned i = 0; i < counter->n_groups; i += counter->shape.spread) {
        const pid_t pid = proc_tgid(GROUP_TID(counter_group(counter, i)));

        if (pid > 0)
            census_listed(&census, pid, pid, TASK_OPEN);
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
    const char *text = printed + strlen("perf ");
    uint64_t head[7] = {0};
    int rc = 0;

    *out = NULL;
    if (!counter)
        return -ENOMEM;
    if (strncmp(printed, "perf ", 5) || !counter_scan_numbers(&text, head, 7) ||
        head[0] != counter->shape.n || head[1] > 1u << 24 || head[1] % counter->shape.spread)
        rc = -EINVAL;
    if (!rc) {
        counter->raced = head[2];
        counter->left_out = (unsigned)head[3];
        counter->on = head[4];
        counter->begun = head[5];
        rc = groups_scan(counter, (unsigned)head[1], text) ? 0 : -EINVAL;
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
    follow_begin(counter, plan, head[6]);
    shape_free_attrs(&counter->shape);
    *out = counter;
    return 0;
}
