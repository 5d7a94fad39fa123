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

/* The part of a limit for the address spaces. */
static uint64_t spaces_part(uint64_t bytes)
{
    return bytes / 4;
}

/* The part of a limit for the ring. */
static uint64_t ring_part(uint64_t bytes)
{
    return (bytes - spaces_part(bytes)) & ~UINT64_C(7);
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

/* ---- the ring ---- */

void ring_copy(const struct log_ring *ring, uint64_t place, void *to, size_t len)
{
    if (!len)
        return;
    const size_t together = ring_contiguous(ring, place), first = len < together ? len : together;

    memcpy(to, ring_at(ring, place), first);
    memcpy((char *)to + first, ring_data(ring), len - first);
}

/* Grows the ring to this size, at most log_ring_most(): in its block if that is large enough and
 * the records do not continue at its start. Otherwise moves it, and a ring of more than SMALL_RING
 * bytes gets a block for its maximum, so that it grows there later. Returns 0, -EDQUOT or -ENOMEM.
 */
static int ring_grow(struct log *log, uint64_t size)
{
    struct log_ring *ring = &log->ring;
    const uint64_t added = size - ring->size, old_block = ring->block;
    size_t block_bytes = log_ring_most(log);

    if (!log_charge(log, added))
        return -EDQUOT;
    if (size <= log->block_bytes && ring->tail_at + ring_held(ring) <= ring->size) {
        ring->size = size;
        log_publish(log);
        return 0;
    }
    uint64_t block = size > SMALL_RING ? arena_alloc_sparse(block_bytes) : 0;
    if (!block) {
        block_bytes = size;
        block = arena_alloc(block_bytes);
    }
    if (!arena_at(block, block_bytes)) {
        log_discharge(log, added);
        return -ENOMEM;
    }
    ring_copy(ring, ring->tail, arena_at(block, block_bytes), ring_held(ring));
    ring->block = block;
    ring->size = size;
    ring->tail_at = 0;
    log_publish(log);
    arena_free(old_block, log->block_bytes);
    log->block_bytes = block_bytes;
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
bool log_grow(struct log *log, size_t largest, uint64_t ahead)
{
    uint64_t max = log_ring_most(log), want = log->ring.size ? 2 * log->ring.size : FIRST_BYTES;

    if (log->ring.size == max ||
        (log->ring.head + ahead < log->grow_place && largest <= log->ring.size))
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
    if (rc == 0 && log->spaces_granted < spaces_part(bytes) &&
        !spaces_grow(log, spaces_part(bytes)))
        rc = -EDQUOT;
    pthread_mutex_unlock(&log->mutex);
    return rc;
}

/* ---- publishing ---- */

#define MAGIC UINT64_C(0x32676f6c73636d70)

struct log_head {
    uint64_t magic;
    uint64_t current; /* 0 or 1 */
    struct log_state states[2];
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
    head->states[!head->current] = log->state;
    __atomic_store_n(&head->current, !head->current, __ATOMIC_RELEASE);
}

/* ---- the last reference ---- */

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
    struct saved_spaces saved = {.size = 2 * (records.len + need), .used = records.len};
    if (saved.size < before.size / 2) /* shrinks slowly: each new block has to be printed */
        saved.size = before.size / 2;
    const size_t added = saved.size > before.size ? saved.size - before.size : 0;
    const bool granted = !records.failed && (!added || log_charge(log, added));
    saved.block = granted ? arena_alloc(saved.size) : 0;
    char *to = arena_at(saved.block, saved.size);
    if (to && records.len)
        memcpy(to, records.data, records.len);
    buf_free(&records);
    if (!to) {
        if (granted)
            log_discharge(log, added);
        return false;
    }
    if (saved.size < before.size)
        log_discharge(log, before.size - saved.size);
    log->saved_spaces = saved;
    if (log->putting && !log->replaced.block) {
        log->replaced = before; /* the published copy uses it until the batch is complete */
        return true;
    }
    if (!log->putting)
        log_publish(log);
    arena_free(before.block, before.size); /* if putting: a block of this batch, not published */
    return true;
}

void log_move_to_spaces(struct log *log, const struct record *record)
{
    struct saved_spaces *saved = &log->saved_spaces;
    const uint64_t max = spaces_part(log->max_bytes);
    uint64_t want = log->spaces_granted ? log->spaces_granted : FIRST_BYTES;

    tasks_apply(&log->spaces, record);
    while (want < tasks_bytes(&log->spaces) && want < max)
        want *= 2;
    want = want < max ? want : max;
    if (want > log->spaces_granted)
        spaces_grow(log, want); /* if it is refused, the bound is lower */
    spaces_bound(&log->spaces, log->spaces_granted);

    /* A larger block has the record already; applied twice it has the same effect. On ENOMEM or a
     * refused charge the record is missing in the address spaces of a new worker. */
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
    log->state = head->states[__atomic_load_n(&head->current, __ATOMIC_ACQUIRE)];
    log->block_bytes = log->ring.size; /* of a larger block, ring_adopt() keeps only this part */
    log->repeats = log->request;
    log->published_tail = log->ring.tail;
    if (log->max_bytes <= LOG_MOST && ring_adopt(log) && spaces_adopt(log))
        return log;
    log->keep = true;
    log_unref(log);
    errno = EINVAL;
    return NULL;
}
