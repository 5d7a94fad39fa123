/*
 * A log and its cursors as text and back: numbers by place, then the address spaces and the records
 * in hexadecimal, as records both.
 */
#include "core/hex.h"
#include "core/log.h"
#include "core/log_parts.h"

#include <stdlib.h>
#include <string.h>

#define HEX_STEP 65536u /* bytes of the ring printed at a time */

/* What is saved as it is. */
static void log_numbers(struct log *log, uint64_t *number[], unsigned *n)
{
    uint64_t *all[] = {&log->max_bytes,      &log->first,     &log->last,   &log->last_time,
                       &log->spaces_changed, &log->most_read, &log->lost,   &log->facts_lost,
                       &log->kernel_lost,    &log->throttled, &log->hidden, &log->refused};

    *n = sizeof(all) / sizeof(all[0]);
    memcpy(number, all, sizeof(all));
}

#define NUMBERS_MAX 16

static void ring_print(const struct ring *ring, struct buf *out)
{
    for (uint64_t place = ring->tail; place < ring->head;) {
        size_t len = ring_together(ring, place), left = (size_t)(ring->head - place);

        len = len < left ? len : left;
        len = len < HEX_STEP ? len : HEX_STEP;
        hex_add(out, ring_at(ring, place), len);
        place += len;
    }
    if (ring->tail == ring->head)
        hex_print(out, NULL, 0);
}

void log_print(struct log *log, struct buf *out)
{
    uint64_t *number[NUMBERS_MAX];
    struct buf spaces;
    unsigned n;

    buf_init(&spaces, NULL, 0);
    pthread_mutex_lock(&log->mutex);
    log_numbers(log, number, &n);
    for (unsigned i = 0; i < n; i++) {
        buf_u64(out, *number[i]);
        buf_char(out, ' ');
    }
    buf_u64(out, log->reserved);
    buf_char(out, ' ');
    /* What could not be printed of the address spaces counts as given up, with what was before. */
    buf_u64(out, spaces_lost(log->spaces));
    buf_char(out, ' ');
    if (log->spaces)
        spaces_print(log->spaces, 0, &spaces);
    out->failed |= spaces.failed;
    hex_print(out, spaces.data, spaces.len);
    buf_char(out, ' ');
    ring_print(&log->ring, out);
    pthread_mutex_unlock(&log->mutex);
    buf_free(&spaces);
}

/* The records of a word, all of them well-formed; their number. *data is on the heap. */
static bool scan_records(struct scan *scan, char **data, size_t *len, uint64_t *n)
{
    struct word word;

    *data = NULL;
    *n = 0;
    if (!scan_word(scan, &word) || !hex_len(word, len))
        return false;
    *data = malloc(*len ? *len : 1);
    if (!*data || !hex_scan(word, *data))
        return false;
    for (size_t at = 0; at < *len; ++*n) {
        const struct record *record = (const struct record *)(*data + at);

        if (!record_fits(record, *len - at))
            return false;
        at += record->size;
    }
    return true;
}

static bool scan_spaces(struct log *log, struct scan *scan)
{
    char *data;
    size_t len;
    uint64_t n;
    bool good = scan_records(scan, &data, &len, &n);

    for (size_t at = 0; good && at < len; at += ((const struct record *)(data + at))->size)
        log_fold(log, (const struct record *)(data + at));
    free(data);
    return good;
}

static bool scan_ring(struct log *log, struct scan *scan)
{
    char *data;
    size_t len, size = 1024;
    uint64_t n;
    bool good = scan_records(scan, &data, &len, &n) && n == log->last + 1 - log->first;

    while (size < len)
        size *= 2;
    if (size > log_ring_max(log))
        size = len > log_ring_max(log) ? len : (size_t)log_ring_max(log);
    if (good && len) {
        good = ring_grow(&log->ring, size);
        if (good)
            ring_put(&log->ring, data, len);
    }
    free(data);
    return good;
}

static bool log_fill(struct log *log, struct scan *scan)
{
    uint64_t *number[NUMBERS_MAX], reserved, facts_lost;
    unsigned n;

    log_numbers(log, number, &n);
    for (unsigned i = 0; i < n; i++)
        if (!scan_u64(scan, UINT64_MAX, number[i]))
            return false;
    if (!scan_u64(scan, UINT64_MAX, &reserved) || !scan_u64(scan, UINT64_MAX, &facts_lost) ||
        log->max_bytes > LOG_MOST || log->first < 1 || log->last == UINT64_MAX ||
        log->first > log->last + 1 || log->most_read > log->last + 1)
        return false;
    log->facts_lost += facts_lost;
    if (!scan_spaces(log, scan) || !scan_ring(log, scan))
        return false;
    if (reserved)
        log_reserve(log);
    return true;
}

struct log *log_scan(const char *text)
{
    struct log *log = log_new(0);
    struct scan scan;

    scan_init(&scan, text, strlen(text));
    if (log && log_fill(log, &scan))
        return log;
    log_unref(log);
    return NULL;
}

/* "SERIAL,BEGUN", its place follows from the serial; a comma and its walk, if it is on one. */
void log_cursor_print(const struct log_cursor *cursor, struct buf *out)
{
    pthread_mutex_lock(&cursor->log->mutex);
    buf_u64(out, cursor->next);
    buf_str(out, cursor->begun ? ",1" : ",0");
    if (cursor->told) {
        buf_char(out, ',');
        spaces_walk_print(cursor->log->spaces, &cursor->walk, out);
    }
    pthread_mutex_unlock(&cursor->log->mutex);
}

static void cursor_place(struct log_cursor *cursor, uint64_t next)
{
    struct log *log = cursor->log;

    cursor->next = next <= log->last ? next : log->last + 1;
    cursor->place = log->ring.tail;
    for (uint64_t serial = log->first; serial < cursor->next; serial++)
        cursor->place += ((const struct record *)ring_at(&log->ring, cursor->place))->size;
}

/* walk NULL: it is not on one. */
static bool cursor_set(struct log_cursor *cursor, uint64_t next, bool begun, const char *walk)
{
    struct log *log = cursor->log;
    bool good = true;

    pthread_mutex_lock(&log->mutex);
    cursor_place(cursor, next);
    cursor->begun = begun;
    if (walk)
        good = spaces_walk_scan(log->spaces, walk, &cursor->walk);
    cursor->told = walk && cursor->next < log->first && log->spaces;
    log->unread_known = false;
    pthread_mutex_unlock(&log->mutex);
    return good;
}

struct log_cursor *log_cursor_scan(struct log *log, const char *text)
{
    const char *comma = strchr(text, ','), *end = comma ? strchrnul(comma + 1, ',') : NULL;
    struct word next_word, begun_word;
    struct log_cursor *cursor;
    uint64_t next;
    bool begun;

    if (!comma)
        return NULL;
    next_word = (struct word){text, (size_t)(comma - text)};
    begun_word = (struct word){comma + 1, (size_t)(end - comma - 1)};
    if (!word_u64(next_word, false, 1, UINT64_MAX, &next) || !word_bool(begun_word, &begun))
        return NULL;
    cursor = log_open(log);
    if (cursor && cursor_set(cursor, next, begun, *end ? end + 1 : NULL))
        return cursor;
    log_close(cursor);
    return NULL;
}
