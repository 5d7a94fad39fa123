/*
 * The memory of a log: its ring, its limits and charges, and the arena blocks in which a new worker
 * finds it. The state of the last log_publish() remains valid until the next one: its part of the
 * ring is not overwritten, and its blocks are not freed, before the next log_publish(). A batch of
 * records is published at once.
 */
#include "core/log/log_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the ring ---- */

/* Returns how many of len bytes at a place are before the end of the block. */
static size_t ring_first(const struct ring *ring, uint64_t place, size_t len)
{
    const size_t together = ring_together(ring, place);

    return len < together ? len : together;
}

void ring_copy(const struct ring *ring, uint64_t place, void *to, size_t len)
{
    if (!len)
        return;
    const size_t first = ring_first(ring, place, len);

    memcpy(to, ring_at(ring, place), first);
    memcpy((char *)to + first, ring_data(ring), len - first);
}

void ring_add_to(const struct ring *ring, uint64_t place, size_t len, struct buf *out)
{
    if (!len)
        return;
    const size_t first = ring_first(ring, place, len);

    buf_add(out, ring_at(ring, place), first);
    buf_add(out, ring_data(ring), len - first);
}

bool ring_grow(struct ring *ring, size_t size)
{
    size_t held = ring_held(ring);
    uint64_t block = arena_alloc(size);
    char *data = arena_at(block, size);

    if (!data)
        return false;
    ring_copy(ring, ring->tail, data, held);
    ring->block = block;
    ring->size = size;
    ring->tail_at = 0;
    return true;
}

/* ---- limits and charges, which come before each allocation ---- */

bool log_charge(struct log *log, uint64_t bytes)
{
    if (log->charge && !log->charge(log->charge_arg, (int64_t)bytes))
        return false;
    log->charged += bytes;
    return true;
}

void log_discharge(struct log *log, uint64_t bytes)
{
    if (log->charge && bytes)
        log->charge(log->charge_arg, -(int64_t)bytes);
    log->charged -= bytes;
}

uint64_t log_memory(const struct log *log)
{
    return log->ring.size + log->spaces_granted + log->facts.size;
}

static uint64_t ring_part(uint64_t bytes)
{
    return (bytes - bytes / 4) & ~UINT64_C(7);
}

uint64_t log_ring_max(const struct log *log)
{
    return ring_part(log->max_bytes);
}

void log_set_max(struct log *log, uint64_t max_bytes)
{
    pthread_mutex_lock(&log->mutex);
    log->max_bytes = log_bounded(max_bytes);
    log->grow_place = 0;
    log_publish(log);
    pthread_mutex_unlock(&log->mutex);
}

uint64_t log_max_bytes(struct log *log)
{
    uint64_t max_bytes;

    pthread_mutex_lock(&log->mutex);
    max_bytes = log->max_bytes;
    pthread_mutex_unlock(&log->mutex);
    return max_bytes;
}

uint64_t log_set_charge(struct log *log, bool (*charge)(void *arg, int64_t bytes), void *arg)
{
    uint64_t memory;

    pthread_mutex_lock(&log->mutex);
    log_discharge(log, log->charged);
    log->charge = charge;
    log->charge_arg = arg;
    memory = log->charged = log_memory(log);
    log->grow_place = 0;
    pthread_mutex_unlock(&log->mutex);
    return memory;
}

/* Grows the ring to this size. Returns 0, -EDQUOT or -ENOMEM. */
static int ring_to(struct log *log, uint64_t size)
{
    const uint64_t more = size - log->ring.size, block = log->ring.block;
    const size_t before = log->ring.size;

    if (!log_charge(log, more))
        return -EDQUOT;
    if (ring_grow(&log->ring, size)) {
        log_publish(log);
        arena_free(block, before);
        return 0;
    }
    log_discharge(log, more);
    return -ENOMEM;
}

bool log_grow_spaces(struct log *log, uint64_t bytes)
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
    uint64_t max = log_ring_max(log), want = log->ring.size ? 2 * log->ring.size : FIRST_BYTES;

    if (log->ring.size >= max ||
        (log->ring.head + ahead < log->grow_place && size <= log->ring.size))
        return false;
    log->short_of = ring_to(log, want < max ? want : max);
    if (log->short_of == 0)
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
        rc = ring_to(log, ring_part(bytes));
    if (rc == 0 && log->spaces_granted < bytes / 4 && !log_grow_spaces(log, bytes / 4))
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

static struct log_head *head_of(struct log *log)
{
    struct log_head *head;

    if (!log->block)
        log->block = arena_alloc(sizeof *head);
    head = arena_at(log->block, sizeof *head);
    if (head)
        head->magic = MAGIC;
    return head;
}

void log_publish(struct log *log)
{
    struct log_head *head = head_of(log);

    log->sure = log->ring.tail;
    if (!head)
        return;
    head->numbers[!head->current] = log->numbers;
    __atomic_store_n(&head->current, !head->current, __ATOMIC_RELEASE);
}

void log_blocks_free(struct log *log)
{
    arena_free(log->block, sizeof(struct log_head));
    arena_free(log->ring.block, log->ring.size);
    arena_free(log->facts.block, log->facts.size);
}

/* ---- address spaces ---- */

/* Replaces the facts block: prints the address spaces to a new block, of which half is free.
 * Returns false on ENOMEM, or if charge() refuses. */
static bool facts_grow(struct log *log, size_t need)
{
    const struct facts before = log->facts;
    struct buf records;
    char *to;

    buf_init(&records, NULL, 0);
    spaces_print(&log->spaces, 0, &records);
    log->facts = (struct facts){.size = 2 * (records.len + need), .used = records.len};
    if (log->facts.size < before.size / 2)
        log->facts.size = before.size / 2;
    bool fine = !records.failed &&
                (log->facts.size <= before.size || log_charge(log, log->facts.size - before.size));
    log->facts.block = fine ? arena_alloc(log->facts.size) : 0;
    to = arena_at(log->facts.block, log->facts.size);
    if (to && records.len)
        memcpy(to, records.data, records.len);
    else if (!to && fine && log->facts.size > before.size)
        log_discharge(log, log->facts.size - before.size);
    buf_free(&records);
    if (!to) {
        log->facts = before;
        return false;
    }
    if (log->facts.size < before.size)
        log_discharge(log, before.size - log->facts.size);
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

/* On ENOMEM or a refused charge the record is missing in the address spaces of a new worker. */
void log_facts_add(struct log *log, const struct record *record)
{
    struct facts *facts = &log->facts;

    if (facts->size - facts->used < record->size && !facts_grow(log, record->size))
        return;
    char *to = arena_at(facts->block, facts->size);
    memcpy(to + facts->used, record, record->size);
    facts->used += record->size;
}

/* ---- adoption by a new worker ---- */

uint64_t log_block(struct log *log)
{
    uint64_t block;

    pthread_mutex_lock(&log->mutex);
    if (!log->block)
        log_publish(log); /* the block number is final: the caller stores it */
    block = log->block;
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

static bool facts_adopt(struct log *log)
{
    const char *from = arena_at(log->facts.block, log->facts.size);

    arena_keep(log->facts.block, log->facts.size);
    if (!log->facts.size)
        return true;
    if (!from || log->facts.used > log->facts.size)
        return false;
    for (size_t at = 0; at < log->facts.used;) {
        const struct record *record = (const struct record *)(from + at);

        if (!record_fits(record, log->facts.used - at))
            return false;
        tasks_take(&log->spaces, record);
        at += record->size;
    }
    if (log->spaces_granted < tasks_bytes(&log->spaces))
        log->spaces_granted = tasks_bytes(&log->spaces);
    return true;
}

/* Keeps the ring's block. Returns true if all records are valid, and as many as the serials. */
static bool ring_adopt(struct log *log)
{
    struct ring *ring = &log->ring;
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
        if (!record_fits((const struct record *)record, size))
            return false;
        at += size;
    }
    return n == log->last + 1 - log->first;
}

struct log *log_adopt(uint64_t block)
{
    const struct log_head *head = arena_at(block, sizeof *head);
    struct log *log;

    errno = EINVAL;
    log = head && head->magic == MAGIC && head->current < 2 ? log_new(0) : NULL;
    if (!log)
        return NULL;
    log->block = block;
    arena_keep(block, sizeof *head);
    log->numbers = head->numbers[__atomic_load_n(&head->current, __ATOMIC_ACQUIRE)];
    log->repeats = log->request;
    log->sure = log->ring.tail;
    if (log->max_bytes <= LOG_MOST && ring_adopt(log) && facts_adopt(log))
        return log;
    log->keep = true;
    log_unref(log);
    errno = EINVAL;
    return NULL;
}

struct log_cursor *log_cursor_adopt(struct log *log, const struct log_mark *mark)
{
    struct log_cursor *cursor = log_open(log);

    if (!cursor)
        return NULL;
    pthread_mutex_lock(&log->mutex);
    cursor->next = mark->next <= log->last ? mark->next : log->last + 1;
    cursor->begun = mark->begun;
    cursor->place = log->ring.tail;
    cursor->before = cursor->next < log->first ? mark->before : log->gone;
    for (uint64_t serial = log->first; serial < cursor->next; serial++) {
        log_sums_add(&cursor->before, &log->ring, cursor->place);
        cursor->place += ((const struct record *)ring_at(&log->ring, cursor->place))->size;
    }
    log->unread_known = false;
    if (mark->first) /* 0 in marks of older versions */
        log_restore_missed(log, mark);
    pthread_mutex_unlock(&log->mutex);
    if (mark->next > 0)
        return cursor;
    log_close(cursor);
    return NULL;
}

void log_cursor_mark(const struct log_cursor *cursor, struct log_mark *mark)
{
    pthread_mutex_lock(&cursor->log->mutex);
    *mark = (struct log_mark){
        .next = cursor->next,
        .begun = cursor->begun,
        .first = cursor->log->first,
        .missed = cursor->log->missed,
        .before = cursor->before,
    };
    pthread_mutex_unlock(&cursor->log->mutex);
}
