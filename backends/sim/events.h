/*
 * The events of the simulated PMU: their names, how people spell them, which rows fit them.
 */
#pragma once

#include "backends/sim/shape.h"
#include "core/backend.h"

/* Fills shape->row_events: how many events can use each row. */
void events_weigh(struct shape *shape);
/*
 * Spellings: NAME, CLASS::NAME, CLASS/NAME/, generic/NAME, PAPI_…; NAME may be rHEX (that many
 * events a millisecond). Behind them :u :k or /u, or hwpmc's ,usr ,os ,edge ,inv ,cmask=N.
 */
int events_resolve(struct backend_state *state, const char *text, struct event *out,
                   struct err *err);
int events_check_set(struct backend_state *state, const struct plan_event *events, unsigned n,
                     bool multiplex, struct err *err);
int events_list(struct backend_state *state, struct catalog *out, struct err *err);
int events_describe(struct backend_state *state, const char *class_name, const char *event,
                    struct buf *out);
