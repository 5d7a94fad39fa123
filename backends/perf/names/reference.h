/*
 * What the machine can do (info/backend), and which documents describe its events (info/cpuref).
 */
#pragma once

#include "backends/perf/state.h"

void perf_facts(struct backend_state *state, struct buf *out);
void perf_cpuref(struct backend_state *state, struct buf *out);
