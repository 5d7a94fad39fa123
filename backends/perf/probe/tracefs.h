/*
 * The kernel's tracefs: its directory "events", in which tracepoints have their numbers.
 */
#pragma once

#include "backends/perf/state.h"

/* A mount of pmcfs's own, which needs a right that only the start has: a descriptor, or -errno. */
int tracefs_mount(const char *root);
/* The directory for the caller to close, or -errno. */
int tracefs_events(const struct backend_state *state);
/* Where tracefs was found, or why it was not (false): for info/backend and sentences. */
bool tracefs_where(const struct backend_state *state, struct buf *out);
