/*
 * From a spelling to what it means: each is tried in turn, qualifiers are applied, and what was
 * asked for must be something the event can tell.
 */
#pragma once

#include "backends/perf/names/spec.h"

/* For backend.resolve. */
int spec_resolve(struct backend_state *state, const char *text, struct event *out, struct err *err);
/* What it means, without rows: 0 means that it is a spelling of this machine. */
int spec_parse(struct backend_state *state, const char *text, struct spec *spec, struct err *err);
