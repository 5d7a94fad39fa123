/*
 * The forms in which a log is read: whole records become the bytes of a stream. A form runs without
 * the engine's lock, one call at a time per reader.
 */
#pragma once

#include "core/log/log_sets.h"
#include "core/log/record.h"

/* What the first line of each reader and the forms say of the PMC; made under the engine's lock. */
struct backend_state;
struct log_facts {
    const char *machine; /* processor */
    char *class;         /* NULL: nothing is known yet; this and the next are owned by the reader */
    char *event;         /* the set as written, separated by blanks; "": none */
    /* The same moment, before any record; tsc 0: there is none. */
    uint64_t monotonic_ns, realtime_ns, tsc;
    struct log_sets *sets; /* what ids mean: a reference, or NULL */
    struct memory_right reader;
    /* The formats of tracepoints: as struct backend has it, or NULL. */
    bool (*formats)(struct backend_state *state, const struct log_event *const *events, unsigned n,
                    struct buf *out);
    struct backend_state *backend_state;
};

/* The event of an id, NULL: it is not known. */
static inline const struct log_event *event_of(const struct log_sets *sets, uint64_t id)
{
    return sets ? log_sets_event(sets, LOG_ID_SET(id), LOG_ID_PLACE(id)) : NULL;
}

struct log_form {
    const char *name;
    size_t batch; /* bytes of records per request that fit a reply of 128 KiB, about */
    /*
     * What stands before everything; called once, before the first records. A reader keeps nothing
     * for its form but a number of the form's own, which is 0 before: what it has told so far.
     */
    void (*head)(uint64_t *told, const struct log_facts *facts, struct buf *out);
    /* Whole records, in order. */
    void (*records)(uint64_t *told, const struct log_facts *facts, const void *records, size_t len,
                    struct buf *out);
};
extern const struct log_form form_text; /* logtext.c */
extern const struct log_form form_perf; /* perfdata.c */
