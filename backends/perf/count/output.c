/*
 * Redirecting a counter's events and naming their ids.
 */
#include "backends/perf/count/output.h"

#include "backends/perf/count/follow.h"
#include "backends/perf/probe/open.h"
#include "backends/perf/record/sampling.h"
#include "backends/perf/record/track.h"

#include "core/base/clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

/* Members of a group that write records: all that sample; of those that count only our own. */
static unsigned tellers(const struct origin *origin, const struct shape *shape)
{
    return origin->samples ? shape->members : shape->extra;
}

static enum id_kind kind_of(const struct origin *origin, const struct shape *shape, unsigned member)
{
    if (origin->samples || shape->extras[member] == EXTRA_DUMMY)
        return ID_EVENT;
    return shape->extras[member] == EXTRA_END ? ID_END : ID_SWITCH;
}

/* Redirecting waits until no CPU is in the kernel's old path: 20 ms for each event. */
static bool ring_outlived(const struct recorder *recorder, unsigned cpu)
{
    const struct ring *ring = recorder_ring(recorder, cpu);

    return ring && ring->outlived;
}

int group_output(const struct origin *origin, const struct shape *shape, const int *group,
                 bool adopted, uint64_t *root)
{
    const unsigned cpu = (unsigned)GROUP_CPU(group);
    int rc = 0;

    for (unsigned i = 0; i < tellers(origin, shape) && !rc; i++) {
        struct id id = {
            .origin = origin,
            .cpu = cpu,
            .kind = (uint8_t)kind_of(origin, shape, i),
            .place = origin->samples && i >= shape->extra
                         ? (uint8_t)shape_place(shape, i - shape->extra)
                         : 0,
            .says_period = sampling_says_period(&shape->attr[i]),
            .parts = (uint8_t)sampling_parts(&shape->attr[i]),
        };

        if (shape_is_clock(shape, i))
            continue;
        if (ioctl(GROUP_FDS(group)[i], PERF_EVENT_IOC_ID, &id.kernel))
            return -errno;
        if (!*root)
            *root = id.kernel;
        id.root = *root;
        rc = recorder_add_id(origin->recorder, &id);
        if (!rc && !(adopted && ring_outlived(origin->recorder, cpu)))
            rc = recorder_redirect(origin->recorder, GROUP_FDS(group)[i], cpu);
    }
    return rc;
}

/* It counts nothing in the kernel between the sample of a thread's end and that end: faults,
 * switches, and everything that is counted in user mode only. */
static bool event_is_whole(const struct plan_event *plan)
{
    const uint64_t *code = plan->event->code;

    if (code[CODE_FLAGS] & CODE_NO_EXCLUDE)
        return false;
    if (code[CODE_TYPE] != PERF_TYPE_SOFTWARE)
        return !plan->kernel && code[CODE_TYPE] != PERF_TYPE_TRACEPOINT;
    return code[CODE_CONFIG] != PERF_COUNT_SW_CPU_CLOCK &&
           code[CODE_CONFIG] != PERF_COUNT_SW_TASK_CLOCK;
}

static bool all_is_whole(const struct plan *plan)
{
    for (unsigned i = 0; i < plan->n; i++)
        if (!event_is_whole(&plan->events[i]))
            return false;
    return true;
}

static struct origin *origin_make(struct counter *counter, const struct plan *plan)
{
    struct origin *origin = calloc(1, sizeof *origin);
    bool tasks = counter_scope_is_process(counter);
    unsigned shares = 0;

    if (!origin)
        return NULL;
    origin->recorder = counter->recorder;
    origin->counter = counter;
    origin->set = plan->set;
    origin->period = plan->freq ? 0 : plan->period;
    origin->n = counter->shape.n;
    origin->extra = counter->shape.extra;
    for (unsigned i = 0; i < origin->n; i++)
        origin->order[i] = (uint8_t)shape_place(&counter->shape, i);
    origin->descendants = !tasks || counter->descendants;
    origin->threads = !tasks || counter->target.kind == TARGET_PROCESS;
    origin->samples = counter->sampling;
    origin->chains = counter->sampling && (plan->chain_user || plan->chain_kernel);
    for (unsigned i = 0; counter->sampling && i < counter->shape.n; i++) {
        if (!sampling_shares_id(&counter->shape.attr[counter->shape.extra + i]))
            continue;
        origin->shares_one = ++shares == 1;
        origin->shared_parts =
            (uint8_t)sampling_parts(&counter->shape.attr[counter->shape.extra + i]);
        origin->shared = (uint8_t)shape_place(&counter->shape, i);
    }
    origin->whole = all_is_whole(plan);
    return origin;
}

int output_begin(struct counter *counter, const struct plan *plan, bool adopted)
{
    struct recorder *recorder = counter->recorder;
    uint64_t root = 0;
    int rc = 0;

    if (!recorder)
        return 0;
    counter->origin = origin_make(counter, plan);
    if (!counter->origin)
        return -ENOMEM;
    pthread_mutex_lock(&recorder->lock);
    if (counter->sampling && recorder->largest < RECORD_USUAL + plan->stack)
        recorder->largest = RECORD_USUAL + plan->stack;
    counter->origin->next = recorder->origins;
    recorder->origins = counter->origin;
    for (unsigned i = 0; i < counter->n_groups && !rc; i++) {
        if (i % counter->shape.spread == 0)
            root = 0;
        rc = group_output(counter->origin, &counter->shape, counter_group(counter, i), adopted,
                          &root);
    }
    pthread_mutex_unlock(&recorder->lock);
    return rc;
}

void output_end(struct counter *counter)
{
    struct origin *origin = counter->origin;

    if (!origin)
        return;
    pthread_mutex_lock(&origin->recorder->lock);
    follow_free(origin->follow);
    origin->follow = NULL;
    origin->counter = NULL;
    origin->closed_ns = monotonic_ns();
    counter->origin = NULL;
    pthread_mutex_unlock(&origin->recorder->lock);
}

int output_track(struct counter *counter)
{
    int rc;

    if (counter->tracks || !counter->sampling || counter_scope_is_process(counter))
        return 0;
    pthread_mutex_lock(&counter->state->setup);
    rc = track_begin(counter->recorder, counter->origin->set);
    counter->tracks = !rc;
    pthread_mutex_unlock(&counter->state->setup);
    return rc;
}

void output_untrack(struct counter *counter, bool forget)
{
    if (!counter->tracks)
        return;
    pthread_mutex_lock(&counter->state->setup);
    counter->tracks = false;
    if (forget)
        track_forget(counter->recorder);
    else
        track_end(counter->recorder);
    pthread_mutex_unlock(&counter->state->setup);
}

void output_cpu(const struct origin *origin, unsigned cpu)
{
    const struct counter *counter = origin->counter;

    for (unsigned i = 0; i < counter->n_groups; i++)
        if (GROUP_CPU(counter_group(counter, i)) == (int)cpu)
            for (unsigned k = 0; k < tellers(origin, &counter->shape); k++)
                recorder_redirect(counter->recorder, counter_fds(counter, i)[k], cpu);
}
