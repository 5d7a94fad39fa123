/*
 * The log returns the newest records, unchanged, in order and numbered.
 */
#include "tests/unit/log_fixture.h"

#include <errno.h>

#include <stdlib.h>

SUITE_SETUP(log, log_before, log_after);

TEST(gives_records_back_as_they_were_put)
{
    struct log_cursor *cursor = log_open(event_log);
    struct buf same = {0};

    make_sample();
    record_add_comm(&made, 20, 1, 2, "name", 0);
    record_add_task(&made, RECORD_FORK, 30, 1, 2, 3, 4);
    buf_add(&same, made.data, made.len);
    ck_assert_int_eq(put_made(), 0);
    ck_assert_uint_eq(log_read(cursor, &taken, 4096), 3);
    ck_assert_uint_eq(taken.len, same.len);
    ck_assert_int_eq(memcmp(taken.data, same.data, same.len), 0);
    ck_assert_uint_eq(log_read(cursor, &taken, 4096), 0);
    buf_free(&same);
    log_close(cursor);
}

TEST(a_take_stops_after_the_last_record_that_fits)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    put_samples(10);
    ck_assert_uint_eq(take(cursor, 3 * SAMPLE_SHORT + 55, &seen), 3);
    ck_assert_uint_eq(take(cursor, 1, &seen), 1);
    ck_assert_uint_eq(take(cursor, 1 << 20, &seen), 6);
    ck_complete(&seen);
    log_close(cursor);
}

TEST(times_never_go_back)
{
    struct log_cursor *cursor = log_open(event_log);
    const struct record_task *task;

    put_samples(5);
    record_add_task(&made, RECORD_FORK, 7, 1, 2, 3, 4);
    log_put_once(event_log, 0, (const struct record *)made.data);
    ck_assert_uint_eq(record_time((const struct record *)made.data), 7);
    ck_assert_uint_eq(log_read(cursor, &taken, 4096), 6);
    task = (const struct record_task *)(taken.data + 5 * SAMPLE_SHORT);
    ck_assert_uint_eq(task->time, 50);
    ck_assert_uint_eq(task->tail.time, 50);
    log_close(cursor);
}

TEST(keeps_the_newest)
{
    struct log_cursor *cursor;
    struct seen seen = {0};

    put_samples(MUCH);
    cursor = log_open(event_log);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.last_ip, MUCH);
    ck_assert_uint_eq(seen.samples, (48 << 10) / SAMPLE_SHORT);
    log_close(cursor);
}

TEST(records_lie_across_the_end_of_the_block)
{
    static const size_t lens[] = {1, 40, 3, 100, 17, 250};
    struct log_cursor *cursor;
    struct seen seen = {0};

    log_recreate(2048);
    cursor = log_open(event_log);
    for (unsigned i = 0; i < 5000; i++) {
        put_user(lens[i % 6]);
        make_sample();
        put_made();
        take_all(cursor, &seen);
    }
    ck_assert_uint_eq(seen.samples, 5000);
    ck_assert_uint_eq(seen.others, 5000);
    ck_assert_uint_eq(seen.dropped, 0);
    log_close(cursor);
}

TEST(a_mapping_across_the_end_is_not_forgotten)
{
    struct log_cursor *cursor;
    struct seen seen = {0};

    log_recreate(4096);
    for (unsigned i = 0; i < 300; i++) {
        char path[40] = "/";

        memset(path + 1, 'a', i % 30);
        put_map(1, 0x1000, path);
        put_samples(1 + i % 3);
    }
    put_map(1, 0x1000, "/the/last");
    put_samples(100);
    cursor = log_open(event_log);
    take_all(cursor, &seen);
    ck_assert_str_eq(seen.first_path, "/the/last");
    log_close(cursor);
}

static void put_large(void)
{
    uint64_t frames[600] = {0};

    numbered++;
    record_add_sample(&made, &(struct record_sample){.ip = numbered, .time = 10 * numbered}, 0,
                      frames, 600);
    ck_assert_int_eq(put_made(), 0);
}

TEST(a_record_too_large_for_the_ring_displaces_none)
{
    struct log_cursor *cursor;
    struct seen seen = {0};

    log_recreate(4096);
    cursor = log_open(event_log);
    put_samples(5);
    put_large();
    ck_assert_uint_eq(stats().lost, 1);
    put_samples(2);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.samples, 7);
    ck_assert_uint_eq(seen.dropped, 1);
    ck_complete(&seen);
    log_close(cursor);
}

TEST(a_record_that_is_too_large_is_lost_once)
{
    struct log_cursor *cursor;
    struct seen seen = {0};

    log_recreate(4096);
    cursor = log_open(event_log);
    for (unsigned i = 0; i < 1000; i++) {
        put_large();
        put_samples(i % 3);
        if (i % 100 == 0)
            take(cursor, 200, &seen);
    }
    take_all(cursor, &seen);
    ck_complete(&seen);
    ck_assert_uint_eq(stats().lost, seen.dropped);
    log_close(cursor);
}

TEST(a_record_that_is_too_large_is_refused_and_changes_nothing)
{
    struct log_cursor *cursor;
    struct seen seen = {0};
    const struct note note = {.type = RECORD_USER, .text = "", .text_len = 0};

    log_recreate(4096);
    cursor = log_open(event_log);
    put_samples(5);
    ck_assert_uint_eq(log_record_max(event_log), 3072);
    record_add_note(&made, &note);
    ck_assert_int_eq(log_put_once(event_log, 0, (const struct record *)made.data), 0);
    ((struct record *)made.data)->size = 3080;
    ck_assert_int_eq(log_put_once(event_log, 0, (const struct record *)made.data), -E2BIG);
    ck_assert_uint_eq(stats().records, 6);
    ck_assert_uint_eq(stats().lost, 0);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.samples, 5);
    ck_assert_uint_eq(seen.drops, 0);
    log_close(cursor);
}

TEST(counts_losses_and_throttling_of_the_kernel)
{
    record_add_lost(&made, 1, 0, 5);
    record_add_lost(&made, 2, 0, 7);
    put_made();
    struct record_throttle throttle = {.head = {.type = RECORD_THROTTLE, .size = sizeof(throttle)}};
    log_put_once(event_log, 0, &throttle.head);
    throttle.head.type = RECORD_UNTHROTTLE;
    log_put_once(event_log, 0, &throttle.head);
    const uint64_t n = 4;
    struct note drop = {.type = RECORD_DROP, .misc = RECORD_HIDDEN, .n = 1, .value = &n};
    record_add_note(&made, &drop);
    drop.misc = RECORD_REFUSED;
    record_add_note(&made, &drop);
    put_made();
    ck_assert_uint_eq(stats().lost, 4);
    ck_assert_uint_eq(stats().kernel_lost, 12);
    ck_assert_uint_eq(stats().throttled, 1);
    ck_assert_uint_eq(stats().hidden, 4);
    ck_assert_uint_eq(stats().records, 6);
}

TEST(a_malformed_record_stops_its_batch)
{
    make_sample();
    make_sample();
    ((struct record *)(made.data + SAMPLE_SHORT))->size = 9;
    put_made();
    ck_assert_uint_eq(log_last(event_log), 1);
}
