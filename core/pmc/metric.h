/*
 * Metrics: what follows from the counts of a set, and the words "metric/NAME" in `event` that stand
 * for the events which one needs.
 */
#pragma once

#include "core/backend.h"
#include "core/base/scan.h"

struct metric {
    const char *name;
    const char *numerator; /* a generic name; with ":u" or ":uk" counted in just these modes */
    const char *divisor;   /* the same, or METRIC_ELAPSED */
    double scale;          /* of numerator / divisor */
    const char *unit;      /* "-": a plain ratio */
    const char *description;
};

#define METRIC_CLASS   "metric"
#define METRIC_ELAPSED "elapsed_ns" /* of the clock on the wall, since the start */

const struct metric *metric_at(unsigned index); /* NULL at the end */
/* Is the word one of "metric/…"? */
bool metric_is(struct word word);
/*
 * "metric/NAME", with modifiers and qualifiers behind it that are meant for each of its events.
 * Calls add() for each of them; CS01 with near misses, CS03, or what add() answers.
 */
int metric_events(struct word word, int (*add)(void *arg, const char *name, struct err *err),
                  void *arg, struct err *err);

/* Is it an event that a metric needs: known, whether or not this machine has it? */
bool metric_needs(const char *event);

/* One reading of a set, or the step between two. */
struct metric_reading {
    const struct plan_event *events;
    const int64_t *value;
    unsigned n;
    uint64_t enabled_ns, elapsed_ns;
};
/* The value of the word; false: a divisor is 0, or it has no such events any more. */
bool metric_value(struct word word, const struct metric_reading *reading, double *value);
/* All that its events allow: "name value unit" lines, with " partial" behind each. */
void metrics_print(const struct metric_reading *reading, bool partial, struct buf *out);
/* "0.813", or "-". */
void metric_print(bool known, double value, struct buf *out);

/* events/metric: those with events that this machine can count one by one. */
void metrics_list(const struct backend *backend, struct backend_state *state, struct catalog *out);
/*
 * The whole of events/: what the backend lists, and the metrics. 0, or a negative errno with a
 * sentence (err may be NULL).
 */
int events_list_all(const struct backend *backend, struct backend_state *state, struct catalog *out,
                    struct err *err);
int metric_describe(const char *name, struct buf *out); /* -ENOENT */
