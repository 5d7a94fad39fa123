/*
 * A log, numbered samples, and the tally of one reader.
 */
#include "tests/unit/log_fixture.h"

#include <stdlib.h>

struct log *event_log;
struct buf made, taken;
uint64_t numbered;
struct limit limit;

bool within(void *arg, int64_t bytes)
{
    struct limit *of = arg;

    of->calls++;
    if (bytes > 0 && of->used + bytes > of->max)
        return false;
    of->used += bytes;
    return true;
}

void log_before(void)
{
    event_log = log_new(64 << 10);
    made = (struct buf){0};
    taken = (struct buf){0};
    numbered = 0;
    limit = (struct limit){.max = 1 << 20};
}

void log_after(void)
{
    log_unref(event_log);
    buf_free(&made);
    buf_free(&taken);
}

void log_recreate(uint64_t max_bytes)
{
    log_unref(event_log);
    event_log = log_new(max_bytes);
}

void log_reopen(void)
{
    const uint64_t block = log_block(event_log);

    log_keep_blocks(event_log);
    log_unref(event_log);
    event_log = log_adopt(block);
    ck_assert_ptr_nonnull(event_log);
}

int put_made(void)
{
    int rc = log_put_all_once(event_log, 0, NULL, made.data, made.len);

    buf_clear(&made);
    return rc;
}

void make_sample(void)
{
    numbered++;
    record_add_sample(&made, &(struct record_sample){.ip = numbered, .time = 10 * numbered}, 0,
                      NULL, 0);
}

void put_samples(uint64_t n)
{
    while (n-- > 0)
        make_sample();
    ck_assert_int_eq(put_made(), 0);
}

void put_map(uint32_t pid, uint64_t start, const char *path)
{
    record_add_map(
        &made, 10 * numbered,
        &(struct map_facts){.pid = pid, .tid = pid, .start = start, .length = 0x1000, .path = path},
        RECORD_USERMODE);
    put_made();
}

void put_drop(const char *where, uint64_t n)
{
    record_add_note(&made, &(struct note){.type = RECORD_DROP,
                                          .time = 10 * numbered,
                                          .n = 1,
                                          .value = &n,
                                          .text = where,
                                          .text_len = strlen(where)});
    put_made();
}

int put_user(size_t len)
{
    char *text = calloc(1, len + 1);
    int rc;

    memset(text, 'x', len);
    record_add_note(&made,
                    &(struct note){.type = RECORD_USER, .text = text, .text_len = len, .n = 0});
    rc = put_made();
    free(text);
    return rc;
}

void see(struct seen *seen, const struct record *record)
{
    seen->wrong += record_time(record) < seen->last_time;
    seen->last_time = record_time(record);
    if (record->type == RECORD_SAMPLE) {
        seen->wrong += ((const struct record_sample *)record)->ip <= seen->last_ip;
        seen->last_ip = ((const struct record_sample *)record)->ip;
        seen->samples++;
    } else if (record->type == RECORD_DROP &&
               memcmp(note_text((const struct record_note *)record), "log", 4) != 0) {
        seen->elsewhere++;
    } else if (record->type == RECORD_DROP) {
        seen->dropped += ((const struct record_note *)record)->value[0];
        if (seen->drops++ == 0)
            seen->drop_time = record_time(record);
    } else if (record->misc & RECORD_FOUND) {
        if (record->type == RECORD_MAP && !*seen->first_path)
            strncat(seen->first_path, ((const struct record_map *)record)->path, 63);
        seen->found++;
        seen->found_time = record_time(record);
    } else {
        seen->others++;
    }
}

size_t take(struct log_cursor *cursor, size_t max, struct seen *seen)
{
    size_t n, taken_n;

    buf_clear(&taken);
    taken_n = log_read(cursor, &taken, max);
    n = 0;
    for (size_t at = 0; at < taken.len; n++) {
        const struct record *record = (const struct record *)(taken.data + at);

        ck_true(record_is_valid(record, taken.len - at));
        see(seen, record);
        at += record->size;
    }
    ck_assert_uint_eq(n, taken_n);
    ck_assert_uint_eq(seen->wrong, 0);
    return n;
}

void take_all(struct log_cursor *cursor, struct seen *seen)
{
    while (take(cursor, 1000, seen) > 0)
        ;
}

void ck_complete(const struct seen *seen)
{
    ck_assert_uint_eq(seen->samples + seen->elsewhere + seen->others + seen->dropped,
                      stats().records);
}

struct log_stats stats(void)
{
    struct log_stats now;

    log_stats(event_log, &now);
    return now;
}
