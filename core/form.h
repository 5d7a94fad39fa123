/*
 * The forms in which a log is read: whole records become the bytes of a stream. A form runs without
 * the engine's lock, one call at a time per reader.
 */
#pragma once

#include "core/log_sets.h"
#include "core/record.h"

/* What the first line of each reader and the forms say of the PMC; made under the engine's lock. */
struct log_facts {
    const char *pmc;     /* name */
    const char *machine; /* processor */
    const char *class;
    const char *event; /* the set as written, separated by blanks; "": none */
    /* The same moment, before any record; tsc 0: there is none. */
    uint64_t monotonic_ns, realtime_ns, tsc;
    uint64_t arrived;      /* serial of the last record the log has */
    struct log_sets *sets; /* a reference: what ids mean */
};

struct log_form {
    const char *name;
    size_t batch; /* bytes of records per request that fit a reply of 128 KiB, about */
    void *(*begin)(void);
    void (*end)(void *form); /* NULL allowed */
    /* What stands before everything; called once, before the first records. */
    void (*head)(void *form, const struct log_facts *facts, struct buf *out);
    /* Whole records, in order. */
    void (*records)(void *form, const struct log_facts *facts, const void *records, size_t len,
                    struct buf *out);
    void (*print)(const void *form, struct buf *out); /* one word, for the saved state */
    void *(*scan)(const char *text);
};
extern const struct log_form form_text; /* logtext.c */
extern const struct log_form form_perf; /* perfdata.c */
