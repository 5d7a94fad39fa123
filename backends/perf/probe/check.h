/*
 * What fits together is asked of the kernel itself: an enabled flexible group on a parked thread of
 * the daemon. Nobody's counters are disturbed by it.
 */
#pragma once

#include "backends/perf/state.h"

/*
 * May these events be one set? For sets with events that take counters of the processor, and for
 * all that have several members. CS08: the members do not go together; E19: there are not that many
 * counters; P09: the kernel does not have an event.
 */
int perf_check_set(struct backend_state *state, const struct plan_event *events, unsigned n,
                   bool multiplex, struct err *err);
