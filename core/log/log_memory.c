/*
 * The life of a log: its memory limits and charges, its ring and its address spaces, and the arena
 * blocks in which a new worker finds it. The state of the last log_publish() remains valid until
 * the next one: its part of the ring is not overwritten, and its blocks are not freed, before the
 * next log_publish(). A batch of records is published at once.
 */
#include "core/log/log_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOG_LEAST UINT64_C(512)       /* minimum of the memory limit */
#define LOG_MOST  (UINT64_C(1) << 38) /* maximum of the memory limit */

#define SMALL_RING  (64u << 10) /* a larger ring gets a block for its maximum */
#define FIRST_BYTES 512u        /* first size of the ring and of the address spaces */

static uint64_t bounded(uint64_t max_bytes)
{
    return max_bytes < LOG_LEAST ? LOG_LEAST : max_bytes < LOG_MOST ? max_bytes : LOG_MOST;
}

struct log *log_new(uint64_t max_bytes)
{
    struct log *log = calloc(1, sizeof(*log));

    if (!log)
        return NULL;
    pthread_mutex_init(&log->mutex, NULL);
    log->refs = 1;
    log->max_bytes = bounded(max_bytes);
    log->first = log->most_read = 1;
    tasks_init(&log->spaces);
    return log;
}

struct log *log_ref(struct log *log)
{
    __atomic_add_fetch(&log->refs, 1, __ATOMIC_RELAXED);
    return log;
}

/* ---- limits and charges, which come before each allocation ---- */

/* Returns false if the user may not have this much more memory. */
static bool log_charge(struct log *log, uint64_t bytes)
{
    if (log->charge && !log->charge(log->charge_arg, (int64_t)bytes))
        return false;
    log->charged += bytes;
    return true;
}

static void log_discharge(struct log *log, uint64_t bytes)
{
    if (log->charge && bytes)
        log->charge(log->charge_arg, -(int64_t)bytes);
    log->charged -= bytes;
}

uint64_t log_memory(const struct log *log)
{
    return log->ring.size + log->spaces_granted + log->saved_spaces.size;
}

static uint64_t ring_part(uint64_t bytes)
{
    return (bytes - bytes / 4) & ~UINT64_C(7);
}

uint64_t log_ring_most(const struct log *log)
{
    const uint64_t max = ring_part(log->max_bytes);

    return max > log->ring.size ? max : log->ring.size;
}

void log_set_max(struct log *log, uint64_t max_bytes)
{
    pthread_mutex_lock(&log->mutex);
    log->max_bytes = bounded(max_bytes);
    log->grow_place = 0;
    log_publish(log);
    pthread_mutex_unlock(&log->mutex);
}

uint64_t log_max_bytes(struct log *log)
{
    pthread_mutex_lock(&log->mutex);
    uint64_t max_bytes = log->max_bytes;
    pthread_mutex_unlock(&log->mutex);
    return max_bytes;
}

uint64_t log_set_charge(struct log *log, bool (*charge)(void *arg, int64_t bytes), void *arg)
{
    pthread_mutex_lock(&log->mutex);
    log_discharge(log, log->charged);
    log->charge = charge;
    log->charge_arg = arg;
    uint64_t memory = log->charged = log_memory(log);
    log->grow_place = 0;
    pthread_mutex_unlock(&log->mutex);
    return memory;
}

void ring_copy(const struct log_ring *ring, uint64_t place, void *to, size_t len)
{
    if (!len)
        return;
    const size_t together = ring_contiguous(ring, place), first = len < together ? len : together;

    memcpy(to, ring_at(ring, place), first);
    memcpy((char *)to + first, ring_data(ring), len - first);
}

/* Grows the ring to this size, in its block if that is large enough and the records do not continue
 * at its start. A ring that is moved and has more than SMALL_RING bytes gets a block for its
 * maximum, so that it grows there later. Returns 0, -EDQUOT or -ENOMEM. */
static int ring_grow(struct log *log, uint64_t size)
{
    const uint64_t more = size - log->ring.size, most = log_ring_most(log), old = log->ring.block;
    struct log_ring *ring = &log->ring;
    size_t bytes = most > size ? most : size;

    if (!log_charge(log, more))
        return -EDQUOT;
    if (size <= log->block_bytes && ring->tail_at + ring_held(ring) <= ring->size) {
        ring->size = size;
        log_publish(log);
        return 0;
    }
    uint64_t block = size > SMALL_RING ? arena_alloc_sparse(bytes) : 0;
    if (!block) {
        bytes = size;
        block = arena_alloc(bytes);
    }
    if (!arena_at(block, bytes)) {
        log_discharge(log, more);
        return -ENOMEM;
    }
    ring_copy(ring, ring->tail, arena_at(block, bytes), ring_held(ring));
    ring->block = block;
    ring->size = size;
    ring->tail_at = 0;
    log_publish(log);
    arena_free(old, log->block_bytes);
    log->block_bytes = bytes;
    return 0;
}

/* Raises the memory of the address spaces to `bytes`. Returns false if log_charge() refuses. */
static bool spaces_grow(struct log *log, uint64_t bytes)
{
    if (!log_charge(log, bytes - log->spaces_granted))
        return false;
    log->spaces_granted = bytes;
    return true;
}

/* After a refusal the next attempt comes after one more ring of data, or for a record that is
 * larger than the ring. */
bool log_grow(struct log *log, size_t size, uint64_t ahead)
{
    uint64_t max = log_ring_most(log), want = log->ring.size ? 2 * log->ring.size : FIRST_BYTES;

    if (log->ring.size == max ||
        (log->ring.head + ahead < log->grow_place && size <= log->ring.size))
        return false;
    log->growth_error = ring_grow(log, want < max ? want : max);
    if (log->growth_error == 0)
        return true;
    log->grow_place = log->ring.head + log->ring.size;
    return false;
}

int log_reserve(struct log *log, uint64_t bytes)
{
    int rc = 0;

    pthread_mutex_lock(&log->mutex);
    if (bytes > log->max_bytes)
        bytes = log->max_bytes;
    if (log->ring.size < ring_part(bytes))
        rc = ring_grow(log, ring_part(bytes));
    if (rc == 0 && log->spaces_granted < bytes / 4 && !spaces_grow(log, bytes / 4))
        rc = -EDQUOT;
    pthread_mutex_unlock(&log->mutex);
    return rc;
}

/* ---- publishing ---- */

#define MAGIC UINT64_C(0x32676f6c73636d70)

struct log_head {
    uint64_t magic;
    uint64_t current; /* 0 or 1 */
    struct log_numbers numbers[2];
};
_Static_assert(sizeof(struct log_head) <= 512, "one block of the arena's smallest");

void log_publish(struct log *log)
{
    struct log_head *head;

    log->published_tail = log->ring.tail;
    if (!log->block)
        log->block = arena_alloc(sizeof *head);
    head = arena_at(log->block, sizeof *head);
    if (!head)
        return;
    head->magic = MAGIC;
    head->numbers[!head->current] = log->numbers;
    __atomic_store_n(&head->current, !head->current, __ATOMIC_RELEASE);
}

void log_unref(struct log *log)
{
    if (!log || __atomic_sub_fetch(&log->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    log_discharge(log, log->charged);
    if (!log->keep) {
        arena_free(log->block, sizeof(struct log_head));
        arena_free(log->ring.block, log->block_bytes);
        arena_free(log->saved_spaces.block, log->saved_spaces.size);
    }
    tasks_free(&log->spaces);
    pthread_mutex_destroy(&log->mutex);
    free(log);
}

/* ---- address spaces ---- */

/* Replaces the block of saved spaces: prints the address spaces to a new block with room for at
 * least `need` more bytes. Returns false on ENOMEM, or if charge() refuses; the old block stays. */
static bool saved_spaces_grow(struct log *log, size_t need)
{
    const struct saved_spaces before = log->saved_spaces;
    struct buf records = {0};

    spaces_print(&log->spaces, 0, &records);
    log->saved_spaces =
        (struct saved_spaces){.size = 2 * (records.len + need), .used = records.len};
    if (log->saved_spaces.size < before.size / 2)
        log->saved_spaces.size = before.size / 2;
    bool fine = !records.failed && (log->saved_spaces.size <= before.size ||
                                    log_charge(log, log->saved_spaces.size - before.size));
    log->saved_spaces.block = fine ? arena_alloc(log->saved_spaces.size) : 0;
    char *to = arena_at(log->saved_spaces.block, log->saved_spaces.size);
    if (to && records.len)
        memcpy(to, records.data, records.len);
    else if (!to && fine && log->saved_spaces.size > before.size)
        log_discharge(log, log->saved_spaces.size - before.size);
    buf_free(&records);
    if (!to) {
        log->saved_spaces = before;
        return false;
    }
    if (log->saved_spaces.size < before.size)
        log_discharge(log, before.size - log->saved_spaces.size);
    if (!log->putting) {
        log_publish(log);
        arena_free(before.block, before.size);
    } else if (!log->replaced.block) {
        log->replaced = before; /* the published copy uses it until the batch is complete */
    } else {
        arena_free(before.block, before.size);
    }
    return true;
}

void log_move_to_spaces(struct log *log, const struct record *record)
{
    struct saved_spaces *saved = &log->saved_spaces;
    const uint64_t max = log->max_bytes / 4;
    uint64_t want = log->spaces_granted ? log->spaces_granted : FIRST_BYTES;

    tasks_apply(&log->spaces, record);
    while (want < tasks_bytes(&log->spaces) && want < max)
        want *= 2;
    want = want < max ? want : max;
    if (want > log->spaces_granted)
        spaces_grow(log, want);
    spaces_bound(&log->spaces, log->spaces_granted);

    /* on ENOMEM or a refused charge the record is missing in the address spaces of a new worker */
    if (saved->size - saved->used < record->size && !saved_spaces_grow(log, record->size))
        return;
    char *to = arena_at(saved->block, saved->size);
    memcpy(to + saved->used, record, record->size);
    saved->used += record->size;
}

/* ---- adoption by a new worker ---- */

uint64_t log_block(struct log *log)
{
    pthread_mutex_lock(&log->mutex);
    if (!log->block)
        log_publish(log); /* the block number is final: the caller stores it */
    uint64_t block = log->block;
    pthread_mutex_unlock(&log->mutex);
    return block;
}

void log_keep_blocks(struct log *log)
{
    pthread_mutex_lock(&log->mutex);
    log_publish(log);
    log->keep = log->block != 0;
    pthread_mutex_unlock(&log->mutex);
}

static bool spaces_adopt(struct log *log)
{
    const char *from = arena_at(log->saved_spaces.block, log->saved_spaces.size);

    arena_keep(log->saved_spaces.block, log->saved_spaces.size);
    if (!log->saved_spaces.size)
        return true;
    if (!from || log->saved_spaces.used > log->saved_spaces.size)
        return false;
    for (size_t at = 0; at < log->saved_spaces.used;) {
        const struct record *record = (const struct record *)(from + at);

        if (!record_is_valid(record, log->saved_spaces.used - at))
            return false;
        tasks_apply(&log->spaces, record);
        at += record->size;
    }
    if (log->spaces_granted < tasks_bytes(&log->spaces))
        log->spaces_granted = tasks_bytes(&log->spaces);
    return true;
}

/* Keeps the ring's block. Returns true if all records are valid and their number matches `first`
 * and `last`. */
static bool ring_adopt(struct log *log)
{
    struct log_ring *ring = &log->ring;
    uint64_t n = 0, record[RECORD_MAX / sizeof(uint64_t)];

    if (!ring->size)
        return !ring->head && !ring->tail && log->last + 1 == log->first;
    arena_keep(ring->block, ring->size);
    if (!arena_at(ring->block, ring->size) || ring->head < ring->tail ||
        ring_held(ring) > ring->size || ring->tail_at >= ring->size ||
        (ring->head | ring->tail | ring->tail_at | ring->size) % 8)
        return false;
    for (uint64_t at = ring->tail; at < ring->head; n++) {
        const uint32_t size = ((const struct record *)ring_at(ring, at))->size;

        if (size > ring->head - at || size > sizeof record || size < sizeof(struct record))
            return false;
        ring_copy(ring, at, record, size);
        if (!record_is_valid((const struct record *)record, size))
            return false;
        at += size;
    }
    return n == log->last + 1 - log->first;
}

struct log *log_adopt(uint64_t block)
{
    const struct log_head *head = arena_at(block, sizeof *head);

    errno = EINVAL;
    struct log *log = head && head->magic == MAGIC && head->current < 2 ? log_new(0) : NULL;
    if (!log)
        return NULL;
    log->block = block;
    arena_keep(block, sizeof *head);
    log->numbers = head->numbers[__atomic_load_n(&head->current, __ATOMIC_ACQUIRE)];
    log->block_bytes = log->ring.size; /* the rest of a larger block is free in this worker */
    log->repeats = log->request;
    log->published_tail = log->ring.tail;
    if (log->max_bytes <= LOG_MOST && ring_adopt(log) && spaces_adopt(log))
        return log;
    log->keep = true;
    log_unref(log);
    errno = EINVAL;
    return NULL;
}
