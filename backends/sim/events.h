/*
 * The events of the simulated PMU. Functions named events_* and sim_is_qualifier() are members of
 * struct backend.
 */
#pragma once

#include "backends/sim/shape.h"
#include "core/backend.h"

/* Fills shape->row_events: how many events can use each row. */
void events_weigh(struct shape *shape);
/* Returns true for usr, os, edge, inv, cmask, count. */
bool sim_is_qualifier(struct word name);
/*
 * Spellings: NAME, CLASS::NAME, CLASS/NAME/, generic/NAME, PAPI_…, or rHEX (that many events per
 * millisecond), followed by :u :k or /u, or by hwpmc's ,usr ,os ,edge ,inv ,cmask=N.
 */
int events_resolve(struct backend_state *state, const char *text, struct event *out,
                   struct err *err);
int events_check_set(struct backend_state *state, const struct plan_event *events, unsigned n,
                     bool multiplex, struct err *err);
int events_list(struct backend_state *state, struct catalog *out, struct err *err);
int events_describe(struct backend_state *state, const char *class_name, const char *event,
                    struct buf *out);
