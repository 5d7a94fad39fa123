/*
 * The processes that a counter covers: its target, and with descendants those below it, as the
 * sideband has told of them.
 */
#include "backends/perf/count/descendants.h"
#include "backends/perf/count/counter.h"
#include "backends/perf/record/sideband.h"

static void counter_follow(const struct counter *counter)
{
    if (counter->listening)
        sideband_drain(counter->state->sideband);
}

static void counter_lock(const struct counter *counter)
{
    if (counter->listening)
        sideband_lock(counter->state->sideband);
}

static void counter_unlock(const struct counter *counter)
{
    if (counter->listening)
        sideband_unlock(counter->state->sideband);
}

void perf_processes(const struct counter *counter, void (*fn)(void *arg, pid_t pid), void *arg)
{
    if (counter->covered) {
        counter_follow(counter);
        counter_lock(counter);
        covered_each(counter->covered, fn, arg);
        counter_unlock(counter);
    } else if (counter_scope_is_process(counter)) {
        fn(arg, counter->target.pid);
    }
}

unsigned counter_n_covered(const struct counter *counter)
{
    unsigned n = counter_scope_is_process(counter);

    if (counter->covered) {
        counter_follow(counter);
        counter_lock(counter);
        n = covered_count(counter->covered);
        counter_unlock(counter);
    }
    return n;
}

bool perf_covers(struct counter *counter, pid_t pid)
{
    bool covers;

    if (!counter_scope_is_process(counter))
        return false;
    if (pid == counter->target.pid || !counter->covered)
        return pid == counter->target.pid;
    counter_follow(counter);
    counter_lock(counter);
    covers = covered_has(counter->covered, pid);
    counter_unlock(counter);
    return covers;
}
