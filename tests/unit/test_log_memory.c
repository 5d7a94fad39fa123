/*
 * The memory of a log: allocation, growth, charging, and ENOMEM.
 */
#include "core/log/log_parts.h"

#include "tests/unit/log_fixture.h"
#include "tests/unit/memory.h"

#include <errno.h>

SUITE_SETUP(log_memory, log_before, log_after);

TEST(grows_by_doubling_up_to_the_limit)
{
    uint64_t memory = 0;

    for (unsigned i = 0; i < 2000; i++) {
        put_samples(1);
        ck_true(stats().memory == memory || stats().memory == 2 * memory || memory == 0 ||
                stats().memory == 48 << 10);
        memory = stats().memory;
    }
    ck_assert_uint_eq(memory, 48 << 10); /* the rest is for the address spaces */
    ck_assert_uint_ge(stats().bytes, memory - SAMPLE_SHORT);
}

TEST(wraps_at_its_size_when_growth_is_refused)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    limit.max = 5000;
    log_set_charge(event_log, within, &limit);
    put_samples(1000);
    ck_assert_uint_eq(stats().memory, 4096);
    ck_assert_int_eq(limit.used, 4096);
    ck_assert_uint_eq(stats().refused, 0);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.samples, 4096 / SAMPLE_SHORT);
    ck_complete(&seen);
    log_close(cursor);
}

TEST(growing_in_the_middle_of_a_lap_keeps_every_record)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    limit.max = 5000;
    log_set_charge(event_log, within, &limit);
    put_samples(100);
    take_all(cursor, &seen);
    limit.max = 1 << 20;
    put_samples(500);
    take_all(cursor, &seen);
    ck_complete(&seen);
    ck_assert_uint_eq(seen.samples, 4096 / SAMPLE_SHORT + 500);
    log_close(cursor);
}

TEST(a_large_ring_grows_in_its_block_and_keeps_every_record)
{
    struct log_cursor *cursor;
    struct seen seen = {0};
    uint64_t block;

    log_recreate(1 << 20);
    cursor = log_open(event_log);
    put_samples((80 << 10) / SAMPLE_SHORT);
    block = event_log->ring.block;
    put_samples((600 << 10) / SAMPLE_SHORT);
    ck_assert_uint_eq(event_log->ring.block, block);
    ck_assert_uint_eq(stats().memory, 768 << 10);
    take_all(cursor, &seen);
    ck_complete(&seen);
    ck_assert_uint_eq(seen.samples, (80 << 10) / SAMPLE_SHORT + (600 << 10) / SAMPLE_SHORT);
    log_close(cursor);
}

TEST(a_large_ring_that_wrapped_grows_and_keeps_every_record)
{
    struct log_cursor *cursor;
    struct seen seen = {0};
    uint64_t block;

    log_recreate(1 << 20);
    log_set_charge(event_log, within, &limit);
    limit.max = 200 << 10;
    cursor = log_open(event_log);
    for (unsigned i = 0; i < 3000; i++) /* wraps in a part of the block */
        put_samples(1);
    ck_assert_uint_eq(stats().memory, 128 << 10);
    block = event_log->ring.block;
    limit.max = 1 << 20;
    log_set_max(event_log, 1 << 20); /* so that it tries to grow now, not after one more ring */
    put_samples((300 << 10) / SAMPLE_SHORT);
    ck_assert_uint_ne(event_log->ring.block, block);
    ck_assert_uint_eq(stats().memory, 512 << 10);
    take_all(cursor, &seen);
    ck_complete(&seen);
    ck_assert_uint_gt(seen.samples, (400 << 10) / SAMPLE_SHORT);
    log_close(cursor);
}

TEST(a_large_ring_grows_in_a_later_worker)
{
    struct log_cursor *cursor;
    struct seen seen = {0};
    const uint64_t n = (200 << 10) / SAMPLE_SHORT;

    log_recreate(1 << 20);
    put_samples(n);
    log_reopen();
    put_samples(n);
    log_reopen();
    put_samples(n);
    cursor = log_open(event_log);
    take_all(cursor, &seen);
    ck_complete(&seen);
    ck_assert_uint_eq(seen.samples, 3 * n);
    log_close(cursor);
}

TEST(refuses_only_while_nothing_could_be_allocated)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    limit.max = 0;
    log_set_charge(event_log, within, &limit);
    make_sample();
    ck_assert_int_eq(put_made(), -ENOMEM);
    ck_assert_uint_eq(stats().refused, 1);
    limit.max = 4096;
    put_samples(1);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.dropped, 1);
    ck_assert_uint_eq(seen.samples, 1);
    ck_assert_uint_eq(stats().lost, 0); /* a refused record is not counted twice */
    ck_complete(&seen);
    log_close(cursor);
}

TEST(a_large_record_has_the_ring_grow_for_it)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    put_samples(1);
    ck_assert_int_eq(put_user(30000), 0);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.others, 1);
    ck_complete(&seen);
    log_close(cursor);
}

TEST(a_larger_maximum_lets_a_log_grow_and_a_smaller_one_frees_nothing)
{
    put_samples(MUCH);
    ck_assert_uint_eq(stats().memory, 48 << 10);
    log_set_max(event_log, 128 << 10);
    put_samples(MUCH);
    ck_assert_uint_eq(stats().memory, 96 << 10);
    log_set_max(event_log, 4096);
    put_samples(MUCH);
    ck_assert_uint_eq(stats().memory, 96 << 10);
}

TEST(the_complete_log_can_be_allocated_at_once)
{
    log_set_charge(event_log, within, &limit);
    ck_assert_int_eq(log_reserve(event_log, UINT64_MAX), 0);
    ck_assert_uint_eq(stats().memory, 64 << 10);
    ck_assert_int_eq(limit.used, 64 << 10);
    put_samples(MUCH);
    put_map(1, 0x1000, "/a");
    put_samples(MUCH);
    ck_assert_int_lt(limit.used, 65 << 10); /* plus the mappings saved for a later worker */
}

TEST(memory_allocated_at_once_is_used_as_needed)
{
    log_set_charge(event_log, within, &limit);
    ck_assert_int_eq(log_reserve(event_log, 16 << 10), 0);
    ck_assert_uint_eq(stats().memory, 16 << 10);
    ck_assert_int_eq(limit.used, 16 << 10);
    put_samples(MUCH);
    ck_assert_uint_eq(stats().memory, 52 << 10); /* the ring grew, the part for mappings did not */
    ck_assert_int_eq(log_reserve(event_log, 16 << 10), 0);
    ck_assert_uint_eq(stats().memory, 52 << 10);
    ck_assert_int_eq(stats().growth_error, 0);
}

TEST(a_log_that_may_not_grow_wraps_and_reports_the_reason)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    limit.max = 30 << 10;
    log_set_charge(event_log, within, &limit);
    ck_assert_int_eq(log_reserve(event_log, 16 << 10), 0);
    put_samples(1000);
    ck_assert_uint_eq(stats().memory, 28 << 10);
    ck_assert_int_eq(stats().growth_error, -EDQUOT);
    take_all(cursor, &seen);
    ck_assert_uint_gt(seen.dropped, 0);
    ck_complete(&seen);
    limit.max = 1 << 20;
    put_samples(1000);
    ck_assert_uint_eq(stats().memory, 52 << 10);
    ck_assert_int_eq(stats().growth_error, 0);
    log_close(cursor);
}

TEST(to_allocate_all_at_once_may_be_refused)
{
    limit.max = 60 << 10;
    log_set_charge(event_log, within, &limit);
    ck_assert_int_eq(log_reserve(event_log, UINT64_MAX), -EDQUOT);
}

TEST(a_new_payer_is_charged_for_the_memory_in_use)
{
    struct limit a = {.max = 1 << 20}, b = {.max = 1 << 20};

    log_set_charge(event_log, within, &a);
    put_samples(100);
    b.used = (int64_t)log_set_charge(event_log, within, &b);
    ck_assert_int_eq(b.used, 8192);
    ck_assert_int_eq(a.used, 0);
    log_unref(event_log);
    event_log = NULL;
    ck_assert_int_eq(b.used, 0);
}

TEST(address_spaces_are_charged_and_bounded)
{
    log_set_charge(event_log, within, &limit);
    for (uint32_t pid = 1; pid < 5000; pid++)
        put_map(pid, 0x1000, "/a/path/to/a/library.so");
    ck_assert_uint_le(stats().memory, 96 << 10); /* including the copy for a later worker */
    ck_assert_int_eq(limit.used, (int64_t)stats().memory);
    ck_assert_uint_le(stats().bytes, 64 << 10);
}

TEST(mappings_beyond_the_limit_take_no_memory)
{
    limit.max = 4096;
    log_set_charge(event_log, within, &limit);
    for (uint32_t pid = 1; pid <= 100; pid++)
        put_map(pid, 0x1000, "/a");
    ck_assert_uint_eq(stats().memory, 4096);
}

TEST(a_warm_block_is_zeroed_and_the_next_of_its_size)
{
    static const char zeros[10000];
    const uint64_t block = arena_alloc(sizeof zeros), other = arena_alloc(sizeof zeros);

    for (int i = 0; i < 2; i++) {
        memset(arena_at(block, sizeof zeros), 'x', sizeof zeros);
        memset(arena_at(other, sizeof zeros), 'x', sizeof zeros);
        arena_free_warm(other, sizeof zeros);
        arena_free_warm(block, sizeof zeros); /* now the other one is an ordinary free block */
        if (i == 1)
            arena_trim();
        ck_assert_uint_eq(arena_alloc(sizeof zeros), block);
        ck_assert_uint_eq(arena_alloc(sizeof zeros), other);
        ck_assert_mem_eq(arena_at(block, sizeof zeros), zeros, sizeof zeros);
        ck_assert_mem_eq(arena_at(other, sizeof zeros), zeros, sizeof zeros);
    }
    arena_free(block, sizeof zeros);
    arena_free(other, sizeof zeros);
}
