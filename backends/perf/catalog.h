/*
 * events/: what is listed, and the text of each file; and what may be meant by a name that is not.
 */
#pragma once

#include "backends/perf/spec.h"

int perf_list(struct backend_state *state, struct catalog *out, struct err *err);
/* Says which part of a spelling that nobody claimed is wrong, with near misses. CS01, X06, P09. */
int catalog_unknown(struct spec *spec, struct word text, struct err *err);
int perf_describe(struct backend_state *state, const char *class_name, const char *event,
                  struct buf *out);
