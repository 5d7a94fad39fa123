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
    uint64_t *all[] = {&log->max_bytes,      &log->first,     &log->last, &log->last_time,
                       &log->spaces_changed, &log->most_read, &log->lost, &log->facts_lost,
                       &log->hidden,         &log->refused};

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
    losses_print(&log->told, out);
    buf_char(out, ' ');
    losses_print(&log->passed, out);
    buf_char(out, ' ');
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

static bool scan_losses(struct log *log, struct scan *scan)
{
    struct word told, passed;

    return scan_word(scan, &told) && scan_word(scan, &passed) && losses_scan(&log->told, told) &&
           losses_scan(&log->passed, passed) &&
           losses_follow(&log->told, &log->passed, log->last + 1 - log->first) &&
           log->passed.records < log->first;
}

static bool log_fill(struct log *log, struct scan *scan)
{
    uint64_t *number[NUMBERS_MAX], reserved, facts_lost;
    unsigned n;

    log_numbers(log, number, &n);
    for (unsigned i = 0; i < n; i++)
        if (!scan_u64(scan, UINT64_MAX, number[i]))
            return false;
    if (log->max_bytes > LOG_MOST || log->first < 1 || log->last == UINT64_MAX ||
        log->first > log->last + 1 || log->most_read > log->last + 1 || !scan_losses(log, scan) ||
        !scan_u64(scan, UINT64_MAX, &reserved) || !scan_u64(scan, UINT64_MAX, &facts_lost))
        return false;
    log->facts_lost += facts_lost;
    if (!scan_spaces(log, scan) || !scan_ring(log, scan))
        return false;
    if (reserved)
        log_reserve(log, reserved);
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

/* "SERIAL,BEGUN,LOSSES": its place follows from the serial; a walk that it was on begins anew. */
void log_cursor_print(const struct log_cursor *cursor, struct buf *out)
{
    pthread_mutex_lock(&cursor->log->mutex);
    buf_u64(out, cursor->next);
    buf_str(out, cursor->begun ? ",1," : ",0,");
    losses_print(&cursor->had, out);
    pthread_mutex_unlock(&cursor->log->mutex);
}

/* had: by what is no longer held; of the rest it is known. False: it cannot be. */
static bool cursor_place(struct log_cursor *cursor, uint64_t next, const struct losses *had)
{
    struct log *log = cursor->log;

    cursor->next = next <= log->last ? next : log->last + 1;
    cursor->place = log->ring.tail;
    cursor->had = cursor->next < log->first ? *had : log->passed;
    for (uint64_t serial = log->first; serial < cursor->next; serial++) {
        log_losses_at(log, cursor->place, &cursor->had);
        cursor->place += ((const struct record *)ring_at(&log->ring, cursor->place))->size;
    }
    return cursor->next >= log->first ||
           losses_follow(&log->passed, had, log->first - cursor->next);
}

struct cursor_words {
    struct word next, begun, losses;
};

static bool cursor_words(const char *text, struct cursor_words *words)
{
    struct word *const word[] = {&words->next, &words->begun, &words->losses};
    const char *end = text;

    for (unsigned i = 0; i < 3; i++, text = end + 1) {
        end = strchrnul(text, ',');
        *word[i] = (struct word){text, (size_t)(end - text)};
        if (!*end != (i == 2))
            return false;
    }
    return true;
}

static bool cursor_set(struct log_cursor *cursor, uint64_t next, bool begun,
                       const struct losses *had)
{
    struct log *log = cursor->log;
    bool good;

    pthread_mutex_lock(&log->mutex);
    good = cursor_place(cursor, next, had);
    cursor->begun = begun;
    log->unread_known = false;
    pthread_mutex_unlock(&log->mutex);
    return good;
}

struct log_cursor *log_cursor_scan(struct log *log, const char *text)
{
    struct cursor_words words;
    struct log_cursor *cursor;
    struct losses had;
    uint64_t next;
    bool begun;

    if (!cursor_words(text, &words) || !word_u64(words.next, false, 1, UINT64_MAX, &next) ||
        !word_bool(words.begun, &begun) || !losses_scan(&had, words.losses))
        return NULL;
    cursor = log_open(log);
    if (cursor && cursor_set(cursor, next, begun, &had))
        return cursor;
    log_close(cursor);
    return NULL;
}
