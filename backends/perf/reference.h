/*
 * What the machine can do (info/backend), and which documents describe its events (info/cpuref).
 */
#pragma once

#include "backends/perf/state.h"

void perf_facts(struct backend_state *state, struct buf *out);
/* What provides a PMU of this name on the machines that have it, or NULL: no such is known. */
const char *reference_pmu(struct word name);
void perf_cpuref(struct backend_state *state, struct buf *out);
