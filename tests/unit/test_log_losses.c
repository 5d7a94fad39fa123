/*
 * Losses that the log was told of: whoever reads when is told their exact number, though the
 * records that said so were overwritten.
 */
#include "tests/unit/log_fixture.h"
#include "tests/unit/memory.h"

SUITE_SETUP(log_losses, log_before, log_after);

/* One of each kind, the kernel's as `kernel` records. */
static void put_losses(uint64_t kernel)
{
    record_add_lost(&made, 10 * numbered, 0, kernel);
    put_made();
    put_drop("hidden", 3);
    put_drop("memory", 5);
    put_drop("inventory", 7);
}

static void put_throttle(enum record_type type)
{
    const uint64_t time = 10 * numbered;
    const struct record_throttle throttle = {
        .head = {type, 0, sizeof(throttle)}, .time = time, .tail = {.time = time}};

    buf_add(&made, &throttle, sizeof(throttle));
    put_made();
}

/* All that was put before was received, or told. */
static void ck_losses(const struct seen *seen, uint64_t kernel, uint64_t times)
{
    ck_assert_uint_eq(seen->losses.lost[LOSS_KERNEL], kernel);
    ck_assert_uint_eq(seen->losses.lost[LOSS_HIDDEN], 3 * times);
    ck_assert_uint_eq(seen->losses.lost[LOSS_MEMORY], 5 * times);
    ck_assert_uint_eq(seen->losses.lost[LOSS_INVENTORY], 7 * times);
    ck_whole(seen);
}

TEST(a_late_reader_is_told_what_overwritten_losses_stood_for)
{
    struct log_cursor *cursor;
    struct seen seen = {0};

    put_losses(1000);
    put_losses(1);
    put_samples(MUCH);
    put_losses(20);
    cursor = log_open(event_log);
    take_all(cursor, &seen);
    ck_losses(&seen, 1021, 3);
    ck_assert_uint_eq(seen.loss_records, 4 + 4);
    ck_assert_uint_eq(seen.samples + seen.dropped, MUCH);
    log_close(cursor);
}

TEST(losses_that_were_read_are_not_told_again)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    put_losses(1000);
    take_all(cursor, &seen);
    put_samples(MUCH);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.drops, 1);
    ck_assert_uint_eq(seen.loss_records, 4);
    ck_losses(&seen, 1000, 1);
    log_close(cursor);
}

TEST(losses_are_exact_however_slow_the_reader)
{
    struct log_cursor *cursor[5];
    struct seen seen[5] = {0};
    uint64_t kernel = 0;

    for (unsigned i = 0; i < 5; i++)
        cursor[i] = log_open(event_log);
    for (unsigned i = 1; i <= 2000; i++) {
        put_samples(i % 90);
        put_losses(i);
        kernel += i;
        for (unsigned r = 0; r < 5; r++)
            if (i % (1 + r * 13) == 0)
                take(cursor[r], 500 + 5000 * r, &seen[r]);
    }
    for (unsigned r = 0; r < 5; r++) {
        take_all(cursor[r], &seen[r]);
        ck_losses(&seen[r], kernel, 2000);
        log_close(cursor[r]);
    }
    ck_assert_uint_gt(seen[4].drops, 10);
}

TEST(a_log_of_losses_alone_overruns_without_loss)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    for (unsigned i = 0; i < 5000; i++)
        put_losses(2);
    ck_assert_uint_eq(stats().lost, 0);
    ck_assert_uint_eq(stats().records, 0);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.drops, 0);
    ck_assert_uint_lt(seen.loss_records, 4000);
    ck_losses(&seen, 10000, 5000);
    log_close(cursor);
}

TEST(throttling_is_told_once_more_and_is_no_lost_record)
{
    struct log_cursor *cursor;
    struct seen seen = {0};

    put_throttle(RECORD_THROTTLE);
    put_throttle(RECORD_UNTHROTTLE);
    put_throttle(RECORD_THROTTLE);
    put_samples(MUCH);
    cursor = log_open(event_log);
    take(cursor, 1, &seen);
    ck_assert_uint_eq(seen.loss_records, 1);
    ck_assert_uint_eq(seen.losses.lost[LOSS_THROTTLE], 1);
    take_all(cursor, &seen);
    ck_whole(&seen);
    ck_assert_uint_eq(stats().throttled, 2);
    ck_assert_uint_eq(stats().records, MUCH);
    log_close(cursor);
}

TEST(a_loss_without_room_in_the_ring_is_told_all_the_same)
{
    struct log_cursor *cursor;
    struct seen seen = {0};

    limit.max = 0;
    log_set_charge(event_log, within, &limit);
    put_losses(40);
    ck_assert_uint_eq(stats().refused, 0);
    limit.max = 4096;
    put_samples(1);
    cursor = log_open(event_log);
    take_all(cursor, &seen);
    ck_losses(&seen, 40, 1);
    ck_assert_uint_eq(seen.drops, 0);
    log_close(cursor);
}

TEST(losses_are_told_once_though_memory_ended_on_the_way)
{
    struct log_cursor *cursor;
    struct seen seen = {0};

    put_losses(9);
    put_samples(MUCH);
    cursor = log_open(event_log);
    memory_end_at(1);
    ck_assert_uint_eq(log_take(cursor, &taken, 1000), 0);
    memory_end_at(0);
    take_all(cursor, &seen);
    ck_losses(&seen, 9, 1);
    log_close(cursor);
}

TEST(losses_go_on_exactly_in_a_loaded_log)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};
    struct log_mark mark;
    uint64_t kernel = 0;

    for (unsigned i = 1; i <= 90; i++) {
        put_samples(37 * (i % 40));
        put_losses(i);
        kernel += i;
        if (i % 3 == 0)
            take(cursor, 300 * i, &seen);
        log_cursor_mark(cursor, &mark);
        log_again();
        log_close(cursor);
        cursor = log_cursor_adopt(event_log, &mark);
        ck_assert_ptr_nonnull(cursor);
    }
    take_all(cursor, &seen);
    ck_assert_uint_gt(seen.drops, 1);
    ck_losses(&seen, kernel, 90);
    log_close(cursor);
}
