/*
 * The log: putting a record, making room for it, counting losses, and folding what address spaces
 * need of the records that are overwritten (log_keep.c finds all of it again, log_read.c has the
 * readers, log_memory.c what they take). Beside the records stand only numbers: the count of what
 * was lost unread needs no more than the smallest serial that some reader wants.
 */
#include "core/log/log.h"

#include "core/base/arena.h"
#include "core/log/log_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DROP_BYTES (sizeof(struct record_note) + 2 * sizeof(uint64_t)) /* of one number, "log" */

struct log *log_new(uint64_t max_bytes)
{
    struct log *log = calloc(1, sizeof(*log));

    if (!log)
        return NULL;
    pthread_mutex_init(&log->mutex, NULL);
    log->refs = 1;
    log->max_bytes = log_bounded(max_bytes);
    log->first = log->most_read = 1;
    tasks_init(&log->spaces);
    return log;
}

struct log *log_ref(struct log *log)
{
    __atomic_add_fetch(&log->refs, 1, __ATOMIC_RELAXED);
    return log;
}

void log_unref(struct log *log)
{
    if (!log || __atomic_sub_fetch(&log->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    log_discharge(log, log->charged);
    if (!log->keep)
        log_blocks_free(log);
    tasks_free(&log->spaces);
    pthread_mutex_destroy(&log->mutex);
    free(log);
}

/* What is overwritten. */

void log_fold(struct log *log, const struct record *record)
{
    const uint64_t max = log->max_bytes / 4;
    uint64_t want = log->spaces_granted ? log->spaces_granted : FIRST_BYTES;

    tasks_take(&log->spaces, record);
    while (want < tasks_bytes(&log->spaces) && want < max)
        want *= 2;
    want = want < max ? want : max;
    if (want > log->spaces_granted)
        log_grow_spaces(log, want);
    spaces_bound(&log->spaces, log->spaces_granted);
    log_facts_add(log, record);
}

/* In two pieces, at the end of the block and at its begin. */
static __attribute__((noinline)) void fold_parted(struct log *log, size_t size)
{
    uint64_t record[RECORD_MAX / sizeof(uint64_t)];

    ring_copy(&log->ring, log->ring.tail, record, size);
    log_fold(log, (const struct record *)record);
}

static void fold_oldest(struct log *log, const struct record *record)
{
    log->spaces_changed = log->first;
    if (record->size <= ring_together(&log->ring, log->ring.tail))
        log_fold(log, record);
    else
        fold_parted(log, record->size);
}

/* The serial from which on a record that is overwritten counts as lost. */
static uint64_t log_unread(struct log *log)
{
    if (!log->unread_known) {
        const struct log_cursor *c;

        log->unread = LIST_EMPTY(&log->cursors) ? log->most_read : UINT64_MAX;
        LIST_FOREACH (c, &log->cursors, of_log)
            if (c->next < log->unread)
                log->unread = c->next;
        log->unread_known = true;
    }
    return log->unread;
}

/* Counted as lost when it is put: not once more when it is overwritten. */
static bool is_refused(const struct record *record)
{
    return record->type == RECORD_DROP && record->misc & RECORD_REFUSED;
}

/* Gives up the oldest record; false: there is none. */
static bool log_overwrite(struct log *log)
{
    const struct record *record;

    if (log->first > log->last)
        return false;
    record = (const struct record *)ring_at(&log->ring, log->ring.tail);
    if (spaces_wants(record))
        fold_oldest(log, record);
    log->missed += log->first >= log_unread(log) && !is_refused(record);
    log->first++;
    ring_drop(&log->ring, record->size);
    return true;
}

void log_missed_again(struct log *log, uint64_t next, uint64_t first, uint64_t missed)
{
    const uint64_t from = next > first ? next : first;

    if (log->first > from)
        missed += log->first - from;
    if (log->missed < missed)
        log->missed = missed;
}

/* Can the ring hold it, if need be once it has grown? Nothing is overwritten for the answer. */
static bool log_fits(struct log *log, size_t size)
{
    while (log->ring.size < size)
        if (!log_grow(log, size))
            return false;
    return true;
}

/* For what fits. */
static void log_make_room(struct log *log, size_t size)
{
    while (ring_room(&log->ring) < size)
        if (!log_grow(log, size) && !log_overwrite(log))
            return;
}

/* Putting. */

/* Behind what the ring has room for. */
static void ring_append(struct log *log, const struct record *record)
{
    log_make_room(log, record->size);
    if (log->ring.tail > log->sure) /* what it is put over is given up for a later worker, too */
        log_publish(log);
    __atomic_store_n(&log->last, log->last + 1, __ATOMIC_RELEASE);
    ring_put(&log->ring, record, record->size);
}

static __attribute__((noinline)) void append_later(struct log *log, const struct record *record)
{
    uint64_t copy[RECORD_MAX / sizeof(uint64_t)];

    memcpy(copy, record, record->size);
    record_set_time((struct record *)copy, log->last_time);
    ring_append(log, (const struct record *)copy);
}

/* No ring: it has a serial as if it had been put and overwritten at once, readers are told of it.
 */
static int record_refuse(struct log *log, const struct record *record)
{
    __atomic_store_n(&log->last, log->last + 1, __ATOMIC_RELEASE);
    log->first++;
    if (spaces_wants(record)) {
        log->spaces_changed = log->last;
        log_fold(log, record);
    }
    log->refused++;
    return -ENOMEM;
}

/* What stands in its place is small. What it says of address spaces is given up: it is not their
 * turn. */
static int record_replace(struct log *log)
{
    static const uint64_t one = 1;
    const struct note note = {.type = RECORD_DROP,
                              .misc = RECORD_REFUSED,
                              .time = log->last_time,
                              .cpu = UINT32_MAX,
                              .n = 1,
                              .value = &one,
                              .text = "log",
                              .text_len = 3};
    _Alignas(uint64_t) char room[DROP_BYTES];
    struct buf drop;

    buf_init(&drop, room, sizeof(room));
    record_add_note(&drop, &note);
    ring_append(log, (const struct record *)drop.data);
    log->lost++;
    return 0;
}

/* Of how many records of the kernel it tells. */
static uint64_t stands_for(const struct record *record)
{
    const struct record_note *note = (const struct record_note *)record;

    if (record->type == RECORD_LOST)
        return ((const struct record_lost *)record)->lost;
    return record->type == RECORD_DROP && note->n ? note->value[0] : !record_is_note(record);
}

static void count_losses(struct log *log, const struct record *record)
{
    if (record->type == RECORD_LOST)
        log->kernel_lost += stands_for(record);
    else if (record->type == RECORD_THROTTLE)
        log->throttled++;
    else if (is_refused(record))
        log->lost += stands_for(record);
    else if (record->type == RECORD_DROP && record->misc & RECORD_WITHHELD)
        log->hidden += stands_for(record);
}

static int put_one(struct log *log, const struct record *record)
{
    const uint64_t time = record_time(record);
    const bool late = time < log->last_time;
    int rc = 0;

    if (!late)
        log->last_time = time;
    if (!log_fits(log, record->size))
        rc = log->ring.size ? record_replace(log) : record_refuse(log, record);
    else if (late)
        append_later(log, record);
    else
        ring_append(log, record);
    count_losses(log, record);
    return rc;
}

uint64_t log_taken(struct log *log, uint64_t source)
{
    uint64_t n;

    pthread_mutex_lock(&log->mutex);
    n = log->taken.source == source ? log->taken.n : 0;
    pthread_mutex_unlock(&log->mutex);
    return n;
}

/* Is this piece there already? */
static bool request_passed(struct log *log, uint64_t request)
{
    const bool passed = request && log->before.number == request && log->before.pieces > 0;

    log->before.pieces -= passed;
    return passed;
}

/* One more piece is in the log; true with the next publishing. */
static void request_note(struct log *log, uint64_t request)
{
    if (!request)
        return;
    if (log->request.number != request)
        log->request = (struct log_request){.number = request};
    log->request.pieces++;
}

/* What is put later may publish what is put now: then it is known as told. */
static void taken_note(struct log *log, const struct record *record, const struct log_taken *taken)
{
    if (log->taken.source != taken->source)
        log->taken = (struct log_taken){.source = taken->source};
    log->taken.n += stands_for(record);
    if (log->taken.n > taken->n)
        log->taken.n = taken->n;
}

static int all_put(struct log *log, const void *records, size_t len, const struct log_taken *taken,
                   uint64_t request)
{
    int rc = 0;

    pthread_mutex_lock(&log->mutex);
    const bool passed = request_passed(log, request);
    for (size_t at = 0; !passed && len - at >= sizeof(struct record);) {
        const struct record *record = (const struct record *)((const char *)records + at);

        if (!record_fits(record, len - at))
            break;
        if (put_one(log, record) < 0)
            rc = -ENOMEM;
        if (taken)
            taken_note(log, record, taken);
        at += record->size;
    }
    if (taken)
        log->taken = *taken;
    if (!passed)
        request_note(log, request);
    log_publish(log);
    pthread_mutex_unlock(&log->mutex);
    return rc;
}

int log_put_all(struct log *log, const void *records, size_t len)
{
    return all_put(log, records, len, NULL, 0);
}

int log_put_taken(struct log *log, const void *records, size_t len, struct log_taken taken)
{
    return all_put(log, records, len, &taken, 0);
}

/* It keeps its size, whatever is allowed now. */
static uint64_t ring_most(const struct log *log)
{
    const uint64_t max = log_ring_max(log);

    return max > log->ring.size ? max : log->ring.size;
}

int log_put_all_once(struct log *log, uint64_t request, const void *records, size_t len)
{
    return all_put(log, records, len, NULL, request);
}

int log_put_once(struct log *log, uint64_t request, const struct record *record)
{
    int rc = -E2BIG;

    pthread_mutex_lock(&log->mutex);
    const bool passed = request_passed(log, request);
    if (passed)
        rc = 0;
    else if (record->size <= ring_most(log) && (log_fits(log, record->size) || log->ring.size == 0))
        rc = put_one(log, record);
    if (!passed && rc == 0)
        request_note(log, request);
    log_publish(log);
    pthread_mutex_unlock(&log->mutex);
    return rc;
}

size_t log_record_max(struct log *log)
{
    uint64_t most;

    pthread_mutex_lock(&log->mutex);
    most = ring_most(log);
    pthread_mutex_unlock(&log->mutex);
    return most < RECORD_MAX ? (size_t)most : RECORD_MAX;
}

void log_stats(struct log *log, struct log_stats *out)
{
    pthread_mutex_lock(&log->mutex);
    *out = (struct log_stats){
        .bytes = ring_held(&log->ring) + tasks_bytes(&log->spaces),
        .memory = log_memory(log),
        .records = log->last,
        .lost = log->lost + log->missed,
        .kernel_lost = log->kernel_lost,
        .throttled = log->throttled,
        .hidden = log->hidden,
        .refused = log->refused,
        .short_of = log->short_of,
    };
    pthread_mutex_unlock(&log->mutex);
}

uint64_t log_last(struct log *log)
{
    return __atomic_load_n(&log->last, __ATOMIC_ACQUIRE);
}
