/*
 * A log and its readers as a later worker gets them.
 */
#include "tests/unit/log_fixture.h"
#include "tests/unit/memory.h"

#include <stdlib.h>

SUITE_SETUP(log_save, log_before, log_after);

/* The log as a later worker gets it. */
static void save_and_load(void)
{
    struct buf text;

    buf_init(&text, NULL, 0);
    log_print(event_log, &text);
    log_unref(event_log);
    ck_assert_ptr_null(strchr(buf_text(&text), '\n'));
    event_log = log_scan(buf_text(&text));
    ck_assert_ptr_nonnull(event_log);
    buf_free(&text);
}

TEST(an_empty_log_is_saved_and_loaded)
{
    save_and_load();
    ck_assert_uint_eq(log_last(event_log), 0);
    ck_assert_uint_eq(stats().memory, 0);
    put_samples(MUCH);
    ck_assert_uint_eq(stats().memory, 48 << 10);
}

TEST(a_saved_log_has_the_same_records_and_numbers)
{
    struct log_stats was;
    struct log_cursor *cursor;
    struct seen seen = {0};

    put_map(1, 0x1000, "/a");
    record_add_lost(&made, 1, 0, 5);
    put_samples(MUCH);
    was = stats();
    save_and_load();
    ck_assert_uint_eq(stats().records, was.records);
    ck_assert_uint_eq(stats().lost, was.lost);
    ck_assert_uint_eq(stats().bytes, was.bytes);
    ck_assert_uint_eq(stats().kernel_lost, 5);
    ck_assert_uint_eq(log_last_time(event_log), 10 * numbered);
    cursor = log_open(event_log);
    take_all(cursor, &seen);
    ck_assert_str_eq(seen.first_path, "/a");
    ck_whole(&seen);
    log_close(cursor);
}

/* Prints a cursor, saves and loads the log, puts the cursor on it. */
static struct log_cursor *over(struct log_cursor *cursor)
{
    struct buf text;

    buf_init(&text, NULL, 0);
    log_cursor_print(cursor, &text);
    log_close(cursor);
    save_and_load();
    cursor = log_cursor_scan(event_log, buf_text(&text));
    ck_assert_ptr_nonnull(cursor);
    buf_free(&text);
    return cursor;
}

TEST(readers_go_on_in_a_loaded_log)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    for (unsigned i = 0; i < 60; i++) {
        put_samples(37 * (i % 40));
        if (i % 10 == 0)
            put_map(i, 0x1000, "/a");
        take(cursor, 300 * i, &seen);
        cursor = over(cursor);
    }
    take_all(cursor, &seen);
    ck_assert_uint_gt(seen.drops, 1);
    ck_whole(&seen);
    ck_assert_uint_eq(stats().lost, seen.dropped);
    log_close(cursor);
}

TEST(what_was_read_before_the_load_is_not_lost_after_it)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    put_samples(100);
    take_all(cursor, &seen);
    log_close(cursor);
    save_and_load();
    put_samples((48 << 10) / SAMPLE_SHORT);
    ck_assert_uint_eq(stats().lost, 0);
}

TEST(what_was_allocated_at_once_is_so_again_after_the_load)
{
    ck_assert_int_eq(log_reserve(event_log, 64 << 10), 0);
    put_samples(3);
    save_and_load();
    ck_assert_uint_eq(stats().memory, 64 << 10);
    log_set_charge(event_log, within, &limit);
    ck_assert_int_eq(limit.used, 64 << 10);
}

TEST(what_is_no_cursor_is_refused)
{
    static const char *const wrong[] = {"",
                                        "1",
                                        ",1",
                                        "1,",
                                        "1,1",
                                        "1,1,",
                                        "1,1,1",
                                        "0,1,0:0:0:0:0:0",
                                        "x,1,0:0:0:0:0:0",
                                        "1,2,0:0:0:0:0:0",
                                        "1,1,0:0:0:0:0",
                                        "1,1,0:0:0:0:0:",
                                        "1,1,0:0:0:0:0:0:0",
                                        "1,1,0:0:0:0:0:0,",
                                        "1,1,0:0:0:0:0:0,1",
                                        "1,1,0:0:0:0:0:0,1,2",
                                        "1,1,0:0:0:0:0:0,1,2,3,4,5",
                                        "1,1,0:0:0:0:0:0,1,x,3,4"};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ck_assert_ptr_null(log_cursor_scan(event_log, wrong[i]));
}

TEST(what_is_no_log_is_refused)
{
    struct buf text;
    char *copy;

    buf_init(&text, NULL, 0);
    put_samples(20);
    put_map(1, 0x1000, "/a");
    log_print(event_log, &text);
    for (size_t len = 0; len < text.len; len += len < 70 ? 1 : 55) {
        copy = strndup(text.data, len);
        ck_assert_msg(!log_scan(copy), "%zu", len);
        free(copy);
    }
    copy = strdup(buf_text(&text));
    copy[strlen(copy) - 1] = 'g';
    ck_assert_ptr_null(log_scan(copy));
    free(copy);
    buf_free(&text);
}

TEST(loading_without_memory_gives_nothing_and_leaks_nothing)
{
    struct buf text;
    struct log *again = NULL;

    buf_init(&text, NULL, 0);
    put_map(1, 0x1000, "/a");
    put_samples(MUCH);
    log_print(event_log, &text);
    buf_text(&text);
    for (unsigned n = 1; n < 100 && !again; n++) {
        memory_end_at(n);
        again = log_scan(text.data);
        memory_end_at(0);
    }
    ck_assert_ptr_nonnull(again);
    log_unref(again);
    buf_free(&text);
}
