/*
 * Redirecting a counter's events and naming their ids.
 */
#include "backends/perf/count/output.h"

#include "backends/perf/count/switch.h"
#include "backends/perf/probe/code.h"
#include "backends/perf/record/follow.h"
#include "backends/perf/record/sampling.h"
#include "backends/perf/record/track.h"

#include "core/base/clock.h"

#include "backends/proc.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

/* Members of a group that write records: all that sample; of those that count only our own. */
static unsigned tellers(const struct counter *counter)
{
    return counter->sampling ? counter->shape.members : counter->shape.extra;
}

static enum id_kind kind_of(const struct counter *counter, unsigned member)
{
    if (counter->sampling || counter->shape.extras[member] == EXTRA_DUMMY)
        return ID_EVENT;
    return counter->shape.extras[member] == EXTRA_END ? ID_END : ID_SWITCH;
}

static int group_output(const struct counter *counter, unsigned group, uint64_t *root)
{
    const int *fds = counter_fds(counter, group);
    unsigned cpu = (unsigned)counter->tasks[group].cpu;
    int rc = 0;

    for (unsigned i = 0; i < tellers(counter) && !rc; i++) {
        struct id id = {
            .origin = counter->origin,
            .cpu = cpu,
            .kind = (uint8_t)kind_of(counter, i),
            .place = counter->sampling ? counter->shape.order[i] : 0,
            .says_period = sampling_says_period(&counter->shape.attr[i]),
        };

        if (ioctl(fds[i], PERF_EVENT_IOC_ID, &id.kernel))
            return -errno;
        if (!*root)
            *root = id.kernel;
        id.root = *root;
        rc = recorder_add_id(counter->recorder, &id);
        if (!rc)
            rc = recorder_redirect(counter->recorder, fds[i], cpu);
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
    memcpy(origin->order, counter->shape.order, sizeof origin->order);
    origin->descendants = !tasks || counter->descendants;
    origin->threads = !tasks || counter->target.kind == TARGET_PROCESS;
    origin->samples = counter->sampling;
    origin->chains = counter->sampling && (plan->chain_user || plan->chain_kernel);
    for (unsigned i = 0; counter->sampling && i < counter->shape.n; i++) {
        if (!sampling_shares_id(&counter->shape.attr[i]))
            continue;
        origin->shares_one = ++shares == 1;
        origin->shared = counter->shape.order[i];
    }
    origin->whole = all_is_whole(plan);
    return origin;
}

int output_begin(struct counter *counter, const struct plan *plan)
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
    counter->origin->next = recorder->origins;
    recorder->origins = counter->origin;
    for (unsigned i = 0; i < counter->n_groups && !rc; i++) {
        if (i % counter->shape.spread == 0)
            root = 0;
        rc = group_output(counter, i, &root);
    }
    pthread_mutex_unlock(&recorder->lock);
    return rc;
}

void output_follow(struct counter *counter, const struct plan *plan, unsigned long most_fds)
{
    struct recorder *recorder = counter->recorder;
    const bool armed = counter->at_exec && counter_is_armed(counter);
    struct tids tids = {.list = {.n = 0}};

    if (!recorder || counter->sampling || !counter_scope_is_process(counter) ||
        counter->shape.extras[0] != EXTRA_DUMMY || (!plan->steps && !plan->lasts))
        return;
    pthread_mutex_lock(&recorder->lock);
    counter->origin->follow =
        follow_new(counter->origin, plan, counter_is_on(counter), armed, most_fds);
    counter_tids(counter, &tids);
    for (size_t i = 0; counter->origin->follow && i < tids.list.n; i++)
        follow_thread(counter->origin->follow, tids.list.items[i], proc_tgid(tids.list.items[i]));
    pthread_mutex_unlock(&recorder->lock);
    free(tids.list.items);
}

unsigned output_fds(const struct counter *counter)
{
    return counter->origin ? follow_fds(counter->origin->follow) : 0;
}

unsigned long output_most(const struct counter *counter)
{
    return counter->origin ? follow_most(counter->origin->follow) : 0;
}

void output_switch(struct counter *counter, bool on, bool armed)
{
    if (!counter->origin || !counter->origin->follow)
        return;
    pthread_mutex_lock(&counter->recorder->lock);
    follow_switch(counter->origin->follow, on, armed);
    pthread_mutex_unlock(&counter->recorder->lock);
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

void output_untrack(struct counter *counter)
{
    if (!counter->tracks)
        return;
    pthread_mutex_lock(&counter->state->setup);
    counter->tracks = false;
    track_end(counter->recorder);
    pthread_mutex_unlock(&counter->state->setup);
}

void output_cpu(const struct origin *origin, unsigned cpu)
{
    const struct counter *counter = origin->counter;

    for (unsigned i = 0; i < counter->n_groups; i++)
        if (counter->tasks[i].cpu == (int)cpu)
            for (unsigned k = 0; k < tellers(counter); k++)
                recorder_redirect(counter->recorder, counter_fds(counter, i)[k], cpu);
}
