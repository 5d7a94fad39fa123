/*
 * A counter's life between attach.c, which opens it, and its end: on and off, and what is known of
 * it. How it is read is in reading.c.
 */
#include "backends/perf/count/counter.h"

#include "backends/perf/attach/end_events.h"
#include "backends/perf/count/reading.h"
#include "backends/perf/count/switch.h"
#include "backends/perf/follow.h"
#include "backends/perf/output.h"
#include "backends/perf/sampling.h"
#include "backends/perf/track.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

struct counter *counter_new(struct backend_state *state, const struct plan *plan,
                            const struct shape *shape)
{
    struct counter *counter = calloc(1, sizeof *counter);

    if (!counter)
        return NULL;
    counter->state = state;
    counter->target = plan->target;
    counter->target.alive = NULL;
    counter->target.alive_arg = NULL;
    counter->target.cgroup_fd = -1;
    counter->tag = plan->tag;
    counter->hardware = shape->hardware;
    counter->descendants = plan->descendants && plan->target.kind == TARGET_PROCESS;
    counter->at_exec = plan->at_exec;
    counter->multiplex = plan->multiplex;
    counter->n = shape->n;
    counter->extra = shape->extra;
    counter->members = shape->members;
    counter->together = shape->together;
    counter->stride = shape->stride;
    counter->spread = shape->spread;
    counter->per_task = shape->per_task;
    counter->sampling = plan->recorder && plan->sampling;
    counter->recorder = plan->recorder;
    for (unsigned i = 0; counter->sampling && i < shape->n; i++) {
        if (sampling_says_period(&shape->attr[i]))
            counter->says_period |= 1ull << i;
        if (sampling_shares_id(&shape->attr[i]))
            counter->shares_id |= 1ull << i;
    }
    memcpy(counter->extras, shape->extras, sizeof counter->extras);
    memcpy(counter->order, shape->order, sizeof counter->order);
    __atomic_add_fetch(&state->n_counters, 1, __ATOMIC_RELAXED);
    return counter;
}

bool counter_make_groups(struct counter *counter, unsigned n_groups)
{
    size_t n_fds = (size_t)n_groups * counter->stride;

    counter->tasks = calloc(n_groups + 1, sizeof *counter->tasks);
    counter->fds = malloc((n_fds + 1) * sizeof *counter->fds);
    if (counter->hardware)
        counter->last = calloc(n_groups + 1, counter_last_bytes(counter));
    if (counter->target.kind == TARGET_CGROUP)
        counter->skew = calloc(n_groups + 1, sizeof *counter->skew);
    if (!counter->tasks || !counter->fds || (counter->hardware && !counter->last) ||
        (counter->target.kind == TARGET_CGROUP && !counter->skew))
        return false;
    for (size_t i = 0; i < n_fds; i++)
        counter->fds[i] = -1;
    counter->n_groups = n_groups;
    return true;
}

/* After what a reader needs to know when it sees it. */
static void counter_set_on(struct counter *counter, bool on)
{
    __atomic_store_n(&counter->on, on, __ATOMIC_RELEASE);
}

int perf_start(struct counter *counter, struct err *err)
{
    bool armed = counter_is_armed(counter), was_on = counter_is_on(counter);

    counter->begun = true;
    verdicts_clear(counter);
    if (!counter->skew)
        counter_set_on(counter, true);
    if (track_begin(counter) || (!armed && counter_switch(counter, true))) {
        counter_set_on(counter, was_on);
        if (!was_on)
            track_end(counter);
        return err_set(err, P14, "the kernel refused to start a counter of %u tasks or CPUs",
                       counter->n_groups);
    }
    follow_switch(counter->follow, true, armed);
    if (!was_on)
        skew_start(counter);
    counter_set_on(counter, true); /* of a cgroup last: until then reads give the times kept */
    return 0;
}

int perf_stop(struct counter *counter)
{
    int rc;

    if (counter_is_on(counter))
        skew_stop(counter);
    follow_switch(counter->follow, false, false);
    counter_set_on(counter, false);
    rc = counter_switch(counter, false);
    track_end(counter);
    return rc;
}

void perf_facts_of(const struct counter *counter, struct counter_facts *out)
{
    unsigned covered = counter_n_covered(counter);

    *out = (struct counter_facts){
        .threads = covered ? counter->n_groups / counter->spread : 0,
        .descriptors =
            counter->n_groups / counter->spread * counter->per_task + follow_fds(counter->follow),
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

static void counter_release(struct counter *counter)
{
    counter_unwatch(counter);
    if (counter->listening)
        sideband_ignore(counter->state->sideband, &counter->listener);
    covered_free(counter->covered);
    track_end(counter);
    output_end(counter);
    __atomic_sub_fetch(&counter->state->n_counters, 1, __ATOMIC_RELAXED);
    free(counter->tasks);
    free(counter->fds);
    free(counter->last);
    free(counter->skew);
    free(counter);
}

void perf_forget(struct counter *counter)
{
    struct follow *follow = counter->follow;

    track_forget(counter);
    counter_release(counter);
    follow_free(follow);
}

void perf_free(struct counter *counter)
{
    size_t n = (size_t)counter->n_groups * counter->stride;
    struct follow *follow = counter->follow;

    counter_unwatch(counter); /* watches end before their descriptors do */
    while (n-- > 0)
        event_close(&counter->fds[n]);
    counter_release(counter); /* and no record comes any more */
    follow_free(follow);
}
