/*
 * Metrics: values derived from the counts of a set, such as instructions per cycle. The word
 * "metric/NAME" in `event` selects the events that a metric needs.
 */
#pragma once

#include "core/backend.h"
#include "core/base/scan.h"

#define METRIC_CLASS "metric"

/* Returns the name of the metric that has this name, or NULL. */
const char *metric_named(struct word name);
/* Returns true for "metric/…". */
bool metric_is(struct word word);
/*
 * Calls add() for each event of "metric/NAME", with the modifiers and qualifiers that follow.
 * Returns 0, CS01 with near misses, CS03, or the result of add().
 */
int metric_events(struct word word, int (*add)(void *arg, const char *name, struct err *err),
                  void *arg, struct err *err);

/* Returns true if a metric needs the event, which this host may not have. */
bool metric_needs(const char *event);

/* A reading of a set, or the difference of two. */
struct metric_reading {
    const struct plan_event *events;
    const int64_t *value;
    unsigned n;
    uint64_t elapsed_ns; /* while the PMC ran */
};
/* Computes the metric of a word. Returns false if the divisor is 0 or the set lacks its events. */
bool metric_value(struct word word, const struct metric_reading *reading, double *value);
/* Prints a line "name value unit" for each metric of the set's events, followed by " partial" if
 * set. */
void metrics_print(const struct metric_reading *reading, bool partial, struct buf *out);
/* Prints "0.813", or "-" if not known. */
void metric_print(bool known, double value, struct buf *out);

/* Lists metrics for events/metric, if this host can count their events. */
void metrics_list(const struct backend *backend, struct backend_state *state, struct catalog *out);
/*
 * Lists all of events/: the backend's events and the metrics. Returns 0, a negative errno with a
 * sentence, or -ENOMEM without one (err may be NULL).
 */
int events_list_all(const struct backend *backend, struct backend_state *state, struct catalog *out,
                    struct err *err);
int metric_describe(const char *name, struct buf *out); /* -ENOENT */
