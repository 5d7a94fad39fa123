/*
 * The reader of a log, for reader.c and the journal. Protected by the engine's lock; while `busy`
 * is set only the thread that reads may use the other fields.
 */
#pragma once

#include "core/log/form.h"
#include "core/read/reader.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct pmc;

struct log_reader {
    const struct log_form *form;
    struct engine *engine;
    uint64_t pmc;              /* id of the PMC */
    uid_t uid;                 /* user who pays for the PMC */
    struct log_cursor *cursor; /* NULL: the PMC has had no log yet */
    struct log_facts facts;    /* facts about the PMC when the first line was sent */
    uint64_t told_sets;        /* state of the form */
    bool headed;               /* the start of the stream was sent */
    bool busy;                 /* a thread converts a batch without the lock */
    bool closed;               /* the last record read was RECORD_CLOSE */
    uint64_t give_up_ns;       /* after a release: stop waiting for the last record at this time */
};

/* Creates a reader at the start of the log. Returns NULL on ENOMEM. */
struct log_reader *log_reader_new(struct engine *engine, const struct log_form *form, uint64_t pmc);
/* Updates the facts about the PMC until the first line is sent. Returns false on ENOMEM. */
bool log_reader_learn(struct log_reader *reader, const struct pmc *pmc);
size_t log_reader_bytes(const struct log_reader *reader); /* approximate memory use */
