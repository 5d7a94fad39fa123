/*
 * A counter's life between attach.c, which opens it, and its end: on and off, and what is known of
 * it. How it is read is in reading.c.
 */
#include "backends/perf/count/counter.h"

#include "backends/perf/count/end_events.h"
#include "backends/perf/count/follow.h"
#include "backends/perf/count/output.h"
#include "backends/perf/count/reading.h"
#include "backends/perf/count/switch.h"

#include <stdlib.h>
#include <string.h>

struct counter *counter_new(struct backend_state *state, const struct plan *plan)
{
    struct counter *counter = calloc(1, sizeof *counter);

    if (!counter || shape_make(&counter->shape, state, plan)) {
        free(counter);
        return NULL;
    }
    counter->state = state;
    counter->target.kind = plan->target.kind;
    counter->target.pid = plan->target.pid;
    counter->target.tid = plan->target.tid;
    counter->tag = plan->tag;
    counter->descendants = plan->descendants && plan->target.kind == TARGET_PROCESS;
    counter->at_exec = plan->at_exec;
    counter->multiplex = plan->multiplex;
    counter->sampling = plan->recorder && plan->sampling;
    counter->recorder = plan->recorder;
    __atomic_add_fetch(&state->n_counters, 1, __ATOMIC_RELAXED);
    return counter;
}

bool counter_make_groups(struct counter *counter, unsigned n_groups)
{
    const bool hardware = counter->shape.hardware;
    const size_t bytes = (size_t)n_groups * counter->shape.stride * sizeof(int);

    counter->groups = malloc(bytes + 1);
    if (hardware)
        counter->last = calloc(n_groups + 1, counter_last_bytes(counter));
    if (!counter->groups || (hardware && !counter->last))
        return false;
    memset(counter->groups, -1, bytes);
    counter->n_groups = n_groups;
    return true;
}

int counter_watch(struct counter *counter, bool late)
{
    const struct shape *shape = &counter->shape;

    if (!shape->watch || !counter->n_groups)
        return 0;
    return watch_new(counter->state, counter_fds(counter, 0) + FD_WATCH(shape->members),
                     shape->stride, counter->n_groups, counter->tag, late, &counter->watch);
}

/* After what a reader needs to know when it sees it. */
static void counter_set_on(struct counter *counter, bool on)
{
    __atomic_store_n(&counter->on, on, __ATOMIC_RELEASE);
}

int perf_start(struct counter *counter, struct err *err)
{
    bool armed = counter_is_armed(counter), was_on = counter_is_on(counter);
    int rc;

    counter->begun = true;
    verdicts_clear(counter);
    counter_set_on(counter, true);
    rc = output_track(counter);
    if (!rc && !armed)
        rc = counter_switch(counter, true);
    if (rc) {
        counter_set_on(counter, was_on);
        if (!was_on)
            output_untrack(counter, false);
        if (rc == -ENOMEM)
            return err_set(err, E32, "no memory to start a counter of %u tasks or CPUs",
                           counter->n_groups);
        if (rc == -EMFILE || rc == -ENFILE)
            return err_set(err, P10, "no descriptor was left to start a counter of %u tasks",
                           counter->n_groups);
        return err_set(err, P14, "the kernel refused to start a counter of %u tasks or CPUs",
                       counter->n_groups);
    }
    follow_switch(counter, true, armed);
    return 0;
}

int perf_stop(struct counter *counter)
{
    int rc;

    follow_switch(counter, false, false);
    counter_set_on(counter, false);
    rc = counter_switch(counter, false);
    output_untrack(counter, false);
    return rc;
}

void perf_processes(const struct counter *counter, void (*fn)(void *arg, pid_t pid), void *arg)
{
    if (counter->covered)
        covered_each(counter->covered, fn, arg);
    else if (counter_scope_is_process(counter))
        fn(arg, counter->target.pid);
}

bool perf_covers(struct counter *counter, pid_t pid)
{
    return counter_scope_is_process(counter) &&
           (pid == counter->target.pid ||
            (counter->covered && covered_has(counter->covered, pid)));
}

static void count_process(void *arg, pid_t pid)
{
    unsigned *n = arg;

    (void)pid;
    ++*n;
}

void perf_facts_of(const struct counter *counter, struct counter_facts *out)
{
    const unsigned tasks = counter->n_groups / counter->shape.spread;
    unsigned covered = 0;

    perf_processes(counter, count_process, &covered);
    *out = (struct counter_facts){
        .threads = counter_scope_is_process(counter) ? tasks : 0,
        .descriptors = tasks * counter->shape.per_task + follow_fds(counter),
        .raced = counter->raced,
        .left_out = counter->left_out,
        .covered = covered,
    };
}

static void counter_unwatch(struct counter *counter)
{
    watch_free(counter->watch);
    counter->watch = NULL;
}

void perf_forget(struct counter *counter)
{
    counter_unwatch(counter);
    output_untrack(counter, true);
    covered_free(counter->covered);
    output_end(counter);
    __atomic_sub_fetch(&counter->state->n_counters, 1, __ATOMIC_RELAXED);
    shape_free(&counter->shape);
    free(counter->groups);
    free(counter->last);
    free(counter);
}

void perf_free(struct counter *counter)
{
    counter_unwatch(counter); /* watches end before their descriptors do */
    output_untrack(counter, false);
    groups_close(&counter->shape, counter->groups, counter->n_groups);
    perf_forget(counter); /* and no record comes any more */
}
