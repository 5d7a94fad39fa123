/*
 * What the journal keeps of each object: its record is one or more parts, each of which is a line
 * with the part's name and a line "name=value" for each field. A field that is 0, false or empty
 * is not printed, and one that is not there is 0; what other programs wrote beyond is passed over.
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

/* One field on its way: into `out`, or, where that is NULL, from `text`. */
struct io {
    struct engine *engine;
    struct buf *out; /* nothing printed is no field */
    char *text;      /* to its end, NUL-terminated; may be changed */
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
    unsigned size;  /* bytes of a number: 1, 4 or 8; of FIELD_CHARS, the room */
    unsigned n;     /* numbers at most, separated by commas; those left out at the end are 0 */
    uint64_t limit; /* numbers must be below it; 0: any */
    uint64_t least; /* the number that is not printed, in place of 0 */
    /* Or, where it does not lie in the object as it is written: both ways out and in. False: it
     * does not fit, or no memory. */
    bool (*io)(struct io *io, void *object);
};

struct part {
    const char *name;
    const struct field *fields;
    unsigned n;
    void *(*begin)(struct loading *load);         /* its object; NULL: it cannot stand here */
    bool (*end)(struct loading *load, bool fine); /* behind its last field, fine or not; or NULL */
};

#define FIELD_AS(type, member, width, count, most, unsaid)                                         \
    {                                                                                              \
        .name = #member, .offset = offsetof(type, member), .size = width, .n = count,              \
        .limit = most, .least = (uint64_t)(unsaid)                                                 \
    }
#define SIZE_OF(type, member) sizeof(((const type *)0)->member)
/* bool, enum, 32 and 64 bits, a double by its bits. An enum that is an index must have a limit. */
#define BELOW(type, member, most) FIELD_AS(type, member, SIZE_OF(type, member), 1, most, 0)
#define FIELD(type, member)       BELOW(type, member, 0)
#define FLAG(type, member)        BELOW(type, member, 2)
#define OR_NONE(type, member)     FIELD_AS(type, member, SIZE_OF(type, member), 1, 0, UINT32_MAX)
/* From one member to another, all of one size. */
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
/* An object that is all 0 has in each field what is not printed. */
void part_clear(const struct part *part, void *object);
/* One field of it, or one that it does not have. */
bool part_scan(const struct part *part, struct io *io, void *object, const char *name);

/* For io(): "1,2,3" without the zeroes at the end; of so many bytes each. */
bool numbers_io(struct io *io, void *value, unsigned size, unsigned n);
