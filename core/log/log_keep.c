/*
 * Keeps the log in arena blocks, where a new worker finds it. The state of the last log_publish()
 * remains valid until the next one: its part of the ring is not overwritten, and its blocks are not
 * freed, before the next log_publish(). A batch of records is published at once.
 */
#include "core/base/arena.h"
#include "core/log/log.h"
#include "core/log/log_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC UINT64_C(0x32676f6c73636d70)

struct log_head {
    uint64_t magic;
    uint64_t current; /* 0 or 1 */
    struct log_numbers numbers[2];
};
_Static_assert(sizeof(struct log_head) <= 512, "one block of the arena's smallest");

/* ---- publishing ---- */

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

/* Replaces the facts block: prints the address spaces to a new block with as much free space again.
 */
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

/* On ENOMEM the record is missing in the address spaces of a new worker. */
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

void log_forget(struct log *log)
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

/* Checks the ring: it must contain only valid records, and as many as the serials say. */
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

static bool numbers_adopt(struct log *log, const struct log_numbers *numbers)
{
    log->numbers = *numbers;
    log->before = numbers->request;
    log->sure = log->ring.tail;
    return log->max_bytes <= LOG_MOST && ring_adopt(log) && facts_adopt(log);
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
    if (numbers_adopt(log, &head->numbers[__atomic_load_n(&head->current, __ATOMIC_ACQUIRE)]))
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
        log_missed_again(log, mark);
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
