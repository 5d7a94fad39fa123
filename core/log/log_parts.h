/*
 * Internal structures of a log, for the log*.c files.
 */
#pragma once

#include "core/log/log.h"
#include "core/log/record.h"
#include "core/log/ring.h"
#include "core/log/spaces.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define LOG_LEAST UINT64_C(512)       /* minimum of the memory limit */
#define LOG_MOST  (UINT64_C(1) << 38) /* maximum of the memory limit */

#define FIRST_BYTES 512u /* first size of the ring and of the address spaces */

static inline uint64_t log_bounded(uint64_t max_bytes)
{
    return max_bytes < LOG_LEAST ? LOG_LEAST : max_bytes < LOG_MOST ? max_bytes : LOG_MOST;
}

/* Arena block of records from which a new worker rebuilds the address spaces. */
struct facts {
    uint64_t block;
    size_t size, used;
};

/* The number of batches added for a request. */
struct log_request {
    uint64_t number, pieces;
};

/* The state of a log for a new worker, stored in an arena block with this layout. */
#define LOG_NUMBERS                                                                                \
    uint64_t max_bytes; /* limit; a quarter is for the address spaces */                           \
    uint64_t first;     /* serial of the oldest stored record; empty: last + 1 */                  \
    uint64_t last;      /* serial of the last record; read without the mutex too */                \
    uint64_t last_time;                                                                            \
    uint64_t spaces_granted; /* charged bytes for the address spaces */                            \
    uint64_t spaces_changed; /* serial of the last record folded into them */                      \
    uint64_t most_read;      /* serial after the last record that was ever read */                 \
    uint64_t lost, kernel_lost, throttled, hidden, refused; /* see log_stats; no `missed` */       \
    struct log_taken taken;                                                                        \
    struct log_request request; /* the last request */                                             \
    struct ring ring;                                                                              \
    struct facts facts;                                                                            \
    uint64_t missed;      /* records overwritten unread */                                         \
    struct log_sums gone; /* sums before `first`; 0 from versions without it */

struct log_numbers {
    LOG_NUMBERS
};

struct log {
    pthread_mutex_t mutex;
    unsigned refs;

    union {
        struct {
            LOG_NUMBERS
        };
        struct log_numbers numbers; /* all fields of LOG_NUMBERS */
    };
    bool (*charge)(void *arg, int64_t bytes);
    void *charge_arg;
    uint64_t charged; /* bytes granted by charge() */

    uint64_t block;            /* arena block of struct log_head; 0: not published yet, or ENOMEM */
    bool keep;                 /* on free, keep the blocks for a new worker */
    bool putting;              /* a batch is being added; it is published when complete */
    struct facts replaced;     /* while putting: the facts block that the published copy uses */
    struct log_request before; /* batches of the last request of an earlier worker */
    uint64_t sure;             /* tail in the published copy: bytes before it may be overwritten */
    char *room;                /* between log_begin() and log_end(): the next record goes here */
    uint64_t room_end;         /* place that records in `room` may reach */

    uint64_t grow_place; /* after a refusal: the head at which the ring may try to grow */
    int short_of;        /* result of the last growth: 0, -EDQUOT or -ENOMEM */

    struct tasks spaces; /* address spaces before the oldest record */

    LIST_HEAD(, log_cursor) cursors;
    uint64_t unread;             /* first serial that some reader has not read; see unread_known */
    struct log_sums unread_sums; /* sums of the records before `unread` */
    bool unread_known;
    struct log_sums read_sums; /* sums before most_read; 0 in a new worker */
};

/*
 * Adds samples by writing them in the memory of the log, instead of copying them. log_begin() locks
 * the log until log_end(); in between the thread makes no system call and uses the log for nothing
 * else. `size` is the size of the first sample. Returns false, and does not lock the log, if there
 * is no contiguous room for it.
 */
bool log_begin(struct log *log, size_t size);
/* Adds records about losses, at most LOG_LOSSES bytes, publishes all records since log_begin(), and
 * unlocks the log. */
void log_end(struct log *log, const struct log_taken *taken, const struct buf *losses);
#define LOG_LOSSES 256u

/* Returns the room for a sample of at most this size, or NULL: call log_end(). */
static inline void *log_room(const struct log *log, size_t size)
{
    return log->ring.head + size <= log->room_end ? log->room : NULL;
}

/* Adds the valid sample that was written in the room. */
static inline void log_add(struct log *log, struct record_sample *sample)
{
    if (sample->time < log->last_time)
        sample->time = log->last_time;
    log->last_time = sample->time;
    log->ring.head += sample->head.size;
    log->room += sample->head.size;
    __atomic_store_n(&log->last, log->last + 1, __ATOMIC_RELEASE);
}

uint64_t log_ring_max(const struct log *log);
/* Publishes the present state of the log for a new worker. */
void log_publish(struct log *log);
/* Adds a record to the facts block. */
void log_facts_add(struct log *log, const struct record *record);
/* Charge memory before an allocation (false: refused), and discharge it after a free. */
bool log_charge(struct log *log, uint64_t bytes);
void log_discharge(struct log *log, uint64_t bytes);
uint64_t log_memory(const struct log *log); /* allocated bytes */
/* Grows the ring for a record of `size` bytes in a batch of `ahead` bytes. Returns false if growth
 * is refused or postponed. */
bool log_grow(struct log *log, size_t size, uint64_t ahead);
/* Raises the memory for the address spaces to `bytes`. Returns false if charge() refuses. */
bool log_grow_spaces(struct log *log, uint64_t bytes);
void log_blocks_free(struct log *log);
/*
 * Corrects `missed` after a cursor moved back to a mark. Records that it read since then did not
 * count when they were overwritten, and count now.
 */
void log_missed_again(struct log *log, const struct log_mark *mark);
/* Adds the record at a place in the ring to sums. */
void log_sums_add(struct log_sums *sums, const struct ring *ring, uint64_t place);
/* Applies a record that leaves the ring, or was never in it, to the address spaces. */
void log_fold(struct log *log, const struct record *record);
