/*
 * events/: what is listed, and the text of each file.
 */
#pragma once

#include "backends/perf/state.h"

int perf_list(struct backend_state *state, struct catalog *out, struct err *err);
int perf_describe(struct backend_state *state, const char *class_name, const char *event,
                  struct buf *out);
