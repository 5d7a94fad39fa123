/*
 * The kernel's tracefs: its directory "events", in which tracepoints have their numbers.
 */
#pragma once

#include "backends/perf/state.h"

struct tracefs;

/*
 * The directory, or -1, and in *where its mount or why there is none: the thread's own. Looked for
 * when it is needed first, and again until it is there.
 */
int tracefs_events(struct backend_state *state, const char **where);
/* Where tracefs was found, or why it was not: one line for info/backend. */
const char *tracefs_where(struct backend_state *state, bool *found);
void tracefs_free(struct tracefs *tracefs); /* NULL allowed */
