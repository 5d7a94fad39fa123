/*
 * What the machine can do (info/backend), and which documents describe its events (info/cpuref).
 */
#pragma once

#include "backends/perf/state.h"

void perf_facts(struct backend_state *state, struct buf *out);
/* Do other machines have a PMU of this name? */
bool reference_has_pmu(struct word name);
void perf_cpuref(struct backend_state *state, struct buf *out);
