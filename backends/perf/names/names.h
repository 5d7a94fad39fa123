/*
 * Names of events: what the rest of the backend has of them. For struct backend, but the last two.
 */
#pragma once

#include "backends/perf/state.h"

bool qualifier_is(struct word name);
int perf_resolve(struct backend_state *state, const char *text, struct event *out, struct err *err);
int perf_verify(struct backend_state *state, struct event *event, struct err *err);
uint64_t perf_look(struct backend_state *state);
int perf_list(struct backend_state *state, struct catalog *out, struct err *err);
int perf_check_filter(struct backend_state *state, const struct event *events, unsigned n,
                      const char *filter, struct err *err);
bool perf_formats(struct backend_state *state, const struct log_event *const *events, unsigned n,
                  struct buf *out);
int perf_describe(struct backend_state *state, const char *class_name, const char *event,
                  struct buf *out);
void perf_facts(struct backend_state *state, struct buf *out);
void perf_cpuref(struct backend_state *state, struct buf *out);

/*
 * Reads libpfm4's tables: before any thread, and 20 ms where debugfs is mounted. LIBPFM_* must be
 * out of the environment.
 */
void pfm_prepare(void);
/* The number of a tracepoint that a part of the backend needs. 0 or -errno. */
int tracepoint_number(struct backend_state *state, const char *system, const char *name,
                      uint64_t *number);
