/*
 * The lines of the saved state, each one list of fields: what is written is what is read. A
 * record is a line of name=value words; other people's bytes are escaped.
 */
#pragma once

#include "core/base/buf.h"
#include "core/base/scan.h"
#include "core/log/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum field_kind {
    FIELD_BOOL,
    FIELD_U32,
    FIELD_I32,
    FIELD_U64,
    FIELD_DOUBLE,
    FIELD_CHARS,
    FIELD_TEXT
};

struct field {
    const char *name;
    size_t offset;
    enum field_kind kind;
    unsigned n;     /* values, separated by commas; of FIELD_CHARS, the room in bytes */
    uint64_t limit; /* numbers must be below it; 0: any */
};

struct saved {
    const char *name;
    const struct field *fields;
    unsigned n;
};

extern const struct saved saved_pmc, saved_pmc_rest, saved_event, saved_tally, saved_claim,
    saved_member, saved_link, saved_held, saved_proc, saved_counts, saved_error, saved_open_file,
    saved_sampled, saved_reader, saved_reader_place, saved_series, saved_instance;

/* What a PMC, a link or an open file have by pointer. */
struct pmc_rest {
    uint64_t instance;
    char *name;     /* owned once it was scanned */
    uint64_t owner; /* the process, 0: none */
    unsigned events, links;
    uint64_t log; /* its block, 0: none */
    uint64_t sets_bytes;
};
struct held {
    uint64_t proc; /* of a link; 0: none */
    char *rights;  /* owned; printed, or NULL */
};
struct reader_place {
    char *form;   /* the name; owned once it was scanned */
    uint64_t log; /* its block, 0: it has no place yet */
    struct log_mark mark;
};

/* " id=5 uid=0 …": behind the line's name, which saved_begin() writes. */
void saved_print(const struct saved *saved, const void *object, struct buf *out);
void saved_begin(const struct saved *saved, struct buf *out);
/*
 * The fields that the line has, in any order; others on it are passed over, and what it has not
 * stays as it is. Texts are new, what they replace is not freed. False: no such value, or no
 * memory.
 */
bool saved_scan(const struct saved *saved, void *object, const struct scan *line);
/* The value of one field of a line; false: there is none. */
bool line_find(const struct scan *line, const char *name, struct word *value);
bool line_u64(const struct scan *line, const char *name, uint64_t *value);
/* " name=1,2,3" and back. */
void numbers_print(const char *name, const uint64_t *value, unsigned n, struct buf *out);
bool numbers_scan(const char *name, uint64_t *value, unsigned n, const struct scan *line);

struct tally;
void tally_print(const struct tally *tally, unsigned n, struct buf *out); /* to the line's end */
bool tally_scan(struct tally *tally, unsigned n, const struct scan *line);

struct rights;
/* Printed into held->rights; false: no memory. The caller frees. */
bool held_fill(struct held *held, const struct rights *rights);
/* Rights from held->rights, which is freed; NULL when there were none. False: not readable. */
bool held_take(struct held *held, struct rights **rights);
