/*
 * A spec as the engine keeps it, and whether the kernel counts it.
 */
#pragma once

#include "backends/perf/names/spec.h"

/* All but the strings and the rows. */
void spec_fill(const struct spec *spec, struct event *event);
/* 0 or -errno of opening it, disabled, on this thread or its CPU. Drops exclude_guest if refused.
 */
int spec_try(const struct spec *spec, struct event *event);
/* For backend.verify. */
int spec_verify(struct backend_state *state, struct event *event, struct err *err);
