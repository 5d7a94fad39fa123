/*
 * Writes to the log: adds records, overwrites the oldest, and counts losses. log_read.c has the
 * readers, log_memory.c the life of a log: its memory, its address spaces, and a new worker.
 */
#include "core/log/log_parts.h"

#include <errno.h>
#include <string.h>

#define DROP_BYTES (sizeof(struct record_note) + 3 * sizeof(uint64_t)) /* 2 values and "log" */
#define ROOM_MAX   (64u << 10) /* bytes of samples that are published at once */
/* log_samples_begin() frees 1/OVERWRITE_PART of a full ring at once, because each removal has to be
 * published. */
#define OVERWRITE_PART 16

/* ---- overwriting the oldest records ---- */

/* Applies the oldest record, which continues at the start of the block, to the address spaces.
 * Copies it first. Not inlined: 64 KiB of stack. */
static __attribute__((noinline)) void move_wrapped(struct log *log, size_t size)
{
    uint64_t record[RECORD_MAX / sizeof(uint64_t)];

    ring_copy(&log->ring, log->ring.tail, record, size);
    log_move_to_spaces(log, (const struct record *)record);
}

/* Returns the serial of the first record that an open reader has not read or, without open readers,
 * that no reader ever read: overwriting it or a later one counts as a loss. Updates unread_sums. */
static uint64_t log_unread(struct log *log)
{
    if (!log->unread_known) {
        const struct log_cursor *c;

        log->unread = LIST_EMPTY(&log->cursors) ? log->most_read : UINT64_MAX;
        log->unread_sums = log->read_sums;
        LIST_FOREACH (c, &log->cursors, of_log) {
            if (c->next >= log->unread)
                continue;
            log->unread = c->next;
            log->unread_sums = c->before;
        }
        log->unread_known = true;
    }
    return log->unread;
}

/* Returns true for DROP records that count as lost when they are added. Overwriting them is no
 * second loss. */
static bool is_refused(const struct record *record)
{
    return record->type == RECORD_DROP && record->misc & RECORD_REFUSED;
}

/* Words of a record that sums_add() reads: a note and two values. */
#define SUMS_WORDS (sizeof(struct record_note) / sizeof(uint64_t) + 2)

static void sums_add(struct log_sums *sums, const struct record *record)
{
    const struct record_note *note = (const struct record_note *)record;
    int where = -1;

    if (record->type == RECORD_LOST) {
        sums->drops++;
        sums->lost[LOG_KERNEL] += ((const struct record_lost *)record)->lost;
        return;
    }
    /* The text is not always copied (SUMS_WORDS). Its length suffices to distinguish "log",
     * "memory" and "replaced". */
    if (record->type == RECORD_DROP && record->misc & RECORD_HIDDEN)
        where = LOG_HIDDEN;
    else if (is_refused(record) && note->text_len == strlen("memory"))
        where = LOG_MEMORY;
    else if (is_refused(record) && note->text_len == strlen("replaced"))
        where = LOG_REPLACED;
    if (where >= 0 && note->n) {
        sums->drops++;
        sums->lost[where] += note->value[0];
    } else if (!is_refused(record) || (note->n > 1 && !note->value[1])) {
        sums->others++; /* but not a "log" drop of a sample, which counts like the sample */
    }
}

void log_sums_add(struct log_sums *sums, const struct log_ring *ring, uint64_t place)
{
    const struct record *record = (const struct record *)ring_at(ring, place);
    uint64_t words[SUMS_WORDS] = {0};

    if (record->type == RECORD_SAMPLE)
        return;
    if (record->type != RECORD_LOST && record->type != RECORD_DROP) {
        sums->others++;
        return;
    }
    ring_copy(ring, place, words, record->size < sizeof words ? record->size : sizeof words);
    sums_add(sums, (const struct record *)words);
}

/*
 * Moves `first` past the oldest record; the caller removes its bytes from the ring. sums:
 * removed_sums plus that record. The record counts as missed if it is unread, unless it is
 * `counted` as lost already, or is the first unread record of its kind of loss: readers receive one
 * record with the sum instead.
 */
static void remove_oldest(struct log *log, const struct log_sums *sums, bool counted)
{
    const bool unread = log->first >= log_unread(log);
    bool summed = false;

    for (unsigned i = 0; i < LOG_LOSSES; i++)
        summed |= sums->lost[i] > log->removed_sums.lost[i] &&
                  log->removed_sums.lost[i] == log->unread_sums.lost[i];
    log->missed += unread && !counted && !summed;
    log->removed_sums = *sums;
    log->first++;
}

/* Removes the oldest records until the ring has room for `bytes`, or is empty. */
static void overwrite(struct log *log, uint64_t bytes)
{
    while (ring_room(&log->ring) < bytes && log->first <= log->last) {
        const struct record *record = (const struct record *)ring_at(&log->ring, log->ring.tail);
        const size_t size = record->size;

        if (record->type == RECORD_SAMPLE) { /* the sums have no samples */
            log->missed += log->first >= log_unread(log);
            log->first++;
        } else {
            if (spaces_wants(record)) {
                log->spaces_changed = log->first;
                if (size <= ring_contiguous(&log->ring, log->ring.tail))
                    log_move_to_spaces(log, record);
                else
                    move_wrapped(log, size);
            }
            const bool counted = is_refused(record);
            struct log_sums sums = log->removed_sums;

            log_sums_add(&sums, &log->ring, log->ring.tail);
            remove_oldest(log, &sums, counted);
        }
        ring_drop(&log->ring, size);
    }
}

/* Grows the ring to hold a record of this size, and overwrites nothing. Returns false if it cannot.
 */
static bool log_grow_to(struct log *log, size_t size)
{
    while (log->ring.size < size)
        if (!log_grow(log, size, size))
            return false;
    return true;
}

/* ---- adding records ---- */

/* Appends a copy with the time of the last record. Not inlined: 64 KiB of stack. */
static __attribute__((noinline)) void append_late(struct log *log, const struct record *record)
{
    uint64_t copy[RECORD_MAX / sizeof(uint64_t)];

    memcpy(copy, record, record->size);
    record_set_time((struct record *)copy, log->last_time);
    ring_put(&log->ring, copy, record->size);
}

/* Counts a record that has a serial but is not stored, as if it were overwritten at once. Readers
 * count it as missed. */
static void count_as_overwritten(struct log *log, const struct record *record)
{
    struct log_sums sums = log->removed_sums;

    if (spaces_wants(record)) {
        log->spaces_changed = log->first;
        log_move_to_spaces(log, record);
    }
    if (record->type != RECORD_SAMPLE)
        sums_add(&sums, record);
    remove_oldest(log, &sums, is_refused(record) || !log->ring.size);
}

/* Stores a DROP record instead of a record that is too large for the ring. Its data for address
 * spaces is lost, because older records in the ring have to be applied first. */
static void put_drop(struct log *log, const struct record *record)
{
    const uint64_t value[] = {1, record->type == RECORD_SAMPLE};
    _Alignas(uint64_t) char room[DROP_BYTES];
    struct buf drop = buf_in(room, sizeof(room));

    record_add_drop(&drop, log->last_time, RECORD_REFUSED, "log", 2, value);
    ring_put(&log->ring, drop.data, DROP_BYTES);
    log->lost++;
}

/* Returns the number of bytes that a record, or its DROP record, uses in the ring. */
static size_t put_bytes(const struct log *log, const struct record *record)
{
    return record->size <= log->ring.size ? record->size : DROP_BYTES;
}

/*
 * Frees space for a batch of records: grows the ring as far as allowed, then overwrites the oldest
 * records. Returns the bytes that the batch uses, which may be more than the size of the ring.
 */
static uint64_t make_room(struct log *log, const char *records, size_t len)
{
    for (;;) {
        const size_t size = log->ring.size;
        uint64_t bytes = 0;
        size_t largest = 0;

        for (size_t at = 0; at < len;) {
            const struct record *record = (const struct record *)(records + at);

            bytes += put_bytes(log, record);
            largest = record->size > largest ? record->size : largest;
            at += record->size;
        }
        if (largest > size)
            log_grow_to(log, largest);
        else if (ring_room(&log->ring) < bytes)
            log_grow(log, largest, bytes);
        if (log->ring.size > size)
            continue;
        overwrite(log, bytes);
        return bytes;
    }
}

/*
 * Adds a batch of records. The removal of overwritten records is published first; the next
 * log_publish() publishes the complete batch. If the batch is larger than the ring, only its last
 * records are stored. Returns -ENOMEM if there is no ring.
 */
static int put_batch(struct log *log, const char *records, size_t len)
{
    uint64_t left = make_room(log, records, len);
    int rc = 0;

    if (log->ring.tail > log->published_tail)
        log_publish(log);
    log->putting = true;
    for (size_t at = 0; at < len;) {
        const struct record *record = (const struct record *)(records + at);
        const struct record_note *note = (const struct record_note *)record;
        const uint64_t time = record_time(record);
        const bool late = time < log->last_time, fits = record->size <= log->ring.size;
        const bool stays = log->ring.size && left <= log->ring.size;

        if (!late)
            log->last_time = time;
        left -= put_bytes(log, record);
        __atomic_store_n(&log->last, log->last + 1, __ATOMIC_RELEASE);
        if (!log->ring.size) {
            count_as_overwritten(log, record);
            log->refused++;
            rc = -ENOMEM;
        } else if (!stays) {
            count_as_overwritten(log, record);
        } else if (!fits) {
            put_drop(log, record);
        } else if (late) {
            append_late(log, record);
        } else {
            ring_put(&log->ring, record, record->size);
        }
        if (record->type == RECORD_LOST)
            log->kernel_lost += ((const struct record_lost *)record)->lost;
        else if (record->type == RECORD_THROTTLE)
            log->throttled++;
        else if (is_refused(record) && note->n)
            log->lost += note->value[0];
        else if (record->type == RECORD_DROP && record->misc & RECORD_HIDDEN && note->n)
            log->hidden += note->value[0];
        at += record->size;
    }
    log->putting = false;
    return rc;
}

struct log_progress log_progress(struct log *log)
{
    pthread_mutex_lock(&log->mutex);
    struct log_progress progress = log->progress;
    pthread_mutex_unlock(&log->mutex);
    return progress;
}

/* Returns true if an earlier worker has added this batch of the request: the caller skips it. Call
 * once for each batch, because this decrements repeats.batches. */
static bool batch_is_repeat(struct log *log, uint64_t request)
{
    const bool repeat = request && log->repeats.number == request && log->repeats.batches > 0;

    log->repeats.batches -= repeat;
    return repeat;
}

/* Publishes the log with the batch, and frees the block of saved spaces that the batch replaced. */
static void batch_publish(struct log *log)
{
    log_publish(log);
    arena_free(log->replaced.block, log->replaced.size);
    log->replaced = (struct saved_spaces){0};
}

/* Counts a batch of the request. The next log_publish() publishes the number. */
static void request_count_batch(struct log *log, uint64_t request)
{
    if (!request)
        return;
    if (log->request.number != request)
        log->request = (struct log_request){.number = request};
    log->request.batches++;
}

int log_put_all_once(struct log *log, uint64_t request, const struct log_progress *progress,
                     const void *records, size_t len)
{
    size_t valid = 0;
    int rc = 0;

    while (len - valid >= sizeof(struct record)) {
        const struct record *record = (const struct record *)((const char *)records + valid);

        if (!record_is_valid(record, len - valid))
            break;
        valid += record->size;
    }
    pthread_mutex_lock(&log->mutex);
    if (!batch_is_repeat(log, request)) {
        rc = put_batch(log, records, valid);
        request_count_batch(log, request);
    }
    if (progress)
        log->progress = *progress;
    batch_publish(log);
    pthread_mutex_unlock(&log->mutex);
    return rc;
}

bool log_samples_begin(struct log *log, size_t size)
{
    struct log_ring *ring = &log->ring;
    uint64_t room;

    pthread_mutex_lock(&log->mutex);
    while (ring_room(ring) < size && log_grow(log, size, size))
        ;
    if (ring_room(ring) < size && ring->size >= size) {
        room = ring->size / OVERWRITE_PART < ROOM_MAX ? ring->size / OVERWRITE_PART : ROOM_MAX;
        overwrite(log, room > size ? room : size);
    }
    if (ring->tail > log->published_tail)
        log_publish(log);
    room = ring_room(ring) < ROOM_MAX ? ring_room(ring) : ROOM_MAX;
    if (room >= size && ring_contiguous(ring, ring->head) < room)
        room = ring_contiguous(ring, ring->head);
    if (room < size) {
        pthread_mutex_unlock(&log->mutex);
        return false;
    }
    log->room = ring_at(ring, ring->head);
    log->room_end = ring->head + room;
    return true;
}

void log_samples_end(struct log *log, const struct log_progress *progress)
{
    log->progress = *progress;
    batch_publish(log);
    pthread_mutex_unlock(&log->mutex);
}

int log_put_once(struct log *log, uint64_t request, const struct record *record)
{
    int rc = -E2BIG;

    pthread_mutex_lock(&log->mutex);
    const bool repeat = batch_is_repeat(log, request);
    if (repeat)
        rc = 0;
    else if (record->size <= log_ring_most(log) &&
             (log_grow_to(log, record->size) || log->ring.size == 0))
        rc = put_batch(log, (const char *)record, record->size);
    if (!repeat && rc == 0)
        request_count_batch(log, request);
    batch_publish(log);
    pthread_mutex_unlock(&log->mutex);
    return rc;
}

size_t log_record_max(struct log *log)
{
    pthread_mutex_lock(&log->mutex);
    uint64_t most = log_ring_most(log);
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
        .growth_error = log->growth_error,
    };
    pthread_mutex_unlock(&log->mutex);
}

uint64_t log_last(struct log *log)
{
    return __atomic_load_n(&log->last, __ATOMIC_ACQUIRE);
}
