/*
 * Readers of the log: every loss is counted for every reader, and mappings are never lost.
 */
#include "tests/unit/log_fixture.h"
#include "tests/unit/memory.h"

#include <pthread.h>

SUITE_SETUP(log_readers, log_before, log_after);

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

TEST(a_slow_reader_gets_the_exact_number_of_missed_records)
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
    ck_complete(&seen);
    ck_assert_uint_eq(stats().lost, seen.dropped);
    log_close(cursor);
}

TEST(each_reader_has_a_separate_account)
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
        ck_complete(&seen[r]);
        log_close(cursor[r]);
    }
    ck_assert_uint_eq(seen[0].dropped, 0);
    ck_assert_uint_gt(seen[3].dropped, seen[2].dropped);
}

TEST(an_overwritten_record_counts_once_however_many_readers_missed_it)
{
    struct log_cursor *a = log_open(event_log), *b = log_open(event_log);

    put_samples(MUCH);
    ck_assert_uint_eq(stats().lost, MUCH - (48 << 10) / SAMPLE_SHORT);
    log_close(a);
    log_close(b);
}

TEST(records_that_a_closed_reader_received_are_not_lost)
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
    ck_assert_uint_eq(stats().lost, 1); /* the first record that no reader received */
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
    ck_complete(&seen); /* the tally counts the overwritten mappings as lost records, too */
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

/* Puts n processes with four mappings each, and overwrites their records. */
static void put_spaces(uint32_t first, unsigned n)
{
    for (uint32_t pid = first; pid < first + n; pid++)
        for (unsigned i = 0; i < 4; i++)
            put_map(pid, 0x1000 * (i + 1), "/usr/lib/a");
    put_samples(1000);
}

TEST(mappings_come_in_batches_of_complete_processes)
{
    struct log_cursor *cursor;
    struct seen seen = {0};

    put_spaces(1, 15);
    cursor = log_open(event_log);
    while (seen.drops == 0) {
        ck_assert_uint_gt(take(cursor, 1000, &seen), 0);
        ck_assert_uint_lt(taken.len, 1600); /* a process is reported in one batch */
    }
    ck_assert_uint_eq(seen.found, 60);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.found, 60);
    ck_assert_uint_eq(seen.drops, 1);
    ck_complete(&seen);
    log_close(cursor);
}

TEST(a_process_that_changes_between_two_batches_is_reported_as_it_is)
{
    struct log_cursor *cursor;
    struct seen seen = {0};

    put_spaces(1, 10);
    cursor = log_open(event_log);
    take(cursor, 1000, &seen);
    ck_assert_uint_gt(seen.found, 4);
    put_map(1, 0x8000, "/new");
    put_map(11, 0x1000, "/child");
    put_samples(1000);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.found, 40 + 5 + 1);
    ck_assert_uint_eq(seen.drop_time, seen.found_time);
    ck_assert_uint_eq(seen.drops, 1);
    ck_complete(&seen);
    log_close(cursor);
}

TEST(changes_faster_than_batches_do_not_delay_a_reader)
{
    struct log_cursor *cursor;
    struct seen seen = {0};

    put_spaces(1, 10);
    cursor = log_open(event_log);
    while (seen.drops == 0) {
        take(cursor, 1, &seen);
        put_spaces(1, 10);
    }
    ck_assert_uint_eq(seen.found, 2 * 40);
    take_all(cursor, &seen);
    ck_complete(&seen);
    log_close(cursor);
}

TEST(a_take_without_memory_takes_nothing)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    put_samples(MUCH);
    memory_fail_at(1);
    ck_assert_uint_eq(log_read(cursor, &taken, 1000), 0);
    memory_fail_at(0);
    ck_true(taken.failed && taken.len == 0);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.drops, 1);
    ck_complete(&seen);
    log_close(cursor);
}

/* A thread that reads the log, about `max` bytes at once, while another one puts records. */
struct racer {
    pthread_t thread;
    struct log_cursor *cursor; /* opened before the first record: every missed record is a loss */
    struct seen seen;
    size_t max;
};

static bool race_over;

static void *race_put(void *arg)
{
    struct buf batch = {0};

    (void)arg;
    for (uint64_t ip = 1; ip <= MUCH;) {
        buf_clear(&batch);
        for (unsigned i = 0; i < 50; i++, ip++)
            record_add_sample(&batch, &(struct record_sample){.ip = ip, .time = ip}, 0, NULL, 0);
        log_put_all_once(event_log, 0, NULL, batch.data, batch.len);
    }
    __atomic_store_n(&race_over, true, __ATOMIC_RELEASE);
    buf_free(&batch);
    return NULL;
}

static void *race_read(void *arg)
{
    struct racer *racer = arg;
    struct buf out = {0};
    bool over = false;

    for (size_t n = 1; !over || n > 0;) {
        over = __atomic_load_n(&race_over, __ATOMIC_ACQUIRE);
        buf_clear(&out);
        n = log_read(racer->cursor, &out, racer->max);
        for (size_t at = 0; at < out.len; at += ((struct record *)(out.data + at))->size)
            see(&racer->seen, (struct record *)(out.data + at));
        log_last(event_log);
    }
    log_close(racer->cursor);
    buf_free(&out);
    return NULL;
}

TEST(accounts_are_exact_while_threads_put_and_read)
{
    struct racer racer[3] = {{.max = 100}, {.max = 5000}, {.max = 100000}};
    pthread_t writer;

    race_over = false;
    for (unsigned i = 0; i < 3; i++)
        racer[i].cursor = log_open(event_log);
    for (unsigned i = 0; i < 3; i++)
        pthread_create(&racer[i].thread, NULL, race_read, &racer[i]);
    pthread_create(&writer, NULL, race_put, NULL);
    pthread_join(writer, NULL);
    for (unsigned i = 0; i < 3; i++) {
        pthread_join(racer[i].thread, NULL);
        ck_complete(&racer[i].seen);
        ck_assert_uint_eq(racer[i].seen.wrong, 0);
        ck_assert_uint_ge(stats().lost, racer[i].seen.dropped);
    }
}
