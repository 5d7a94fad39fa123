/*
 * What a reader of a log is: for reader.c and for the journal. Everything is used with the
 * engine's lock, unless it is busy.
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
    uint64_t pmc;              /* its id */
    uid_t uid;                 /* that pays for its PMC */
    struct log_cursor *cursor; /* NULL: no record was ever put */
    struct log_facts facts;    /* as of the last look at the PMC before the first line was given */
    uint64_t told_sets;        /* by the form */
    bool headed;               /* it has had what stands before everything */
    bool busy;                 /* a batch is under way without the lock */
    bool closed;               /* the last record it took was the log's last */
    uint64_t give_up_ns;       /* the PMC was released: the last record comes before that */
};

/* At the beginning. NULL: no memory. */
struct log_reader *log_reader_new(struct engine *engine, const struct log_form *form, uint64_t pmc);
/* What the first line says of the PMC, until that was given. False: no memory. */
bool log_reader_learn(struct log_reader *reader, const struct pmc *pmc);
size_t log_reader_bytes(const struct log_reader *reader); /* what it takes of memory, about */
