/*
 * Targets: words, rights, duplicates, deaths, CPUs that go offline and online, cgroups.
 */
#include "tests/unit/unit.h"

#include "core/pmc/pmc.h"
#include "tests/unit/fixture.h"

#include <errno.h>

SUITE_SETUP(target, fixture_setup, fixture_close);

TEST(the_order_of_targets_and_their_values)
{
    pmc_with("i", "task-clock", "101 100 tid:1091");
    pass_ms(2);
    ck_assert_str_eq(read_file("i", "target"), "101\n100\ntid:1091\n");
    ck_assert_uint_eq(count_of("i"), 6000000);
    ck_true(strstr(read_file("i", "detail"), "\ttid:1091\t2000000\t"));
    ck_true(strstr(read_file("i", "detail"), "\tall\t6000000\t"));
    accepted("i", "target", "-101");
    pass_ms(1);
    ck_assert_str_eq(read_file("i", "target"), "100\ntid:1091\n");
    ck_assert_uint_eq(count_of("i"), 8000000);
}

TEST(a_target_that_has_exited_keeps_the_last_name_that_was_read)
{
    struct fake_process *process = fake_find(&fx.host, 100);

    process->name = "first";
    pmc_with("i", "task-clock", "100");
    process->name = "a b";
    ck_true(strstr(read_file("i", "detail"), "\ta\\040b\n"));
    engine_reload();
    fake_kill(&fx.host, 100, false);
    ck_true(strstr(read_file("i", "detail"), "\ta\\040b\n"));
}

TEST(detail_reads_names_at_most_once_a_second)
{
    struct fake_process *process = fake_find(&fx.host, 100);

    pmc_with("i", "task-clock", "100");
    ck_true(strstr(read_file("i", "detail"), "\tfake\n"));
    process->name = "next";
    pass_ms(900);
    ck_true(strstr(read_file("i", "detail"), "\tfake\n"));
    pass_ms(100);
    ck_true(strstr(read_file("i", "detail"), "\tnext\n"));
}

TEST(a_reused_pid_is_another_process)
{
    pmc_with("i", "task-clock", "100");
    pass_ms(1);
    fx.lazy = true;
    fake_kill(&fx.host, 100, false);
    ck_assert_uint_eq(count_of("i"), 1000000);
    fake_reuse(&fx.host, 100, 1000);
    pass_ms(5);
    ck_assert_uint_eq(count_of("i"), 1000000);
    accepted("i", "target", "100");
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 2000000);
}

TEST(a_reader_notices_an_unreported_death)
{
    pmc_with("i", "cycles", "100 101");
    fake_kill(&fx.host, 100, false);
    ck_assert_str_eq(read_file("i", "target"), "101\n");
    ck_assert_str_eq(value_of("i", "status", "targets"), "1");
    ck_assert_int_eq(write_file("i", "target", "-100"), ESRCH);
    ck_assert_int_eq(fx.err.id, E45);
    fake_kill(&fx.host, 101, false);
    ck_assert_str_eq(read_file("i", "ctl"), "exited\n");
}

TEST(one_process_has_one_handle_for_all_its_pmcs)
{
    unsigned before = fx.host.n_handles;

    pmc_with("a", "cycles", "100");
    pmc_with("b", "instructions", "100");
    pmc_with("c", "page-faults", "100");
    ck_assert_uint_eq(fx.host.n_handles, before + 1);
    ck_assert_uint_eq(fx.host.n_watches, 1);
    ck_assert_int_eq(pmc_remove("b"), 0);
    fake_kill(&fx.host, 100, true);
    works_run();
    ck_assert_uint_eq(fx.host.n_handles, before);
    ck_assert_str_eq(read_file("a", "ctl"), "exited\n");
    ck_assert_str_eq(read_file("c", "ctl"), "exited\n");
}

TEST(lists_of_cpus_are_attached_and_detached)
{
    pmc_with("i", "cpu-clock", "cpu0-1,3");
    ck_assert_str_eq(read_file("i", "target"), "cpu0\ncpu1\ncpu3\n");
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 3000000);
    refused("i", "target", "cpu1", EEXIST, E10);
    refused("i", "target", "cpu1-2", EEXIST, E10);
    refused("i", "target", "-cpu2", EINVAL, E28);
    refused("i", "target", "-cpu1-2", EINVAL, E28);
    accepted("i", "target", "-cpu0-1");
    ck_assert_str_eq(read_file("i", "target"), "cpu3\n");
    uint64_t id = pmc_of("i")->links->link[0]->id;
    accepted("i", "target", "all");
    ck_assert_str_eq(read_file("i", "target"), "all\n");
    ck_assert_uint_eq(pmc_of("i")->links->link[0]->id, id); /* the link is the same */
    refused("i", "target", "all", EEXIST, E10);
    refused("i", "target", "-cpu0", EINVAL, E28);
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 7000000);
    accepted("i", "target", "-all cpu3");
    ck_assert_str_eq(read_file("i", "target"), "cpu3\n");
    refused("i", "target", "-all", EINVAL, E28);
}

TEST(system_scope_needs_the_right_but_not_to_stop)
{
    as_user(100, 1000);
    pmc_with("i", "cycles:u", "");
    refused("i", "target", "cpu0", EPERM, X07);
    refused("i", "target", "all", EPERM, X07);
    tune(TUNABLE_UNPRIVILEGED_SYSPMCS, "1");
    accepted("i", "target", "cpu0");
    tune(TUNABLE_UNPRIVILEGED_SYSPMCS, "0");
    accepted("i", "ctl", "stop");
    accepted("i", "ctl", "reset");
    accepted("i", "ctl", "start");
    refused("i", "target", "cpu1", EPERM, X07);
    accepted("i", "ctl", "stop");
    refused("i", "config", "multiplex=on", EPERM, X07);
    accepted("i", "config", "interval=5");
    accepted("i", "target", "-cpu0");
}

TEST(gaps_of_a_cpu_add_up_and_stay_when_it_is_opened_again)
{
    pmc_with("i", "cpu-clock", "cpu0-1");
    for (unsigned n = 1; n <= 2; n++) {
        fake_cpu(&fx.host, 1, false);
        works_run();
        pass_ms(2);
        fake_cpu(&fx.host, 1, true);
        works_run();
        pass_ms(1);
        ck_assert_str_eq(value_of("i", "status", "gap_ns"), n == 1 ? "2000000" : "4000000");
    }
    accepted("i", "ctl", "stop");
    accepted("i", "config", "multiplex=on");
    ck_assert_str_eq(value_of("i", "status", "gap_ns"), "4000000");
    accepted("i", "ctl", "reset");
    ck_assert_str_eq(value_of("i", "status", "gap_ns"), "0");
}

/* The CPU is offline and online again before the engine checks it, so some counts are missing. */
TEST(a_reset_clears_partial_after_a_short_cpu_offline)
{
    pmc_with("i", "cpu-clock", "cpu0-1");
    fake_cpu(&fx.host, 1, false);
    fake_cpu(&fx.host, 1, true);
    works_run();
    ck_assert_str_eq(value_of("i", "status", "partial"), "yes");
    accepted("i", "ctl", "stop");
    accepted("i", "ctl", "reset");
    ck_assert_str_eq(value_of("i", "status", "partial"), "no");
}

TEST(a_restart_forgets_exited_targets)
{
    pmc_with("i", "task-clock", "100 101");
    fake_kill(&fx.host, 100, true);
    works_run();
    ck_assert_ptr_ne(strstr(read_file("i", "detail"), "pid:100"), NULL);
    accepted("i", "ctl", "restart");
    ck_assert_ptr_eq(strstr(read_file("i", "detail"), "pid:100"), NULL);
    ck_assert_ptr_ne(strstr(read_file("i", "detail"), "pid:101"), NULL);
}

TEST(a_cpu_that_goes_keeps_its_count_and_counts_again)
{
    pmc_with("i", "cpu-clock", "cpu0-1");
    pass_ms(2);
    fake_cpu(&fx.host, 1, false);
    works_run();
    pass_ms(3);
    ck_assert_uint_eq(count_of("i"), 7000000); /* 2 + 2 + 3 */
    ck_assert_str_eq(value_of("i", "status", "gap_ns"), "3000000");
    ck_assert_str_eq(value_of("i", "status", "targets"), "2");
    refused("i", "target", "cpu2,1", ENXIO, E37);
    fake_cpu(&fx.host, 1, true);
    works_run();
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 9000000);
    ck_assert_str_eq(value_of("i", "status", "gap_ns"), "3000000");
    pmc_with("j", "cpu-clock", "");
    fake_cpu(&fx.host, 1, false);
    works_run();
    refused("j", "target", "cpu1", ENXIO, E37);
    refused("j", "target", "cpu0-1", ENXIO, E37);
}

TEST(the_gap_of_a_cpu_that_was_away_outlives_the_worker)
{
    pmc_with("i", "cpu-clock", "cpu0-1");
    fake_cpu(&fx.host, 1, false);
    works_run();
    pass_ms(2);
    engine_reload();
    pass_ms(1);
    ck_assert_str_eq(value_of("i", "status", "gap_ns"), "3000000");
    fake_cpu(&fx.host, 1, true);
    works_run();
    pass_ms(1);
    ck_assert_str_eq(value_of("i", "status", "gap_ns"), "3000000");
    engine_reload();
    ck_assert_str_eq(value_of("i", "status", "gap_ns"), "3000000");
}

TEST(e38_st5_with_every_cpu_away_start_and_stop_are_enxio)
{
    pmc_with("i", "cycles", "cpu1");
    pass_ms(1);
    fake_cpu(&fx.host, 1, false);
    works_run();
    refused("i", "ctl", "stop", ENXIO, E38);
    refused("i", "ctl", "start", ENXIO, E38);
    ck_assert_uint_eq(count_of("i"), 1000000);
}

TEST(settings_change_while_a_cpu_is_away)
{
    pmc_with("i", "cpu-clock", "cpu0-1");
    pass_ms(1);
    accepted("i", "ctl", "stop");
    fake_cpu(&fx.host, 1, false);
    works_run();
    accepted("i", "config", "user=off");
    ck_assert_uint_eq(count_of("i"), 2000000);
    accepted("i", "event", "task-clock");
    ck_assert_uint_eq(count_of("i"), 0);
    accepted("i", "ctl", "start");
    fake_cpu(&fx.host, 1, true);
    works_run();
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 2000000);
}

TEST(all_follows_the_cpus)
{
    fake_cpu(&fx.host, 3, false);
    works_run();
    pmc_with("i", "cycles", "all");
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 3000000);
    fx.lazy = true;
    fake_cpu(&fx.host, 3, true);
    accepted("i", "config", "interval=off"); /* a command between the event and its task */
    works_run();
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 7000000);
    ck_true(strstr(read_file(NULL, "info/rows"),
                   "\n3 1 sim-1 sim STANDALONE enabled 1 i 0 50 cycles - -\n"));
}

TEST(following_a_cpu_that_cannot_be_opened_is_given_up)
{
    fake_cpu(&fx.host, 3, false);
    works_run();
    pmc_with("i", "cycles", "all");
    fx.fail[FAIL_ATTACH] = 1;
    fake_cpu(&fx.host, 3, true);
    works_run(); /* terminates */
    ck_assert_uint_eq(fx.fail[FAIL_ATTACH], 0);
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 3000000);
    fake_cpu(&fx.host, 2, false);
    works_run();
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 6000000); /* CPUs 0, 1 and, after a retry, 3 */
}

static void cgroups(void)
{
    fx.host.cgroup[0] = (struct fake_cgroup){"/", true};
    fx.host.cgroup[1] = (struct fake_cgroup){"/a", true};
    fx.host.cgroup[2] = (struct fake_cgroup){"/a/b", true};
    fx.host.cgroup[3] = (struct fake_cgroup){"/ab", true};
    fx.host.n_cgroups = 4;
}

TEST(a_cgroup_is_a_system_target)
{
    cgroups();
    pmc_with("i", "cycles", "cgroup:/a/b");
    ck_assert_str_eq(read_file("i", "mode"), "system-counting\n");
    ck_assert_str_eq(read_file("i", "target"), "cgroup:/a/b\n");
    pass_ms(1);
    ck_true(count_of("i") > 0);
    refused("i", "target", "cgroup:/a/b", EEXIST, E10);
    refused("i", "target", "cgroup:/a", EEXIST, E10);
    refused("i", "target", "cgroup:/", EEXIST, E10);
    refused("i", "target", "cgroup:/nowhere", ENOENT, P33);
    refused("i", "target", "cpu0", EINVAL, P30);
    refused("i", "target", "-cgroup:/ab", EINVAL, E28);
    accepted("i", "target", "cgroup:/ab");
    accepted("i", "target", "-cgroup:/ab -cgroup:/a/b");
    ck_assert_str_eq(read_file("i", "ctl"), "exited\n");
}

TEST(a_removed_cgroup_is_exited)
{
    cgroups();
    pmc_with("i", "cycles", "cgroup:/a");
    pass_ms(1);
    uint64_t count = count_of("i");
    fx.host.cgroup[1].alive = false;
    ck_assert_str_eq(read_file("i", "ctl"), "exited\n");
    ck_assert_uint_eq(count_of("i"), count);
    ck_true(strstr(log_words("i"), "/exited stop"));
}

TEST(a_cpu_that_comes_online_reopens_the_cgroup)
{
    cgroups();
    fake_cpu(&fx.host, 3, false);
    works_run();
    pmc_with("i", "cycles", "cgroup:/a");
    pass_ms(2);
    uint64_t count = count_of("i");
    fx.lazy = true;
    fake_cpu(&fx.host, 3, true);
    ck_assert_uint_eq(count_of("i"), count);
    works_run();
    ck_assert_uint_eq(count_of("i"), count);
    pass_ms(2);
    ck_assert_uint_eq(count_of("i"), 2 * count);
}

TEST(events_of_a_target_with_descendants_count_once)
{
    tune(TUNABLE_MAX_EVENTS_PER_PROCESS, "2");
    as_user(101, 1000);
    ck_assert_int_eq(pmc_make("a"), 0);
    accepted("a", "config", "event=page-faults descendants=on target=100");
    pmc_with("b", "task-clock", "100");
    pmc_with("c", "task-clock", "");
    refused("c", "target", "100", EDQUOT, P11);
}

/* The process changes its user while a PMC of its former user counts it. */
TEST(events_of_another_user_with_capabilities_count_too)
{
    struct rights *able = fake_rights(2000, false);

    tune(TUNABLE_MAX_EVENTS_PER_PROCESS, "1");
    able->capabilities = 1;
    ck_assert_int_eq(rights_share(fx.engine, NULL, &able, &fx.err), 0);
    for (int i = 0; i < 2; i++) {
        as_user(201, 2000);
        if (i == 0) {
            rights_unref(fx.rights);
            fx.rights = able;
        }
        ck_assert_int_eq(pmc_make("theirs"), 0);
        accepted("theirs", "config", "event=page-faults descendants=on target=200");
        fake_find(&fx.host, 200)->uid = 1000;
        as_user(100, 1000);
        pmc_with("mine", "task-clock", "");
        if (i == 0)
            refused("mine", "target", "200", EDQUOT, P11);
        else
            accepted("mine", "target", "200");
        fake_find(&fx.host, 200)->uid = 2000;
        as_root();
        ck_assert_int_eq(pmc_remove("theirs"), 0);
        ck_assert_int_eq(pmc_remove("mine"), 0);
        works_run();
    }
}

TEST(a_lower_limit_of_events_does_not_refuse_the_same_number)
{
    as_user(101, 1000);
    pmc_with("a", "page-faults task-clock", "100");
    accepted("a", "ctl", "stop");
    as_root();
    tune(TUNABLE_MAX_EVENTS_PER_PROCESS, "1");
    as_user(101, 1000);
    accepted("a", "config", "multiplex=on");
    accepted("a", "event", "page-faults cycles");
    refused("a", "event", "page-faults cycles task-clock", EDQUOT, P11);
}
