/*
 * Counts: initial values, sums, exchange, reset, sets, wrapping, estimates, loss, long reads.
 */
#include "tests/unit/unit.h"

#include "core/pmc/count.h"
#include "core/pmc/pmc.h"
#include "core/state.h"
#include "tests/unit/fixture.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>

SUITE_SETUP(count, fixture_setup, fixture_close);

TEST(a_set_has_at_most_64_events)
{
    char text[2000] = "";

    ck_assert_int_eq(pmc_make("i"), 0);
    for (unsigned i = 0; i < 64; i++)
        strcat(text, "page-faults ");
    accepted("i", "event", text);
    accepted("i", "target", "100");
    pass_ms(1);
    ck_true(strncmp(read_file("i", "count"), "2\n2\n", 4) == 0);
    accepted("i", "ctl", "stop");
    strcat(text, "page-faults");
    refused("i", "event", text, EINVAL, P28);
}

TEST(multiplexed_counts_are_estimates)
{
    ck_assert_int_eq(pmc_make("i"), 0);
    accepted("i", "config", "event=cycles multiplex=on count=5 target=100");
    ck_assert_str_eq(read_file("i", "count"), "EAGAIN"); /* not 0 before the first start */
    ck_assert_int_eq(fx.err.id, P20);
    pass_ms(4);
    ck_assert_uint_eq(count_of("i"), 4000005);
    ck_assert_str_eq(value_of("i", "status", "running_ns"), "2000000");
    ck_assert_str_eq(value_of("i", "status", "row"), "-");
    accepted("i", "ctl", "stop");
    ck_assert_uint_eq(count_of("i"), 4000005);
    accepted("i", "count", "9");
    ck_assert_uint_eq(count_of("i"), 9);
}

TEST(armed_depends_on_the_present_counters)
{
    pmc_with("i", "task-clock", "100");
    pass_ms(5);
    accepted("i", "ctl", "stop");
    accepted("i", "config", "start=exec");
    accepted("i", "ctl", "start");
    ck_assert_str_eq(read_file("i", "ctl"), "armed\n");
    ck_assert_uint_eq(count_of("i"), 5000000);
    ck_assert_str_eq(value_of("i", "status", "state"), "armed");
    pass_ms(3);
    ck_assert_uint_eq(count_of("i"), 7000000);
    ck_assert_str_eq(read_file("i", "ctl"), "running\n");
}

static const char *const many = "100 101 102 103 104 105 106 107 108 109 200 201";

/* ---- parts of a count ---- */

static void parts_are(const char *target, unsigned total_ms, unsigned enabled_ms)
{
    const char *name = strcmp(target, "all") == 0 ? "-" : "fake";
    char lines[400];

    snprintf(lines, sizeof lines,
             "\nsum::cycles\t%s/big\t%u\t%u\t%u\t-\t-\t-\t-\t%s\n"
             "sum::cycles\t%s/small\t%u\t%u\t%u\t-\t-\t-\t-\t%s\n"
             "sum::cycles\t%s\t%u\t%u\t%u\t%u\tno\t-\t-\t%s\n",
             target, total_ms * 250000, enabled_ms * 1000000, total_ms * 250000, name, target,
             total_ms * 750000, enabled_ms * 1000000, total_ms * 750000, name, target,
             total_ms * 1000000, enabled_ms * 1000000, total_ms * 1000000, total_ms * 1000000,
             name);
    ck_assert_msg(strstr(read_file("i", "detail"), lines), "%s", read_file("i", "detail"));
}

TEST(detail_has_the_parts_of_a_count)
{
    fixture_close();
    fixture_open("sim_cpus=4 sim_class=big:4:48 sim_class=small:4:48 sim_class=sum:4:48");
    pmc_with("i", "sum::cycles", "100");
    pass_ms(1);
    parts_are("pid:100", 1, 1);
    parts_are("all", 1, 1);
    accepted("i", "ctl", "restart");
    parts_are("all", 0, 0);
    pass_ms(2);
    parts_are("pid:100", 2, 2);
    accepted("i", "target", "101");
    accepted("i", "target", "-100");
    pass_ms(1);
    parts_are("pid:101", 1, 1);
    parts_are("all", 3, 3); /* with those of the detached target */
    engine_reload();
    parts_are("pid:101", 1, 1);
    parts_are("all", 3, 3);
    accepted("i", "ctl", "stop");
    accepted("i", "count", "7");
    ck_assert_ptr_null(strstr(read_file("i", "detail"), "/big")); /* parts until the reset */
    accepted("i", "ctl", "reset");
    parts_are("pid:101", 0, 0);
    ck_assert_ptr_null(strstr(read_file("i", "detail"), "all/"));
    accepted("i", "count", "0");
    parts_are("all", 0, 0);
}

TEST(a_cpu_has_no_parts)
{
    fixture_close();
    fixture_open("sim_cpus=4 sim_class=big:4:48 sim_class=small:4:48 sim_class=sum:4:48");
    pmc_with("i", "sum::cycles page-faults", "cpu0");
    pass_ms(1);
    ck_assert_ptr_null(strstr(read_file("i", "detail"), "cpu:0/"));
    ck_assert_ptr_nonnull(strstr(read_file("i", "detail"), "sum::cycles\tall/big\t"));
    ck_assert_ptr_null(strstr(read_file("i", "detail"), "page-faults\tall/"));
}

/* ---- counters that cannot be read ---- */

TEST(a_failed_read_is_an_error_and_no_number)
{
    static const char *const files[] = {"count", "detail", "status", "ctl"};

    pmc_with("i", "task-clock", "100");
    pmc_with("m", "task-clock", many);
    pass_ms(1);
    for (unsigned i = 0; i < 4; i++) {
        fx.fail[FAIL_READ] = 1;
        ck_assert_str_eq(read_file("i", files[i]), "EIO");
        ck_assert_int_eq(fx.err.id, P14);
        fx.fail[FAIL_READ] = 5;
        ck_assert_str_eq(read_file("m", files[i]), "EIO");
        ck_assert_int_eq(fx.err.id, P14);
    }
    ck_assert_uint_eq(count_of("i"), 1000000);
    ck_assert_uint_eq(count_of("m"), 12000000);
    fx.fail[FAIL_READ] = 1;
    ck_assert_str_eq(read_file(NULL, "counts"),
                     "m\ttask-clock\t12000000\t12000000\t12000000\trunning\n");
}

TEST(a_read_that_may_wait_runs_as_a_slow_part)
{
    pmc_with("i", "task-clock", "100");
    pmc_with("m", "task-clock", many);
    pass_ms(1);
    fx.reads_wait = true;
    ck_assert_uint_eq(count_of("i"), 1000000);
    ck_assert_uint_eq(count_of("m"), 12000000);
    ck_assert_str_eq(read_file("i", "ctl"), "running\n");
    ck_assert_str_eq(read_file(NULL, "counts"),
                     "i\ttask-clock\t1000000\t1000000\t1000000\trunning\n"
                     "m\ttask-clock\t12000000\t12000000\t12000000\trunning\n");
    accepted("i", "ctl", "restart");
    ck_assert_uint_eq(count_of("i"), 0);
}

TEST(a_failed_read_does_not_change_the_count)
{
    pmc_with("i", "task-clock", "100");
    pass_ms(1);
    fx.fail[FAIL_READ] = 1;
    ck_assert_int_eq(write_file("i", "ctl", "restart"), EIO);
    ck_assert_int_eq(fx.err.id, P14);
    ck_assert_str_eq(read_file("i", "ctl"), "running\n");
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 2000000);
    accepted("i", "ctl", "stop");
    fx.fail[FAIL_READ] = 1;
    ck_assert_int_eq(write_file("i", "ctl", "reset"), EIO);
    ck_assert_uint_eq(count_of("i"), 2000000);
    fx.fail[FAIL_READ] = 1;
    ck_assert_int_eq(write_file("i", "count", "5"), EIO);
    ck_assert_uint_eq(count_of("i"), 2000000);
    accepted("i", "count", "5");
    ck_assert_uint_eq(count_of("i"), 5);
}

TEST(a_target_that_leaves_unread_keeps_its_last_value)
{
    pmc_with("i", "task-clock", "100 101");
    pmc_with("m", "task-clock", many);
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 2000000);
    ck_assert_uint_eq(count_of("m"), 12000000);
    fx.fail[FAIL_READ] = 1;
    accepted("i", "target", "-100");
    ck_assert_uint_eq(count_of("i"), 2000000);
    fx.fail[FAIL_READ] = 1;
    accepted("m", "target", "-100");
    ck_assert_uint_eq(count_of("m"), 12000000);
    accepted("i", "ctl", "restart"); /* the last seen value is discarded */
    fx.fail[FAIL_READ] = 1;
    accepted("i", "target", "-101");
    ck_assert_uint_eq(count_of("i"), 0);
}

/* ---- unreported deaths ---- */

static struct host checking;
static unsigned n_checked;

static bool counted_alive(const struct process *process)
{
    n_checked++;
    return fake_host.process_alive(process);
}

TEST(targets_are_checked_without_the_lock)
{
    static const char *const files[] = {"ctl", "status", "target", "config"};

    checking = fake_host;
    checking.process_alive = counted_alive;
    for (unsigned i = 0; i < 4; i++) {
        struct held held;

        fixture_close();
        fixture_open(NULL);
        fx.engine->host = &checking;
        pmc_with("i", "task-clock", "100 101");
        fake_kill(&fx.host, 101, false);
        fake_kill(&fx.host, 100, false);
        n_checked = 0;
        held_read(&held, "i", files[i]);
        ck_assert_int_eq(held.rc, HELD);
        ck_assert_uint_eq(n_checked, 0);
        held_run(&held);
        ck_assert_uint_eq(n_checked, 2);
        ck_assert_int_eq(held_step(&held), HELD);
        ck_assert_uint_eq(n_checked, 2);
        ck_assert_int_eq(held_finish(&held), 0);
        held_text(&held);
        n_checked = 0;
        ck_assert_str_eq(read_file("i", "ctl"), "exited\n");
        ck_assert_uint_eq(n_checked, 0);
    }
}

TEST(a_thread_of_which_a_child_lost_its_events_is_checked_without_the_lock)
{
    checking = fake_host;
    checking.process_alive = counted_alive;
    for (unsigned lives = 0; lives < 2; lives++) {
        struct held held;

        fixture_close();
        fixture_open(NULL);
        fx.engine->host = &checking;
        ck_assert_int_eq(pmc_make("i"), 0);
        accepted("i", "config", "event=task-clock descendants=on target=tid:1091");
        struct link *link = pmc_of("i")->links->link[0];
        const struct proc *proc = link->proc;
        const uint64_t id = link->id;
        if (!lives)
            fake_kill(&fx.host, 109, false);
        n_checked = 0;
        link_lost_descendant(link);
        held_task(&held);
        ck_assert_int_eq(held.rc, HELD);
        ck_assert_uint_eq(n_checked, 0);
        held_run(&held);
        ck_assert_uint_eq(n_checked, 1);
        held_finish(&held);
        works_run();
        ck_assert_uint_eq(proc->dead, !lives);
        ck_assert_uint_eq(pmc_of("i")->links->link[0]->id != id, lives);
    }
}

TEST(a_pmc_is_released_while_its_targets_are_checked)
{
    for (unsigned ran = 0; ran < 2; ran++) {
        struct held held;

        fixture_close();
        fixture_open(NULL);
        pmc_with("i", "task-clock", "100 101");
        fake_kill(&fx.host, 101, false);
        held_read(&held, "i", "ctl");
        if (ran)
            held_run(&held);
        ck_assert_int_eq(pmc_remove("i"), 0);
        ck_assert_int_eq(held_finish(&held), ENODEV);
        buf_free(&held.out);
        works_run();
        ck_assert_uint_eq(fx.host.n_handles, 0);
    }
}

/* Time was lost if the counter ran less than expected by more than a millisecond and by more than a
 * thousandth. */
TEST(a_count_is_partial_when_time_was_lost)
{
    static const struct {
        uint64_t covered_ns, lost_ns;
        bool partial;
    } rows[] = {
        {500000000, 1000000, false},
        {500000000, 1000001, true},
        {10000000000, 10000000, false},
        {10000000000, 10000001, true},
    };

    for (unsigned i = 0; i < 4; i++) {
        struct tally tally = {.covered_ns = rows[i].covered_ns,
                              .running_ns = rows[i].covered_ns - rows[i].lost_ns};

        ck_assert_int_eq(tally_partial(&tally), rows[i].partial);
    }
}

/* ---- long reads ---- */

TEST(a_long_read_is_slow_and_sees_a_complete_reset)
{
    struct held held;

    pmc_with("i", "task-clock", many);
    pass_ms(1);
    accepted("i", "ctl", "stop");
    held_read(&held, "i", "count");
    ck_assert_int_eq(held.rc, HELD);
    held_run(&held);
    accepted("i", "ctl", "reset");
    ck_assert_int_eq(held_step(&held), HELD); /* the bases changed: the read is repeated */
    ck_assert_int_eq(held_finish(&held), 0);
    ck_assert_str_eq(held_text(&held), "0\n");
}

TEST(a_snapshot_started_before_a_start_does_not_change_the_state_after)
{
    struct held held;

    fixture_close();
    fixture_open("sim_cpus=4 sim_rows=4 sim_lose_after_ms=10");
    pmc_with("i", "cycles", "100");
    pass_ms(20);
    ck_assert_str_eq(read_file("i", "ctl"), "lost\n");
    held_read(&held, "i", "status");
    held_run(&held); /* targets are checked */
    ck_assert_int_eq(held_step(&held), HELD);
    held_run(&held); /* counters that are off are read */
    accepted("i", "ctl", "start");
    ck_assert_int_eq(held_finish(&held), 0);
    ck_true(strstr(held_text(&held), "\nstate running\n"));
}

TEST(a_long_read_outlives_its_targets)
{
    struct held held;

    pmc_with("i", "task-clock", many);
    pass_ms(1);
    held_read(&held, "i", "count");
    accepted("i", "target", "-100 -101");
    held_run(&held); /* removed counters are read */
    ck_assert_int_eq(held_finish(&held), 0);
    ck_assert_str_eq(held_text(&held), "12000000\n");
    works_run();
    ck_assert_uint_eq(fx.host.n_handles, 10);
}

TEST(a_long_read_outlives_its_pmc)
{
    static const char *const files[] = {"count", "detail", "status", "config", "target", "ctl"};

    for (unsigned i = 0; i < 6; i++)
        for (unsigned ran = 0; ran < 2; ran++) {
            struct held held;

            fixture_close();
            fixture_open(NULL);
            pmc_with("i", "task-clock", many);
            held_read(&held, "i", files[i]);
            ck_assert_int_eq(held.rc, HELD);
            if (ran)
                held_run(&held);
            ck_assert_int_eq(pmc_remove("i"), 0);
            if (ran)
                held_step(&held);
            held_finish(&held);
            buf_free(&held.out);
            works_run();
            ck_assert_uint_eq(fx.host.n_handles, 0);
        }
}

TEST(a_long_read_of_another_event)
{
    struct held held;

    pmc_with("i", "task-clock page-faults", many);
    pass_ms(1);
    accepted("i", "ctl", "stop");
    held_read(&held, "i", "detail");
    held_run(&held);
    accepted("i", "event", "cpu-clock");
    ck_assert_int_eq(held_finish(&held), 0);
    ck_true(strstr(held_text(&held), "\ncpu-clock\tall\t0\t"));
}

TEST(a_released_pmc_is_left_out_of_a_running_snapshot)
{
    struct held held;

    pmc_with("a", "task-clock", many);
    pmc_with("b", "page-faults", "100");
    pass_ms(1);
    held_read(&held, NULL, "metrics.prom");
    held_run(&held);
    ck_assert_int_eq(pmc_remove("a"), 0);
    ck_assert_int_eq(held_finish(&held), 0);
    const char *text = held_text(&held);
    ck_true(!strstr(text, "pmc=\"a\"") && strstr(text, "pmc=\"b\",event=\"page-faults\""));
    works_run();
}

/* Names of events come from the kernel and from libpfm4, which may use any byte. */
TEST(quotes_and_backslashes_in_an_events_name_are_escaped_in_a_label)
{
    char *was;

    pmc_with("a", "page-faults", "100");
    was = pmc_of("a")->set->event[0].written;
    pmc_of("a")->set->event[0].written = (char *)"pa\"ge\\faults";
    ck_true(strstr(read_file(NULL, "metrics.prom"), "{pmc=\"a\",event=\"pa\\\"ge\\\\faults\","));
    pmc_of("a")->set->event[0].written = was;
}

TEST(a_count_that_is_reset_all_the_time_delays_no_snapshot_of_others)
{
    struct held held;

    pmc_with("a", "task-clock", many);
    pmc_with("b", "page-faults", "100");
    pass_ms(1);
    held_read(&held, NULL, "counts");
    fx.n_reads = 0;
    for (unsigned passes = 0; held.rc == HELD; passes++) {
        ck_assert_uint_lt(passes, 100);
        held_run(&held);
        accepted("b", "ctl", "restart");
        held_step(&held);
    }
    ck_assert_int_eq(held.rc, 0);
    ck_assert_uint_lt(fx.n_reads, 4 * 12); /* includes the reads of restart */
    const char *text = held_text(&held);
    ck_true(strstr(text, "a\ttask-clock\t12000000\t") && !strstr(text, "page-faults"));
}

static void *run_held(void *arg)
{
    held_run(arg);
    return NULL;
}

/* For ThreadSanitizer: a long read runs without the lock while everything else happens. */
TEST(a_long_read_runs_at_the_same_time_as_changes)
{
    static const char *const changes[][2] = {
        {"ctl", "stop"},        {"ctl", "reset"},        {"target", "-100"},
        {"ctl", "start"},       {"target", "100"},       {"ctl", "restart"},
        {"ctl", "stop"},        {"config", "user=off"},  {"config", "user=on"},
        {"event", "cpu-clock"}, {"event", "task-clock"}, {"count", "5"},
        {"ctl", "start"},
    };
    pmc_with("i", "task-clock", many);
    for (unsigned i = 0; i < 130; i++) {
        struct held held;
        pthread_t thread;

        held_read(&held, "i", i % 2 ? "detail" : "status");
        ck_assert_int_eq(held.rc, HELD);
        ck_assert_int_eq(pthread_create(&thread, NULL, run_held, &held), 0);
        accepted("i", changes[i % 13][0], changes[i % 13][1]);
        ck_assert_uint_ne(count_of("i") + 1, 0);
        pass_ms(1);
        pthread_join(thread, NULL);
        ck_assert_int_eq(held_finish(&held), 0);
        held_text(&held);
    }
}

/* ---- poll ---- */

static unsigned level(poll_fn fn, struct open_file *open)
{
    struct call call = {.engine = fx.engine,
                        .instance = fx.engine->root,
                        .pmc = pmc_of("i"),
                        .open = open,
                        .now_ns = fx.host.now_ns};
    return fn(&call);
}

/* Runs one of the engine's tasks. Returns false if none is queued. */
static bool task(void)
{
    struct call call = {.engine = fx.engine, .instance = fx.engine->root};

    return engine_task(&call);
}

/* Runs one task and returns whether it woke a reader. */
static bool task_wakes(void)
{
    uint64_t id;

    ck_true(task());
    return engine_next_wake(fx.engine, &id);
}

TEST(a_sleeping_poller_is_woken_by_the_tick)
{
    ck_assert_int_eq(pmc_make("i"), 0);
    accepted("i", "config", "event=page-faults notify=1 target=100");
    ck_assert_uint_eq(engine_deadline(fx.engine), UINT64_MAX);
    struct pmc attr;
    attr = *pmc_of("i");
    engine_set_polled(fx.engine, attr.id, true);
    ck_assert_uint_eq(engine_deadline(fx.engine), fx.host.now_ns + 20000000);
    pass_ms(20);
    works_run();
    engine_tick(fx.engine, fx.host.now_ns);
    ck_true(task_wakes());
    engine_set_polled(fx.engine, attr.id, false);
    ck_assert_uint_eq(engine_deadline(fx.engine), UINT64_MAX);
}

TEST(notify_restarts_with_the_count)
{
    struct open_file open;

    ck_assert_int_eq(pmc_make("i"), 0);
    accepted("i", "config", "event=task-clock notify=3000000 count=7 target=100");
    file_open(&open);
    pass_ms(10);
    ck_assert_uint_eq(level(poll_count, &open), EPOLLIN | EPOLLRDNORM);
    pass_ms(10);
    read_open(&open, "i", "count");
    accepted("i", "ctl", "restart");
    ck_assert_uint_eq(level(poll_count, &open), EPOLLIN | EPOLLRDNORM);
    pass_ms(2);
    ck_assert_uint_eq(level(poll_count, &open), EPOLLIN | EPOLLRDNORM);
    pass_ms(1);
    ck_assert_uint_eq(level(poll_count, &open), EPOLLIN | EPOLLRDNORM | EPOLLPRI);
    read_open(&open, "i", "count");
    open.seen_count += 1000000; /* the estimate has decreased since */
    ck_assert_uint_eq(level(poll_count, &open), EPOLLIN | EPOLLRDNORM);
    file_close(&open);
}

TEST(a_costly_pmc_is_polled_without_the_lock)
{
    struct pmc attr;
    struct open_file open;

    ck_assert_int_eq(pmc_make("i"), 0);
    accepted("i", "config", "event=task-clock notify=12000000");
    accepted("i", "target", many);
    attr = *pmc_of("i");
    works_run();
    pass_ms(1);
    file_open(&open);
    fx.n_reads = 0;
    ck_assert_uint_eq(level(poll_count, &open), EPOLLIN | EPOLLRDNORM);
    ck_assert_uint_eq(fx.n_reads, 0);
    ck_true(task_wakes());
    ck_assert_uint_eq(fx.n_reads, 12);
    ck_assert_uint_eq(level(poll_count, &open),
                      EPOLLIN | EPOLLRDNORM); /* 12000000 have been seen */
    ck_true(!task());                         /* the value is fresh: no further read */
    engine_set_polled(fx.engine, attr.id, true);
    pass_ms(20);
    engine_tick(fx.engine, fx.host.now_ns);
    ck_assert_uint_eq(fx.n_reads, 12);
    ck_true(task_wakes());
    ck_assert_uint_eq(fx.n_reads, 24);
    ck_assert_uint_eq(level(poll_count, &open), EPOLLIN | EPOLLRDNORM | EPOLLPRI);
    ck_assert_uint_eq(fx.n_reads, 24);
    accepted("i", "ctl", "restart"); /* values read before the restart are discarded */
    fx.n_reads = 0;
    ck_assert_uint_eq(level(poll_count, &open), EPOLLIN | EPOLLRDNORM);
    works_run();
    ck_assert_uint_eq(level(poll_count, &open), EPOLLIN | EPOLLRDNORM);
    engine_set_polled(fx.engine, attr.id, false);
    file_close(&open);
}

TEST(a_cheap_pmc_is_read_by_poll_itself)
{
    struct open_file open;

    ck_assert_int_eq(pmc_make("i"), 0);
    accepted("i", "config", "event=task-clock notify=1 target=100");
    fx.reads_wait = true;
    pass_ms(20);
    file_open(&open);
    ck_assert_uint_eq(level(poll_count, &open), EPOLLIN | EPOLLRDNORM);
    ck_true(!task());
    pass_ms(20);
    ck_assert_uint_eq(level(poll_count, &open), EPOLLIN | EPOLLRDNORM | EPOLLPRI);
    file_close(&open);
}

TEST(a_pmc_is_released_while_it_is_read_for_pollers)
{
    struct open_file open;
    struct held snapshot;

    ck_assert_int_eq(pmc_make("i"), 0);
    accepted("i", "config", "event=task-clock notify=12000000");
    accepted("i", "target", many);
    file_open(&open);
    level(poll_count, &open);
    held_task(&snapshot);
    ck_assert_int_eq(snapshot.rc, HELD);
    held_run(&snapshot);
    fx.lazy = true;
    ck_assert_int_eq(pmc_remove("i"), 0);
    ck_assert_int_eq(held_step(&snapshot), CALL_DONE);
    fx.lazy = false;
    file_close(&open);
}

TEST(the_tick_reads_lost_pmcs_too)
{
    struct pmc attr;

    fixture_close();
    fixture_open("sim_cpus=4 sim_rows=4 sim_lose_after_ms=10");
    pmc_with("i", "cycles", "100");
    pass_ms(20);
    ck_assert_str_eq(read_file("i", "ctl"), "lost\n");
    attr = *pmc_of("i");
    engine_set_polled(fx.engine, attr.id, true);
    pass_ms(20);
    fx.n_reads = 0;
    engine_tick(fx.engine, fx.host.now_ns);
    ck_true(task());
    ck_assert_uint_eq(fx.n_reads, 1);
    engine_set_polled(fx.engine, attr.id, false);
}
