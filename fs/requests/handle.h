/*
 * Handles: the state of open files. A handle number (fh) is a serial set at open. A handle is
 * created only when there is state to store, so an open file that was never used may have none. All
 * functions need the engine's lock unless noted.
 */
#pragma once

#include "core/base/arena.h"
#include "core/base/journal.h"
#include "core/base/vec.h"
#include "core/call.h"
#include "core/work.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct engine;
struct unpublished;

struct handle {
    struct work work; /* WORK_HANDLE, after the file is closed */
    uint64_t fh;
    unsigned refs;     /* one of the table, and one per request that runs or waits */
    UT_hash_handle hh; /* by fh */
    struct open_file open;
    /* The journal has a record of the handle; with open.old_count; with the `seen` values. */
    bool recorded, recorded_old_count, recorded_seen;
    struct text_position {
        bool has_text;     /* a text was made: `base` and `len` are of it; not for streams */
        bool written;      /* the file was written after the text was made: the next read makes a
                            * new text, which starts at the offset of that read */
        bool by_uring;     /* the next read is by io_uring */
        off_t base;        /* offset of the text's start; for a stream, of the next read */
        size_t len;        /* length of the text; for a stream, of the rest in `text` */
        size_t bytes_read; /* stream: the part of `text` that was read */
        struct kept_text {
            uint64_t block; /* 0: none */
            size_t len;
        } text,   /* the text, or the rest of a stream's reply, until it was read */
            last; /* stream: the last reply, if it was short; it ended at base */
        /* io_uring: offset of its last read, and by how much the reply was shorter. */
        off_t short_at;
        size_t short_by;
        uint64_t poll_number; /* the kernel's number of the newest poller; 0: none */
    } position, recorded_position;
    struct handle *next_touched; /* list unpublished.touched */
    bool touched;

    struct {             /* poll_add(): the newest poller */
        bool sleeps;     /* a poller sleeps; members below are valid */
        uint64_t object; /* the object polled */
        uint64_t due_ns; /* time of the notification at the latest; 0: no limit */
        uid_t uid;       /* user whose waiting requests include the poller */
        LIST_ENTRY(handle) entry;
    } poller;
};

/* Adds a zeroed handle to the table. Returns NULL on ENOMEM. */
struct handle *handle_make(struct handle **handles, uint64_t fh);
struct handle *handle_find(struct handle *handles, uint64_t fh); /* NULL: none */
struct handle *handle_ref(struct handle *handle);
/* Drops a reference. The last one frees the handle after the next publication. NULL is allowed. */
void handle_unref(struct unpublished *unpublished, struct handle *handle);
/* Frees the closed files and texts of this queue; their records must be deleted. Needs no lock. */
void handles_free(struct work_queue *unused);

/* Changed and dropped handles, until the next publication. */
struct unpublished {
    struct journal *journal;
    struct handle *touched;
    struct work_queue unused; /* closed files and texts, to free after the next publication */
    bool failed;              /* a record could not be deleted */
};
/* Replaces the kept text. Returns false on ENOMEM or if len is 0, and then there is no text. The
 * old text is freed after the next publication. */
bool text_set(struct unpublished *unpublished, struct kept_text *text, const char *from,
              size_t len);
void text_drop(struct unpublished *unpublished, struct kept_text *text);
static inline const char *text_of(const struct kept_text *text)
{
    return arena_at(text->block, text->len);
}
/* Loads a handle from its record. Returns false if the record is not valid, or on ENOMEM. */
bool handle_load(struct handle **handles, const struct journal_record *record,
                 struct engine *engine);
/* Notes a change: the record is written before the lock is dropped. */
void handle_touch(struct unpublished *unpublished, struct handle *handle);
/* Removes a closed handle from the table, deletes its record, and drops the table's reference. */
void handle_drop(struct handle **handles, struct unpublished *unpublished, struct handle *handle);
/* Writes the records of changed handles, and of all handles of the table `all` (NULL: none).
 * Returns false if a record did not fit or could not be deleted. */
bool handles_record(struct unpublished *unpublished, struct handle *all);
