/*
 * What a log is made of, for log.c, log_read.c and log_keep.c.
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

#define LOG_LEAST UINT64_C(512)       /* bytes that a log may always have */
#define LOG_MOST  (UINT64_C(1) << 38) /* what is allowed beyond is not used */

#define FIRST_BYTES 512u /* of the ring, and of the address spaces */

static inline uint64_t log_bounded(uint64_t max_bytes)
{
    return max_bytes < LOG_LEAST ? LOG_LEAST : max_bytes < LOG_MOST ? max_bytes : LOG_MOST;
}

/* Records from which the address spaces can be made again. */
struct facts {
    uint64_t block;
    size_t size, used;
};

/* Pieces that were put for one. */
struct log_request {
    uint64_t number, pieces;
};

/* What a later worker needs of a log: it stands in a block of its own as it stands here. */
#define LOG_NUMBERS                                                                                \
    uint64_t max_bytes; /* a quarter of it is for the address spaces */                            \
    uint64_t first;     /* serial of the oldest record held; last + 1: none is */                  \
    uint64_t last;      /* of the last one put; also read without the mutex */                     \
    uint64_t last_time;                                                                            \
    uint64_t spaces_granted; /* bytes that the address spaces may use now */                       \
    uint64_t spaces_changed; /* serial of the last record folded in */                             \
    uint64_t most_read;      /* behind the last record that was ever read */                       \
    uint64_t lost, kernel_lost, throttled, hidden, refused; /* put; as in log_stats */             \
    struct log_taken taken;                                                                        \
    struct log_request request; /* the last one */                                                 \
    struct ring ring;                                                                              \
    struct facts facts;                                                                            \
    uint64_t missed;      /* overwritten unread */                                                 \
    struct log_sums gone; /* of the records before `first`; 0 from versions without this field */

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
        struct log_numbers numbers; /* all of them */
    };
    bool (*charge)(void *arg, int64_t bytes);
    void *charge_arg;
    uint64_t charged; /* so much was granted by charge() */

    uint64_t block; /* of struct log_head; 0: nothing was put yet, or there is no memory */
    bool keep;      /* its blocks are a later worker's */
    bool putting;   /* a piece of several records: published when all of it is there */
    struct facts replaced; /* meanwhile: the block of facts that the published copy names */
    struct log_request before; /* what an earlier worker put for its last one */
    uint64_t sure; /* up to here the ring may be overwritten: the tail of the true copy */

    uint64_t grow_place; /* refused once: the next attempt when the head is here */
    int short_of;        /* why; 0: it was not */

    struct tasks spaces; /* what was before the oldest record */

    LIST_HEAD(, log_cursor) cursors;
    uint64_t unread; /* serial from which on a reader has not read, if it is known */
    struct log_sums unread_sums; /* of the records before it */
    bool unread_known;
    struct log_sums read_sums; /* of the records before most_read; 0 in a later worker */
};

uint64_t log_ring_max(const struct log *log);
/* What it is now is true for a later worker. */
void log_publish(struct log *log);
/* It is among what the address spaces are made of. */
void log_facts_add(struct log *log, const struct record *record);
/* Memory is asked for, or given back. */
bool log_charge(struct log *log, uint64_t bytes);
void log_discharge(struct log *log, uint64_t bytes);
uint64_t log_memory(const struct log *log); /* bytes that it has */
/* More memory for the ring, which a record of `size` bytes and `ahead` bytes in all wait for.
 * Returns false if it may not grow now. */
bool log_grow(struct log *log, size_t size, uint64_t ahead);
/* More memory for the address spaces. Returns false if it may not grow now. */
bool log_grow_spaces(struct log *log, uint64_t bytes);
void log_blocks_free(struct log *log);
/*
 * A cursor is back at mark->next, where it was when the mark was made. Records that it took since
 * then did not count as lost when they were overwritten, and count now.
 */
void log_missed_again(struct log *log, const struct log_mark *mark);
/* Adds the record at a place in the ring to sums. */
void log_sums_add(struct log_sums *sums, const struct ring *ring, uint64_t place);
/* Takes a record that is not, or no longer, in the ring into the address spaces. */
void log_fold(struct log *log, const struct record *record);
