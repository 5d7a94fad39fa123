/*
 * The group is opened enabled, so that the kernel checks it against the counters that exist (a
 * disabled one is not checked).
 */
#include "backends/perf/probe/probe.h"

#include "backends/perf/probe/code.h"
#include "backends/perf/probe/why.h"

#include <errno.h>
#include <linux/perf_event.h>

static bool takes_counter(const struct plan_event *event)
{
    return event->event->code[CODE_FLAGS] & CODE_HARDWARE;
}

static int group_refused(const struct plan_event *event, const struct perf_event_attr *attr,
                         int code, bool member, bool multiplex, struct err *err)
{
    struct why why = {
        .code = -code, .attr = attr, .event = event->event->written, .member = member};

    if (member && code == -EINVAL && takes_counter(event) && !multiplex)
        return err_set(err, E19,
                       "the processor has not enough counters to count \"%s\" together "
                       "with the events before it",
                       event->event->written);
    return why_refused(err, &why);
}

static int group_add(struct trial *trial, const struct plan_event *event, bool multiplex,
                     struct err *err)
{
    struct perf_event_attr attr;

    code_to_attr(event->event, event->user, event->kernel, &attr);
    attr.read_format =
        PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    const bool member = trial->n > 0;
    int rc = trial_add(trial, &attr);
    return rc ? group_refused(event, &attr, rc, member, multiplex, err) : 0;
}

static bool needs_asking(const struct plan_event *events, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (events[i].event->code[CODE_FLAGS] & CODE_CPU_ONLY)
            return false; /* no task may have it, not even ours */
    return n > 1 || takes_counter(&events[0]);
}

int perf_check_set(struct backend_state *state, const struct plan_event *events, unsigned n,
                   bool multiplex, struct err *err)
{
    struct trial trial = {.tid = state->pmus->parked.tid, .cpu = -1};
    int rc = 0;

    if (!needs_asking(events, n))
        return 0;
    for (int hardware = 1; hardware >= 0; hardware--) /* what takes counters comes first */
        for (unsigned i = 0; i < n && !rc; i++)
            if (takes_counter(&events[i]) == hardware)
                rc = group_add(&trial, &events[i], multiplex, err);
    trial_clear(&trial);
    return rc;
}
