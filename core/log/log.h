/*
 * The log of a PMC: a bounded ring of records that overwrites its oldest, any number of readers
 * with a position each, and beside it what is needed to understand the records that are still
 * there: the address spaces and names as they were before the oldest of them. Has its own mutex (a
 * leaf: taken with or without the engine's lock, nothing is called under it). Reference counted.
 *
 * Loss: a record that is overwritten before all readers that have the log open read it (with none
 * open: before the first reader) counts once in log_stats.lost. Each reader receives the number of
 * records that it missed, late readers too: what it receives and that number are
 * log_stats.records. If records about losses elsewhere (in the kernel's buffer, for example) are
 * among those that it missed, it receives one record for each such place, with their sum. So the
 * samples that a reader receives and the samples in its drop records are all samples there were.
 *
 * Memory: a quarter of what is allowed is for the address spaces, the rest for the records. Both
 * grow by doubling; while they may not, the oldest goes.
 */
#pragma once

#include "core/base/buf.h"
#include "core/log/record.h"
#include "core/log/spaces.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct log;

struct log_stats {
    uint64_t bytes;       /* of records held now, the address spaces included */
    uint64_t memory;      /* bytes allocated now */
    uint64_t records;     /* ever put, those refused included */
    uint64_t lost;        /* overwritten unread, or too large for the ring; drops with REFUSED */
    uint64_t kernel_lost; /* the kernel had no room: sum of RECORD_LOST */
    uint64_t throttled;   /* RECORD_THROTTLEs */
    uint64_t hidden;      /* samples of the kernel withheld: drops with RECORD_WITHHELD */
    uint64_t refused;     /* records that found no memory */
    int short_of;         /* -EDQUOT, -ENOMEM: the ring could not grow when it last should; or 0 */
};

/* Where a loss outside the log happened. */
enum log_elsewhere { LOG_KERNEL, LOG_HIDDEN, LOG_MEMORY, LOG_REPLACED, LOG_ELSEWHERES };

/* Sums over the records up to some serial: their difference describes the records between two. */
struct log_sums {
    uint64_t others; /* records that are neither samples nor about a loss elsewhere */
    uint64_t drops;  /* records about a loss elsewhere, */
    uint64_t lost[LOG_ELSEWHERES]; /* and the records lost there */
};

/* Nothing is allocated for records before the first is put. NULL: no memory. */
struct log *log_new(uint64_t max_bytes);
struct log *log_ref(struct log *log);
void log_unref(struct log *log); /* NULL allowed */
/* From now on it may use so much; the memory that it has it keeps. */
void log_set_max(struct log *log, uint64_t max_bytes);
uint64_t log_max_bytes(struct log *log);
/*
 * Memory is asked for here before it is allocated (grows: more than before) and told of when it is
 * freed; NULL: everything is granted. Called under the log's mutex: memory only, any thread.
 * Returns what it has already, which the caller charges: that is not asked.
 */
uint64_t log_set_charge(struct log *log, bool (*charge)(void *arg, int64_t bytes), void *arg);
/* So much of max_bytes is allocated and charged now: 0, -EDQUOT, -ENOMEM. */
int log_reserve(struct log *log, uint64_t bytes);

/*
 * Records, copied, with one lock; times never go back (an earlier one is put at the time of the
 * last). Ends at the first one that is not well-formed (record_fits). One that is too large for the
 * ring overwrites nothing: in its place stands a RECORD_DROP of one, "log", and it counts as lost.
 * 0; -ENOMEM only while nothing at all could be allocated: then they are counted as
 * refused.
 */
int log_put_all(struct log *log, const void *records, size_t len);
/* The same; with them that many records of one source (any number that is its) are in it. */
struct log_taken {
    uint64_t source, n;
};
int log_put_taken(struct log *log, const void *records, size_t len, struct log_taken taken);
/* Of this source: for a later worker, which finds what the log had. */
uint64_t log_taken(struct log *log, uint64_t source);
/*
 * The same for a request of this number (0: none). When it is done again by a later worker, what
 * the log has of it is passed over: all of it is put in the same pieces.
 */
int log_put_all_once(struct log *log, uint64_t request, const void *records, size_t len);
/* One record, by a caller that can be told: -E2BIG where it is too large, and nothing happens. */
int log_put_once(struct log *log, uint64_t request, const struct record *record);
/* Bytes of a record that the ring has room for once it has grown as far as it may. */
size_t log_record_max(struct log *log);
void log_stats(struct log *log, struct log_stats *out);
/* Serial of the last record put (0: none yet): grows with each. Cheap, for wake-ups and poll. */
uint64_t log_last(struct log *log);

/* A reader's place. */
struct log_cursor {
    struct log *log; /* a reference */
    uint64_t next;   /* serial of the next record it wants; 1 is the first ever */
    uint64_t place;  /* of that record in the ring, while it is held */
    struct log_sums before; /* of the records before it */
    bool begun;      /* it was given the address spaces as of its beginning */
    bool told;       /* it is being given them, so far: */
    struct spaces_walk walk;
    uint64_t first, missed; /* in a copy: of the log then, as in struct log_mark */
    LIST_ENTRY(log_cursor) of_log;
};
/* At the first record ever: what is no longer held is told as missed. */
struct log_cursor *log_open(struct log *log); /* NULL: no memory */
void log_close(struct log_cursor *cursor);    /* NULL allowed */

/*
 * Appends whole records to out, oldest first, about max bytes at most (at least one record if there
 * is one), and moves the cursor behind them. First come, for a reader that begins or missed some:
 * COMM and MAP records (RECORD_FOUND) of the address spaces as they were before the oldest record
 * held, the kernel's among them, and, if records were missed, a RECORD_DROP "log" with the number of
 * records and, if they differ, of samples, and one for each place of a loss elsewhere that was among
 * them; all at the time of the record that was the oldest when
 * this began, in as many takes as it needs. Returns the number of records appended.
 */
size_t log_take(struct log_cursor *cursor, struct buf *out, size_t max);
/* A copy of the cursor, for log_back(). */
struct log_cursor log_place(const struct log_cursor *cursor);
/*
 * Puts the cursor back where it was when it was copied: what it has taken since is taken again, or,
 * where it was overwritten meanwhile, told as missed.
 */
void log_back(struct log_cursor *cursor, const struct log_cursor *copy);
/* Is there something to take? */
bool log_ready(const struct log_cursor *cursor);

/* ---- for a later worker ---- */

/* What the log is found again by, once something was put; 0: there is nothing. */
uint64_t log_block(struct log *log);
/* With the last reference goes what this process has of it alone. */
void log_forget(struct log *log);
/* As it was when that was put. Its charge has to be set again. NULL: errno is ENOMEM, or EINVAL: it
 * is none. */
struct log *log_adopt(uint64_t block);
/* A cursor's place, in whole records: it is given the address spaces from their beginning if it was
 * being given them. NULL: it is none, or no memory. */
struct log_mark {
    uint64_t next;
    bool begun;
    uint64_t first, missed; /* of the log: its oldest record, how many were overwritten unread */
    struct log_sums before; /* of the records before `next` */
};
void log_cursor_mark(const struct log_cursor *cursor, struct log_mark *mark);
struct log_cursor *log_cursor_adopt(struct log *log, const struct log_mark *mark);
