/*
 * The life of a recording: creation, drains, holds, inventories, a later worker.
 */
#include "tests/unit/scripted.h"
#include "tests/unit/unit.h"

#include "core/base/arena.h"

#include <errno.h>

SUITE_SETUP(recording_life, scripted_setup, scripted_teardown);

/* ---- drains ---- */

TEST(a_held_recording_is_not_drained)
{
    struct drain_result drained;

    record_samples(true);
    script_sample(1, 100, RECORD_USERMODE, 0x401000);
    recording_hold(sc.recording, true);
    ck_assert(!recording_drain(sc.recording, true, &drained));
    ck_assert(!drained.any);
    ck_assert_uint_eq(log_last(sc.log), 0);
    recording_hold(sc.recording, false);
    ck_assert(recording_drain(sc.recording, false, &drained));
    ck_assert(drained.any);
    ck_assert_uint_eq(log_last(sc.log), 1);
}

TEST(a_drain_returns_whether_there_were_records)
{
    struct drain_result drained;

    record_samples(false);
    ck_assert(recording_drain(sc.recording, false, &drained));
    ck_assert(!drained.any);
    script_sample(1, 100, RECORD_KERNEL, KERNEL);
    ck_assert(recording_drain(sc.recording, false, &drained));
    ck_assert(drained.any); /* although the sample was hidden */
}

TEST(many_records_come_in_order_and_none_is_missing)
{
    record_samples(true);
    for (uint64_t i = 0; i < 5000; i++)
        script_sample(i, 100, RECORD_USERMODE, i);
    drain();
    ck_assert_uint_eq(count_type(RECORD_SAMPLE), 5000);
    ck_assert_uint_eq(((const struct record_sample *)nth(RECORD_SAMPLE, 4999))->ip, 4999);
}

/* ---- existing processes ---- */

static unsigned found_types(const struct buf *found, unsigned type, uint32_t pid)
{
    unsigned n = 0;

    for (size_t at = 0; at < found->len;) {
        const struct record *record = (const struct record *)(found->data + at);

        ck_assert(record_is_valid(record, found->len - at));
        /* pid is the first field after the header in both */
        n += record->type == type && *(const uint32_t *)(record + 1) == pid;
        at += record->size;
    }
    return n;
}

TEST(an_inventory_has_threads_and_maps_with_pids_of_the_openers_namespace)
{
    struct buf found = {0};

    record_for_outside();
    recording_inventory(sc.recording, 101, 9, &found);
    ck_assert_uint_eq(found_types(&found, RECORD_COMM, 101 + FAKE_OUTSIDE), 2);
    ck_assert_uint_eq(found_types(&found, RECORD_MAP, 101 + FAKE_OUTSIDE), 1);
    ck_assert_uint_eq(log_last(sc.log), 0);
    buf_free(&found);
}

TEST(the_kernel_is_found_once)
{
    struct buf found = {0};

    record_samples(true);
    recording_inventory(sc.recording, 100, 9, &found);
    recording_inventory(sc.recording, 0, 10, &found);
    ck_assert_uint_eq(found_types(&found, RECORD_MAP, NOBODY), 1);
    ck_assert_uint_eq(found_types(&found, RECORD_MAP, 100), 2);
    ck_assert_uint_eq(found_types(&found, RECORD_MAP, 101), 1);
    buf_free(&found);
}

TEST(found_maps_are_replaced_by_new_records)
{
    struct buf found = {0};

    record_samples(true);
    recording_inventory(sc.recording, 100, 9, &found);
    script_map(10, 100, FAKE_MAP_START, 0x1000, "/lib/new.so");
    drain();
    ck_assert(text_is(nth(RECORD_UNMAP, 0), FAKE_MAP_PATH));
    buf_free(&found);
}

TEST(a_process_has_exited_after_all_its_found_threads)
{
    struct buf found = {0};

    record_samples(true);
    recording_inventory(sc.recording, 101, 9, &found);
    record_add_task(&sc.script, RECORD_EXIT, 10, 101, 50, 101, 50);
    drain();
    ck_assert_uint_eq(count_type(RECORD_COUNT), 0);
    record_add_task(&sc.script, RECORD_EXIT, 11, 101, 50, 1011, 50);
    drain();
    ck_assert_uint_eq(count_type(RECORD_COUNT), 1);
    buf_free(&found);
}

TEST(the_inventory_of_a_counting_pmc_has_names_only)
{
    struct buf found = {0};

    record_counts(false, true);
    recording_inventory(sc.recording, 101, 9, &found);
    ck_assert_uint_eq(found_types(&found, RECORD_COMM, 101), 2);
    ck_assert_uint_eq(found_types(&found, RECORD_MAP, 101), 0);
    buf_free(&found);
}

/* ---- opening and closing ---- */

TEST(a_refusal_of_the_backend_leaves_the_view_to_the_caller)
{
    struct recording_plan plan = scripted_plan();
    struct err err;

    fake_find(&sc.host, 100)->outside = true;
    ck_assert_int_eq(fake_host.view_open(&sc.host, 100, &plan.view), 0);
    plan.recorder.fds_left = 1;
    ck_assert_int_eq(recording_new(&plan, &sc.recording, &err), -EMFILE);
    ck_assert_int_eq(err.id, P10);
    sc.recording = NULL;
    fake_host.view_free(plan.view);
}

TEST(descriptors_are_those_of_recorder_and_view)
{
    record_for_outside();
    ck_assert_uint_eq(recording_fds(sc.recording), 3);
}

TEST(a_recording_lives_until_its_last_reference)
{
    struct recording *second;

    record_samples(true);
    second = recording_ref(sc.recording);
    recording_unref(sc.recording);
    ck_assert_uint_eq(sc.n_recorders, 1);
    sc.recording = second;
}

/* Prints the recording, forgets it and adopts it, as a later worker does. */
static void reload(const struct recording_plan *plan)
{
    struct buf text = {0};
    struct drain_result drained;

    recording_drain(sc.recording, true, &drained);
    recording_print(sc.recording, &text);
    ck_assert_ptr_null(strchr(buf_text(&text), '\n'));
    recording_forget(sc.recording);
    sc.recording = NULL;
    ck_assert_int_eq(recording_adopt(plan, true, buf_text(&text), &sc.recording), 0);
    buf_free(&text);
}

TEST(records_during_the_inventory_survive_a_reload)
{
    const struct recording_plan plan = scripted_plan();
    struct buf found = {0};

    record_samples(true);
    script_sample(7, 100, RECORD_USERMODE, 0x401000);
    recording_inventory(sc.recording, 100, 1, &found);
    reload(&plan);
    drain();
    ck_assert_uint_eq(count_type(RECORD_SAMPLE), 1);
    buf_free(&found);
}

TEST(recording_continues_in_a_later_worker)
{
    struct recording_plan plan;
    struct buf found = {0};

    record_for_outside();
    recording_inventory(sc.recording, 101, 1, &found);
    script_exec(2, 100, "two words");
    drain();
    plan = scripted_plan();
    reload(&plan);
    buf_clear(&found);
    recording_inventory(sc.recording, 101, 3, &found);
    record_add_task(&sc.script, RECORD_EXIT, 4, 101, 50, 101, 50);
    drain();
    ck_assert_uint_eq(count_type(RECORD_COUNT), 0); /* another thread of the process still runs */
    buf_clear(&found);
    recording_inventory(sc.recording, 100, 5, &found);
    ck_assert_uint_eq(found_types(&found, RECORD_MAP, NOBODY), 0); /* already reported */
    buf_free(&found);
}

/* The log has the inventory of the earlier worker. Records in the rings may be older than a new
 * inventory. */
TEST(a_later_worker_logs_no_inventory)
{
    const struct recording_plan plan = scripted_plan();

    record_samples(true);
    reload(&plan);
    recording_queue_inventory(sc.recording, 100);
    recording_queue_inventory(sc.recording, 101);
    record_add_comm(&sc.script, 2, 100, 100, "before", 0);
    record_add_task(&sc.script, RECORD_EXIT, 3, 101, 50, 101, 50);
    record_add_task(&sc.script, RECORD_EXIT, 4, 101, 50, 1011, 50);
    drain();
    ck_assert_uint_eq(count_type(RECORD_COMM), 1);
    ck_assert_uint_eq(count_type(RECORD_MAP), 0);
    ck_assert_uint_eq(count_type(RECORD_EXIT), 2);
    ck_assert_uint_eq(count_type(RECORD_COUNT), 1); /* after the last thread */
}

/* Process 101 of the inventory reuses the number of a process whose exit is still in the ring. */
TEST(an_exit_from_before_the_inventory_counts_once)
{
    const struct recording_plan plan = scripted_plan();

    record_samples(true);
    reload(&plan);
    recording_queue_inventory(sc.recording, 101);
    record_add_task(&sc.script, RECORD_EXIT, 2, 101, 50, 101, 50);
    record_add_task(&sc.script, RECORD_FORK, 3, 101, 50, 101, 50);
    record_add_task(&sc.script, RECORD_FORK, 4, 101, 101, 1011, 101);
    drain();
    ck_assert_uint_eq(count_type(RECORD_COUNT), 1);
    record_add_task(&sc.script, RECORD_EXIT, 5, 101, 50, 101, 50);
    drain();
    ck_assert_uint_eq(count_type(RECORD_COUNT), 0);
    record_add_task(&sc.script, RECORD_EXIT, 6, 101, 101, 1011, 101);
    drain();
    ck_assert_uint_eq(count_type(RECORD_COUNT), 1);
}

static uint64_t value_of(unsigned type)
{
    const struct record_note *note = nth(type, 0);

    return note && note->n == 1 ? note->value[0] : 0;
}

static void put_remainder(uint64_t counted)
{
    recording_put_remainder(sc.recording, 0, 9, &counted, true);
    drain();
}

/* The line of version 0.2 starts with the number of a block of three totals, and has no "=". */
TEST(totals_of_version_0_2_are_continued)
{
    struct recording_plan plan = scripted_plan();
    const size_t bytes = 3 * sizeof(uint64_t);
    const uint64_t block = arena_alloc(bytes);
    struct buf line = {0};

    plan.samples = false;
    plan.switches = plan.exits = true;
    ((uint64_t *)arena_at(block, bytes))[0] = 7; /* in SWITCH records */
    ((uint64_t *)arena_at(block, bytes))[1] = 4; /* in COUNT records */
    buf_printf(&line, "%llu scripted 0", (unsigned long long)block);
    ck_assert_int_eq(recording_adopt(&plan, true, buf_text(&line), &sc.recording), 0);
    buf_free(&line);
    put_remainder(9);
    ck_assert_uint_eq(value_of(RECORD_SWITCH), 2);
    ck_assert_uint_eq(value_of(RECORD_COUNT), 5);
    for (unsigned i = 0; i < 2; i++) { /* the line of this version */
        reload(&plan);
        put_remainder(10 + i);
        ck_assert_uint_eq(value_of(RECORD_SWITCH), 1);
        ck_assert_uint_eq(value_of(RECORD_COUNT), 1);
    }
}

/* The worker is killed while records are in the batch: the log does not have them. */
TEST(counts_that_are_not_in_the_log_yet_are_in_the_remainder_of_a_later_worker)
{
    struct recording_plan plan = scripted_plan();
    struct recording *killed;
    struct buf line = {0};

    plan.samples = false;
    plan.switches = plan.exits = true;
    record_counts(true, true);
    script_step(1, 100, 100, 5, 0);
    drain();
    recording_print(sc.recording, &line);
    killed = sc.recording;
    script_step(2, 100, 100, 6, 0);
    sc.kill = true;
    drain();
    sc.kill = false;
    ck_assert_uint_eq(count_type(RECORD_SWITCH), 0);
    ck_assert_int_eq(recording_adopt(&plan, true, buf_text(&line), &sc.recording), 0);
    buf_free(&line);
    put_remainder(11);
    ck_assert_uint_eq(value_of(RECORD_SWITCH), 6);
    recording_hold(killed, false);
    recording_forget(killed);
}

TEST(a_text_that_was_not_printed_is_not_adopted)
{
    const struct recording_plan plan = scripted_plan();

    ck_assert_int_eq(recording_adopt(&plan, true, "", &sc.recording), -EINVAL);
    ck_assert_int_eq(recording_adopt(&plan, true, "9 x", &sc.recording), -EINVAL);
}
