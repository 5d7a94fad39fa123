/*
 * Which counters of a CPU others hold: the kernel (an NMI watchdog) or another perf user.
 */
#pragma once

#include "backends/perf/state.h"

/*
 * Rows of the class on this CPU that neither are in `own` (those that pmcfs's counters are on) nor
 * can be had now. Nobody is disturbed. What cannot be told (no PMU of this class, the CPU went
 * away) is 0.
 */
uint64_t perf_foreign(struct backend_state *state, unsigned class_index, unsigned cpu,
                      uint64_t own);
