/*
 * Switch and exit records: made from forks, exits and context switches, and their sums.
 */
#include "core/base/event.h"
#include "core/log/exits.h"

#include "tests/unit/unit.h"

#include <inttypes.h>
#include <stdlib.h>

static struct exits *exits;
static struct buf out;  /* records */
static struct buf text; /* the same as lines */
static uint64_t now;
static uint64_t sums[65536]; /* the count of each thread */
static uint64_t groups;      /* id of the event groups of these counts */

static void before(void)
{
    exits = exits_new(1, true, true);
    ck_assert_ptr_nonnull(exits);
    out = (struct buf){0};
    text = (struct buf){0};
    now = 100;
    memset(sums, 0, sizeof(sums));
}

static void after(void)
{
    exits_free(exits);
    buf_free(&out);
    buf_free(&text);
}

SUITE_SETUP(exits, before, after);

/* Clears `out`, and returns its records as lines: "csw PID TID VALUE… [last] [incomplete]", "exit
 * PID VALUE… [incomplete] [exact]". */
static const char *printed(void)
{
    buf_clear(&text);
    for (size_t at = 0; at < out.len;) {
        const struct record_note *note = (const struct record_note *)(out.data + at);
        bool step = note->head.type == RECORD_SWITCH;

        ck_true(record_is_valid(&note->head, out.len - at));
        ck_true(step || note->head.type == RECORD_COUNT);
        buf_printf(&text, step ? "csw %u %u" : "exit %u", note->pid, note->tid);
        for (unsigned i = 0; i < note->n; i++)
            buf_printf(&text, " %" PRIu64, note->value[i]);
        if (note->head.misc & RECORD_LAST)
            buf_str(&text, " last");
        if (note->head.misc & RECORD_INCOMPLETE)
            buf_str(&text, " incomplete");
        buf_str(&text, note->head.misc & RECORD_EXACT ? " exact\n" : "\n");
        at += note->head.size;
    }
    buf_clear(&out);
    return buf_text(&text);
}

#define ck_printed(expected) ck_assert_str_eq(printed(), expected)

static void take(struct buf *records)
{
    exits_apply(exits, (const struct record *)records->data, &out);
    buf_free(records);
}

static void task(enum record_type type, uint32_t pid, uint32_t ppid, uint32_t tid, uint32_t ptid)
{
    struct buf records = {0};

    record_add_task(&records, type, now++, pid, ppid, tid, ptid);
    take(&records);
}

static uint64_t *sum_at(uint32_t pid, uint32_t tid, unsigned i);

static void birth(uint32_t ppid, uint32_t pid)
{
    *sum_at(pid, pid, 0) = 0;
    task(RECORD_FORK, pid, ppid, pid, ppid);
}

static void thread_birth(uint32_t pid, uint32_t tid)
{
    task(RECORD_FORK, pid, pid, tid, pid);
}

static void end(uint32_t pid, uint32_t tid)
{
    task(RECORD_EXIT, pid, 1, tid, 1);
}

static void name(uint32_t pid, uint32_t tid, unsigned misc)
{
    struct buf records = {0};

    record_add_comm(&records, now++, pid, tid, "sh", misc);
    take(&records);
}

static void lose(void)
{
    struct buf records = {0};

    record_add_lost(&records, now++, 0, 3);
    take(&records);
}

static uint64_t *sum_at(uint32_t pid, uint32_t tid, unsigned i)
{
    return &sums[(pid * 7 + tid + 1000 * i) % 65536];
}

/* Attached again: each thread has groups that start at zero. */
static void attached_again(void)
{
    memset(sums, 0, sizeof(sums));
    groups++;
}

static void steps(uint32_t pid, uint32_t tid, unsigned misc, unsigned n, const uint64_t *step)
{
    uint64_t value[1 + SET_MAX] = {groups};
    struct buf records = {0};

    for (unsigned i = 0; i < n; i++)
        value[1 + i] = *sum_at(pid, tid, i) += step[i];
    record_add_note(&records, &(struct note){.type = RECORD_VALUES,
                                             .misc = misc,
                                             .time = now++,
                                             .pid = pid,
                                             .tid = tid,
                                             .id = LOG_ID(1, 0),
                                             .n = 1 + n,
                                             .value = value});
    take(&records);
}

static void step(uint32_t pid, uint32_t tid, uint64_t value)
{
    steps(pid, tid, 0, 1, &value);
}

/* The last context switch, with all values, and the exit. */
static void last(uint32_t pid, uint32_t tid, uint64_t value)
{
    steps(pid, tid, RECORD_LAST | RECORD_EXACT, 1, &value);
    end(pid, tid);
}

static void add_remainders(uint64_t counted, bool over)
{
    exits_remainder(exits, now++, &counted, over, &out);
}

static void exits_recreate(unsigned n, bool switches, bool want_exits)
{
    exits_free(exits);
    exits = exits_new(n, switches, want_exits);
    ck_assert_ptr_nonnull(exits);
}

TEST(a_process_exits_with_its_last_thread)
{
    thread_birth(10, 11);
    thread_birth(10, 12);
    last(10, 10, 1);
    last(10, 12, 2);
    ck_printed("csw 10 10 1 last\ncsw 10 12 2 last\n");
    last(10, 11, 4);
    ck_printed("csw 10 11 4 last\nexit 10 7 exact\n");
}

TEST(threads_that_were_there_before_are_waited_for)
{
    name(10, 10, RECORD_FOUND);
    name(10, 11, RECORD_FOUND);
    last(10, 10, 1);
    ck_printed("csw 10 10 1 last\n");
    last(10, 11, 2);
    ck_printed("csw 10 11 2 last\nexit 10 3 exact\n");
}

TEST(a_process_that_the_inventory_found_before_its_fork_exits_once)
{
    name(20, 20, RECORD_FOUND);
    birth(10, 20);
    last(20, 20, 3);
    ck_printed("csw 20 20 3 last\nexit 20 3 exact\n");
    name(10, 11, RECORD_FOUND);
    thread_birth(10, 11);
    last(10, 11, 4);
    last(10, 10, 5);
    ck_printed("csw 10 11 4 last\ncsw 10 10 5 last\nexit 10 9 exact\n");
}

TEST(a_fork_that_reuses_the_pid_of_a_found_process_starts_at_zero)
{
    name(20, 20, RECORD_FOUND);
    step(20, 20, 5);
    birth(10, 20); /* the exit was not recorded: it was on an unobserved CPU */
    ck_printed("csw 20 20 5\nexit 20 5\n");
    last(20, 20, 7);
    ck_printed("csw 20 20 7 last\nexit 20 7 exact\n");
}

TEST(a_fork_after_a_mapping_of_a_found_process_reuses_its_pid)
{
    for (unsigned misc = 0; misc <= RECORD_FOUND; misc += RECORD_FOUND) {
        const struct map_facts map = {.pid = 20, .tid = 20, .length = 4096, .path = "/bin/sh"};
        struct buf records = {0};

        name(20, 20, RECORD_FOUND);
        record_add_map(&records, now++, &map, RECORD_USERMODE | misc);
        take(&records);
        birth(10, 20);
        ck_printed(misc ? "" : "exit 20 0\n");
        last(20, 20, 7);
        ck_printed("csw 20 20 7 last\nexit 20 7 exact\n");
    }
}

TEST(an_end_without_a_last_step_is_not_exact)
{
    step(10, 10, 5);
    end(10, 10);
    ck_printed("csw 10 10 5\nexit 10 5\n");
}

TEST(one_thread_without_a_last_step_is_enough_not_to_be_exact)
{
    thread_birth(10, 11);
    end(10, 11);
    last(10, 10, 5);
    ck_printed("csw 10 10 5 last\nexit 10 5\n");
}

TEST(a_process_that_counted_nothing_has_a_zero)
{
    birth(10, 20);
    last(20, 20, 0);
    ck_printed("csw 20 20 0 last\nexit 20 0 exact\n");
    birth(10, 21);
    end(21, 21);
    ck_printed("exit 21 0\n");
}

TEST(the_exit_of_an_unknown_process_is_logged)
{
    end(30, 30);
    ck_printed("exit 30 0\n");
}

TEST(a_loss_makes_the_tasks_of_that_time_inexact)
{
    step(10, 10, 5);
    lose();
    birth(10, 20);
    last(20, 20, 1);
    last(10, 10, 2);
    ck_printed("csw 10 10 5\ncsw 20 20 1 last\nexit 20 1 exact\n"
               "csw 10 10 2 last\nexit 10 7\n");
}

TEST(a_task_that_first_appears_after_a_loss_is_inexact)
{
    lose();
    step(10, 10, 5); /* may have been reported with another PID */
    last(10, 10, 2);
    ck_printed("csw 10 10 0 incomplete\ncsw 10 10 2 last\nexit 10 2\n");
}

TEST(a_reused_tid_ends_a_task_whose_exit_was_lost)
{
    birth(10, 20);
    step(20, 20, 4);
    lose();
    birth(10, 20);
    ck_printed("csw 20 20 4\nexit 20 4\n");
    last(20, 20, 1);
    ck_printed("csw 20 20 1 last\nexit 20 1 exact\n");
}

TEST(a_thread_number_used_again_by_another_process_leaves_the_first)
{
    thread_birth(10, 11);
    step(10, 11, 3);
    step(20, 11, 5);
    last(10, 10, 1);
    ck_printed("csw 10 11 3\ncsw 20 11 5\ncsw 10 10 1 last\nexit 10 4\n");
}

TEST(an_executing_thread_takes_the_pid_of_its_process)
{
    thread_birth(10, 11);
    step(10, 11, 3);
    last(10, 10, 1);
    name(10, 10, RECORD_EXECUTED);
    *sum_at(10, 10, 0) = *sum_at(10, 11, 0);
    step(10, 10, 4);
    ck_printed("csw 10 11 3\ncsw 10 10 1 last\ncsw 10 10 4\n");
    last(10, 10, 2);
    ck_printed("csw 10 10 2 last\nexit 10 10 exact\n");
}

TEST(without_switches_only_exits_are_logged)
{
    exits_recreate(1, false, true);
    step(10, 10, 5);
    last(10, 10, 1);
    add_remainders(9, true);
    ck_printed("exit 10 6 exact\nexit 0 3\n");
}

TEST(without_exits_only_switches_are_logged)
{
    exits_recreate(1, true, false);
    step(10, 10, 5);
    last(10, 10, 1);
    add_remainders(9, true);
    ck_printed("csw 10 10 5\ncsw 10 10 1 last\ncsw 0 0 3 last\n");
}

TEST(without_values_exits_are_still_logged)
{
    exits_recreate(0, false, true);
    thread_birth(10, 11);
    end(10, 10);
    ck_printed("");
    end(10, 11);
    add_remainders(0, true);
    ck_printed("exit 10\n");
}

TEST(the_remainder_is_logged_once)
{
    step(10, 10, 5);
    add_remainders(8, false);
    add_remainders(8, false);
    ck_printed("csw 10 10 5\ncsw 0 0 3 last\n");
}

TEST(values_counted_before_the_last_switches_leave_no_remainder)
{
    step(10, 10, 5);
    add_remainders(4, true);
    ck_printed("csw 10 10 5\nexit 0 4\n");
}

TEST(exits_add_up_only_when_all_is_over)
{
    step(10, 10, 5);
    last(10, 10, 1);
    step(20, 20, 2);
    add_remainders(10, false);
    ck_printed("csw 10 10 5\ncsw 10 10 1 last\nexit 10 6 exact\ncsw 20 20 2\ncsw 0 0 2 last\n");
    add_remainders(10, true);
    ck_printed("exit 0 4\n");
}

TEST(a_switch_after_a_remainder_is_reduced_by_it)
{
    step(10, 10, 5);
    add_remainders(8, false); /* 3 of them belong to task 10 */
    ck_printed("csw 10 10 5\ncsw 0 0 3 last\n");
    step(10, 10, 7); /* includes these 3 */
    step(10, 10, 1);
    add_remainders(13, false);
    ck_printed("csw 10 10 4\ncsw 10 10 1\n");
}

TEST(a_task_with_counts_in_a_remainder_exits_with_its_complete_count)
{
    step(10, 10, 5);
    add_remainders(8, false);
    last(10, 10, 7);
    add_remainders(12, true);
    ck_printed("csw 10 10 5\ncsw 0 0 3 last\ncsw 10 10 4 last\nexit 10 12 exact\n");
}

TEST(a_task_born_after_a_remainder_has_nothing_to_subtract)
{
    step(10, 10, 5);
    add_remainders(8, false);
    birth(10, 20);
    last(20, 20, 2);
    ck_printed("csw 10 10 5\ncsw 0 0 3 last\ncsw 20 20 2 last\nexit 20 2 exact\n");
    step(10, 10, 3);
    add_remainders(10, false);
    ck_printed("");
}

TEST(a_step_that_spans_a_reset_is_not_logged)
{
    step(10, 10, 5);
    add_remainders(8, false);
    exits_reset(exits, false);
    birth(10, 20);
    ck_printed("csw 10 10 5\ncsw 0 0 3 last\n");
    step(10, 10, 4); /* includes 3 of before the reset */
    step(10, 10, 2);
    last(10, 10, 1);
    last(20, 20, 6);
    add_remainders(10, true);
    ck_printed("csw 10 10 2\ncsw 10 10 1 last\nexit 10 3\n"
               "csw 20 20 6 last\nexit 20 6 exact\ncsw 0 0 1 last\nexit 0 1\n");
}

TEST(a_step_that_spans_a_restart_is_not_logged)
{
    step(10, 10, 5);
    birth(10, 20);
    exits_reset(exits, true);
    birth(10, 30);
    ck_printed("csw 10 10 5\n");
    step(10, 10, 4); /* includes 3 of before the restart */
    step(10, 10, 2);
    last(20, 20, 6); /* includes 6 of before the restart */
    last(30, 30, 1);
    add_remainders(4, false);
    ck_printed("csw 10 10 0\ncsw 10 10 2\ncsw 20 20 0 last\nexit 20 0\n"
               "csw 30 30 1 last\nexit 30 1 exact\ncsw 0 0 1 last\n");
}

TEST(a_task_attached_again_after_the_end_restarts_and_is_not_exact)
{
    step(10, 10, 5);
    add_remainders(8, true);
    attached_again();
    step(10, 10, 2);
    last(10, 10, 1);
    add_remainders(11, true);
    ck_printed("csw 10 10 5\ncsw 0 0 3 last\nexit 0 8\n"
               "csw 10 10 2\ncsw 10 10 1 last\nexit 10 3\n");
}

TEST(a_task_that_left_and_is_observed_again_is_not_exact)
{
    step(10, 10, 5);
    tasks_leave(exits_tasks(exits), tasks_process(exits_tasks(exits), 10));
    attached_again();
    name(10, 10, RECORD_FOUND);
    last(10, 10, 1);
    add_remainders(6, true);
    ck_printed("csw 10 10 5\ncsw 10 10 1 last\nexit 10 1\nexit 0 5\n");
}

TEST(a_task_with_the_reused_tid_of_another_is_exact)
{
    step(10, 10, 5);
    tasks_leave(exits_tasks(exits), tasks_process(exits_tasks(exits), 10));
    birth(20, 10);
    last(10, 10, 1);
    ck_printed("csw 10 10 5\ncsw 10 10 1 last\nexit 10 1 exact\n");
}

TEST(a_task_that_left_before_a_reset_is_exact_again)
{
    step(10, 10, 5);
    add_remainders(5, true);
    exits_reset(exits, false);
    attached_again();
    name(10, 10, RECORD_FOUND);
    last(10, 10, 1);
    ck_printed("csw 10 10 5\nexit 0 5\ncsw 10 10 1 last\nexit 10 1 exact\n");
}

TEST(a_later_worker_continues_the_sums_and_is_not_exact)
{
    uint64_t totals[3];

    step(10, 10, 5);
    birth(10, 20);
    last(20, 20, 2);
    memcpy(totals, exits_totals(exits), sizeof totals);
    exits_recreate(1, true, true);
    exits_restore(exits, totals);
    printed();
    name(10, 10, RECORD_FOUND);
    step(10, 10, 3); /* part of it may have been reported */
    step(10, 10, 2);
    birth(10, 21);
    last(21, 21, 1);
    last(10, 10, 1);
    add_remainders(14, true);
    ck_printed("csw 10 10 0 incomplete\ncsw 10 10 2\ncsw 21 21 1 last\nexit 21 1 exact\n"
               "csw 10 10 1 last\nexit 10 3\ncsw 0 0 3 last incomplete\nexit 0 8 incomplete\n");
}

static uint64_t sum_of(enum record_type type)
{
    uint64_t sum = 0;

    for (size_t at = 0; at < out.len;) {
        const struct record_note *note = (const struct record_note *)(out.data + at);

        if (note->head.type == type)
            sum += note->value[0];
        at += note->head.size;
    }
    return sum;
}

/*
 * Neither switch nor exit records add up to more than the count; together with the remainders they
 * add up to the count.
 */
TEST(random_records_never_add_up_to_more_than_was_counted)
{
    enum {
        PEOPLE = 12
    };
    uint64_t pending[PEOPLE] = {0}, counted = 0;
    bool lives[PEOPLE] = {false};

    srand(7);
    lives[0] = true;
    for (unsigned i = 0; i < 20000; i++) {
        unsigned who = (unsigned)rand() % PEOPLE, what = (unsigned)rand() % 16;
        uint32_t pid = 10 + who;

        if (!lives[who] && what < 4) {
            birth(10, pid);
            lives[who] = true;
        } else if (lives[who] && what < 8) {
            uint64_t more = (uint64_t)rand() % 9;

            pending[who] += more;
            counted += more;
        } else if (lives[who] && what < 12) {
            step(pid, pid, pending[who]);
            pending[who] = 0;
        } else if (lives[who] && who && what == 12) {
            last(pid, pid, pending[who]);
            pending[who] = 0;
            lives[who] = false;
        } else if (what == 13 && i % 7 == 0) {
            add_remainders(counted, false);
            ck_assert_uint_eq(sum_of(RECORD_SWITCH), counted);
        } else if (what == 14 && i % 31 == 0) {
            add_remainders(counted, false);
            exits_reset(exits, false);
            buf_clear(&out);
            counted = 0;
        }
        ck_assert_uint_le(sum_of(RECORD_SWITCH), counted);
        ck_assert_uint_le(sum_of(RECORD_COUNT), counted);
    }
    add_remainders(counted, true);
    ck_assert_uint_eq(sum_of(RECORD_SWITCH), counted);
    ck_assert_uint_eq(sum_of(RECORD_COUNT), counted);
}

/* A process that moves to another CPU or cgroup exits where no record is seen. */
TEST(processes_that_end_elsewhere_are_not_kept_for_ever)
{
    exits_recreate(0, false, true);
    for (uint32_t pid = 2; pid < 200000; pid++)
        name(pid, pid, RECORD_EXECUTED);
    ck_assert_uint_le(HASH_COUNT(exits_tasks(exits)->processes), 65536);
    ck_printed("");
}
