/*
 * Internal structures of a log, for the log*.c files. Functions on a struct log need its mutex,
 * except log_samples_begin(), which takes it.
 */
#pragma once

#include "core/base/arena.h"
#include "core/log/log.h"
#include "core/log/record.h"
#include "core/log/tasks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>

/*
 * A ring of bytes in a block of the arena (core/base/arena.h), which survives a worker. A place is
 * a position in the stream of bytes: the number of bytes ever added before it. Thus places remain
 * valid when the ring grows. Sizes and lengths are multiples of 8, so the end of the block never
 * splits an aligned word.
 */
struct log_ring {
    uint64_t block;
    size_t size;
    uint64_t head, tail; /* places: after the last byte; of the first byte */
    size_t tail_at;      /* offset of the tail in the block */
};

/* Copies len bytes at a place to `to`. */
void ring_copy(const struct log_ring *ring, uint64_t place, void *to, size_t len);

static inline size_t ring_held(const struct log_ring *ring)
{
    return (size_t)(ring->head - ring->tail);
}

static inline size_t ring_room(const struct log_ring *ring)
{
    return ring->size - ring_held(ring);
}

static inline char *ring_data(const struct log_ring *ring)
{
    return arena_base + ring->block;
}

/* Returns the offset in the block of a place between tail and head. */
static inline size_t ring_offset(const struct log_ring *ring, uint64_t place)
{
    const size_t at = ring->tail_at + (size_t)(place - ring->tail);

    return at < ring->size ? at : at - ring->size;
}

static inline char *ring_at(const struct log_ring *ring, uint64_t place)
{
    return ring_data(ring) + ring_offset(ring, place);
}

/* Returns the number of bytes from a place to the end of the block. */
static inline size_t ring_contiguous(const struct log_ring *ring, uint64_t place)
{
    return ring->size - ring_offset(ring, place);
}

/* Appends bytes. The caller checked ring_room(). */
static inline void ring_put(struct log_ring *ring, const void *data, size_t len)
{
    const size_t at = ring_offset(ring, ring->head);
    const size_t first = len < ring->size - at ? len : ring->size - at;

    memcpy(ring_data(ring) + at, data, first);
    if (first < len)
        memcpy(ring_data(ring), (const char *)data + first, len - first);
    ring->head += len;
}

/* Removes the first len bytes. */
static inline void ring_drop(struct log_ring *ring, size_t len)
{
    ring->tail_at += len;
    if (ring->tail_at >= ring->size)
        ring->tail_at -= ring->size;
    ring->tail += len;
}

/* Arena block of records from which a new worker rebuilds the address spaces. */
struct saved_spaces {
    uint64_t block;
    size_t size, used;
};

/* The number of batches added for a request. */
struct log_request {
    uint64_t number, batches;
};

/* The state of a log for a new worker, stored in an arena block with this layout. */
#define LOG_STATE                                                                                  \
    uint64_t max_bytes; /* limit; a quarter is for the address spaces */                           \
    uint64_t first;     /* serial of the oldest stored record; empty: last + 1 */                  \
    uint64_t last;      /* serial of the last record; read without the mutex too */                \
    uint64_t last_time;                                                                            \
    uint64_t spaces_granted; /* charged bytes for the address spaces */                            \
    uint64_t spaces_changed; /* serial of the last record applied to them */                       \
    uint64_t most_read;      /* serial after the last record that was ever read */                 \
    uint64_t lost;           /* as in struct log_stats, but without `missed` */                    \
    uint64_t kernel_lost, throttled, hidden, refused; /* as in struct log_stats */                 \
    struct log_progress progress;                                                                  \
    struct log_request request; /* the last request */                                             \
    struct log_ring ring;                                                                          \
    struct saved_spaces saved_spaces;                                                              \
    uint64_t missed;              /* records overwritten unread */                                 \
    struct log_sums removed_sums; /* sums before `first`; 0 from versions without it */

struct log_state {
    LOG_STATE
};

struct log {
    pthread_mutex_t mutex;
    unsigned refs;

    union {
        struct {
            LOG_STATE
        };
        struct log_state state; /* all fields of LOG_STATE */
    };
    bool (*charge)(void *arg, int64_t bytes);
    void *charge_arg;
    uint64_t charged; /* bytes granted by charge() */

    uint64_t block;     /* arena block of struct log_head; 0: not published yet, or ENOMEM */
    size_t block_bytes; /* of the ring's block: at least ring.size */
    bool keep;          /* on free, keep the blocks for a new worker */
    bool putting;       /* a batch is being added; it is published when complete */
    /* While putting: the block of saved spaces that the published copy uses. */
    struct saved_spaces replaced;
    struct log_request repeats; /* batches of an earlier worker's last request to skip */
    uint64_t published_tail;    /* tail in the published copy: bytes before it may be overwritten */
    char *room;                 /* after log_samples_begin(): the next sample goes here */
    uint64_t room_end;          /* place that records in `room` may reach */

    uint64_t grow_place; /* after a refusal: the head at which the ring may try to grow */
    int growth_error;    /* result of the last growth: 0, -EDQUOT or -ENOMEM */

    struct tasks spaces; /* address spaces before the oldest record */

    LIST_HEAD(, log_cursor) cursors;
    uint64_t unread;             /* first serial that some reader has not read: see log_unread() */
    struct log_sums unread_sums; /* sums of the records before `unread` */
    bool unread_known;           /* false: log_unread() computes `unread` and `unread_sums` again */
    struct log_sums read_sums;   /* sums before most_read; 0 in a new worker */
};

/*
 * Adds samples by writing them in the memory of the log, instead of copying them.
 * log_samples_begin() locks the log until log_samples_end(); in between the thread makes no system
 * call and uses only log_samples_room() and log_samples_add(). `size` is the size of the first
 * sample. Returns false, without a lock, if there is no contiguous room for that sample.
 */
bool log_samples_begin(struct log *log, size_t size);
/* Publishes all samples since log_samples_begin(), and unlocks the log. */
void log_samples_end(struct log *log, const struct log_progress *progress);
/* Returns the room for a sample of at most this size, or NULL: call log_samples_end(). */
static inline void *log_samples_room(const struct log *log, size_t size)
{
    return log->ring.head + size <= log->room_end ? log->room : NULL;
}

/* Adds the valid sample that was written in the room. Raises its time to that of the last record,
 * if that is later. */
static inline void log_samples_add(struct log *log, struct record_sample *sample)
{
    if (sample->time < log->last_time)
        sample->time = log->last_time;
    log->last_time = sample->time;
    log->ring.head += sample->head.size;
    log->room += sample->head.size;
    __atomic_store_n(&log->last, log->last + 1, __ATOMIC_RELEASE);
}

/* Returns the maximum size of the ring. The ring never shrinks, even if the limit does. */
uint64_t log_ring_most(const struct log *log);
/* Publishes the present state of the log for a new worker. */
void log_publish(struct log *log);
uint64_t log_memory(const struct log *log); /* allocated bytes */
/* Doubles the ring, at most to log_ring_most(). Returns false at that limit, or if the memory is
 * refused. Then the next attempts fail at once, until the batch of `ahead` bytes completes another
 * ring of data, or its largest record, of `largest` bytes, exceeds the ring. */
bool log_grow(struct log *log, size_t largest, uint64_t ahead);
/* Adds the record at a place in the ring to sums. */
void log_sums_add(struct log_sums *sums, const struct log_ring *ring, uint64_t place);
/* Applies a record that leaves the ring, or was never in it, to the address spaces. Only for types
 * that spaces_wants(). */
void log_move_to_spaces(struct log *log, const struct record *record);
