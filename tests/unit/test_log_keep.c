/*
 * A log and its readers in a later worker.
 */
#include "core/base/arena.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/memory.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

SUITE_SETUP(log_keep, log_before, log_after);

TEST(a_log_saved_without_records_receives_them_later)
{
    const uint64_t block = log_block(event_log);

    ck_assert_uint_ne(block, 0);
    log_reopen();
    ck_assert_uint_eq(stats().records, 0);
    put_samples(1);
    ck_assert_uint_eq(log_block(event_log), block);
    log_reopen();
    ck_assert_uint_eq(stats().records, 1);
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
    log_reopen();
    ck_assert_uint_eq(stats().records, was.records);
    ck_assert_uint_eq(stats().lost, was.lost);
    ck_assert_uint_eq(stats().bytes, was.bytes);
    ck_assert_uint_eq(stats().kernel_lost, 5);
    cursor = log_open(event_log);
    take_all(cursor, &seen);
    ck_assert_str_eq(seen.first_path, "/a");
    ck_complete(&seen);
    log_close(cursor);
}

/* Loads the log as a later worker does, and moves the cursor to it. */
static struct log_cursor *over(struct log_cursor *cursor)
{
    struct log_mark mark;

    log_cursor_mark(cursor, &mark);
    log_close(cursor);
    log_reopen();
    cursor = log_cursor_adopt(event_log, &mark);
    ck_assert_ptr_nonnull(cursor);
    return cursor;
}

TEST(readers_continue_in_a_loaded_log)
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
    ck_complete(&seen);
    ck_assert_uint_eq(stats().lost, seen.dropped);
    log_close(cursor);
}

TEST(records_taken_and_not_delivered_count_as_lost_when_overwritten)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0}, never = {0};
    struct log_mark mark;

    put_samples(MUCH);
    take(cursor, 1000, &seen);
    log_cursor_mark(cursor, &mark);
    take(cursor, 1000, &never);
    put_samples(MUCH);
    log_close(cursor);
    log_reopen();
    cursor = log_cursor_adopt(event_log, &mark);
    ck_assert_ptr_nonnull(cursor);
    take_all(cursor, &seen);
    ck_assert_uint_gt(seen.drops, 0);
    ck_complete(&seen);
    ck_assert_uint_eq(stats().lost, seen.dropped);
    log_close(cursor);
}

/* The number of samples, and the lost records by the place that reported them: the kernel, or
 * `where` of drop records. log_samples: samples among the records that the log lost. */
struct sums {
    uint64_t samples, log, log_samples, kernel, hidden, memory, replaced;
};

static void sums_take(struct log_cursor *cursor, size_t max, struct sums *sums)
{
    static const struct {
        const char *where;
        size_t offset;
    } places[] = {
        {"hidden", offsetof(struct sums, hidden)},
        {"memory", offsetof(struct sums, memory)},
        {"replaced", offsetof(struct sums, replaced)},
    };
    const struct record *record;

    buf_clear(&taken);
    log_read(cursor, &taken, max);
    for (size_t at = 0; at < taken.len; at += record->size) {
        const struct record_note *note = (const void *)(taken.data + at);

        record = (const struct record *)note;
        ck_true(record_is_valid(record, taken.len - at));
        sums->samples += record->type == RECORD_SAMPLE;
        if (record->type == RECORD_LOST)
            sums->kernel += ((const struct record_lost *)record)->lost;
        if (record->type != RECORD_DROP)
            continue;
        if (memcmp(note_text(note), "log", 3) == 0) {
            sums->log += note->value[0];
            sums->log_samples += note->value[note->n - 1];
        }
        for (unsigned i = 0; i < 3; i++)
            if (note->text_len == strlen(places[i].where) &&
                memcmp(note_text(note), places[i].where, note->text_len) == 0)
                *(uint64_t *)((char *)sums + places[i].offset) += note->value[0];
    }
}

static void make_drop(const char *where, unsigned misc, uint64_t n)
{
    record_add_note(&made, &(struct note){.type = RECORD_DROP,
                                          .misc = misc,
                                          .time = 10 * numbered,
                                          .n = 1,
                                          .value = &n,
                                          .text = where,
                                          .text_len = strlen(where)});
}

/* The first record that the reader reads reports a loss outside the log, and is overwritten before
 * the reader reads it again. The reader then receives the sum of all these losses instead. */
TEST(an_overwritten_loss_elsewhere_is_not_counted_as_a_lost_record)
{
    struct log_cursor *cursor = log_open(event_log);
    const struct log_cursor copy = log_cursor_save(cursor);
    struct sums sums = {0}, never = {0};

    record_add_lost(&made, 1, 0, 5);
    put_samples(10);
    sums_take(cursor, SIZE_MAX, &never);
    put_samples(MUCH);
    log_cursor_restore(cursor, &copy);
    sums_take(cursor, SIZE_MAX, &sums);
    ck_assert_uint_eq(sums.kernel, 5);
    ck_assert_uint_gt(sums.log, 10);
    ck_assert_uint_eq(stats().lost, sums.log);
    log_close(cursor);
}

/* Each reader gets each loss outside the log once, whether its record was overwritten or not, in
 * any worker. */
TEST(losses_elsewhere_add_up_for_each_reader)
{
    struct log_cursor *often = log_open(event_log), *seldom = log_open(event_log), *late;
    struct sums sums[3] = {0}, all = {0};

    for (unsigned i = 1; i <= 400; i++) {
        put_samples(i % 90);
        record_add_lost(&made, 10 * numbered, 0, i);
        make_drop("hidden", RECORD_HIDDEN, 3 * i);
        make_drop("memory", RECORD_REFUSED, 5 * i);
        make_drop("replaced", RECORD_REFUSED, 7 * i);
        put_made();
        put_map(i, 0x1000, "/a");
        all.kernel += i;
        sums_take(often, 3000, &sums[0]);
        if (i % 150 == 0)
            sums_take(seldom, 1 + 100 * i, &sums[1]);
        if (i % 40 == 0) {
            struct log_mark mark[2];
            const struct log_cursor back = log_cursor_save(often);
            struct sums nowhere = {0};

            sums_take(often, 2000, &nowhere); /* the batch is not delivered */
            log_cursor_restore(often, &back);
            log_cursor_mark(often, &mark[0]);
            log_cursor_mark(seldom, &mark[1]);
            log_close(often);
            log_close(seldom);
            log_reopen();
            often = log_cursor_adopt(event_log, &mark[0]);
            seldom = log_cursor_adopt(event_log, &mark[1]);
            ck_true(often && seldom);
        }
    }
    late = log_open(event_log);
    for (unsigned i = 0; i < 1000; i++) {
        sums_take(often, 3000, &sums[0]);
        sums_take(seldom, 3000, &sums[1]);
        sums_take(late, 3000, &sums[2]);
    }
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_gt(sums[i].log, 400);
        ck_assert_uint_eq(sums[i].samples + sums[i].log_samples, numbered);
        ck_assert_uint_eq(sums[i].kernel, all.kernel);
        ck_assert_uint_eq(sums[i].hidden, 3 * all.kernel);
        ck_assert_uint_eq(sums[i].memory, 5 * all.kernel);
        ck_assert_uint_eq(sums[i].replaced, 7 * all.kernel);
    }
    log_close(often);
    log_close(seldom);
    log_close(late);
}

/* A worker is killed while it puts batches of 50 records into a full log. The next worker finds
 * only complete batches. */
TEST(a_batch_is_present_completely_or_not_at_all)
{
    const struct timespec a_moment = {.tv_nsec = 1500000};
    uint64_t request = 1;

    put_samples(MUCH);
    const uint64_t block = log_block(event_log), before = stats().records;
    for (unsigned i = 0; i < 50; i++)
        make_sample();
    for (unsigned i = 0; i < 100; i++) {
        struct timespec moment = a_moment;
        pid_t pid;

        log_keep_blocks(event_log);
        log_unref(event_log);
        pid = fork();
        if (pid == 0) {
            event_log = log_adopt(block);
            for (;;)
                log_put_all_once(event_log, ++request, NULL, made.data, made.len);
        }
        moment.tv_nsec += i * 7919 % 1000 * 1000;
        nanosleep(&moment, NULL);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        event_log = log_adopt(block);
        ck_assert_ptr_nonnull(event_log);
        ck_assert_uint_eq((stats().records - before) % 50, 0);
        request += 1000000;
    }
    ck_assert_uint_gt(stats().records, before + 1000);
}

TEST(mappings_are_repeated_in_a_loaded_log)
{
    struct log_cursor *cursor;
    struct seen seen = {0};

    put_map(UINT32_MAX, 0xf000, "[kernel]");
    for (uint32_t pid = 20; pid > 0; pid--)
        put_map(pid, 0x1000, "/a");
    put_samples(1000);
    cursor = log_open(event_log);
    take(cursor, 1, &seen);
    ck_assert_uint_eq(seen.found, 1);
    cursor = over(cursor);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.found, 1 + 21);
    ck_complete(&seen);
    log_close(cursor);
}

/* Overwritten records are merged into the saved tasks, whose size stays the same. */
TEST(names_that_change_for_ever_are_kept_in_a_loaded_log)
{
    struct log_cursor *cursor;
    struct seen seen = {0};

    for (unsigned i = 0; i < 20000; i++) {
        record_add_comm(&made, i, 7, 7, i % 2 ? "one" : "two", 0);
        put_made();
    }
    put_map(7, 0x1000, "/a");
    put_samples(MUCH);
    const uint64_t before = stats().memory;
    ck_assert_uint_lt(before, 80 << 10);
    log_reopen();
    cursor = log_open(event_log);
    take_all(cursor, &seen);
    ck_assert_uint_eq(seen.found, 2);
    log_close(cursor);
}

TEST(records_read_before_the_load_are_not_lost_after_it)
{
    struct log_cursor *cursor = log_open(event_log);
    struct seen seen = {0};

    put_samples(100);
    take_all(cursor, &seen);
    log_close(cursor);
    log_reopen();
    put_samples((48 << 10) / SAMPLE_SHORT);
    ck_assert_uint_eq(stats().lost, 0);
}

TEST(memory_allocated_at_once_is_allocated_at_once_after_the_load)
{
    ck_assert_int_eq(log_reserve(event_log, 64 << 10), 0);
    put_samples(3);
    log_reopen();
    ck_assert_uint_eq(stats().memory, 64 << 10);
    ck_assert_uint_eq(log_set_charge(event_log, within, &limit), 64 << 10);
}

TEST(data_that_is_not_a_log_is_refused)
{
    put_samples(20);
    const uint64_t block = log_block(event_log);
    char *head = arena_at(block, 512);

    ck_assert_ptr_null(log_adopt(0));
    ck_assert_ptr_null(log_adopt(block + 512));
    ck_assert_ptr_null(log_adopt(UINT64_MAX));
    log_keep_blocks(event_log);
    for (unsigned at = 0; at < 512; at++) {
        struct log *again;
        const char was = head[at];

        head[at] ^= 0x55;
        again = log_adopt(block);
        if (again) {
            log_keep_blocks(again);
            log_unref(again);
        }
        head[at] = was;
    }
}

TEST(loading_without_memory_gives_nothing_and_leaks_nothing)
{
    struct log *again = NULL;

    put_map(1, 0x1000, "/a");
    put_samples(MUCH);
    log_keep_blocks(event_log);
    for (unsigned n = 1; n < 100 && !again; n++) {
        memory_fail_at(n);
        again = log_adopt(log_block(event_log));
        memory_fail_at(0);
    }
    ck_assert_ptr_nonnull(again);
    log_unref(again);
}
