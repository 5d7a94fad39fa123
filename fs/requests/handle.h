/*
 * What open files remember. A handle number (fh) is a serial given at open; a row behind it is made
 * only when there is something to remember, so a number without a row is a freshly opened file.
 * All with the engine's lock held.
 */
#pragma once

#include "core/base/hash.h"
#include "core/call.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct fuse_pollhandle;
struct journal;

struct handle {
    uint64_t fh;
    unsigned refs;       /* the table's one and one per request under way */
    UT_hash_handle hh;   /* by fh */
    struct open_file open;
    bool recorded, swapped, seen; /* there is a record, which says that */
    struct handle *next_touched;  /* of kept.touched */
    bool touched;

    /* The text of the last read from its start. */
    bool has_text;
    bool written; /* since then: the next read starts a new text where it stands */
    off_t base;   /* offset at which the text starts; of a stream, where the next read does */
    size_t len;   /* of the whole text */
    char *text;   /* owned; kept while somebody may still want the rest, or NULL */

    /* Streams: what did not fit into the last reply, and that reply. */
    size_t taken;    /* of text */
    char *last;      /* owned; a short last reply, which ended at base, or NULL */
    size_t last_len; /* of it */

    /* io_uring: its last read, at this offset, had a reply that was so much shorter. */
    bool by_uring; /* the next read is one */
    off_t short_at;
    size_t short_by;

    /* park.c: the newest poller. */
    struct fuse_pollhandle *poll;
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
/* The last one frees. NULL is allowed. */
void handle_unref(struct handle *handle);

/* The records of open files. */
struct kept {
    struct journal *journal;
    struct handle *touched;
};
/* What it remembers has changed: its record is put before the lock is dropped. */
void handle_touch(struct kept *kept, struct handle *handle);
/* It is closed: its record ends. */
void handle_drop(struct kept *kept, struct handle *handle);
/* Puts those that are due. */
void handles_record(struct kept *kept);
