/*
 * How many counters there are, and which event fits where. The kernel as an oracle (reference:
 * groups of enabled, flexible events are checked against the real counters when they are opened,
 * other users or not). A leader must be enabled for that.
 */
#include "backends/perf/probe/probe.h"

#include <linux/perf_event.h>

/* General counters first; then the generic events that still fit have a counter of their own. */
void probe_counters(const struct pmus *pmus, struct pmu *pmu)
{
    static const uint64_t fixed[] = {PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS,
                                     PERF_COUNT_HW_REF_CPU_CYCLES};
    struct perf_event_attr attr;
    struct trial trial = {.tid = pmus->parked.tid, .cpu = -1};
    probe_filler(pmu, &attr);
    pmu->general = trial_fill(&trial, &attr, TRIAL_MAX - PMU_FIXED);
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        probe_generic(pmu, fixed[i], &attr);
        if (trial_add(&trial, &attr) == 0)
            pmu->fixed_event[pmu->fixed++] = fixed[i];
    }
    trial_clear(&trial);
}

/* The own counter of attr: its index among pmu->fixed, or -1. The group holds every general
 * counter. */
static int find_fixed(const struct pmu *pmu, struct trial *trial,
                      const struct perf_event_attr *attr)
{
    struct perf_event_attr filler, own;
    int found = -1;

    probe_filler(pmu, &filler);
    trial_fill(trial, &filler, pmu->general);
    bool has = trial_add(trial, attr) == 0;
    trial_clear(trial);
    for (unsigned i = 0; has && found < 0 && i < pmu->fixed; i++) {
        probe_generic(pmu, pmu->fixed_event[i], &own);
        trial_fill(trial, &filler, pmu->general);
        trial_add(trial, &own);
        if (trial_add(trial, attr) < 0)
            found = (int)i;
        trial_clear(trial);
    }
    return found;
}

/* How many general counters one attr takes; its own counter, if it has one, is filled first. */
static unsigned general_cost(const struct pmu *pmu, struct trial *trial,
                             const struct perf_event_attr *attr, int fixed)
{
    struct perf_event_attr filler, own;
    unsigned beside = 0;

    if (fixed >= 0) {
        probe_generic(pmu, pmu->fixed_event[fixed], &own);
        trial_add(trial, &own);
    }
    bool fits = trial_add(trial, attr) == 0;
    probe_filler(pmu, &filler);
    if (fits)
        beside = trial_fill(trial, &filler, pmu->general);
    trial_clear(trial);
    return fits && beside < pmu->general ? pmu->general - beside : 0;
}

static uint64_t low_bits(unsigned n)
{
    return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
}

void probe_rows(const struct pmus *pmus, const struct pmu *pmu, const struct perf_event_attr *attr,
                uint64_t *rows, unsigned *needed)
{
    struct perf_event_attr copy = *attr;

    *rows = 0;
    *needed = 0;
    if (pmu->general + pmu->fixed == 0)
        return;
    struct trial trial = {.tid = pmus->parked.tid, .cpu = -1};
    copy.sample_period = 0;
    int fixed = find_fixed(pmu, &trial, &copy);
    unsigned cost = general_cost(pmu, &trial, &copy, fixed);
    unsigned alone = trial_fill(&trial, &copy, pmu->general + pmu->fixed);
    trial_clear(&trial);

    alone = fixed >= 0 && alone > 0 ? alone - 1 : alone;
    *needed = cost > 1 && fixed < 0 ? cost : 1;
    if (cost == 1)
        *rows = low_bits(alone < pmu->general ? alone : pmu->general);
    else if (cost > 1 && fixed < 0)
        *rows = low_bits(pmu->general);
    if (fixed >= 0)
        *rows |= (uint64_t)1 << (pmu->general + (unsigned)fixed);
    if (!*rows)
        *needed = 0;
}
