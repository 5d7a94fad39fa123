/*
 * What open files remember. A handle number (fh) is a serial given at open; a row behind it is made
 * only when there is something to remember, so a number without a row is a freshly opened file.
 * All with the engine's lock held.
 */
#pragma once

#include "core/base/arena.h"
#include "core/base/hash.h"
#include "core/base/journal.h"
#include "core/call.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct engine;
struct kept;

struct handle {
    uint64_t fh;
    unsigned refs;     /* the table's one and one per request under way */
    UT_hash_handle hh; /* by fh */
    struct open_file open;
    bool recorded, swapped, seen; /* there is a record, which says that */
    struct text_place {
        bool has_text; /* what follows is known: of the last read from its start */
        bool written;  /* since then: the next read starts a new text where it stands */
        bool by_uring; /* the next read is one of io_uring's */
        off_t base;    /* offset at which the text starts; of a stream, where the next read does */
        size_t len;    /* of the whole text */
        size_t taken;  /* of a stream: of what did not fit into the last reply */
        struct kept_text {
            uint64_t block; /* 0: none */
            size_t len;
        } text,   /* kept while a reader may still want the rest */
            last; /* of a stream: a short last reply, which ended at base */
        /* io_uring: its last read, at this offset, had a reply that was so much shorter. */
        off_t short_at;
        size_t short_by;
        uint64_t poll_number; /* the kernel's, of the newest poller; 0: none */
    } place, recorded_place;
    struct handle *next_touched; /* of kept.touched */
    bool touched;

    /* park.c: the newest poller. */
    bool polls;
    uint64_t polled_id; /* the object polled */
    uint64_t due_ns;    /* to be notified at the latest then; 0: no limit */
    uid_t poll_uid;     /* among this user's waiting requests it is counted while it is in a list */
    LIST_ENTRY(handle) poll_entry; /* while there is one */
};

/* A new, zeroed row, or NULL. */
struct handle *handle_make(struct handle **handles, uint64_t fh);
struct handle *handle_find(struct handle *handles, uint64_t fh); /* NULL: no row */
/* Takes the row out of the table; its last holder frees it. */
void handle_remove(struct handle **handles, struct handle *handle);
struct handle *handle_ref(struct handle *handle);
/* The last one ends it. NULL is allowed. */
void handle_unref(struct kept *kept, struct handle *handle);
/* Lets go of what those that were ended refer to, behind their records. */
struct handle *handles_end(struct kept *kept);
/* Without the lock. */
void handles_free(struct handle *ended);

/* The records of open files. */
struct kept {
    struct journal *journal;
    struct handle *touched;
    struct handle *ended; /* what they hold no record names after the next one */
    bool failed;          /* a record was not ended */
    struct block *dead;   /* to be given back when no record names them any more */
};
/* False: no memory; it has none then. What it replaces is gone with the next record. */
bool text_set(struct kept *kept, struct kept_text *text, const char *from, size_t len);
void text_drop(struct kept *kept, struct kept_text *text);
static inline const char *text_of(const struct kept_text *text)
{
    return arena_at(text->block, text->len);
}
void blocks_free(struct block *blocks);
/* Is it said by its record where it stands? */
bool handle_is_noted(const struct handle *handle);
/* A row as a record says. False: it cannot be read. */
bool handle_load(struct handle **handles, const struct journal_record *record,
                 struct engine *engine);
/* What it remembers has changed: its record is put before the lock is dropped. */
void handle_touch(struct kept *kept, struct handle *handle);
/* It is closed: its record ends. */
void handle_drop(struct kept *kept, struct handle *handle);
/* Puts those that are due, and these. False: something did not fit. */
bool handles_record(struct kept *kept, struct handle *all);
