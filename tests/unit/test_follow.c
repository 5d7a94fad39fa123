/*
 * Events during an attach and after it: limits used up by others, an exec of a privileged program,
 * CPUs that go offline and online.
 */
#include "tests/unit/unit.h"

#include "core/pmc/pmc.h"
#include "core/state.h"
#include "tests/unit/fixture.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

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

TEST(a_refused_command_takes_no_events_off_a_process)
{
    tune(TUNABLE_MAX_EVENTS_PER_PROCESS, "3");
    as_user(100, 1000);
    pmc_with("i", "page-faults context-switches", "101");
    pmc_with("j", "task-clock", "101");
    pmc_with("k", "cpu-clock", "");
    accepted("i", "ctl", "stop");
    refused("i", "event", "page-faults context-switches task-clock", EDQUOT, P11);
    refused("k", "target", "101", EDQUOT, P11);
    ck_assert_int_eq(pmc_remove("j"), 0);
    works_run();
    accepted("k", "target", "101");
}

TEST(events_on_a_thread_are_on_its_process)
{
    tune(TUNABLE_MAX_EVENTS_PER_PROCESS, "1");
    as_root();
    pmc_with("i", "task-clock", "tid:1091");
    as_user(109, fake_find(&fx.host, 109)->uid);
    pmc_with("j", "task-clock", "");
    refused("j", "target", "109", EDQUOT, P11);
    as_root();
    accepted("i", "target", "-tid:1091");
    as_user(109, fake_find(&fx.host, 109)->uid);
    accepted("j", "target", "109");
}

TEST(descriptors_at_the_limit_stay_there)
{
    struct held held[2];

    tune(TUNABLE_MAX_FDS_PER_USER, "2");
    as_user(100, 1000);
    pmc_with("i", "task-clock", "101");
    pmc_with("j", "task-clock", "");
    pmc_with("k", "task-clock", "");
    for (unsigned n = 0; n < 2; n++) { /* one descriptor is left for both */
        held_write(&held[n], n ? "k" : "j", "target", "102");
        held_run(&held[n]);
        ck_assert_int_eq(held_step(&held[n]), HELD);
    }
    ck_assert_int_eq(held_finish(&held[0]), 0);
    ck_assert_int_eq(held_finish(&held[1]), EDQUOT);
    refused("k", "target", "102", EDQUOT, P11);
    refused("i", "target", "103", EDQUOT, P11);
    accepted("i", "ctl", "stop");
    accepted("i", "config", "multiplex=on"); /* reopens the counter */
    accepted("j", "target", "-102");
    accepted("k", "target", "102");
}

TEST(the_limit_of_descriptors_is_for_commands)
{
    tune(TUNABLE_MAX_FDS_PER_USER, "1");
    pmc_with("i", "cycles", "cpu0-3"); /* by the superuser */
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

TEST(an_exec_between_check_and_start_is_found)
{
    as_user(100, 1000);
    pmc_with("i", "task-clock", "");
    fx.on_attach = exec_privileged;
    refused("i", "target", "101", EPERM, E40);
    fx.host.headless = true; /* its other threads are checked */
    fake_find(&fx.host, 101)->uid = 1000;
    refused("i", "target", "101", EPERM, E40);
    fx.on_attach = NULL;
    fake_find(&fx.host, 101)->uid = 1000;
    accepted("i", "target", "101");
}

TEST(self_is_checked_like_any_other_target)
{
    as_user(100, 1000);
    pmc_with("i", "task-clock", "");
    pmc_with("j", "task-clock", "self");
    fake_find(&fx.host, 100)->uid = 0; /* a set-user-ID program writes to an inherited descriptor */
    for (unsigned i = 0; i < 2; i++)
        refused("i", "target", i ? "tid:self" : "self", EPERM, E40);
    refused("i", "config", "target=self", EPERM, E40);
    refused("i", "ctl", "start", EPERM, E40);
    accepted("j", "ctl", "stop");
    refused("j", "config", "multiplex=on", EPERM, E40); /* a reopened counter is checked too */
    fake_find(&fx.host, 100)->uid = 1000;
    accepted("j", "config", "multiplex=on");
    accepted("i", "ctl", "start");
    as_root();
    fake_find(&fx.host, 100)->uid = 2000;
    accepted("j", "config", "multiplex=off");
}

TEST(with_unprivileged_proc_debug_0_only_self_is_attached)
{
    tune(TUNABLE_UNPRIVILEGED_PROC_DEBUG, "0");
    as_user(100, 1000);
    pmc_with("i", "task-clock", "self");
    refused("i", "target", "101", EPERM, E40);
    accepted("i", "ctl", "stop");
    accepted("i", "config", "multiplex=on");
    as_user(101, 1000);
    refused("i", "config", "multiplex=off", EPERM, E40);
}

TEST(a_limit_of_an_instance_has_its_name_even_if_it_equals_a_quarter_of_the_descriptors)
{
    fx.engine->fd_limit = 140;
    struct user *account = user_of_instance(fx.engine, 7);
    account->limit[USED_FDS] = 35;
    ck_assert_str_eq(user_limit_shown(account, USED_FDS),
                     "this instance's max_fds (35 descriptors)");
    user_unref(account);
}

TEST(only_the_superuser_holds_more_than_a_quarter)
{
    fx.engine->fd_limit = 140;
    as_user(100, 1000);
    pmc_with("i", "task-clock", "101");
    struct user *user = user_find(fx.engine, 1000);
    user->used[USED_FDS] += 33;
    refused("i", "target", "102 103", EDQUOT, P11);
    ck_err_has(fx.err, "a quarter of RLIMIT_NOFILE");
    accepted("i", "target", "102");
    refused("i", "target", "103", EDQUOT, P11);
    accepted("i", "ctl", "stop");
    accepted("i", "config", "multiplex=on");
    accepted("i", "target", "-101");
    accepted("i", "target", "103");
    as_root();
    accepted("i", "target", "101");
    user->used[USED_FDS] -= 33;
    ck_assert_int_eq(pmc_remove("i"), 0);
    ck_assert_str_eq(value_of(NULL, "info/stats", "descriptors"), "0");
}

TEST(processes_being_attached_count_as_descriptors)
{
    fx.engine->fd_limit = 64 + 3;
    pmc_with("i", "task-clock", "");
    refused("i", "target", "101 102 103 104 105", EMFILE, P10);
    ck_assert_str_eq(value_of(NULL, "info/stats", "descriptors"), "0");
    accepted("i", "target", "101");
    fx.engine->fd_limit = 64;
    refused("i", "target", "102", EMFILE, P10);
    accepted("i", "target", "-101"); /* a detach is always possible */
}

static void three_seconds(void)
{
    pass_ms(3000);
}

TEST(one_deadline_for_all_targets)
{
    pmc_with("i", "task-clock", "");
    fx.on_attach = three_seconds;
    accepted("i", "target", "101 102");
    ck_assert_int_eq(write_file("i", "target", "103 104 105"), EAGAIN);
    ck_assert_int_eq(fx.err.id, P13);
    ck_assert_str_eq(read_file("i", "target"), "101\n102\n");
    tune(TUNABLE_ATTACH_MS, "10000");
    accepted("i", "target", "103 104 105");
}

static unsigned n_attached;

static void take_it_off(void)
{
    if (++n_attached == 2)
        pmc_remove_from_tree(pmc_of("i"));
}

TEST(a_release_between_two_targets_stops_an_attach)
{
    struct held held;

    pmc_with("i", "task-clock", "");
    n_attached = 0;
    fx.on_attach = take_it_off;
    held_write(&held, "i", "target", "101 102 103 104");
    ck_assert_int_eq(held_finish(&held), ENODEV);
    ck_assert_uint_eq(n_attached, 2);
    ck_assert_int_eq(fx.err.id, P26);
    ck_assert_str_eq(value_of(NULL, "info/stats", "descriptors"), "0");
}

static void interrupt(void)
{
    if (++n_attached == 2)
        fx.interrupted = true;
}

TEST(an_interruption_between_two_targets_stops_an_attach)
{
    struct held held;

    pmc_with("i", "task-clock", "");
    n_attached = 0;
    fx.on_attach = interrupt;
    held_write(&held, "i", "target", "101 102 103 104");
    ck_assert_int_eq(held_finish(&held), EINTR);
    ck_assert_uint_eq(n_attached, 2);
    ck_assert_str_eq(read_file("i", "target"), "");
    ck_assert_str_eq(read_file("i", "error"), "ok\n");
    fx.interrupted = false;
    accepted("i", "target", "101");
}

TEST(a_detached_descendant_is_not_counted_with_its_parent)
{
    ck_assert_int_eq(pmc_make("i"), 0);
    accepted("i", "config", "event=task-clock descendants=on target=101 target=102");
    pass_ms(2);
    accepted("i", "target", "-102");
    ck_assert_str_eq(read_file("i", "target"), "101\n");
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 5000000);
}

TEST(a_target_attached_with_more_rights_keeps_them)
{
    ck_assert_int_eq(pmc_make("i"), 0);
    accepted("i", "config", "event=task-clock descendants=on target=201 target=101");
    as_user(100, 1000);
    accepted("i", "target", "-101");
    ck_assert_str_eq(read_file("i", "target"), "201\n");
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 1000000);
}

TEST(a_target_that_dies_while_reopened_keeps_its_count)
{
    ck_assert_int_eq(pmc_make("i"), 0);
    accepted("i", "config", "event=task-clock descendants=on target=101 target=102");
    pass_ms(2);
    fx.fail[FAIL_ATTACH] = 1;
    fx.fail_id = E44;
    accepted("i", "target", "-102");
    ck_assert_uint_eq(count_of("i"), 4000000);
}

TEST(a_process_that_lost_its_events_is_attached_again_in_all_pmcs)
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
    fx.sink.guard_fired(fx.sink.ctx, tag);
    works_run();
    ck_assert_uint_eq(pmc_of("a")->links->link[0]->id, id); /* the link is the same */
    ck_assert_uint_eq(fx.guards_opened, 2);                 /* and has another guard */
    ck_assert_uint_eq(fx.n_guards, 1);
    fx.host.headless = false;
    fake_find(&fx.host, 100)->uid = 0;
    fx.sink.guard_fired(fx.sink.ctx, tag);
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

TEST(a_process_that_cannot_be_watched_is_not_attached)
{
    pmc_with("i", "task-clock", "");
    fx.host.watch_fails = true;
    refused("i", "target", "100", EIO, P14);
    fx.host.watch_fails = false;
    accepted("i", "target", "100");
    ck_assert_uint_eq(fx.host.n_watches, 1);
}

TEST(a_cpu_that_was_briefly_offline_is_reopened)
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

/* Runs the engine's next task; after its n-th slow part, before it takes the lock again, the CPU
 * comes online. */
static void task_with(unsigned n, unsigned cpu)
{
    struct held held;

    held_task(&held);
    for (unsigned step = 0; held.rc == HELD; step++) {
        held_run(&held);
        if (step == n)
            fake_cpu(&fx.host, cpu, true);
        held_step(&held);
    }
}

TEST(a_cpu_that_comes_online_during_a_task_is_attached)
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
            task_with(n, 3);
            retries_run();
            /* after a failure, changes are not retried until the next CPU event */
            ck_assert_uint_eq(pmc_of("i")->links->n, fails && n == 0 ? 2 : 4);
        }
}

TEST(a_cpu_that_comes_during_the_first_attach_is_attached)
{
    static const char *const targets[] = {"cgroup:/a", "all"};

    for (unsigned i = 0; i < 2; i++) {
        struct held held;

        fixture_close();
        fixture_open(NULL);
        fx.host.cgroup[0] = (struct fake_cgroup){"/a", true};
        fx.host.n_cgroups = 1;
        fake_cpu(&fx.host, 3, false);
        works_run();
        pmc_with("i", "cycles", "");
        held_write(&held, "i", "target", targets[i]);
        held_run(&held);
        ck_assert_int_eq(held_step(&held), HELD);
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
