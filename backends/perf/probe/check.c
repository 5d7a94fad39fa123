/*
 * The group is opened enabled, so that the kernel checks it against the counters that exist (a
 * disabled one is not checked).
 */
#include "backends/perf/probe/check.h"

#include "backends/perf/probe/code.h"
#include "backends/perf/probe/pmu.h"
#include "backends/perf/probe/why.h"

#include <errno.h>
#include <linux/perf_event.h>

static bool takes_counter(const struct plan_event *event)
{
    return event->event->code[CODE_FLAGS] & CODE_HARDWARE;
}

/* Places of the plan in the order of a group: what takes counters comes first. */
static void group_order(const struct plan_event *events, unsigned n, unsigned *order)
{
    unsigned k = 0;

    for (int hardware = 1; hardware >= 0; hardware--)
        for (unsigned i = 0; i < n; i++)
            if (takes_counter(&events[i]) == hardware)
                order[k++] = i;
}

static int classes_agree(const struct backend_state *state, const struct plan_event *events,
                         unsigned n, struct err *err)
{
    const struct event *first = NULL;

    for (unsigned i = 0; i < n; i++) {
        const struct event *event = events[i].event;

        if (!takes_counter(&events[i]))
            continue;
        if (first && first->class_index != event->class_index)
            return err_set(err, CS08,
                           "\"%s\" is of class %s and \"%s\" of class %s: a set lies in one "
                           "hardware class",
                           first->written, state->classes[first->class_index].name, event->written,
                           state->classes[event->class_index].name);
        first = first ? first : event;
    }
    return 0;
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

static int group_try(const struct plan_event *events, unsigned n, pid_t tid, bool multiplex,
                     struct err *err)
{
    struct trial trial = {.tid = tid, .cpu = -1};
    unsigned order[SET_MAX];
    int rc = 0;

    group_order(events, n, order);
    for (unsigned i = 0; i < n && !rc; i++) {
        const struct plan_event *event = &events[order[i]];
        struct perf_event_attr attr;

        code_to_attr(event->event, event->user, event->kernel, &attr);
        attr.read_format =
            PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
        rc = trial_add(&trial, &attr);
        if (rc < 0)
            rc = group_refused(event, &attr, rc, i > 0, multiplex, err);
    }
    trial_clear(&trial);
    return rc;
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
    int rc = classes_agree(state, events, n, err);

    if (rc || !needs_asking(events, n))
        return rc;
    return group_try(events, n, state->pmus->parked.tid, multiplex, err);
}
