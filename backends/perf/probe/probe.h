/*
 * Asking the kernel what a core PMU really has: does it count, how many counters, which event fits
 * where. Only with groups on a parked thread, which are checked but never run: no counter is
 * disturbed.
 */
#pragma once

#include "backends/perf/probe/pmu.h"
#include "backends/perf/state.h"

struct perf_event_attr;

/*
 * Fills what pmu.h says is found by probing, but the counters; pmu->why says why it cannot be used.
 * hybrid: there are several core PMUs, so the generic events must name theirs.
 */
void probe_core(struct pmu *pmu, bool hybrid);
/* Why this machine has no core PMU at all. */
void probe_say_no_core(const struct pmus *pmus, char *text, size_t size);
/* The rows of pmu that can count attr, and how many of them it takes. rows is 0 if it fits nowhere.
 */
void probe_rows(const struct pmus *pmus, const struct pmu *pmu, const struct perf_event_attr *attr,
                uint64_t *rows, unsigned *needed);
/* Why a code of the processor's own event would open and still never count, or NULL. */
const char *probe_lacks(const struct pmu *pmu, uint64_t code);
/* Can it be opened, disabled, on this thread (cpu < 0) or on a CPU? 0 or -errno. */
int probe_open(const struct perf_event_attr *attr, int cpu);
/* Of one that counts: fills general, fixed and fixed_event. */
void probe_counters(const struct pmus *pmus, struct pmu *pmu);
/* An event of the PMU without a counter of its own; one of the kernel's generic ones. */
void probe_filler(const struct pmu *pmu, struct perf_event_attr *attr);
void probe_generic(const struct pmu *pmu, uint64_t which, struct perf_event_attr *attr);

/* For struct backend. */

/*
 * May these events be one set? For sets with events that take counters of the processor, and for
 * all that have several members. CS08: the members do not go together; E19: there are not that many
 * counters; P09: the kernel does not have an event.
 */
int perf_check_set(struct backend_state *state, const struct plan_event *events, unsigned n,
                   bool multiplex, struct err *err);
/*
 * Rows of the class on this CPU that neither are in `own` (those that pmcfs's counters are on) nor
 * can be had now. No counter is disturbed. What cannot be told (no PMU of this class, the CPU went
 * away) is 0.
 */
uint64_t perf_foreign(struct backend_state *state, unsigned class_index, unsigned cpu,
                      uint64_t own);
