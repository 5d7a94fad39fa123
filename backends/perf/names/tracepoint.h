/*
 * Tracepoints: the kernel's static probe points, named SYSTEM:NAME; their numbers stand in tracefs.
 */
#pragma once

#include "backends/perf/names/spec.h"

#include "core/base/catalog.h"

/* -ENOENT: it is no SYSTEM:NAME with a SYSTEM that tracefs has, or there is no tracefs. CS01, CS03,
 * P09. */
int tracepoint_parse(struct spec *spec, struct word text, struct err *err);
/* A number that is another one when tracepoints may have come or gone. Cheap: does not list them.
 */
uint64_t tracepoint_look(struct backend_state *state);
/* All of them that can be counted. */
void tracepoint_list(struct backend_state *state, struct catalog *out);
/* Its number, for a part of the backend that needs it. 0 or -errno. */
int tracepoint_number(struct backend_state *state, const char *system, const char *name,
                      uint64_t *number);
