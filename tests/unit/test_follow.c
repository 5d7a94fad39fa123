/*
 * What happens between the steps of an attach and to what is attached: limits that others use up, an exec
 * of a privileged program, CPUs that move.
 */
#include "tests/unit/unit.h"

#include "core/pmc.h"
#include "tests/unit/fixture.h"

#include <errno.h>

SUITE_SETUP(follow, fixture_setup, fixture_close);

TEST(events_on_one_process_are_limited)
{
    tune(TUNABLE_MAX_EVENTS_PER_PROCESS, "3");
    as_user(100, 1000);
    pmc_with("i", "page-faults context-switches", "101");
    pmc_with("j", "task-clock", "101");
    pmc_with("k", "cpu-clock", "");
    refused("k", "target", "101", EDQUOT, P11);
    refused("k", "target", "102 101", EDQUOT, P11);
    accepted("k", "target", "102");
    as_root();
    accepted("k", "target", "101");
}

TEST(descriptors_of_a_user_are_limited)
{
    tune(TUNABLE_MAX_FDS_PER_USER, "3");
    as_user(100, 1000);
    pmc_with("i", "page-faults context-switches", "101");
    pmc_with("j", "task-clock", "");
    refused("j", "target", "101 102", EDQUOT, P11);
    accepted("j", "target", "101");
    as_user(200, 2000);
    pmc_with("k", "task-clock", "201 202 203");
}

TEST(descriptors_at_the_limit_stay_there)
{
    struct held held[2];

    tune(TUNABLE_MAX_FDS_PER_USER, "2");
    as_user(100, 1000);
    pmc_with("i", "task-clock", "101");
    pmc_with("j", "task-clock", "");
    pmc_with("k", "task-clock", "");
    for (unsigned n = 0; n < 2; n++) { /* one is left for both */
        held_write(&held[n], n ? "k" : "j", "target", "102");
        held_run(&held[n]);
        ck_assert_int_eq(held_step(&held[n]), CALL_WORK);
    }
    ck_assert_int_eq(held_finish(&held[0]), 0);
    ck_assert_int_eq(held_finish(&held[1]), EDQUOT);
    refused("k", "target", "102", EDQUOT, P11);
    refused("i", "target", "103", EDQUOT, P11);
    accepted("i", "ctl", "stop");
    accepted("i", "config", "user=off"); /* opens it anew in place of the old one */
    accepted("j", "target", "-102");
    accepted("k", "target", "102");
}

TEST(the_limit_of_descriptors_is_for_commands)
{
    tune(TUNABLE_MAX_FDS_PER_USER, "1");
    pmc_with("i", "cycles", "cpu0-3"); /* the superuser's */
    fake_cpu(&fx.host, 1, false);
    works_run();
    fake_cpu(&fx.host, 1, true);
    works_run();
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 4000000);
    ck_assert_str_eq(value_of(NULL, "info/stats", "descriptors"), "4");
}

static void exec_privileged(void)
{
    fake_find(&fx.host, 101)->uid = 0;
}

TEST(an_exec_between_question_and_start_is_found)
{
    as_user(100, 1000);
    pmc_with("i", "task-clock", "");
    fx.on_attach = exec_privileged;
    refused("i", "target", "101", EPERM, E40);
    fx.host.headless = true; /* cannot be asked any more: it was when it was named */
    fake_find(&fx.host, 101)->uid = 1000;
    accepted("i", "target", "101");
}

TEST(what_lost_its_events_is_attached_again_in_all_PMCs)
{
    guards_on();
    pmc_with("a", "task-clock", "100");
    pmc_with("b", "task-clock", "100");
    as_user(101, 1000);
    pmc_with("c", "task-clock", "100");
    ck_assert_uint_eq(fx.n_guards, 1);
    ck_assert_str_eq(value_of(NULL, "info/stats", "descriptors"), "5");
    pass_ms(1);
    uint64_t id = pmc_of("a")->links->link[0]->id;
    uint64_t tag = pmc_of("a")->links->link[0]->proc->id;
    fx.host.headless = true;
    fx.sink.dropped(fx.sink.ctx, tag);
    works_run();
    ck_assert_uint_eq(pmc_of("a")->links->link[0]->id, id); /* nothing was lost */
    fx.host.headless = false;
    fake_find(&fx.host, 100)->uid = 0;
    fx.sink.dropped(fx.sink.ctx, tag);
    works_run();
    ck_assert_uint_ne(pmc_of("a")->links->link[0]->id, id);
    pass_ms(1);
    ck_assert_uint_eq(count_of("a"), 2000000);
    ck_assert_uint_eq(count_of("b"), 2000000);
    ck_assert_uint_eq(count_of("c"), 1000000);
    ck_assert_str_eq(read_file("c", "ctl"), "exited\n");
    ck_assert_uint_eq(fx.n_guards, 1);
}

TEST(a_watched_owner_is_guarded_when_it_becomes_a_target)
{
    guards_on();
    as_user(100, 1000);
    pmc_with("i", "task-clock", "");
    accepted("i", "config", "lifetime=owner");
    ck_assert_uint_eq(fx.n_guards, 0);
    fx.fail[FAIL_ATTACH] = 1;
    refused("i", "target", "self", EIO, P14);
    accepted("i", "target", "self");
    ck_assert_uint_eq(fx.n_guards, 1);
    ck_assert_int_eq(pmc_remove("i"), 0);
    ck_assert_uint_eq(fx.n_guards, 0);
    ck_assert_str_eq(value_of(NULL, "info/stats", "descriptors"), "0");
}

TEST(who_cannot_be_watched_is_not_attached)
{
    pmc_with("i", "task-clock", "");
    fx.host.watch_fails = true;
    refused("i", "target", "100", EIO, P14);
    fx.host.watch_fails = false;
    accepted("i", "target", "100");
    ck_assert_uint_eq(fx.host.n_watches, 1);
}

TEST(a_cpu_that_was_away_for_a_moment_is_opened_anew)
{
    pmc_with("i", "cpu-clock", "cpu1");
    uint64_t id = pmc_of("i")->links->link[0]->id;
    fx.lazy = true;
    fake_cpu(&fx.host, 1, false);
    fake_cpu(&fx.host, 1, true);
    works_run();
    ck_assert_uint_ne(pmc_of("i")->links->link[0]->id, id);
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 1000000);
}

/* The engine's next work; before its n-th finish something happens. */
static void work_with(unsigned n, unsigned cpu)
{
    struct call call = {.engine = fx.engine, .instance = engine_root(fx.engine)};
    int rc = CALL_WORK;

    call.work = engine_next_work(fx.engine);
    for (unsigned step = 0; rc == CALL_WORK; step++) {
        struct work *work = call.work;

        work->run(work);
        if (step == n)
            fake_cpu(&fx.host, cpu, true);
        rc = work->finish(&call, work);
    }
}

TEST(cpus_that_come_while_others_are_followed)
{
    for (unsigned n = 0; n < 3; n++)
        for (unsigned fails = 0; fails < 2; fails++) {
            fixture_close();
            fixture_open(NULL);
            fake_cpu(&fx.host, 2, false);
            fake_cpu(&fx.host, 3, false);
            works_run();
            pmc_with("i", "cycles", "all");
            fx.lazy = true;
            fake_cpu(&fx.host, 2, true);
            fx.fail[FAIL_ATTACH] = fails;
            work_with(n, 3);
            works_run();
            /* what was known when it failed is given up until the next one moves */
            ck_assert_uint_eq(pmc_of("i")->links->n, fails && n == 0 ? 2 : 4);
        }
}

TEST(a_cpu_that_comes_during_the_first_attach)
{
    static const char *const targets[] = {"cgroup:/a", "all"};

    for (unsigned i = 0; i < 2; i++) {
        struct held held;

        fixture_close();
        fixture_open(NULL);
        fx.host.cgroup[0] = (struct fake_cgroup){"/a", true, true};
        fx.host.n_cgroups = 1;
        fake_cpu(&fx.host, 3, false);
        works_run();
        pmc_with("i", "cycles", "");
        held_write(&held, "i", "target", targets[i]);
        held_run(&held);
        ck_assert_int_eq(held_step(&held), CALL_WORK);
        held_run(&held);
        fake_cpu(&fx.host, 3, true);
        ck_assert_int_eq(held_finish(&held), 0);
        works_run();
        pass_ms(1);
        ck_assert_str_eq(value_of(NULL, "info/stats", "descriptors"), "4");
    }
}

TEST(a_config_is_written_back_while_a_cpu_is_away)
{
    pmc_with("i", "cpu-clock", "cpu0-1");
    fake_cpu(&fx.host, 1, false);
    works_run();
    accepted("i", "config", read_file("i", "config"));
    refused("i", "config", "target=cpu1 target=cpu2,7", EINVAL, E21);
    ck_assert_str_eq(value_of("i", "status", "targets"), "2");
}
