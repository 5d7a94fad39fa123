/*
 * The ring of records, who reads it, and what is kept of the records that were overwritten. Beside
 * the records stand only numbers: a cursor is a serial and a place, the count of what was lost
 * unread needs no more than the smallest serial that some reader wants.
 */
#include "core/log.h"

#include "core/log_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 1024u /* of the ring, and of the address spaces */

struct log *log_new(uint64_t max_bytes)
{
    struct log *log = calloc(1, sizeof(*log));

    if (!log)
        return NULL;
    pthread_mutex_init(&log->mutex, NULL);
    log->refs = 1;
    log->max_bytes = max_bytes < LOG_MOST ? max_bytes : LOG_MOST;
    log->first = log->most_read = 1;
    return log;
}

struct log *log_ref(struct log *log)
{
    __atomic_add_fetch(&log->refs, 1, __ATOMIC_RELAXED);
    return log;
}

/* Memory. */

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

static uint64_t log_memory(const struct log *log)
{
    return log->ring.size + log->spaces_granted;
}

void log_unref(struct log *log)
{
    if (!log || __atomic_sub_fetch(&log->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    log_discharge(log, log->charged);
    ring_free(&log->ring);
    spaces_free(log->spaces);
    pthread_mutex_destroy(&log->mutex);
    free(log);
}

uint64_t log_ring_max(const struct log *log)
{
    return (log->max_bytes - log->max_bytes / 4) & ~UINT64_C(7);
}

void log_set_max(struct log *log, uint64_t max_bytes)
{
    pthread_mutex_lock(&log->mutex);
    log->max_bytes = max_bytes < LOG_MOST ? max_bytes : LOG_MOST;
    log->grow_place = 0;
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

void log_set_charge(struct log *log, bool (*charge)(void *arg, int64_t bytes), void *arg)
{
    uint64_t memory;

    pthread_mutex_lock(&log->mutex);
    log_discharge(log, log->charged);
    log->charge = charge;
    log->charge_arg = arg;
    memory = log_memory(log);
    if (memory)
        log_charge(log, memory);
    log->grow_place = 0;
    pthread_mutex_unlock(&log->mutex);
}

/* 0, -EDQUOT, -ENOMEM. */
static int ring_to(struct log *log, uint64_t size)
{
    uint64_t more = size - log->ring.size;

    if (!log_charge(log, more))
        return -EDQUOT;
    if (ring_grow(&log->ring, size))
        return 0;
    log_discharge(log, more);
    return -ENOMEM;
}

static bool spaces_to(struct log *log, uint64_t bytes)
{
    if (!log_charge(log, bytes - log->spaces_granted))
        return false;
    log->spaces_granted = bytes;
    spaces_set_max(log->spaces, bytes);
    return true;
}

/* The ring doubled, as long as it may grow. What was refused is not asked for again at once. */
static bool log_grow(struct log *log, size_t size)
{
    uint64_t max = log_ring_max(log), want = log->ring.size ? 2 * log->ring.size : FIRST_BYTES;

    if (log->ring.size >= max || (log->ring.head < log->grow_place && size <= log->ring.size))
        return false;
    if (ring_to(log, want < max ? want : max) == 0)
        return true;
    log->grow_place = log->ring.head + log->ring.size;
    return false;
}

static bool spaces_make(struct log *log)
{
    if (!log->spaces)
        log->spaces = spaces_new(log->spaces_granted);
    return log->spaces != NULL;
}

int log_reserve(struct log *log)
{
    int rc = 0;

    pthread_mutex_lock(&log->mutex);
    if (log->ring.size < log_ring_max(log))
        rc = ring_to(log, log_ring_max(log));
    if (rc == 0 && !spaces_make(log))
        rc = -ENOMEM;
    if (rc == 0 && log->spaces_granted < log->max_bytes / 4 && !spaces_to(log, log->max_bytes / 4))
        rc = -EDQUOT;
    log->reserved = rc == 0;
    pthread_mutex_unlock(&log->mutex);
    return rc;
}

/* What is overwritten. */

void log_fold(struct log *log, const struct record *record)
{
    uint64_t max = log->max_bytes / 4, need, want;

    if (!spaces_make(log)) {
        log->facts_lost++;
        return;
    }
    need = spaces_bytes(log->spaces) + spaces_need(log->spaces, record);
    want = log->spaces_granted ? log->spaces_granted : FIRST_BYTES;
    while (want < need && want < max)
        want *= 2;
    want = want < max ? want : max;
    if (want > log->spaces_granted)
        spaces_to(log, want);
    spaces_take(log->spaces, record);
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
        log->unread = log->cursors ? UINT64_MAX : log->most_read;
        for (const struct log_cursor *c = log->cursors; c; c = c->next_cursor)
            if (c->next < log->unread)
                log->unread = c->next;
        log->unread_known = true;
    }
    return log->unread;
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
    log->lost += log->first >= log_unread(log);
    log->first++;
    ring_drop(&log->ring, record->size);
    return true;
}

bool log_make_room(struct log *log, size_t size)
{
    while (ring_room(&log->ring) < size)
        if (!log_grow(log, size) && !log_overwrite(log))
            return false;
    return true;
}

/* Putting. */

static void set_time(struct ring *ring, uint64_t place, const struct record *record, uint64_t time)
{
    unsigned second = record_second_time_place(record);

    memcpy(ring_at(ring, place + record_time_place(record)), &time, sizeof(time));
    if (second)
        memcpy(ring_at(ring, place + second), &time, sizeof(time));
}

/* It has a serial as if it had been put and overwritten at once: readers are told of it. */
static int record_refuse(struct log *log, const struct record *record)
{
    log->first++;
    if (spaces_wants(record)) {
        log->spaces_changed = log->last;
        log_fold(log, record);
    }
    if (log->ring.size == 0) {
        log->refused++;
        return -ENOMEM;
    }
    log->lost++;
    return 0;
}

static void count_told(struct log *log, const struct record *record)
{
    if (record->type == RECORD_LOST)
        log->kernel_lost += ((const struct record_lost *)record)->lost;
    else if (record->type == RECORD_THROTTLE)
        log->throttled++;
}

static int put_one(struct log *log, const struct record *record)
{
    uint64_t time = record_time(record), place;
    bool fits = log_make_room(log, record->size);

    count_told(log, record);
    __atomic_store_n(&log->last, log->last + 1, __ATOMIC_RELEASE);
    if (!fits) {
        if (time > log->last_time)
            log->last_time = time;
        return record_refuse(log, record);
    }
    place = log->ring.head;
    ring_put(&log->ring, record, record->size);
    if (time < log->last_time)
        set_time(&log->ring, place, record, log->last_time);
    else
        log->last_time = time;
    return 0;
}

int log_put_all(struct log *log, const void *records, size_t len)
{
    const char *p = records, *end = p + len;
    int rc = 0;

    pthread_mutex_lock(&log->mutex);
    while ((size_t)(end - p) >= sizeof(struct record)) {
        const struct record *record = (const struct record *)p;

        if (!record_fits(record, (size_t)(end - p)))
            break;
        if (put_one(log, record) < 0)
            rc = -ENOMEM;
        p += record->size;
    }
    pthread_mutex_unlock(&log->mutex);
    return rc;
}

int log_put(struct log *log, const struct record *record)
{
    return log_put_all(log, record, record->size);
}

void log_count_hidden(struct log *log, uint64_t n)
{
    pthread_mutex_lock(&log->mutex);
    log->hidden += n;
    pthread_mutex_unlock(&log->mutex);
}

void log_stats(struct log *log, struct log_stats *out)
{
    pthread_mutex_lock(&log->mutex);
    *out = (struct log_stats){
        .bytes = ring_held(&log->ring) + spaces_bytes(log->spaces),
        .memory = log_memory(log),
        .records = log->last,
        .lost = log->lost,
        .maps_lost = log->facts_lost + spaces_lost(log->spaces),
        .kernel_lost = log->kernel_lost,
        .throttled = log->throttled,
        .hidden = log->hidden,
        .refused = log->refused,
    };
    pthread_mutex_unlock(&log->mutex);
}

uint64_t log_last(struct log *log)
{
    return __atomic_load_n(&log->last, __ATOMIC_ACQUIRE);
}

uint64_t log_last_time(struct log *log)
{
    uint64_t time;

    pthread_mutex_lock(&log->mutex);
    time = log->last_time;
    pthread_mutex_unlock(&log->mutex);
    return time;
}

/* Readers. */

struct log_cursor *log_open(struct log *log)
{
    struct log_cursor *cursor = calloc(1, sizeof(*cursor));

    if (!cursor)
        return NULL;
    cursor->log = log_ref(log);
    cursor->next = 1;
    pthread_mutex_lock(&log->mutex);
    cursor->next_cursor = log->cursors;
    cursor->link = &log->cursors;
    if (log->cursors)
        log->cursors->link = &cursor->next_cursor;
    log->cursors = cursor;
    log->unread_known = false;
    pthread_mutex_unlock(&log->mutex);
    return cursor;
}

void log_close(struct log_cursor *cursor)
{
    if (!cursor)
        return;
    struct log *log = cursor->log;

    pthread_mutex_lock(&log->mutex);
    *cursor->link = cursor->next_cursor;
    if (cursor->next_cursor)
        cursor->next_cursor->link = cursor->link;
    log->unread_known = false;
    pthread_mutex_unlock(&log->mutex);
    log_unref(log);
    free(cursor);
}

/* What stands before the oldest record, for who begins or missed some. Number of records. */
static size_t take_missed(struct log_cursor *cursor, struct buf *out)
{
    struct log *log = cursor->log;
    uint64_t missed = log->first - cursor->next, time = log->last_time;
    size_t n = 0;

    if (log->first <= log->last) {
        const struct record *oldest = (const struct record *)ring_at(&log->ring, log->ring.tail);

        memcpy(&time, ring_at(&log->ring, log->ring.tail + record_time_place(oldest)),
               sizeof(time));
    }
    if (log->spaces && (!cursor->begun || log->spaces_changed >= cursor->next))
        n += spaces_print(log->spaces, time, out);
    record_add_note(out, &(struct note){.type = RECORD_DROP,
                                        .time = time,
                                        .cpu = UINT32_MAX,
                                        .n = 1,
                                        .value = &missed,
                                        .text = "log",
                                        .text_len = 3});
    return n + 1;
}

/* Where the records end that go into max bytes from a place on; at least one, if there is one. */
static uint64_t take_until(const struct log *log, uint64_t place, size_t max, size_t *n)
{
    uint64_t end = place;

    while (end < log->ring.head) {
        size_t size = ((const struct record *)ring_at(&log->ring, end))->size;

        if (end > place && end + size - place > max)
            break;
        end += size;
        ++*n;
    }
    return end;
}

static size_t cursor_take(struct log_cursor *cursor, struct buf *out, size_t max)
{
    struct log *log = cursor->log;
    size_t begun = out->len, n = 0, prologue = 0, used;
    bool missed = cursor->next < log->first;
    uint64_t place = missed ? log->ring.tail : cursor->place, end;

    if (missed)
        prologue = take_missed(cursor, out);
    used = out->len - begun;
    end = take_until(log, place, used < max ? max - used : 0, &n);
    ring_add_to(&log->ring, place, (size_t)(end - place), out);
    if (out->failed) {
        out->len = begun;
        return 0;
    }
    cursor->next = (missed ? log->first : cursor->next) + n;
    cursor->place = end;
    cursor->begun = true;
    if (cursor->next > log->most_read)
        log->most_read = cursor->next;
    log->unread_known = false;
    return prologue + n;
}

size_t log_take(struct log_cursor *cursor, struct buf *out, size_t max)
{
    size_t n;

    pthread_mutex_lock(&cursor->log->mutex);
    n = cursor_take(cursor, out, max);
    pthread_mutex_unlock(&cursor->log->mutex);
    return n;
}

bool log_ready(const struct log_cursor *cursor)
{
    bool ready;

    pthread_mutex_lock(&cursor->log->mutex);
    ready = cursor->next <= cursor->log->last;
    pthread_mutex_unlock(&cursor->log->mutex);
    return ready;
}
