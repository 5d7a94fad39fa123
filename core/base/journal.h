/*
 * The journal: a record for each object that outlives a request, in a memfd that outlives the
 * process. The last record of an object is what it is; one without a text ends it. Records are
 * published together by one store: what was not published before the process ended does not exist,
 * however much of it was written. One caller at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers are never used again; those that a program does not know it passes over. */
enum journal_kind {
    JOURNAL_ENGINE = 1,
    JOURNAL_PROCESS = 2,
    JOURNAL_INSTANCE = 3,
    JOURNAL_PMC = 4,
    JOURNAL_ERROR = 5,
    JOURNAL_OPEN_FILE = 6,
    JOURNAL_RIGHTS = 7, /* loaded before what has them */
    JOURNAL_KINDS
};

struct journal_record {
    uint32_t bytes; /* with this head; the next one begins at a multiple of 8 */
    uint32_t kind;
    uint64_t id;
    char text[];
};

struct journal;

struct journal *journal_new(void); /* NULL: no memory */
/* What another process wrote; the descriptor is the journal's then. NULL: it is no journal. */
struct journal *journal_open(int fd);
bool journal_clear(int fd); /* of no process: it is as a new one */
int journal_fd(const struct journal *journal);
void journal_free(struct journal *journal); /* NULL allowed */

/* False: no room; nothing was put. */
bool journal_put(struct journal *journal, uint32_t kind, uint64_t id, const char *text, size_t len);
bool journal_drop(struct journal *journal, uint32_t kind, uint64_t id);
/* So many bytes of records will not be needed any more: the other half is taken sooner. */
void journal_spare(struct journal *journal, uint64_t bytes);
/* What was put since the last time is forgotten: what is put now is all that will be true. */
void journal_anew(struct journal *journal);
/* What was put since the last time becomes true, all at once. */
void journal_publish(struct journal *journal);
bool journal_has_more(const struct journal *journal); /* something was put since */
/* How often that was done, modulo 2^32: what is to be true next time waits for one more. */
uint32_t journal_published(const struct journal *journal);

/* Of the objects of this kind (0: of all) that are not ended, those that were put first mostly
 * first. False: no memory, or fn() was false. */
bool journal_each(const struct journal *journal, uint32_t kind,
                  bool (*fn)(void *arg, const struct journal_record *record), void *arg);
static inline size_t journal_text_len(const struct journal_record *record)
{
    return record->bytes - sizeof *record;
}
/* Bytes that are published in the present half. */
uint64_t journal_used(const struct journal *journal);
