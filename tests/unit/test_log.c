/*
 * The log: nothing is lost uncounted, whoever reads when; its memory; saving it. And the numbered
 * sets of events.
 */
#include "core/log.h"
#include "core/log_sets.h"

#include "tests/unit/memory.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define MUCH 100000u

static struct log *event_log;
static struct buf made, taken;
static uint64_t numbered; /* samples put: they have 1, 2, … as ip */

/* Memory granted up to a limit. */
struct limit {
    int64_t used, max;
    unsigned asked;
};
static struct limit limit;

static bool within(void *arg, int64_t bytes)
{
    struct limit *of = arg;

    of->asked++;
    if (bytes > 0 && of->used + bytes > of->max)
        return false;
    of->used += bytes;
    return true;
}

static void before(void)
{
    event_log = log_new(64 << 10);
    buf_init(&made, NULL, 0);
    buf_init(&taken, NULL, 0);
    numbered = 0;
    limit = (struct limit){.max = 1 << 20};
}

static void after(void)
{
    log_unref(event_log);
    buf_free(&made);
    buf_free(&taken);
}

SUITE_SETUP(log, before, after);

static void log_anew(uint64_t max_bytes)
{
    log_unref(event_log);
    event_log = log_new(max_bytes);
}

static int put_made(void)
{
    int rc = log_put_all(event_log, made.data, made.len);

    buf_clear(&made);
    return rc;
}

static void make_sample(void)
{
    numbered++;
    record_add_sample(&made, &(struct record_sample){.ip = numbered, .time = 10 * numbered}, 0,
                      NULL, 0);
}

static void put_samples(uint64_t n)
{
    while (n-- > 0)
        make_sample();
    ck_assert_int_eq(put_made(), 0);
}

static void put_map(uint32_t pid, uint64_t start, const char *path)
{
    record_add_map(
        &made, 10 * numbered,
        &(struct map_facts){.pid = pid, .tid = pid, .start = start, .length = 0x1000, .path = path},
        RECORD_USERMODE);
    put_made();
}

static int put_text(size_t len)
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

/* What one reader was given. */
struct seen {
    uint64_t samples, dropped, drops, found, others, last_ip, last_time;
    unsigned wrong; /* out of order, or a record that cannot be: ck_…() is not for threads */
    char first_path[64];
};

static void see(struct seen *seen, const struct record *record)
{
    seen->wrong += record_time(record) < seen->last_time;
    seen->last_time = record_time(record);
    if (record->type == RECORD_SAMPLE) {
        seen->wrong += ((const struct record_sample *)record)->ip <= seen->last_ip;
        seen->last_ip = ((const struct record_sample *)record)->ip;
        seen->samples++;
    } else if (record->type == RECORD_DROP) {
        seen->wrong += memcmp(note_text((const struct record_note *)record), "log", 4) != 0;
        seen->dropped += ((const struct record_note *)record)->value[0];
        seen->drops++;
    } else if (record->misc & RECORD_FOUND) {
        if (record->type == RECORD_MAP && !*seen->first_path)
            strncat(seen->first_path, ((const struct record_map *)record)->path, 63);
        seen->found++;
    } else {
        seen->others++;
    }
}

/* One take; the number of records. */
static size_t take(struct log_cursor *cursor, size_t max, struct seen *seen)
{
    size_t n, told;

    buf_clear(&taken);
    told = log_take(cursor, &taken, max);
    n = 0;
    for (size_t at = 0; at < taken.len; n++) {
        const struct record *record = (const struct record *)(taken.data + at);

        ck_true(record_fits(record, taken.len - at));
        see(seen, record);
        at += record->size;
    }
    ck_assert_uint_eq(n, told);
    ck_assert_uint_eq(seen->wrong, 0);
    return n;
}

static void take_all(struct log_cursor *cursor, struct seen *seen)
{
    while (take(cursor, 1000, seen) > 0)
        ;
}

/* Everything that was ever put was received or told to be missing. */
static void ck_whole(const struct seen *seen)
{
    ck_assert_uint_eq(seen->samples + seen->others + seen->dropped, log_last(event_log));
}

static struct log_stats stats(void)
{
    struct log_stats now;

    log_stats(event_log, &now);
    return now;
}

TEST(uses_no_memory_before_the_first_record)
{
    log_set_charge(event_log, within, &limit);
    ck_assert_uint_eq(stats().memory, 0);
    ck_assert_int_eq(limit.used, 0);
    put_samples(1);
    ck_assert_uint_eq(stats().memory, 1024);
    ck_assert_int_eq(limit.used, 1024);
}

TEST(gives_records_back_as_they_were_put)
{
    struct log_cursor *cursor = log_open(event_log);
    struct buf same;

    buf_init(&same, NULL, 0);
    make_sample();
    record_add_comm(&made, 20, 1, 2, "name", 0);
    record_add_task(&made, RECORD_FORK, 30, 1, 2, 3, 4);
    buf_add(&same, made.data, made.len);
    ck_assert_int_eq(put_made(), 0);
    ck_assert_uint_eq(log_take(cursor, &taken, 4096), 3);
    ck_assert_uint_eq(taken.len, same.len);
    ck_assert_int_eq(memcmp(taken.data, same.data, same.len), 0);
    ck_assert_uint_eq(log_take(cursor, &taken, 4096), 0);
    buf_free(&same);
    log_close(cursor);
}

TEST(is_ready_when_there_is_something_to_take)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    ck_true(!log_ready(cursor));
    put_samples(2);
    ck_true(log_ready(cursor));
    take(cursor, 56, &seen);
    ck_true(log_ready(cursor));
    take(cursor, 56, &seen);
    ck_true(!log_ready(cursor));
    log_close(cursor);
}

TEST(numbers_what_is_put)
{
    ck_assert_uint_eq(log_last(event_log), 0);
    put_samples(5);
    ck_assert_uint_eq(log_last(event_log), 5);
    ck_assert_uint_eq(log_last_time(event_log), 50);
    ck_assert_uint_eq(stats().bytes, 5 * SAMPLE_SHORT);
}

TEST(a_take_ends_behind_the_record_that_still_fits)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    put_samples(10);
    ck_assert_uint_eq(take(cursor, 3 * SAMPLE_SHORT + 55, &seen), 3);
    ck_assert_uint_eq(take(cursor, 1, &seen), 1);
    ck_assert_uint_eq(take(cursor, 1 << 20, &seen), 6);
    ck_whole(&seen);
    log_close(cursor);
}

TEST(times_never_go_back)
{
    struct log_cursor *cursor = log_open(event_log);
    const struct record_task *task;

    put_samples(5);
    record_add_task(&made, RECORD_FORK, 7, 1, 2, 3, 4);
    log_put(event_log, (const struct record *)made.data);
    ck_assert_uint_eq(record_time((const struct record *)made.data), 7);
    ck_assert_uint_eq(log_take(cursor, &taken, 4096), 6);
    task = (const struct record_task *)(taken.data + 5 * SAMPLE_SHORT);
    ck_assert_uint_eq(task->time, 50);
    ck_assert_uint_eq(task->tail.time, 50);
    log_close(cursor);
}

TEST(grows_by_doubling_up_to_what_is_allowed)
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

TEST(a_reader_that_keeps_up_misses_nothing)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    for (unsigned i = 0; i < 1000; i++) {
        put_samples(i % 50);
        take_all(cursor, &seen);
    }
    ck_assert_uint_eq(seen.samples, numbered);
    ck_assert_uint_eq(seen.drops, 0);
    ck_assert_uint_eq(stats().lost, 0);
    log_close(cursor);
}

TEST(a_slow_reader_is_told_exactly_what_it_missed)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    for (unsigned i = 0; i < 1000; i++) {
        put_samples(i % 100);
        if (i % 7 == 0)
            take(cursor, 3000, &seen);
    }
    take_all(cursor, &seen);
    ck_assert_uint_gt(seen.drops, 10);
    ck_whole(&seen);
    ck_assert_uint_eq(stats().lost, seen.dropped);
    log_close(cursor);
}

TEST(a_late_reader_is_told_what_was_before)
{
    struct log_cursor *cursor;
    struct seen seen = {0};

    put_samples(MUCH);
    cursor = log_open(event_log);
    ck_true(log_ready(cursor));
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.drops, 1);
    ck_assert_uint_gt(seen.dropped, 0);
    ck_whole(&seen);
    log_close(cursor);
}

TEST(each_of_several_readers_has_its_own_account)
{
    struct log_cursor *cursor[4];
    struct seen seen[4] = {0};

    for (unsigned i = 0; i < 4; i++)
        cursor[i] = log_open(event_log);
    for (unsigned i = 0; i < 3000; i++) {
        put_samples(40);
        for (unsigned r = 0; r < 4; r++)
            if (i % (1 + r * 20) == 0)
                take_all(cursor[r], &seen[r]);
    }
    for (unsigned r = 0; r < 4; r++) {
        take_all(cursor[r], &seen[r]);
        ck_whole(&seen[r]);
        log_close(cursor[r]);
    }
    ck_assert_uint_eq(seen[0].dropped, 0);
    ck_assert_uint_gt(seen[3].dropped, seen[2].dropped);
}

TEST(what_is_overwritten_counts_once_however_many_missed_it)
{
    struct log_cursor *a = log_open(event_log), *b = log_open(event_log);

    put_samples(MUCH);
    ck_assert_uint_eq(stats().lost, MUCH - (48 << 10) / SAMPLE_SHORT);
    log_close(a);
    log_close(b);
}

TEST(what_one_reader_has_not_read_is_lost_though_another_has)
{
    struct log_cursor *fast = log_open(event_log), *slow = log_open(event_log);
    struct seen seen = {0}, late = {0};

    for (unsigned i = 0; i < 100; i++) {
        put_samples(100);
        take_all(fast, &seen);
    }
    take_all(slow, &late);
    ck_assert_uint_eq(seen.dropped, 0);
    ck_assert_uint_eq(stats().lost, late.dropped);
    log_close(fast);
    log_close(slow);
}

TEST(what_somebody_read_before_closing_is_not_lost)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};
    uint64_t held = (48 << 10) / SAMPLE_SHORT;

    put_samples(100);
    take_all(cursor, &seen);
    log_close(cursor);
    put_samples(held);
    ck_assert_uint_eq(stats().lost, 0);
    put_samples(1);
    ck_assert_uint_eq(stats().lost, 1); /* the first that nobody ever had */
}

TEST(what_nobody_ever_had_is_lost)
{
    put_samples(MUCH);
    ck_assert_uint_eq(stats().lost, MUCH - (48 << 10) / SAMPLE_SHORT);
    ck_assert_uint_eq(stats().records, MUCH);
}

TEST(records_lie_across_the_end_of_the_block)
{
    static const size_t lens[] = {1, 40, 3, 100, 17, 250};
    struct log_cursor *cursor;
    struct seen seen = {0};

    log_anew(2048);
    cursor = log_open(event_log);
    for (unsigned i = 0; i < 5000; i++) {
        put_text(lens[i % 6]);
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

    log_anew(4096);
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
    ck_whole(&seen);
    log_close(cursor);
}

TEST(does_not_ask_for_memory_at_every_record_once_refused)
{
    limit.max = 5000;
    log_set_charge(event_log, within, &limit);
    put_samples(10000);
    ck_assert_uint_lt(limit.asked, 10 + 10000 * SAMPLE_SHORT / 4096);
}

TEST(grows_again_when_there_is_more)
{
    limit.max = 5000;
    log_set_charge(event_log, within, &limit);
    put_samples(1000);
    limit.max = 1 << 20;
    put_samples(1000);
    ck_assert_uint_eq(stats().memory, 48 << 10);
    log_unref(event_log);
    event_log = NULL;
    ck_assert_int_eq(limit.used, 0);
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
    ck_whole(&seen);
    ck_assert_uint_eq(seen.samples, 4096 / SAMPLE_SHORT + 500);
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
    ck_assert_uint_eq(stats().lost, 0); /* what was refused is not counted twice */
    ck_whole(&seen);
    log_close(cursor);
}

TEST(memory_that_ends_refuses_the_first_and_wraps_the_others)
{
    log_set_charge(event_log, within, &limit);
    make_sample();
    memory_end_at(1);
    ck_assert_int_eq(put_made(), -ENOMEM);
    memory_end_at(0);
    ck_assert_int_eq(limit.used, 0);
    put_samples(1024 / SAMPLE_SHORT);
    make_sample();
    memory_end_at(1);
    ck_assert_int_eq(put_made(), 0);
    memory_end_at(0);
    ck_assert_uint_eq(stats().memory, 1024);
    ck_assert_int_eq(limit.used, 1024);
}

TEST(a_record_too_large_for_the_ring_is_lost_with_what_it_displaced)
{
    struct log_cursor *cursor;
    struct seen seen = {0};

    log_anew(4096);
    cursor = log_open(event_log);
    put_samples(5);
    ck_assert_int_eq(put_text(4000), 0);
    ck_assert_uint_eq(stats().lost, 6);
    put_samples(2);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.samples, 2);
    ck_whole(&seen);
    log_close(cursor);
}

TEST(a_large_record_has_the_ring_grow_for_it)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    put_samples(1);
    ck_assert_int_eq(put_text(30000), 0);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.others, 1);
    ck_whole(&seen);
    log_close(cursor);
}

TEST(more_may_be_allowed_later_and_less_takes_nothing_away)
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

TEST(all_of_it_can_be_allocated_at_once)
{
    log_set_charge(event_log, within, &limit);
    ck_assert_int_eq(log_reserve(event_log), 0);
    ck_assert_uint_eq(stats().memory, 64 << 10);
    ck_assert_int_eq(limit.used, 64 << 10);
    put_samples(MUCH);
    put_map(1, 0x1000, "/a");
    put_samples(MUCH);
    ck_assert_int_eq(limit.used, 64 << 10);
}

TEST(to_allocate_all_at_once_may_be_refused)
{
    limit.max = 60 << 10;
    log_set_charge(event_log, within, &limit);
    ck_assert_int_eq(log_reserve(event_log), -EDQUOT);
    log_set_charge(event_log, NULL, NULL);
    log_anew(64 << 10);
    memory_end_at(1);
    ck_assert_int_eq(log_reserve(event_log), -ENOMEM);
    memory_end_at(0);
}

TEST(another_charge_is_asked_for_what_is_used_already)
{
    struct limit a = {.max = 1 << 20}, b = {.max = 1 << 20};

    log_set_charge(event_log, within, &a);
    put_samples(100);
    log_set_charge(event_log, within, &b);
    ck_assert_int_eq(a.used, 0);
    ck_assert_int_eq(b.used, 8192);
    log_unref(event_log);
    event_log = NULL;
    ck_assert_int_eq(b.used, 0);
}

TEST(a_late_reader_gets_the_mappings_that_were_overwritten)
{
    struct log_cursor *cursor;
    struct seen seen = {0};

    put_map(UINT32_MAX, 0xf000, "[kernel]");
    put_map(1, 0x1000, "/bin/sh");
    put_samples(MUCH);
    cursor = log_open(event_log);
    take(cursor, 1000, &seen);
    ck_assert_uint_eq(seen.found, 2);
    ck_assert_str_eq(seen.first_path, "[kernel]");
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.found, 2);
    ck_whole(&seen); /* they are among those missed */
    log_close(cursor);
}

TEST(mappings_that_are_still_there_are_not_given_twice)
{
    struct log_cursor *cursor;
    struct seen seen = {0};

    put_samples(MUCH);
    put_map(1, 0x1000, "/bin/sh");
    cursor = log_open(event_log);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.found, 0);
    ck_assert_uint_eq(seen.others, 1);
    log_close(cursor);
}

TEST(an_overtaken_reader_gets_the_mappings_only_if_it_missed_some)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    put_map(1, 0x1000, "/a");
    take_all(cursor, &seen);
    put_samples(MUCH);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.drops, 1);
    ck_assert_uint_eq(seen.found, 0);
    put_map(1, 0x2000, "/b");
    put_samples(MUCH);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.drops, 2);
    ck_assert_uint_eq(seen.found, 2);
    log_close(cursor);
}

TEST(address_spaces_are_charged_and_bounded)
{
    log_set_charge(event_log, within, &limit);
    for (uint32_t pid = 1; pid < 5000; pid++)
        put_map(pid, 0x1000, "/a/path/to/a/library.so");
    ck_assert_uint_eq(stats().memory, 64 << 10);
    ck_assert_int_eq(limit.used, 64 << 10);
    ck_assert_uint_le(stats().bytes, 64 << 10);
    ck_assert_uint_gt(stats().maps_lost, 4000);
}

TEST(without_memory_for_them_mappings_are_lost_and_counted)
{
    limit.max = 4096;
    log_set_charge(event_log, within, &limit);
    for (uint32_t pid = 1; pid <= 100; pid++)
        put_map(pid, 0x1000, "/a");
    ck_assert_uint_eq(stats().memory, 4096);
    ck_assert_uint_eq(stats().maps_lost, 100 - 4096 / 112);
}

TEST(counts_what_the_kernel_lost_and_throttled)
{
    record_add_lost(&made, 1, 0, 5);
    record_add_lost(&made, 2, 0, 7);
    put_made();
    struct record_throttle throttle = {.head = {.type = RECORD_THROTTLE, .size = sizeof(throttle)}};
    log_put(event_log, &throttle.head);
    throttle.head.type = RECORD_UNTHROTTLE;
    log_put(event_log, &throttle.head);
    log_count_hidden(event_log, 3);
    log_count_hidden(event_log, 1);
    ck_assert_uint_eq(stats().kernel_lost, 12);
    ck_assert_uint_eq(stats().throttled, 1);
    ck_assert_uint_eq(stats().hidden, 4);
    ck_assert_uint_eq(stats().records, 4);
}

TEST(a_malformed_record_ends_its_batch)
{
    make_sample();
    make_sample();
    ((struct record *)(made.data + SAMPLE_SHORT))->size = 9;
    put_made();
    ck_assert_uint_eq(log_last(event_log), 1);
}

TEST(a_take_without_memory_takes_nothing)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    put_samples(MUCH);
    memory_end_at(1);
    ck_assert_uint_eq(log_take(cursor, &taken, 1000), 0);
    memory_end_at(0);
    ck_true(taken.failed && taken.len == 0);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.drops, 1);
    ck_whole(&seen);
    log_close(cursor);
}

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
    ck_assert_int_eq(log_reserve(event_log), 0);
    put_samples(3);
    save_and_load();
    ck_assert_uint_eq(stats().memory, 64 << 10);
    log_set_charge(event_log, within, &limit);
    ck_assert_int_eq(limit.used, 64 << 10);
}

TEST(what_is_no_cursor_is_refused)
{
    static const char *const wrong[] = {"", "1", ",1", "1,", "0,1", "x,1", "1,2", "1,1,1"};

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
    for (size_t len = 0; len < text.len; len += len < 40 ? 1 : 55) {
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

/* One thread puts, others read as they can. */
struct racer {
    pthread_t thread;
    struct seen seen;
    size_t max;
};

static bool race_over;

static void *race_put(void *arg)
{
    struct buf batch;

    (void)arg;
    buf_init(&batch, NULL, 0);
    for (uint64_t ip = 1; ip <= MUCH;) {
        buf_clear(&batch);
        for (unsigned i = 0; i < 50; i++, ip++)
            record_add_sample(&batch, &(struct record_sample){.ip = ip, .time = ip}, 0, NULL, 0);
        log_put_all(event_log, batch.data, batch.len);
    }
    __atomic_store_n(&race_over, true, __ATOMIC_RELEASE);
    buf_free(&batch);
    return NULL;
}

static void *race_read(void *arg)
{
    struct racer *racer = arg;
    struct log_cursor *cursor = log_open(event_log);
    struct buf out;
    bool over = false;

    buf_init(&out, NULL, 0);
    for (size_t n = 1; !over || n > 0;) {
        over = __atomic_load_n(&race_over, __ATOMIC_ACQUIRE);
        buf_clear(&out);
        n = log_take(cursor, &out, racer->max);
        for (size_t at = 0; at < out.len; at += ((struct record *)(out.data + at))->size)
            see(&racer->seen, (struct record *)(out.data + at));
        log_last(event_log);
    }
    log_close(cursor);
    buf_free(&out);
    return NULL;
}

TEST(accounts_are_exact_while_threads_put_and_read)
{
    struct racer racer[3] = {{.max = 100}, {.max = 5000}, {.max = 100000}};
    pthread_t writer;

    race_over = false;
    for (unsigned i = 0; i < 3; i++)
        pthread_create(&racer[i].thread, NULL, race_read, &racer[i]);
    pthread_create(&writer, NULL, race_put, NULL);
    pthread_join(writer, NULL);
    for (unsigned i = 0; i < 3; i++) {
        pthread_join(racer[i].thread, NULL);
        ck_whole(&racer[i].seen);
        ck_assert_uint_eq(racer[i].seen.wrong, 0);
        ck_assert_uint_ge(stats().lost, racer[i].seen.dropped);
    }
}

/* Sets of events. */

static const struct log_event two_events[] = {
    {.name = (char *)"cycles", .resolved = (char *)"cpu/cycles/u", .freq = 997, .chains = true},
    {.name = (char *)"a b\n", .resolved = (char *)"", .period = 5, .type = 4, .config = UINT64_MAX},
};

TEST(sets_are_numbered_and_keep_their_events)
{
    struct log_sets *sets = log_sets_new();

    ck_assert_uint_eq(log_sets_last(sets), 0);
    ck_assert_ptr_null(log_sets_event(sets, 0, 0));
    ck_assert_uint_eq(log_sets_add(sets, two_events, 2), 1);
    ck_assert_uint_eq(log_sets_add(sets, two_events, 1), 2);
    ck_assert_uint_eq(log_sets_last(sets), 2);
    ck_assert_uint_eq(log_sets_events(sets, 1), 2);
    ck_assert_uint_eq(log_sets_events(sets, 3), 0);
    ck_assert_str_eq(log_sets_event(sets, 1, 0)->resolved, "cpu/cycles/u");
    ck_assert_ptr_ne(log_sets_event(sets, 1, 0)->name, two_events[0].name);
    ck_assert_ptr_null(log_sets_event(sets, 2, 1));
    ck_assert_ptr_null(log_sets_event(sets, 3, 0));
    log_sets_unref(sets);
}

TEST(sets_are_saved_and_loaded)
{
    struct log_sets *sets = log_sets_new(), *again;
    const struct log_event *event;
    struct buf text;

    buf_init(&text, NULL, 0);
    log_sets_add(sets, two_events, 2);
    log_sets_add(sets, two_events, 0);
    log_sets_print(sets, &text);
    ck_assert_ptr_null(strchr(buf_text(&text), '\n'));
    again = log_sets_scan(buf_text(&text));
    ck_assert_ptr_nonnull(again);
    ck_assert_uint_eq(log_sets_last(again), 2);
    event = log_sets_event(again, 1, 1);
    ck_assert_str_eq(event->name, "a b\n");
    ck_assert_str_eq(event->resolved, "");
    ck_true(event->period == 5 && event->type == 4 && event->config == UINT64_MAX);
    ck_true(!event->chains && log_sets_event(again, 1, 0)->chains);
    ck_assert_uint_eq(log_sets_event(again, 1, 0)->freq, 997);
    log_sets_unref(sets);
    log_sets_unref(again);
    buf_free(&text);
}

TEST(sets_that_cannot_be_read_are_refused)
{
    static const char *const wrong[] = {"",
                                        "x",
                                        "1",
                                        "1 1",
                                        "1 1 61 62 1 1 2 0 0",
                                        "1 1 6 62 1 1 1 0 0",
                                        "1 1 00 62 1 1 1 0 0",
                                        "2 0",
                                        "1 257"};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ck_assert_msg(!log_sets_scan(wrong[i]), "%s", wrong[i]);
}

TEST(a_set_without_memory_has_no_number)
{
    struct log_sets *sets = log_sets_new();

    for (unsigned n = 1; n <= 6; n++) {
        memory_end_at(n);
        ck_assert_uint_eq(log_sets_add(sets, two_events, 2), 0);
        memory_end_at(0);
    }
    ck_assert_uint_eq(log_sets_add(sets, two_events, 2), 1);
    log_sets_unref(sets);
}
