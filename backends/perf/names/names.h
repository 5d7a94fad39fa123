/*
 * Event names: the functions that other parts of the perf backend use. Functions named perf_* are
 * members of struct backend (core/backend.h), which describes them.
 */
#pragma once

#include "backends/perf/state.h"

bool perf_is_qualifier(struct word name);
int perf_resolve(struct backend_state *state, const char *text, struct event *out, struct err *err);
int perf_verify(struct backend_state *state, struct event *event, struct err *err);
uint64_t perf_catalog_mark(struct backend_state *state);
int perf_catalog_add_all(struct backend_state *state, struct catalog *out, struct err *err);
int perf_check_filter(struct backend_state *state, const struct event *events, unsigned n,
                      const char *filter, struct err *err);
char *perf_tracepoint_format(struct backend_state *state, const struct log_event *event);
bool perf_print_tracing_data(struct backend_state *state, const struct log_event *const *events,
                             unsigned n, struct buf *out);
int perf_describe(struct backend_state *state, const char *class_name, const char *event,
                  struct buf *out);
void perf_print_facts(struct backend_state *state, struct buf *out);
void perf_print_cpuref(struct backend_state *state, struct buf *out);

/*
 * Reads libpfm4's tables. Call it before starting threads and after removing LIBPFM_* variables
 * from the environment. Takes 20 ms if debugfs is mounted.
 */
void pfm_prepare(void);
/* Looks up the number of a tracepoint in tracefs. Returns 0 or -errno. */
int tracepoint_number(struct backend_state *state, const char *system, const char *name,
                      uint64_t *number);
