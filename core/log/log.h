/*
 * The log of a PMC: a bounded ring of records that overwrites the oldest, and any number of readers
 * with a position each. It also stores the address spaces and names as they were before the oldest
 * record, because the records need them. Has a mutex, which is a leaf lock: it can be taken with or
 * without the engine's lock, and its only callback is charge() (log_set_charge()). Reference
 * counted.
 *
 * Loss: a record counts once in log_stats.lost if it is overwritten while an open reader has not
 * read it or, without open readers, if no reader ever read it. Each reader receives the number of
 * records it missed, also at its start: received plus missed records are log_stats.records. If a
 * missed record reported another loss, for example in the kernel's buffer, the reader receives one
 * record for each kind of loss, with the sum. Thus received samples plus samples in drop records
 * are all samples.
 *
 * Memory: a quarter of the limit is for the address spaces, the rest for the records. Both grow by
 * doubling. Above 64 KiB, the ring of records normally grows without moving: its block is as large
 * as its maximum, and unused pages need no memory. If growth is refused, the oldest records or
 * processes are removed.
 */
#pragma once

#include "core/base/buf.h"
#include "core/log/record.h"
#include "core/log/tasks.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct log;

struct log_stats {
    uint64_t bytes;   /* of stored records and address spaces */
    uint64_t memory;  /* allocated bytes */
    uint64_t records; /* all records ever added, including refused ones */
    uint64_t lost;    /* overwritten unread, too large for the ring, or in RECORD_REFUSED drops */
    uint64_t kernel_lost; /* lost because a kernel buffer was full: sum of RECORD_LOST */
    uint64_t throttled;   /* number of RECORD_THROTTLE */
    uint64_t hidden;      /* hidden kernel samples: sum of RECORD_HIDDEN drops */
    uint64_t refused;     /* records refused because no ring could be allocated */
    int growth_error;     /* result of the last growth of the ring: 0, -EDQUOT or -ENOMEM */
};

/* Kinds of loss outside the log. */
enum log_loss {
    LOG_KERNEL,   /* a ring buffer of the kernel was full */
    LOG_HIDDEN,   /* kernel samples that the user may not see */
    LOG_MEMORY,   /* ENOMEM in the recording */
    LOG_REPLACED, /* an earlier worker took them and was killed */
    LOG_LOSSES
};

/* Sums of all records before some serial. A difference describes the records in between. */
struct log_sums {
    uint64_t others;           /* records except samples and reports of other losses */
    uint64_t drops;            /* records that report other losses */
    uint64_t lost[LOG_LOSSES]; /* lost records in those reports */
};

/* Creates a log. The first record allocates the ring. Returns NULL on ENOMEM. */
struct log *log_new(uint64_t max_bytes);
struct log *log_ref(struct log *log);
void log_unref(struct log *log); /* log may be NULL */
/* Sets the memory limit, at least 512 bytes and at most 256 GiB. Memory in use is not freed. */
void log_set_max(struct log *log, uint64_t max_bytes);
uint64_t log_max_bytes(struct log *log);
/*
 * Sets the callback that accounts memory: it is called with a positive number before an allocation,
 * which it can refuse, and with a negative number after a free. NULL: no accounting. The callback
 * runs under the log's mutex in any thread, and must not make system calls. log_set_charge() first
 * gives back all charges to the old callback. Returns the memory in use, which the caller charges
 * to the new user itself.
 */
uint64_t log_set_charge(struct log *log, bool (*charge)(void *arg, int64_t bytes), void *arg);
/* Reserves this much of max_bytes: grows the ring to three quarters, and charges a quarter for the
 * address spaces. Returns 0, -EDQUOT or -ENOMEM. */
int log_reserve(struct log *log, uint64_t bytes);

/* Progress of the recording, which the log stores unchanged. totals: which block of totals is valid
 * (recording_parts.h); n_taken: records taken from the backend. */
struct log_progress {
    uint64_t totals, n_taken;
};
/*
 * Adds copies of records under one lock. A record with an earlier time than the last one gets the
 * last one's time. The first invalid record (record_is_valid()) and all after it are ignored. A
 * record that is too large for the ring counts as lost and is replaced by a RECORD_DROP "log" of
 * one record. Returns 0, or -ENOMEM if no ring could be allocated; the records count as refused
 * then.
 *
 * request: the number of the request that adds them, or 0. If a new worker repeats the request,
 * batches that are in the log already are skipped. It repeats the same batches, or none if it is
 * refused now; an empty batch counts too. progress (may be NULL): new progress, published together with the records.
 */
int log_put_all_once(struct log *log, uint64_t request, const struct log_progress *progress,
                     const void *records, size_t len);
/* Returns the progress that was published last, also by an earlier worker. */
struct log_progress log_progress(struct log *log);
/* Adds one valid record; for `request` see log_put_all_once(). Returns -E2BIG and adds nothing if
 * the record is larger than the limit, or than a ring that may not grow; -ENOMEM if no ring could
 * be allocated. */
int log_put_once(struct log *log, uint64_t request, const struct record *record);
/* Returns the maximum size of a record, given the memory limit. */
size_t log_record_max(struct log *log);
void log_stats(struct log *log, struct log_stats *out);
/* Returns the serial of the last record, or 0. Takes no lock, for wake-ups and poll. */
uint64_t log_last(struct log *log);

/* The position of a reader. */
struct log_cursor {
    struct log *log;        /* a reference */
    uint64_t next;          /* serial of the next record to read; the first ever is 1 */
    uint64_t place;         /* bytes ever added before that record, while it is stored */
    struct log_sums before; /* sums of the records before `next` */
    uint32_t last_type;     /* type of the last record that log_read() appended */
    bool begun;             /* the reader has received its first records */
    bool walking;           /* a walk through the address spaces is in progress */
    struct spaces_walk walk;
    uint64_t first, missed; /* in copies: see struct log_mark */
    LIST_ENTRY(log_cursor) of_log;
};
/* Opens a cursor at the first record ever; overwritten records count as missed. */
struct log_cursor *log_open(struct log *log); /* NULL on ENOMEM */
void log_close(struct log_cursor *cursor);    /* cursor may be NULL */

/*
 * Appends complete records to out, oldest first, and moves the cursor after them. Appends about max
 * bytes, but at least one record if any is left. A reader that missed records, also at its start,
 * first receives the address spaces before the oldest stored record, including the kernel's, as
 * COMM and MAP records (RECORD_FOUND), unless it has begun and no missed record changed them. A
 * RECORD_DROP "log" with the number of missed records and samples follows, and a record for each
 * other kind of loss. This may take several calls. All have the time of the record that was the
 * oldest when it started. Returns the number of appended records, 0 also on ENOMEM.
 */
size_t log_read(struct log_cursor *cursor, struct buf *out, size_t max);
/* Returns a copy of the cursor for log_cursor_restore(). */
struct log_cursor log_cursor_save(const struct log_cursor *cursor);
/*
 * Moves the cursor back to the copied position. It reads the later records again; records that were
 * overwritten since then count as missed.
 */
void log_cursor_restore(struct log_cursor *cursor, const struct log_cursor *copy);
/* Returns true if log_read() would return records. */
bool log_ready(const struct log_cursor *cursor);

/* ---- move to a new worker ---- */

/* Returns the arena block by which a new worker finds the log, or 0 on ENOMEM. */
uint64_t log_block(struct log *log);
/* Publishes the log. Its last log_unref() then keeps the arena blocks. */
void log_keep_blocks(struct log *log);
/* Returns the log of an earlier worker as it was last published. The caller sets charge() again.
 * Returns NULL and sets errno to ENOMEM, or to EINVAL if the block is not a valid log. */
struct log *log_adopt(uint64_t block);
/* A saved position of a cursor. An unfinished walk through the address spaces starts again.
 * log_cursor_adopt() returns NULL if the mark is invalid or on ENOMEM. */
struct log_mark {
    uint64_t next;
    bool begun;
    uint64_t first;         /* serial of the oldest record of the log */
    uint64_t missed;        /* records of the log that were overwritten unread */
    struct log_sums before; /* sums of the records before `next` */
};
void log_cursor_mark(const struct log_cursor *cursor, struct log_mark *mark);
struct log_cursor *log_cursor_adopt(struct log *log, const struct log_mark *mark);
