/*
 * Readers of a log. A cursor has the serial and the place of its next record: the number of bytes
 * that were ever added before it. A reader that missed records first receives the address spaces.
 */
#include "core/log/log_parts.h"

#include <stdlib.h>
#include <string.h>

struct log_cursor *log_open(struct log *log)
{
    struct log_cursor *cursor = calloc(1, sizeof(*cursor));

    if (!cursor)
        return NULL;
    cursor->log = log_ref(log);
    cursor->next = 1;
    pthread_mutex_lock(&log->mutex);
    LIST_INSERT_HEAD(&log->cursors, cursor, of_log);
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
    LIST_REMOVE(cursor, of_log);
    log->unread_known = false;
    pthread_mutex_unlock(&log->mutex);
    log_unref(log);
    free(cursor);
}

/* Appends a DROP record for the missed records, and one for each kind of loss that they reported.
 * Returns the number of appended records. */
static size_t losses_add(const struct log_cursor *cursor, struct buf *out)
{
    static const struct {
        const char *where;
        unsigned misc;
    } loss_notes[LOG_LOSSES] = {
        [LOG_HIDDEN] = {"hidden", RECORD_HIDDEN},
        [LOG_MEMORY] = {"memory", RECORD_REFUSED},
        [LOG_REPLACED] = {"replaced", RECORD_REFUSED},
    };
    const struct log_sums *removed = &cursor->log->removed_sums, *before = &cursor->before;
    const uint64_t missed = cursor->log->first - cursor->next;
    uint64_t value[] = {missed, missed - (removed->drops - before->drops) -
                                    (removed->others - before->others)};
    size_t n = 0;

    /* each record that is appended below stands for the first of the missed records of its kind */
    for (unsigned i = 0; i < LOG_LOSSES; i++)
        value[0] -= removed->lost[i] > before->lost[i];
    if (value[0]) {
        record_add_drop(out, cursor->walk.time, 0, "log", 2, value);
        n++;
    }
    for (unsigned i = 0; i < LOG_LOSSES; i++) {
        const uint64_t lost = removed->lost[i] - before->lost[i];

        if (!lost)
            continue;
        if (i == LOG_KERNEL)
            record_add_lost(out, cursor->walk.time, 0, lost);
        else
            record_add_drop(out, cursor->walk.time, loss_notes[i].misc, loss_notes[i].where, 1,
                            &lost);
        n++;
    }
    return n;
}

/* Appends the records from a place on that fit in max bytes, but at least one if any is left, and
 * moves the cursor after them. serial: that of the record at the place. Returns the number of
 * records; on ENOMEM 0. */
static size_t append_records(struct log_cursor *cursor, uint64_t serial, uint64_t place, size_t max,
                             struct buf *out)
{
    struct log *log = cursor->log;
    struct log_sums sums = cursor->next < log->first ? log->removed_sums : cursor->before;
    size_t n = 0;
    uint32_t last_type = 0;
    uint64_t end = place;

    while (end < log->ring.head) {
        const struct record *record = (const struct record *)ring_at(&log->ring, end);
        const size_t size = record->size;

        if (end > place && end + size - place > max)
            break;
        last_type = record->type;
        if (record->type != RECORD_SAMPLE)
            log_sums_add(&sums, &log->ring, end);
        end += size;
        n++;
    }
    char *to = n ? buf_reserve(out, (size_t)(end - place)) : NULL;

    if (out->failed)
        return 0;
    ring_copy(&log->ring, place, to, (size_t)(end - place));
    out->len += (size_t)(end - place);
    cursor->next = serial + n;
    cursor->before = sums;
    cursor->place = end;
    cursor->last_type = last_type;
    cursor->begun = true;
    if (cursor->next > log->most_read) {
        log->most_read = cursor->next;
        log->read_sums = sums;
    }
    log->unread_known = false;
    return n;
}

size_t log_read(struct log_cursor *cursor, struct buf *out, size_t max)
{
    struct log *log = cursor->log;
    const struct log_ring *ring = &log->ring;

    pthread_mutex_lock(&log->mutex);
    const struct spaces_walk walk = cursor->walk;
    const bool walking = cursor->walking, missed = cursor->next < log->first;
    const uint64_t serial = missed ? log->first : cursor->next;
    const uint64_t place = missed ? ring->tail : cursor->place;
    size_t begun = out->len, n = 0, used;

    cursor->last_type = 0;
    /* A reader that missed records first gets the address spaces, in parts, then the losses. All
     * have the time of the record that was the oldest when the walk started. */
    if (missed && !walking) {
        uint64_t time = log->last_time; /* if no record is stored */

        if (log->first <= log->last) {
            const struct record *oldest = (const struct record *)ring_at(ring, ring->tail);

            memcpy(&time, ring_at(ring, ring->tail + record_time_offset(oldest)), sizeof(time));
        }
        cursor->walk = (struct spaces_walk){.time = time};
        cursor->walking = !cursor->begun || log->spaces_changed >= cursor->next;
    }
    if (missed && cursor->walking)
        cursor->walking = spaces_print_some(&log->spaces, &cursor->walk, max, out, &n);
    if (missed && !cursor->walking)
        n += losses_add(cursor, out);
    used = out->len - begun;
    if (!cursor->walking)
        n += append_records(cursor, serial, place, used < max ? max - used : 0, out);
    if (out->failed) {
        out->len = begun;
        cursor->walking = walking;
        cursor->walk = walk;
        n = 0;
    }
    pthread_mutex_unlock(&log->mutex);
    return n;
}

bool log_ready(const struct log_cursor *cursor)
{
    pthread_mutex_lock(&cursor->log->mutex);
    bool ready = cursor->next <= cursor->log->last;
    pthread_mutex_unlock(&cursor->log->mutex);
    return ready;
}

/* ---- saved positions ---- */

/*
 * Corrects `missed` after a cursor moved back to a mark. Records that it read since then did not
 * count when they were overwritten, and count now.
 */
static void restore_missed(struct log *log, const struct log_mark *mark)
{
    const bool stored = mark->next >= mark->first; /* at the mark, the record at next was stored */
    const uint64_t from = stored ? mark->next : mark->first;
    uint64_t missed = mark->missed;

    if (log->first > from)
        missed += log->first - from;
    for (unsigned i = 0; stored && log->first > from && i < LOG_LOSSES; i++)
        missed -= log->removed_sums.lost[i] > mark->before.lost[i];
    if (log->missed < missed)
        log->missed = missed;
}

struct log_cursor log_cursor_save(const struct log_cursor *cursor)
{
    pthread_mutex_lock(&cursor->log->mutex);
    struct log_cursor copy = *cursor;
    copy.first = cursor->log->first;
    copy.missed = cursor->log->missed;
    pthread_mutex_unlock(&cursor->log->mutex);
    return copy;
}

void log_cursor_restore(struct log_cursor *cursor, const struct log_cursor *copy)
{
    pthread_mutex_lock(&cursor->log->mutex);
    cursor->next = copy->next;
    cursor->before = copy->before;
    cursor->place = copy->place;
    cursor->begun = copy->begun;
    cursor->walking = copy->walking;
    cursor->walk = copy->walk;
    cursor->log->unread_known = false;
    restore_missed(cursor->log, &(struct log_mark){.next = copy->next,
                                                   .first = copy->first,
                                                   .missed = copy->missed,
                                                   .before = copy->before});
    pthread_mutex_unlock(&cursor->log->mutex);
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

struct log_cursor *log_cursor_adopt(struct log *log, const struct log_mark *mark)
{
    struct log_cursor *cursor = log_open(log);

    if (!cursor)
        return NULL;
    pthread_mutex_lock(&log->mutex);
    cursor->next = mark->next <= log->last ? mark->next : log->last + 1;
    cursor->begun = mark->begun;
    cursor->place = log->ring.tail;
    cursor->before = cursor->next < log->first ? mark->before : log->removed_sums;
    for (uint64_t serial = log->first; serial < cursor->next; serial++) {
        log_sums_add(&cursor->before, &log->ring, cursor->place);
        cursor->place += ((const struct record *)ring_at(&log->ring, cursor->place))->size;
    }
    log->unread_known = false;
    if (mark->first) /* 0 in marks of older versions */
        restore_missed(log, mark);
    pthread_mutex_unlock(&log->mutex);
    if (mark->next > 0)
        return cursor;
    log_close(cursor);
    return NULL;
}
