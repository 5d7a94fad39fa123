/*
 * The rights that the kernel asks for an event (it would not refuse pmcfs, which has them all: core
 * asks for those of the writer); and the kernel's word on it.
 */
#include "backends/perf/names/names.h"
#include "backends/perf/names/spec.h"

#include "backends/perf/probe/probe.h"
#include "backends/perf/probe/why.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

/*
 * AnyThread counts the other thread of the core, too, which may be any user's. The kernel looks at
 * this bit of a raw code on every Intel processor, also where its format has no such field any
 * more.
 */
#if defined(__x86_64__) || defined(__i386__)
#define ANY_THREAD ((uint64_t)1 << 21)
#else
#define ANY_THREAD 0
#endif

/* The kernel counts both modes whatever is asked for (its perf_allow_kernel()). */
static bool needs_kernel(const struct spec *spec)
{
    switch (spec->pmu->kind) {
    case PMU_MSR: /* config 0 is the time stamp counter, which every program may read by itself */
        return spec->event.code[CODE_CONFIG] != 0;
    case PMU_TRACEPOINT:
    case PMU_OTHER: /* of a driver: both modes, in one count */
        return true;
    default:
        return false;
    }
}

static bool any_thread(const struct spec *spec)
{
    const uint64_t *code = spec->event.code;
    const struct pmu_format *any = pmu_format(spec->pmu, "any");
    uint64_t bits[CONFIG_WORDS] = {ANY_THREAD};

    if (code[CODE_TYPE] == PERF_TYPE_HARDWARE || code[CODE_TYPE] == PERF_TYPE_HW_CACHE)
        return false;
    if (any)
        format_put(any, 1, bits);
    for (unsigned i = 0; i < CONFIG_WORDS; i++)
        if (code[CODE_CONFIG + i] & bits[i])
            return true;
    return false;
}

void spec_finish(struct spec *spec)
{
    struct event *event = &spec->event;
    const bool one_mode = event->user != event->kernel;

    event->whole = spec->split != SPLIT_ALWAYS && !(spec->split == SPLIT_ASKED && one_mode);
    event->needs_kernel |= needs_kernel(spec);
    /* It tells more than what the target does (perf_allow_cpu(), perfmon_capable()). */
    event->needs_superuser |=
        spec->pmu->kind == PMU_CORE ? any_thread(spec) : strcmp(spec->pmu->name, "thread_imc") == 0;
}

static void attr_of(const struct event *event, struct perf_event_attr *attr)
{
    bool kernel = event->whole || event->needs_kernel || event->kernel == SAID_ON;

    code_to_attr(event, event->user != SAID_OFF, kernel, attr);
}

/* 0 or -errno of opening it, disabled, on this thread or its CPU. Drops exclude_guest if refused.
 */
static int event_try(const struct pmu *pmu, struct event *event)
{
    bool on_cpu = event->code[CODE_FLAGS] & CODE_CPU_ONLY;
    int cpu = on_cpu ? cpus_next(&pmu->cpus, 0) : -1;
    struct perf_event_attr attr;

    attr_of(event, &attr);
    int rc = probe_open(&attr, cpu);
    if ((rc == -EINVAL || rc == -EOPNOTSUPP) && attr.exclude_guest) {
        attr.exclude_guest = 0;
        if (probe_open(&attr, cpu) == 0) {
            event->code[CODE_FLAGS] &= ~(uint64_t)CODE_EXCLUDE_GUEST;
            return 0;
        }
    }
    return rc == -ENOSPC ? 0
                         : rc; /* breakpoints in use by others now: that is for the attach to say */
}

int spec_try(struct spec *spec)
{
    spec_finish(spec);
    return event_try(spec->pmu, &spec->event);
}

static int say_refused(const struct pmu *pmu, const struct event *event, int rc, struct err *err)
{
    struct perf_event_attr attr;
    struct err said;

    if (rc == -ENOENT && pmu->kind == PMU_CORE)
        return err_set(err, P09,
                       "\"%s\" cannot be counted here: %s of this processor does not have it",
                       event->resolved, pmu->name);
    attr_of(event, &attr);
    why_refused(&said, &(struct why){.code = -rc, .attr = &attr, .event = event->resolved});
    /* An event that pmcfs itself may not open is, for its users, not on this machine. */
    return err_set(err, said.id == P14 ? P09 : said.id, "%s", said.text);
}

int perf_verify(struct backend_state *state, struct event *event, struct err *err)
{
    struct pmu *pmu = pmus_of_class(state->pmus, event->class_index);
    struct perf_event_attr attr;
    int rc = event_try(pmu, event);

#ifndef PERF_ATTR_SIZE_VER8
    if (event->code[CODE_CONFIG3])
        return err_set(err, P09, "\"%s\" needs config3, which this build does not know",
                       event->resolved);
#endif
    if (!pmu_stays(state->pmus, pmu))
        return err_set(err, P09,
                       "\"%s\" cannot be counted here: the driver of %s was unloaded, or loaded "
                       "anew since pmcfs was mounted; mount it again",
                       event->resolved, pmu->name);
    if (rc < 0)
        return say_refused(pmu, event, rc, err);
    code_to_attr(event, true, false, &attr);
    if (pmu->kind == PMU_CORE)
        probe_rows(state->pmus, pmu, &attr, &event->rows, &event->rows_needed);
    return 0;
}
