/*
 * Redirecting a counter's events and naming their ids.
 */
#include "backends/perf/output.h"

#include "backends/perf/attach/task_list.h"
#include "backends/perf/probe/code.h"
#include "backends/perf/sampling.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

/* Members of a group that write records: all that sample; of those that count only our own. */
static unsigned tellers(const struct counter *counter)
{
    return counter->sampling ? counter->members : counter->extra;
}

static enum id_kind kind_of(const struct counter *counter, unsigned member)
{
    if (counter->sampling || counter->extras[member] == EXTRA_DUMMY)
        return ID_EVENT;
    return counter->extras[member] == EXTRA_END ? ID_END : ID_SWITCH;
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
            .place = counter->sampling ? counter->order[i] : 0,
            .says_period = counter->says_period & 1ull << i,
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
    bool tasks = counter->target.kind == TARGET_PROCESS || counter->target.kind == TARGET_THREAD;

    if (!origin)
        return NULL;
    origin->recorder = counter->recorder;
    origin->counter = counter;
    origin->set = plan->set;
    origin->period = plan->freq ? 0 : plan->period;
    origin->n = counter->n;
    origin->extra = counter->extra;
    memcpy(origin->order, counter->order, sizeof origin->order);
    origin->descendants = !tasks || counter->descendants;
    origin->threads = !tasks || counter->target.kind == TARGET_PROCESS;
    origin->samples = counter->sampling;
    origin->chains = counter->sampling && (plan->chain_user || plan->chain_kernel);
    origin->shares_one = __builtin_popcountll(counter->shares_id) == 1;
    if (origin->shares_one)
        origin->shared = counter->order[__builtin_ctzll(counter->shares_id)];
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
    pthread_mutex_lock(&recorder->setup);
    pthread_mutex_lock(&recorder->lock);
    counter->origin->next = recorder->origins;
    recorder->origins = counter->origin;
    pthread_mutex_unlock(&recorder->lock);
    for (unsigned i = 0; i < counter->n_groups && !rc; i++) {
        if (i % counter->spread == 0)
            root = 0;
        rc = group_output(counter, i, &root);
    }
    pthread_mutex_unlock(&recorder->setup);
    return rc;
}

void output_end(struct counter *counter)
{
    struct recorder *recorder = counter->recorder;

    if (!counter->origin)
        return;
    pthread_mutex_lock(&recorder->setup);
    pthread_mutex_lock(&recorder->lock);
    counter->origin->counter = NULL;
    counter->origin->closed_ns = census_now_ns();
    counter->origin = NULL;
    pthread_mutex_unlock(&recorder->lock);
    pthread_mutex_unlock(&recorder->setup);
}

void output_cpu(const struct origin *origin, unsigned cpu)
{
    const struct counter *counter = origin->counter;

    for (unsigned i = 0; counter && i < counter->n_groups; i++)
        if (counter->tasks[i].cpu == (int)cpu)
            for (unsigned k = 0; k < tellers(counter); k++)
                recorder_redirect(counter->recorder, counter_fds(counter, i)[k], cpu);
}
