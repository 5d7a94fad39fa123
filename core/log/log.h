/*
 * The log of a PMC: a bounded ring of records that overwrites the oldest, and any number of readers
 * with a position each. It also stores the address spaces and names as they were before the oldest
 * record, because the records need them. Has a mutex, which is a leaf lock: it can be taken with or
 * without the engine's lock, and only charge() is called under it. Reference counted.
 *
 * Loss: a record counts once in log_stats.lost if it is overwritten before all open readers, or
 * with no open reader the first one, have read it. Each reader receives the number of records it
 * missed, and late readers do too: received plus missed records are log_stats.records. If a missed
 * record reported another loss, for example in the kernel's buffer, the reader receives one record
 * for each kind of loss, with the sum. Thus received samples plus samples in drop records are all
 * samples.
 *
 * Memory: a quarter of the limit is for the address spaces, the rest for the records. Both grow by
 * doubling. If growth is refused, the oldest records or processes are removed.
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
    uint64_t hidden;      /* hidden kernel samples: sum of RECORD_WITHHELD drops */
    uint64_t refused;     /* records refused on ENOMEM */
    int short_of;         /* result of the last growth of the ring: 0, -EDQUOT or -ENOMEM */
};

/* Kinds of loss outside the log. */
enum log_loss {
    LOG_KERNEL,
    LOG_HIDDEN,
    LOG_MEMORY,
    LOG_REPLACED,
    LOG_LOSSES
};

/* Sums of all records before some serial. The difference of two describes the records between them.
 */
struct log_sums {
    uint64_t others;           /* records except samples and reports of other losses */
    uint64_t drops;            /* records that report other losses */
    uint64_t lost[LOG_LOSSES]; /* lost records in those reports */
};

/* Creates a log. The first record allocates the ring. Returns NULL on ENOMEM. */
struct log *log_new(uint64_t max_bytes);
struct log *log_ref(struct log *log);
void log_unref(struct log *log); /* log may be NULL */
/* Sets the memory limit. Memory in use is not freed. */
void log_set_max(struct log *log, uint64_t max_bytes);
uint64_t log_max_bytes(struct log *log);
/*
 * Sets the callback that accounts memory: it is called with a positive number before an allocation,
 * which it can refuse, and with a negative number after a free. NULL: no accounting. It is called
 * under the log's mutex in any thread, and must not make system calls. Returns the memory in use,
 * which the caller charges itself.
 */
uint64_t log_set_charge(struct log *log, bool (*charge)(void *arg, int64_t bytes), void *arg);
/* Allocates and charges this much of max_bytes now. Returns 0, -EDQUOT or -ENOMEM. */
int log_reserve(struct log *log, uint64_t bytes);

/*
 * Adds copies of records under one lock. A record with an earlier time than the last one gets the
 * last one's time. Stops at the first invalid record (record_fits). A record that is too large for
 * the ring counts as lost and is replaced by a RECORD_DROP of one, "log". Returns 0, or -ENOMEM if
 * no ring could be allocated; the records count as refused then.
 */
int log_put_all(struct log *log, const void *records, size_t len);
/* Numbers of the source of records, whose meaning the caller chooses. */
struct log_taken {
    uint64_t source, n;
};
/*
 * Adds records for a request of this number (0: no request), and with `taken` (may be NULL)
 * publishes new numbers of the source at the same moment. If a new worker repeats the request,
 * batches that are in the log already are skipped. It must repeat the same batches; an empty batch
 * counts too.
 */
int log_put_all_once(struct log *log, uint64_t request, const struct log_taken *taken,
                     const void *records, size_t len);
/* Returns the numbers of the source that were published last, also by an earlier worker. */
struct log_taken log_taken(struct log *log);
/* Adds one record of a request. Returns -E2BIG and adds nothing if it is too large. */
int log_put_once(struct log *log, uint64_t request, const struct record *record);
/* Returns the maximum size of a record, given the memory limit. */
size_t log_record_max(struct log *log);
void log_stats(struct log *log, struct log_stats *out);
/* Returns the serial of the last record, or 0 for a new log. Takes no lock, for wake-ups and poll.
 */
uint64_t log_last(struct log *log);

/* The position of a reader. */
struct log_cursor {
    struct log *log;        /* a reference */
    uint64_t next;          /* serial of the next record to read; the first ever is 1 */
    uint64_t place;         /* place of that record in the ring, while it is stored */
    struct log_sums before; /* sums of the records before `next` */
    uint32_t last_type;     /* type of the last record that log_take() appended */
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
 * bytes, but at least one record if any is left. A reader at its start, or one that missed records,
 * first receives the address spaces before the oldest stored record, including the kernel's, as
 * COMM and MAP records (RECORD_FOUND). If records were missed, a RECORD_DROP "log" follows with the
 * number of records and of samples, and one record for each other kind of loss. All of these have
 * the time of the oldest record, and may take several calls. Returns the number of appended
 * records.
 */
size_t log_take(struct log_cursor *cursor, struct buf *out, size_t max);
/* Returns a copy of the cursor for log_back(). */
struct log_cursor log_place(const struct log_cursor *cursor);
/*
 * Moves the cursor back to the copied position. It reads the later records again; records that were
 * overwritten since then count as missed.
 */
void log_back(struct log_cursor *cursor, const struct log_cursor *copy);
/* Returns true if log_take() would return records. */
bool log_ready(const struct log_cursor *cursor);

/* ---- move to a new worker ---- */

/* Returns the arena block by which a new worker finds the log, or 0 on ENOMEM. */
uint64_t log_block(struct log *log);
/* Keeps the arena blocks when the last reference is dropped. */
void log_forget(struct log *log);
/* Returns the log of an earlier worker as it was last published. The caller sets charge() again.
 * Returns NULL and sets errno to ENOMEM, or to EINVAL if the block is not a valid log. */
struct log *log_adopt(uint64_t block);
/* A saved position of a cursor. An unfinished walk through the address spaces starts again.
 * log_cursor_adopt() returns NULL if the mark is invalid or on ENOMEM. */
struct log_mark {
    uint64_t next;
    bool begun;
    uint64_t first,
        missed; /* of the log: serial of its oldest record; records overwritten unread */
    struct log_sums before; /* sums of the records before `next` */
};
void log_cursor_mark(const struct log_cursor *cursor, struct log_mark *mark);
struct log_cursor *log_cursor_adopt(struct log *log, const struct log_mark *mark);
