/*
 * The text of journal records. A record has one or more parts; a part is a line with its name and a
 * line "name=value" for each field. A field that is 0, false or empty is not printed, and a missing
 * field is 0. Unknown fields, of other versions of the program, are skipped.
 */
#pragma once

#include "core/base/buf.h"
#include "core/base/journal.h"
#include "core/base/scan.h"
#include "core/log/log.h"
#include "core/log/log_sets.h"
#include "core/pmc/pmc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loading;

/* A field that is printed to `out`, or read from `text` if `out` is NULL. */
struct io {
    struct engine *engine;
    struct buf *out; /* if nothing is printed, the field is left out */
    char *text;      /* the value, NUL-terminated; may be modified */
    struct loading *load;
};

enum field_kind {
    FIELD_NUMBERS,
    FIELD_TEXT, /* a char *, owned */
    FIELD_CHARS
};

struct field {
    const char *name;
    size_t offset;
    enum field_kind kind;
    unsigned size; /* bytes of a number: 1, 4 or 8; size of the array for FIELD_CHARS */
    unsigned n; /* maximum count of numbers, separated by commas; missing ones at the end are 0 */
    uint64_t limit; /* numbers must be lower; 0: no limit */
    uint64_t least; /* the number that is not printed, instead of 0 */
    /* For a field whose text differs from its member: prints or reads it. Returns false if the text
     * is invalid, or on ENOMEM. */
    bool (*io)(struct io *io, void *object);
};

struct part {
    const char *name;
    const struct field *fields;
    unsigned n;
    void *(*begin)(struct loading *load); /* returns the part's object; NULL: not valid here */
    bool (*end)(struct loading *load, bool fine); /* called after the last field, or NULL */
};

#define FIELD_AS(type, member, width, count, most, unsaid)                                         \
    {                                                                                              \
        .name = #member, .offset = offsetof(type, member), .size = width, .n = count,              \
        .limit = most, .least = (uint64_t)(unsaid)                                                 \
    }
#define SIZE_OF(type, member) sizeof(((const type *)0)->member)
/* Fields of type bool, enum, 32 and 64 bit integers, and double (by its bits). An enum that is used
 * as an index must have a limit. */
#define BELOW(type, member, most) FIELD_AS(type, member, SIZE_OF(type, member), 1, most, 0)
#define FIELD(type, member)       BELOW(type, member, 0)
#define FLAG(type, member)        BELOW(type, member, 2)
#define OR_NONE(type, member)     FIELD_AS(type, member, SIZE_OF(type, member), 1, 0, UINT32_MAX)
/* A range of members of the same size. */
#define SPAN(type, member, last)                                                                   \
    FIELD_AS(type, member, SIZE_OF(type, last),                                                    \
             (offsetof(type, last) - offsetof(type, member)) / SIZE_OF(type, last) + 1, 0, 0)
#define ARRAY(type, member)                                                                        \
    FIELD_AS(type, member, SIZE_OF(type, member[0]),                                               \
             SIZE_OF(type, member) / SIZE_OF(type, member[0]), 0, 0)
#define TEXT(type, member)                                                                         \
    {                                                                                              \
        .name = #member, .offset = offsetof(type, member), .kind = FIELD_TEXT                      \
    }
#define CHARS(type, member)                                                                        \
    {                                                                                              \
        .name = #member, .offset = offsetof(type, member), .kind = FIELD_CHARS,                    \
        .size = SIZE_OF(type, member)                                                              \
    }
#define OTHER(text)                                                                                \
    {                                                                                              \
        .name = #text, .io = text##_io                                                             \
    }
#define PART(text, begin, end)                                                                     \
    {                                                                                              \
#text, text##_fields, sizeof text##_fields / sizeof text##_fields[0], begin, end           \
    }

void part_print(const struct part *part, struct engine *engine, void *object, struct buf *out);
/* Sets each field of an object to the value that is not printed. */
void part_clear(const struct part *part, void *object);
/* Reads one field; unknown names are skipped. */
bool part_scan(const struct part *part, struct io *io, void *object, const char *name);

/* For io(): n numbers of `size` bytes as "1,2,3", without zeroes at the end. */
bool numbers_io(struct io *io, void *value, unsigned size, unsigned n);
