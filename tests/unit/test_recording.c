/*
 * The way of a backend's records into the log: translation, filtering, losses.
 */
#include "tests/unit/scripted.h"
#include "tests/unit/unit.h"

SUITE_SETUP(recording, scripted_setup, scripted_teardown);

/* ---- samples ---- */

TEST(a_sample_is_logged_unchanged)
{
    const struct record_sample *sample;

    record_samples(true);
    script_sample(5, 100, RECORD_USERMODE, 0x401000);
    drain();
    sample = nth(RECORD_SAMPLE, 0);
    ck_assert_ptr_nonnull(sample);
    ck_assert_uint_eq(sample->ip, 0x401000);
    ck_assert_uint_eq(sample->pid, 100);
    ck_assert_uint_eq(sample->time, 5);
}

TEST(kernel_samples_are_withheld_counted_and_reported_once_per_drain)
{
    const struct record_note *drop;
    struct log_stats stats;

    record_samples(false);
    script_sample(1, 100, RECORD_KERNEL, KERNEL);
    script_sample(2, 100, RECORD_USERMODE, 0x401000);
    script_sample(3, 100, RECORD_KERNEL, KERNEL);
    drain();
    ck_assert_uint_eq(count_type(RECORD_SAMPLE), 1);
    ck_assert_uint_eq(count_type(RECORD_DROP), 1);
    drop = nth(RECORD_DROP, 0);
    ck_assert(text_is(drop, "hidden"));
    ck_assert_uint_eq(drop->value[0], 2);
    log_stats(sc.log, &stats);
    ck_assert_uint_eq(stats.hidden, 2);
}

TEST(an_address_of_the_kernel_is_withheld_whatever_the_mode)
{
    record_samples(false);
    script_sample(1, 100, RECORD_USERMODE, KERNEL);
    drain();
    ck_assert_uint_eq(count_type(RECORD_SAMPLE), 0);
}

TEST(a_user_with_the_right_gets_kernel_samples_and_frames)
{
    const uint64_t frames[] = {FRAME_KERNEL, KERNEL, FRAME_USER, 0x401000};
    const struct record_sample *sample;

    record_samples(true);
    script_chain(RECORD_KERNEL, KERNEL, frames, 4);
    drain();
    sample = nth(RECORD_SAMPLE, 0);
    ck_assert_uint_eq(sample->n_frames, 4);
    ck_assert_uint_eq(sample->frame[1], KERNEL);
}

TEST(frames_of_the_kernel_are_cut_and_those_of_the_user_stay)
{
    const uint64_t frames[] = {FRAME_KERNEL, KERNEL, 0x1234,  FRAME_USER,
                               0x401000,     KERNEL, 0x402000};
    const struct record_sample *sample;

    record_samples(false);
    script_chain(RECORD_USERMODE, 0x401000, frames, 7);
    script_sample(2, 100, RECORD_USERMODE, 0x403000);
    drain();
    sample = nth(RECORD_SAMPLE, 0);
    ck_assert_uint_eq(sample->n_frames, 3);
    ck_assert_uint_eq(sample->frame[0], FRAME_USER);
    ck_assert_uint_eq(sample->frame[1], 0x401000);
    ck_assert_uint_eq(sample->frame[2], 0x402000);
    ck_assert(record_is_valid(&sample->head, sc.taken.len));
    ck_assert_uint_eq(((const struct record_sample *)nth(RECORD_SAMPLE, 1))->ip, 0x403000);
}

TEST(data_after_removed_frames_stays)
{
    static const uint64_t frames[] = {FRAME_KERNEL, KERNEL, FRAME_USER, 0x4000};
    static const uint64_t after_frames[] = {REGISTERS_WORD(1, 1), 70, 8, 0x5a, 8};
    struct record_sample *printed;
    const struct record_sample *sample;
    struct sample_parts parts;

    record_samples(false);
    script_chain(RECORD_USERMODE, 0x4000, frames, 4);
    buf_add(&sc.script, after_frames, sizeof(after_frames));
    printed = (struct record_sample *)sc.script.data;
    printed->head.size = (uint16_t)sc.script.len;
    printed->head.misc |= RECORD_STACK;
    drain();
    sample = nth(RECORD_SAMPLE, 0);
    ck_assert_ptr_nonnull(sample);
    ck_assert_uint_eq(sample_frames(sample), 2);
    ck_true(sample_parts(sample, &parts));
    ck_assert_uint_eq(parts.registers[0], 70);
    ck_assert_uint_eq(parts.stack[1], 0x5a);
}

/* ---- PIDs ---- */

TEST(all_pids_are_of_the_openers_namespace)
{
    const struct record_sample *sample;
    const struct record_task *task;
    const struct record_comm *comm;
    const struct record_map *map;

    record_for_outside();
    script_sample(1, 100, RECORD_USERMODE, 0x401000);
    record_add_comm(&sc.script, 2, 100, 1001, "x", 0);
    record_add_task(&sc.script, RECORD_FORK, 3, 102, 100, 102, 1001);
    script_map(4, 100, 0x500000, 0x1000, "/lib/a.so");
    drain();
    sample = nth(RECORD_SAMPLE, 0);
    ck_assert_uint_eq(sample->pid, 100 + FAKE_OUTSIDE);
    ck_assert_uint_eq(sample->tid, 100 + FAKE_OUTSIDE);
    comm = nth(RECORD_COMM, 0);
    ck_assert_uint_eq(comm->pid, 100 + FAKE_OUTSIDE);
    ck_assert_uint_eq(comm->tid, 1001 + FAKE_OUTSIDE);
    task = nth(RECORD_FORK, 0);
    ck_assert_uint_eq(task->pid, 102 + FAKE_OUTSIDE);
    ck_assert_uint_eq(task->ppid, 100 + FAKE_OUTSIDE);
    ck_assert_uint_eq(task->tid, 102 + FAKE_OUTSIDE);
    ck_assert_uint_eq(task->ptid, 1001 + FAKE_OUTSIDE);
    ck_assert_uint_eq(task->tail.pid, 102 + FAKE_OUTSIDE);
    map = nth(RECORD_MAP, 0);
    ck_assert_uint_eq(map->pid, 100 + FAKE_OUTSIDE);
}

TEST(a_pid_outside_the_namespace_is_0)
{
    record_for_outside();
    sc.host.unseen = 101;
    script_sample(1, 101, RECORD_USERMODE, 0x401000);
    script_sample(2, NOBODY, RECORD_USERMODE, 0x401000);
    drain();
    ck_assert_uint_eq(((const struct record_sample *)nth(RECORD_SAMPLE, 0))->pid, 0);
    ck_assert_uint_eq(((const struct record_sample *)nth(RECORD_SAMPLE, 1))->pid, 0);
}

TEST(the_kernels_maps_keep_their_number)
{
    record_for_outside();
    script_map(1, NOBODY, KERNEL, 0x1000, "[module]");
    drain();
    ck_assert_uint_eq(((const struct record_map *)nth(RECORD_MAP, 0))->pid, NOBODY);
}

TEST(a_user_without_the_right_gets_no_kernel_addresses)
{
    struct buf found = {0};

    record_samples(false);
    script_map(1, NOBODY, KERNEL, 0x1000, "[module]");
    drain();
    ck_assert_uint_eq(count_type(RECORD_MAP), 0);
    recording_inventory(sc.recording, 100, 1, &found);
    ck_assert_ptr_null(memmem(found.data, found.len, "kallsyms", 8));
    buf_free(&found);
}

TEST(the_pids_of_an_exited_thread_and_process_are_forgotten)
{
    record_for_outside();
    record_add_comm(&sc.script, 1, 100, 100, "x", 0);
    record_add_task(&sc.script, RECORD_FORK, 2, 100, 100, 1001, 100);
    drain();
    sc.host.forgotten = 0;
    record_add_task(&sc.script, RECORD_EXIT, 3, 100, 50, 1001, 50);
    drain();
    ck_assert_uint_eq(sc.host.forgotten, 1);
    record_add_task(&sc.script, RECORD_EXIT, 4, 100, 50, 100, 50);
    drain();
    ck_assert_uint_eq(sc.host.forgotten, 2);
}

/* ---- execs and maps ---- */

TEST(an_exec_without_a_path_is_logged_with_its_name)
{
    record_samples(true);
    script_exec(1, 100, "cc1");
    script_sample(2, 100, RECORD_USERMODE, 0x401000);
    script_map(3, 100, 0x400000, 0x1000, "/lib/later.so");
    script_exec(4, 101, "as");
    record_add_task(&sc.script, RECORD_EXIT, 5, 101, 50, 101, 50);
    drain();
    ck_assert_uint_eq(count_type(RECORD_EXEC), 2);
    ck_assert(text_is(nth(RECORD_EXEC, 0), "cc1"));
    ck_assert(text_is(nth(RECORD_EXEC, 1), "as"));
    ck_assert(comes_before(RECORD_EXEC, RECORD_SAMPLE));
}

TEST(a_map_that_is_not_a_file_is_not_the_path_of_an_exec)
{
    record_samples(true);
    script_exec(1, 100, "x");
    script_map(2, 100, 0x7ff000, 0x1000, "[stack]");
    script_map(2, 100, 0x7fe000, 0x1000, "//anon");
    script_map(3, 100, 0x400000, 0x1000, "/bin/x");
    drain();
    ck_assert(text_is(nth(RECORD_EXEC, 0), "/bin/x"));
}

TEST(many_execs_at_once_are_all_logged)
{
    record_samples(true);
    for (uint32_t pid = 1000; pid < 1100; pid++)
        script_exec(1, pid, "x");
    for (uint32_t pid = 1000; pid < 1100; pid++)
        script_map(2, pid, 0x400000, 0x1000, "/bin/x");
    drain();
    ck_assert_uint_eq(count_type(RECORD_EXEC), 100);
}

/* The kernel writes an EXIT record also when it removes its events from a process at an exec. */
TEST(an_exit_right_after_an_exec_is_not_the_exit_of_the_process)
{
    record_counts(false, true);
    script_step(1, 100, 100, 7, 0);
    script_exec(2, 100, "su");
    record_add_task(&sc.script, RECORD_EXIT, 3, 100, 50, 100, 50);
    drain();
    ck_assert(text_is(nth(RECORD_EXEC, 0), "su"));
    ck_assert_uint_eq(count_type(RECORD_EXIT) + count_type(RECORD_COUNT), 0);
    record_add_task(&sc.script, RECORD_FORK, 4, 100, 50, 100, 50);
    drain();
}

TEST(an_exit_after_the_first_map_or_a_loss_is_the_exit)
{
    record_samples(true);
    script_exec(1, 100, "su");
    script_map(2, 100, 0x400000, 0x1000, "/bin/su");
    record_add_task(&sc.script, RECORD_EXIT, 3, 100, 50, 100, 50);
    script_exec(4, 101, "su");
    record_add_lost(&sc.script, 5, 0, 1);
    record_add_task(&sc.script, RECORD_EXIT, 6, 101, 50, 101, 50);
    drain();
    ck_assert_uint_eq(count_type(RECORD_EXIT), 2);
}

TEST(a_fork_that_reuses_the_pid_of_a_process_logs_its_exec)
{
    record_samples(true);
    script_exec(1, 100, "su"); /* its exit was not recorded: it was on an unobserved CPU */
    record_add_task(&sc.script, RECORD_FORK, 2, 100, 50, 100, 50);
    script_map(3, 100, 0x400000, 0x1000, "/bin/su");
    drain();
    ck_assert_uint_eq(count_type(RECORD_EXEC), 1);
    ck_assert(text_is(nth(RECORD_EXEC, 0), "su"));
    ck_assert(comes_before(RECORD_EXEC, RECORD_FORK));
}

TEST(a_repeated_map_replaces_nothing)
{
    record_samples(true);
    script_map(1, 100, 0x10000, 0x1000, "/lib/a.so");
    script_map(2, 100, 0x10000, 0x1000, "/lib/a.so");
    drain();
    ck_assert_uint_eq(count_type(RECORD_UNMAP), 0);
}

TEST(a_pmc_that_only_counts_has_execs_but_no_maps)
{
    record_counts(true, false);
    script_exec(1, 100, "x");
    script_map(2, 100, 0x400000, 0x1000, "/bin/x");
    drain();
    ck_assert(text_is(nth(RECORD_EXEC, 0), "/bin/x"));
    ck_assert_uint_eq(count_type(RECORD_MAP), 0);
}

/* ---- switch and exit records ---- */

static void script_sched(uint64_t time, uint32_t pid, unsigned misc)
{
    const struct {
        struct record head;
        struct record_tail tail;
    } sched = {{RECORD_SCHED, (uint16_t)misc, sizeof(sched)},
               {.pid = pid, .tid = pid, .time = time}};

    buf_add(&sc.script, &sched, sizeof(sched));
}

TEST(a_run_record_has_the_time_since_the_same_thread_left_its_cpu)
{
    const struct record_note *run;
    struct buf found = {0};

    record_samples(true);
    recording_inventory(sc.recording, 100, 1, &found);
    buf_free(&found);
    script_sched(10, 100, RECORD_OFF);
    script_sched(15, 100, 0);
    script_sched(20, 100, RECORD_OFF);
    record_add_task(&sc.script, RECORD_FORK, 30, 100, 101, 100, 101);
    script_sched(40, 100, 0);
    drain();
    run = nth(RECORD_RUN, 0);
    ck_assert_uint_eq(run->n, 1);
    ck_assert_uint_eq(run->value[0], 5);
    run = nth(RECORD_RUN, 1);
    ck_assert_uint_eq(run->n, 0);
}

TEST(the_exit_of_a_process_outside_the_namespace_is_not_logged)
{
    record_for_outside();
    sc.host.unseen = 101;
    record_add_comm(&sc.script, 1, 101, 101, "x", 0);
    record_add_task(&sc.script, RECORD_EXIT, 2, 101, 50, 101, 50);
    drain();
    ck_assert_uint_eq(count_type(RECORD_EXIT), 1);
    ck_assert_uint_eq(count_type(RECORD_COUNT), 0);
}
