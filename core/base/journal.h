/*
 * The journal: records of all objects that live longer than a request, in a memfd that survives the
 * process. The last record of an object is valid; a record without text deletes the object. One
 * store publishes all records that were put since the last one; unpublished records do not exist
 * for a later process. One caller at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers are never reused. A program skips kinds that it does not know. */
enum journal_kind {
    JOURNAL_ENGINE = 1,
    JOURNAL_PROCESS = 2,
    JOURNAL_INSTANCE = 3,
    JOURNAL_PMC = 4,
    JOURNAL_ERROR = 5,
    JOURNAL_OPEN_FILE = 6,
    JOURNAL_RIGHTS = 7, /* loaded before the objects that use them */
    JOURNAL_KINDS
};

struct journal_record {
    uint32_t bytes; /* with this head; the next record is at a multiple of 8 */
    uint32_t kind;
    uint64_t id;
    char text[]; /* journal_text_len() bytes, without a NUL */
};

struct journal;

struct journal *journal_new(void); /* NULL on ENOMEM */
/* Opens the journal of another process and takes over the descriptor. Returns NULL if it is not a
 * journal, or on ENOMEM; then the descriptor stays the caller's. */
struct journal *journal_open(int fd);
bool journal_clear(int fd); /* empties a journal that no process uses; false on error */
int journal_fd(const struct journal *journal);
void journal_free(struct journal *journal); /* NULL allowed */

/* Puts a record; journal_drop() puts the deletion of an object. They return false, and put
 * nothing, if the journal is full or on ENOMEM. */
bool journal_put(struct journal *journal, uint32_t kind, uint64_t id, const char *text, size_t len);
bool journal_drop(struct journal *journal, uint32_t kind, uint64_t id);
/* Notes that this many bytes of records are obsolete: the journal then drops obsolete records
 * sooner. */
void journal_note_obsolete(struct journal *journal, uint64_t bytes);
/* Starts a full snapshot: drops unpublished records; the next publication replaces everything. */
void journal_start_snapshot(struct journal *journal);
/* Publishes all records that were put since the last publication, at once. */
void journal_publish(struct journal *journal);
bool journal_has_more(const struct journal *journal); /* there are unpublished records */
/* Returns the number of publications, modulo 2^32. */
uint32_t journal_publications(const struct journal *journal);

/* Calls fn with the last published record of each object of this kind (0: of all kinds), roughly in
 * the order in which the objects were first put. Stops if fn() returns false. Returns false then,
 * and on ENOMEM, without a call. */
bool journal_each(const struct journal *journal, uint32_t kind,
                  bool (*fn)(void *arg, const struct journal_record *record), void *arg);
static inline size_t journal_text_len(const struct journal_record *record)
{
    return record->bytes - sizeof *record;
}
/* Returns the bytes of the published records, obsolete records included until they are dropped. */
uint64_t journal_used(const struct journal *journal);
