/*
 * Metrics: values derived from the counts of a set, such as instructions per cycle. The word
 * "metric/NAME" in `event` selects the events that a metric needs.
 */
#pragma once

#include "core/backend.h"
#include "core/base/scan.h"

#define METRIC_CLASS "metric"

/* Finds a metric by its name, without case, and with '-', '_' and '.' equal. Returns its name as in
 * the table, or NULL. */
const char *metric_named(struct word name);
/* Returns true for "metric/…". */
bool metric_is(struct word word);
/*
 * Calls add() for each event of "metric/NAME", with the modifiers and qualifiers that follow. Needs
 * metric_is(word). Returns 0, CS01 with near misses, CS03 if nothing may follow this metric or too
 * much does, or the first result of add() that is not 0.
 */
int metric_events(struct word word, int (*add)(void *arg, const char *name, struct err *err),
                  void *arg, struct err *err);

/* Returns true if a metric of the table needs the event, even if this host does not have it.
 * Ignores modifiers and qualifiers. */
bool metric_needs(const char *event);

/* A reading of a set, or the difference of two. */
struct metric_reading {
    const struct plan_event *events;
    const int64_t *value;
    unsigned n;
    uint64_t elapsed_ns; /* while the PMC ran */
};
/* Computes the metric of a word "metric/NAME" or "metric/NAME:MODE". Returns false and sets *value
 * to 0 if the divisor is 0, the metric is unknown, or the set lacks its events. */
bool metric_value(struct word word, const struct metric_reading *reading, double *value);
/* Prints a line "name value unit" for each metric that can be computed from the set's events, then
 * for the rate of each event except CPU clocks ("cycles/s", and "cycles/cpu-s" if the set has a CPU
 * clock). partial: adds " partial" to each line. */
void metrics_print(const struct metric_reading *reading, bool partial, struct buf *out);
/* Prints "0.813000", or "-" if not known. */
void metric_print(bool known, double value, struct buf *out);

/* Adds metrics for events/metric, if this host can count their events. */
void metrics_add_all(const struct backend *backend, struct backend_state *state,
                     struct catalog *out);
/*
 * Adds all of events/, the backend's events and the metrics, and calls catalog_finish(). Returns
 * 0, a negative errno with a sentence, or -ENOMEM without one (err may be NULL).
 */
int catalog_fill(const struct backend *backend, struct backend_state *state, struct catalog *out,
                 struct err *err);
int metric_describe(const char *name, struct buf *out); /* the text of its file; 0 or -ENOENT */
