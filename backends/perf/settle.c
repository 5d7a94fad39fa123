/*
 * What the counters of a recorder counted against what is known of it.
 *
 * Whether a counter rests is kept beside `on`, under the recorder's lock: `on` says what a reader
 * is to see, and is false a moment before the kernel stops.
 */
#include "backends/perf/settle.h"

#include "backends/perf/census.h"
#include "backends/perf/reading.h"

#include <inttypes.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The events that the kernel raises itself, one at a time, are those that may share ids. What
 * threads that are gone left of a period is not known. */
bool settle_fits(const struct counter *counter, const struct plan *plan)
{
    uint64_t all = UINT64_MAX >> (64 - counter->n);
    bool is_whole = plan->period == 1 || counter->target.kind != TARGET_PROCESS;

    return counter->sampling && !counter->hardware && !counter->extra && !plan->freq && is_whole &&
           counter->shares_id == all;
}

/* Armed, it may begin before it is started. */
void settle_begin(struct counter *counter)
{
    counter->origin->rests = !counter_is_on(counter) && (counter->begun || !counter->at_exec);
    counter->recorder->settle.due = true;
}

static void settle_note(const struct counter *counter, bool rests)
{
    struct recorder *recorder = counter->recorder;

    if (!counter->origin || !counter->origin->exact)
        return;
    pthread_mutex_lock(&recorder->lock);
    counter->origin->rests = rests;
    recorder->settle.due |= !rests;
    pthread_mutex_unlock(&recorder->lock);
}

void settle_wake(const struct counter *counter)
{
    settle_note(counter, false);
}

void settle_rest(const struct counter *counter)
{
    settle_note(counter, true);
}

/* One that is on goes on being so until its descriptors are closed. What it counts meanwhile is
 * missing in the sum: then less is claimed. */
void settle_close(struct counter *counter)
{
    struct recorder *recorder = counter->recorder;
    uint64_t counted;

    if (!counter->origin || !counter->origin->exact)
        return;
    pthread_mutex_lock(&recorder->lock);
    if (!counter_total(counter, counter->origin->period, &counted))
        recorder->settle.closed += counted;
    counter->origin->closing = true;
    pthread_mutex_unlock(&recorder->lock);
}

bool settle_look(struct recorder *recorder, uint64_t *counted)
{
    uint64_t more;

    if (!recorder->settle.due)
        return false;
    *counted = recorder->settle.closed;
    for (const struct origin *origin = recorder->origins; origin; origin = origin->next) {
        if (!origin->counter || !origin->exact)
            continue;
        if (!origin->rests)
            return false;
        if (origin->closing)
            continue;
        if (counter_total(origin->counter, origin->period, &more))
            return false;
        *counted += more;
    }
    return true;
}

bool settle_misses(const struct recorder *recorder, uint64_t counted)
{
    return counted > recorder->settle.known;
}

/* An event is off when its CPU was interrupted, perhaps between counting and writing; a CPU of a
 * virtual machine may be held up there for long. This waits for a grace period of RCU, in which the
 * kernel raises its events. */
bool settle_wait(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0;
}

static bool all_is_exact(const struct recorder *recorder)
{
    for (const struct origin *origin = recorder->origins; origin; origin = origin->next)
        if (origin->samples && !origin->exact)
            return false;
    return true;
}

static void untold_put(uint64_t lost, const struct intake *intake)
{
    const struct record_lost loss = {
        .head = {.type = RECORD_LOST, .size = sizeof loss},
        .lost = lost,
        .tail = {.time = census_now_ns()},
    };

    intake->put(intake->arg, &loss.head);
}

/* More than was counted is known where other records were lost, too: from here on both are even. */
void settle_tell(struct recorder *recorder, uint64_t counted, const struct intake *intake)
{
    struct settle *settle = &recorder->settle;

    if (settle_misses(recorder, counted) && !settle->unknown && all_is_exact(recorder))
        untold_put(counted - settle->known, intake);
    settle->known = counted;
    settle->unknown = false;
    settle->due = false;
}
