/*
 * The text of journal records, and the state while they are loaded. A record has one or more parts;
 * a part is a line with its name and a line "name=value" for each field. A field that is 0, false
 * or empty (or field.omitted) is not printed, and a missing field gets that value. Unknown fields,
 * of other versions of the program, are skipped.
 */
#pragma once

#include "core/base/buf.h"
#include "core/base/journal.h"
#include "core/base/scan.h"
#include "core/engine.h"
#include "core/log/log.h"
#include "core/log/log_sets.h"
#include "core/pmc/pmc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loading;

/* A field that is printed to `out`, or read from `text` if `out` is NULL. */
struct io {
    struct engine *engine; /* NULL: part `file` or `series` is printed, which does not need it */
    struct buf *out;       /* if nothing is printed, the field is left out */
    char *text;            /* reading: the value, NUL-terminated; may be modified */
    struct loading *load;  /* reading */
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
    uint64_t limit;   /* numbers must be lower; 0: no limit */
    uint64_t omitted; /* the number that is not printed, instead of 0 */
    /* If not NULL, prints or reads the field, and `kind`, size, n and limit do not apply. member:
     * object + offset. Returns false if the text is invalid, or on ENOMEM. */
    bool (*io)(struct io *io, void *member);
};

struct part {
    const char *name;
    const struct field *fields;
    unsigned n;
    size_t object; /* without begin(): offset in struct loading of the pointer to the object */
    /* Returns the object, often a new one, or NULL if the part is not valid here, or on ENOMEM. */
    void *(*begin)(struct loading *load);
    /* Called after the last field, also if a field was invalid (fine false). Returns false if the
     * part is invalid, or on ENOMEM. May be NULL. */
    bool (*end)(struct loading *load, bool fine);
};

#define FIELD_AS(type, member, width, count, bound, unprinted)                                     \
    {                                                                                              \
        .name = #member, .offset = offsetof(type, member), .size = width, .n = count,              \
        .limit = bound, .omitted = (uint64_t)(unprinted)                                           \
    }
#define SIZE_OF(type, member) sizeof(((const type *)0)->member)
/* Fields of type bool, enum, 32 and 64 bit integers, and double (by its bits). An enum that is used
 * as an index must have a limit. */
#define BELOW(type, member, bound) FIELD_AS(type, member, SIZE_OF(type, member), 1, bound, 0)
#define FIELD(type, member)        BELOW(type, member, 0)
#define FLAG(type, member)         BELOW(type, member, 2)
/* A number below `bound` (0: any) under a name that is not its member's. */
#define NAMED(text, type, member, bound)                                                           \
    {                                                                                              \
        .name = text, .offset = offsetof(type, member), .size = SIZE_OF(type, member), .n = 1,     \
        .limit = bound                                                                             \
    }
#define OR_NONE(type, member) FIELD_AS(type, member, SIZE_OF(type, member), 1, 0, UINT32_MAX)
/* The members from `member` to `last`, which follow each other and have the same size. */
#define SPAN(type, member, last) NAMED_SPAN(#member, type, member, last)
#define NAMED_SPAN(text, type, member, last)                                                       \
    {                                                                                              \
        .name = text, .offset = offsetof(type, member), .size = SIZE_OF(type, last),               \
        .n = (offsetof(type, last) - offsetof(type, member)) / SIZE_OF(type, last) + 1             \
    }
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
/* A field that the function text_io() prints and reads, from the object or from one member. */
#define OTHER(text)                                                                                \
    {                                                                                              \
        .name = #text, .io = text##_io                                                             \
    }
#define OTHER_OF(text, type, member)                                                               \
    {                                                                                              \
        .name = #text, .offset = offsetof(type, member), .io = text##_io                           \
    }
#define PART(text, at_begin, at_end)                                                               \
    {                                                                                              \
        .name = #text, .fields = text##_fields,                                                    \
        .n = sizeof text##_fields / sizeof text##_fields[0], .begin = at_begin, .end = at_end      \
    }
/* A part whose object exists when it begins: `to_object` of struct loading points to it. */
#define PART_OF(to_object, text, at_end)                                                           \
    {                                                                                              \
        .name = #text, .fields = text##_fields,                                                    \
        .n = sizeof text##_fields / sizeof text##_fields[0],                                       \
        .object = offsetof(struct loading, to_object), .end = at_end                               \
    }

void part_print(const struct part *part, struct engine *engine, void *object, struct buf *out);
/* Reads the field `name` from io->text. Returns true also for an unknown name; false if the text is
 * invalid, or on ENOMEM. */
bool part_scan(const struct part *part, struct io *io, void *object, const char *name);

/* For io(): prints or reads n numbers of `size` bytes as "1,2,3", without zeroes at the end.
 * Returns false if the text is invalid. */
bool numbers_io(struct io *io, void *value, unsigned size, unsigned n);

/* ---- loading ---- */

#define LOAD_LINKS_MAX (1u << 20)

struct loading {
    struct engine *engine;
    uint64_t id;             /* id of the record and of its object */
    const struct part *part; /* current part; NULL: unknown, skipped */
    void *object;            /* of the current part */
    bool begun;              /* the first part of the record was found */

    struct named { /* arguments for creating an instance or a PMC */
        uint64_t instance;
        char *name;
        uint32_t uid, payer;
        uint64_t owner; /* process of lifetime=owner or lifetime=namespace; 0: none */
    } * named;
    struct instance *instance;
    struct pmc *pmc;
    bool events_complete; /* part `counts` was loaded: no event may follow; rows and links may */
    uint64_t log;         /* block of the log; 0: none */
    struct link *link;
    struct proc *proc;
    struct last_error *error;

    struct open_file *open;
    struct rights *rights;
    struct saved_position { /* position of a reader */
        uint64_t log;       /* block of the log; 0: none yet */
        struct log_mark mark;
    } position;
    struct sampled { /* events of the set that is being read */
        bool first;  /* first event of a set */
        struct log_event event;
    } sampled[SET_MAX];
    unsigned n_sampled;
    struct log_sets *sets; /* the complete sets that were read before */
};

struct kind {
    /* The parts, in any order, except that a record starts with the first one, which occurs only
     * once. The list ends with NULL. */
    const struct part *const *parts;
    void (*print)(struct engine *engine, uint64_t id,
                  struct buf *out); /* prints nothing if the object is gone */
    /* Called after the last part, also if a part was invalid (fine false); returns false if the
     * record is invalid. May be NULL. */
    bool (*done)(struct loading *load, bool fine);
};
extern const struct kind kind_engine, kind_process, kind_instance, kind_rights, kind_pmc,
    kind_error;

/* Loads all parts of a text. Returns false if it is invalid, or on ENOMEM. */
bool load_text(struct loading *load, const struct kind *kind, const char *text, size_t len);

/* Notes the serial of a loaded object, so that new objects get later ones. Returns false if it is
 * not valid: 0 and 1 belong to the root, and node ids hold 52 bits. */
static inline bool load_serial(struct engine *engine, uint64_t id)
{
    if (id <= 1 || id >= UINT64_C(1) << 52)
        return false;
    if (engine->next_serial <= id)
        engine->next_serial = id + 1;
    return true;
}
/* Returns in *out a reference to the log of this block, which all its users share; NULL if block is
 * 0 or no longer has a log. Returns false on ENOMEM. */
bool load_log(struct engine *engine, uint64_t block, struct log **out);

/* Prints the text of an object's record, or nothing if the object is gone. */
void object_print(struct engine *engine, enum journal_kind kind, uint64_t id, struct buf *out);

/* ---- parts_*.c: parts that several kinds of records use ---- */

extern const struct part part_event, part_sampled, part_link, part_counter;
/* Prints a part for each event of all sets, which may be NULL. */
void sampled_print(struct engine *engine, const struct log_sets *sets, struct buf *out);
/* Passes the sets that were read to the caller (NULL: none). Returns false on ENOMEM; the caller
 * owns the sets also then. */
bool load_sets_end(struct loading *load, struct log_sets **sets);
bool tally_io(struct io *io, struct tally *tally, unsigned n);
/* field.io of a member of type struct rights *: prints the id of the record of the rights, or takes
 * a reference to the rights with that id. Returns false if the text is invalid or no rights have
 * the id. */
bool rights_io(struct io *io, void *member);
