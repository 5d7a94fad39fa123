/*
 * The reader of an open `samples` or `samples.perf`: a position in the log and the state of its
 * form. Protected by the engine's lock; while `busy` is set only the thread that reads may use the
 * other fields. The file operations are in engine.h.
 */
#pragma once

#include "core/log/log.h"
#include "core/log/log_sets.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct backend_state;
struct engine;
struct pmc;

/*
 * ---- output formats ----
 *
 * A form converts complete records to the bytes of a stream. It is called without the engine's
 * lock, one call at a time per reader.
 */

/* Facts about the PMC for the first line and for the forms. Filled in under the engine's lock. */
struct log_facts {
    const char *processor; /* name of the processor */
    char *class;           /* of the first event, or "-"; owned. NULL: facts are not set yet */
    char *event;           /* the events as written, separated by spaces, or ""; owned */
    /* The time when the PMC was created, in three clocks. tsc is 0 without a TSC. */
    uint64_t monotonic_ns, realtime_ns, tsc;
    struct log_sets *sets; /* the events of ids: a reference, or NULL */
    struct memory_right reader;
    /* Formats of tracepoints (see struct backend), or NULL. */
    char *(*tracepoint_format)(struct backend_state *state, const struct log_event *event);
    bool (*print_tracing_data)(struct backend_state *state, const struct log_event *const *events,
                               unsigned n, struct buf *out);
    struct backend_state *backend_state;
};

/* Returns the event of an id, or NULL if the id is unknown. */
static inline const struct log_event *event_of(const struct log_sets *sets, uint64_t id)
{
    return sets ? log_sets_event(sets, LOG_ID_SET(id), LOG_ID_INDEX(id)) : NULL;
}

struct log_form {
    const char *name;
    size_t batch; /* bytes of records per request, for a reply of about 128 KiB */
    /*
     * Writes the start of the stream, once, before the first records. *state is the form's only
     * state per reader, 0 at first; the form chooses its meaning.
     */
    void (*head)(uint64_t *state, const struct log_facts *facts, struct buf *out);
    /* Returns true and completes the batch if the complete records at `begun` of out are the bytes
     * of the stream already; otherwise records() converts a copy. NULL: never. */
    bool (*in_place)(uint64_t *state, const struct log_facts *facts, size_t begun, struct buf *out);
    /* Converts complete records, in order. */
    void (*records)(uint64_t *state, const struct log_facts *facts, const void *records, size_t len,
                    struct buf *out);
};
extern const struct log_form form_text; /* logtext.c */
extern const struct log_form form_perf; /* perfdata.c */
void perfdata_round(struct buf *out);   /* appends PERF_RECORD_FINISHED_ROUND */

/* ---- readers ---- */

struct log_reader {
    const struct log_form *form;
    struct engine *engine;
    uint64_t pmc;              /* id of the PMC */
    uid_t uid;                 /* user whose quotas the PMC uses (pmc.payer) */
    struct log_cursor *cursor; /* NULL: the PMC has had no log yet */
    struct log_facts facts;    /* about the PMC; after the first line was sent: as at that time */
    uint64_t form_state;       /* see struct log_form */
    bool headed;               /* the start of the stream was sent */
    bool busy;                 /* a thread converts a batch without the lock */
    bool closed;               /* the last record read was RECORD_CLOSE */
    uint64_t give_up_ns;       /* after a release: stop waiting for the last record at this time */
};

/* Creates a reader without a cursor; the file operations open the log at its start. Returns NULL on
 * ENOMEM. */
struct log_reader *log_reader_new(struct engine *engine, const struct log_form *form, uint64_t pmc);
/* Updates `uid` and, until the first line is sent, the facts about the PMC. Returns false on
 * ENOMEM. */
bool log_reader_update_facts(struct log_reader *reader, const struct pmc *pmc);
size_t log_reader_bytes(const struct log_reader *reader); /* approximate memory use */
void log_reader_free(struct log_reader *reader);          /* may be NULL; needs no lock */
