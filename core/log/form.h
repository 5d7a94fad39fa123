/*
 * Output formats of a log: a form converts complete records to the bytes of a stream. It is called
 * without the engine's lock, one call at a time per reader.
 */
#pragma once

#include "core/log/log_sets.h"
#include "core/log/record.h"

/* Facts about the PMC for the first line and for the forms. Filled in under the engine's lock. */
struct backend_state;
struct log_facts {
    const char *machine; /* name of the processor */
    char *class;         /* NULL without an event; the reader frees class and event */
    char *event;         /* the events as written, separated by spaces, or "" */
    /* A time before the first record, in three clocks. tsc is 0 without a TSC. */
    uint64_t monotonic_ns, realtime_ns, tsc;
    struct log_sets *sets; /* the events of ids: a reference, or NULL */
    struct memory_right reader;
    /* Prints the formats of tracepoints (see struct backend), or NULL. */
    bool (*formats)(struct backend_state *state, const struct log_event *const *events, unsigned n,
                    struct buf *out);
    struct backend_state *backend_state;
};

/* Returns the event of an id, or NULL if the id is unknown. */
static inline const struct log_event *event_of(const struct log_sets *sets, uint64_t id)
{
    return sets ? log_sets_event(sets, LOG_ID_SET(id), LOG_ID_PLACE(id)) : NULL;
}

struct log_form {
    const char *name;
    size_t batch; /* bytes of records per request, for a reply of about 128 KiB */
    /*
     * Writes the start of the stream, once, before the first records. *told is the form's only
     * state per reader, 0 at first; the form chooses its meaning.
     */
    void (*head)(uint64_t *told, const struct log_facts *facts, struct buf *out);
    /* Converts complete records, in order. */
    void (*records)(uint64_t *told, const struct log_facts *facts, const void *records, size_t len,
                    struct buf *out);
};
extern const struct log_form form_text; /* logtext.c */
extern const struct log_form form_perf; /* perfdata.c */
