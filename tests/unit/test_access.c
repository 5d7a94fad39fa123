/*
 * Names, limits, who sees what, each user's last sentence.
 */
#include "tests/unit/unit.h"

#include "tests/unit/fixture.h"

#include <errno.h>
#include <stdio.h>

SUITE_SETUP(access, fixture_setup, fixture_close);

TEST(names_are_checked)
{
    char name[200];

    memset(name, 'a', sizeof name);
    name[128] = '\0';
    ck_assert_int_eq(pmc_make(name), 0);
    name[128] = 'a';
    name[129] = '\0';
    ck_assert_int_eq(pmc_make(name), ENAMETOOLONG);
    static const char *const illegal[] = {"",     ".x",       "-x",  "a b", "a/b",
                                          "a\\b", "\xc3\xa4", "a=b", "_"};
    for (unsigned i = 0; i < sizeof illegal / sizeof illegal[0]; i++)
        ck_assert_int_eq(pmc_make(illegal[i]), EINVAL);
    ck_assert_int_eq(pmc_make("A9._:@+-z"), 0);
    ck_assert_int_eq(pmc_make("A9._:@+-z"), EEXIST);
    ck_assert_int_eq(pmc_make("info"), EEXIST);
    ck_assert_int_eq(pmc_make("metrics.json"), EEXIST);
}

TEST(a_pmc_is_renamed_with_all_it_has)
{
    pmc_with("a", "task-clock", "100");
    pmc_with("b", "cycles", "");
    pass_ms(1);
    ck_assert_int_eq(pmc_rename("a", "b"), EEXIST);
    ck_assert_int_eq(pmc_rename("a", "info"), EEXIST);
    ck_assert_int_eq(pmc_rename("a", ".c"), EINVAL);
    ck_assert_int_eq(pmc_rename("x", "y"), ENOENT);
    ck_assert_int_eq(pmc_rename("info", "y"), EPERM);
    ck_assert_int_eq(pmc_rename("a", "c"), 0);
    ck_assert_uint_eq(count_of("c"), 1000000);
    ck_assert_ptr_eq(pmc_of("a"), NULL);
    ck_assert_str_eq(value_of("c", "status", "name"), "c");
    ck_assert_int_eq(pmc_make("a"), 0);
}

TEST(rmdir_works_in_every_state)
{
    pmc_with("a", "task-clock", "100");
    ck_assert_int_eq(pmc_make("n"), 0);
    ck_assert_int_eq(pmc_remove("n"), 0);
    ck_assert_int_eq(pmc_remove("a"), 0);
    ck_assert_int_eq(pmc_remove("a"), ENOENT);
    ck_assert_int_eq(pmc_remove("info"), EPERM);
    ck_assert_uint_eq(fx.host.n_handles, 0);
}

TEST(there_are_only_so_many)
{
    tune(TUNABLE_MAX_PMCS, "4");
    tune(TUNABLE_MAX_PMCS_PER_USER, "2");
    as_user(100, 1000);
    ck_assert_int_eq(pmc_make("a"), 0);
    ck_assert_int_eq(pmc_make("b"), 0);
    ck_assert_int_eq(pmc_make("c"), EDQUOT);
    ck_assert_int_eq(fx.err.id, P11);
    as_user(200, 2000);
    ck_assert_int_eq(pmc_make("d"), 0);
    as_root();
    ck_assert_int_eq(pmc_make("e"), 0);
    ck_assert_int_eq(pmc_make("f"), ENOSPC);
    ck_assert_int_eq(pmc_remove("a"), 0);
    ck_assert_int_eq(pmc_make("f"), 0);
}

TEST(kernel_mode_needs_the_right)
{
    as_user(100, 1000);
    pmc_with("i", "cycles", "101");
    ck_assert_str_eq(value_of("i", "status", "event"), "sim::cycles:u");
    ck_assert_str_eq(value_of("i", "config", "kernel"), "off");
    pass_ms(4);
    ck_assert_uint_eq(count_of("i"), 3000000);
    accepted("i", "ctl", "stop");
    refused("i", "config", "kernel=on", EPERM, P18);
    refused("i", "event", "instructions:k", EPERM, P18);
    refused("i", "event", "instructions,os", EPERM, P18);
    accepted("i", "event", "instructions:u");
    tune(TUNABLE_UNPRIVILEGED_KERNEL, "1");
    accepted("i", "event", "instructions:k");
    as_root();
    accepted("i", "event", "cycles");
    ck_assert_str_eq(value_of("i", "config", "kernel"), "on");
}

TEST(nothing_is_verified_before_the_rights)
{
    as_user(100, 1000);
    ck_assert_int_eq(pmc_make("a"), 0);
    refused("a", "event", "instructions:k", EPERM, P18);
    refused("a", "event", "cycles:u instructions:k", EPERM, P18);
    refused("a", "config", "event=cycles kernel=on", EPERM, P18);
    fx.restricted = true;
    refused("a", "event", "cycles:u", EPERM, X07);
    tune(TUNABLE_UNPRIVILEGED_KERNEL, "1");
    tune(TUNABLE_UNPRIVILEGED_SYSPMCS, "1");
    refused("a", "event", "cycles", EPERM, X07);
    ck_assert_uint_eq(fx.verified, 0);
    fx.restricted = false;
    accepted("a", "event", "cycles");
    ck_assert_uint_eq(fx.verified, 2); /* the event, and the set */
    fx.restricted = true;
    as_root();
    accepted("a", "event", "instructions");
}

TEST(a_copy_of_a_new_pmc_pins_no_mode)
{
    ck_assert_int_eq(pmc_make("a"), 0);
    ck_assert_int_eq(pmc_make("b"), 0);
    as_user(100, 1000);
    ck_assert_str_eq(value_of("a", "config", "kernel"), "off");
    as_root();
    ck_assert_str_eq(value_of("a", "config", "kernel"), "on");
    accepted("b", "config", read_file("a", "config"));
    accepted("b", "event", "cycles");
    ck_assert_str_eq(value_of("b", "config", "kernel"), "on");
    accepted("a", "config", "kernel=off");
    ck_assert_str_eq(value_of("a", "config", "kernel"), "off");
}

TEST(config_has_no_target_that_its_reader_cannot_name)
{
    pmc_with("a", "task-clock", "100 tid:1091");
    accepted("a", "config", "target=200");
    as_user(108, 0);
    fx.host.unseen = 200;
    ck_true(strstr(read_file("a", "config"), "target=100\ntarget=tid:1091\n"));
    ck_true(!strstr(read_file("a", "config"), "target=0"));
    fx.host.unseen = 0;
    ck_true(strstr(read_file("a", "config"), "target=200\n"));
}

/* Column `pid` of PMC i's row on the first CPU. */
static const char *maker_shown(void)
{
    static char pid[20];
    const char *line = strstr(read_file(NULL, "info/rows"), " 1 i 1000 ");

    ck_assert_ptr_nonnull(line);
    ck_assert_int_eq(sscanf(line, " 1 i 1000 %19s cycles - -\n", pid), 1);
    return pid;
}

TEST(rows_name_the_process_that_made_the_pmc)
{
    as_user(100, 1000);
    pmc_with("i", "cycles", "101");
    as_root();
    ck_assert_str_eq(maker_shown(), "100");
    engine_reload();
    ck_assert_str_eq(maker_shown(), "100");
    fake_find(&fx.host, 50)->outside = true;
    ck_assert_str_eq(maker_shown(), "10100");
    fake_find(&fx.host, 50)->outside = false;
    fx.host.unseen = 100;
    ck_assert_str_eq(maker_shown(), "-");
    fx.host.unseen = 0;
    fake_kill(&fx.host, 100, true);
    ck_assert_str_eq(maker_shown(), "-");
    fake_reuse(&fx.host, 100, 2000);
    ck_assert_str_eq(maker_shown(), "-");
}

TEST(a_changed_setting_is_checked_with_the_writers_rights)
{
    as_root();
    pmc_with("i", "cycles", "200");
    accepted("i", "ctl", "stop");
    as_user(100, 1000);
    refused("i", "config", "multiplex=on", EPERM, E40);
    refused("i", "event", "instructions", EPERM, E40);
    accepted("i", "config", "interval=7"); /* opens nothing */
    as_user(200, 2000);
    accepted("i", "config", "multiplex=on");
    ck_assert_str_eq(value_of("i", "config", "kernel"), "off"); /* the writer's rights */
}

TEST(each_user_has_a_last_sentence_and_each_pmc)
{
    pmc_with("i", "cycles", "");
    ck_assert_str_eq(read_file("i", "error"), "ok\n");
    ck_assert_str_eq(read_file(NULL, "info/last_error"), "ok\n");
    ck_assert_int_eq(write_file("i", "mode", "tt"), EINVAL);
    ck_true(strncmp(read_file("i", "error"), "EINVAL E20 mode: ", 17) == 0);
    as_user(100, 1000);
    ck_assert_str_eq(read_file(NULL, "info/last_error"), "ok\n");
    ck_assert_int_eq(write_file("i", "target", "x"), EINVAL);
    ck_true(strstr(read_file(NULL, "info/last_error"), "E27"));
    accepted("i", "config", "interval=1");
    ck_assert_str_eq(read_file("i", "error"), "ok\n"); /* of the last command */
    as_root();
    ck_true(strstr(read_file(NULL, "info/last_error"), "E20"));
    ck_assert_int_eq(pmc_make("i"), EEXIST);
    ck_true(strncmp(read_file(NULL, "info/last_error"), "EEXIST P23 tree: ", 17) == 0);
    ck_assert_str_eq(read_file("i", "count"), "0\n");
    ck_assert_int_eq(pmc_make("new"), 0);
    ck_assert_str_eq(read_file("new", "count"), "ENODATA"); /* failing reads are not recorded */
    ck_assert_str_eq(read_file("new", "error"), "ok\n");
}

TEST(tables_show_what_the_reader_may_read)
{
    pmc_with("r", "cycles", "100");
    as_user(100, 1000);
    pmc_with("u", "instructions", "101");
    ck_true(!strstr(read_file(NULL, "counts"), "r\t"));
    ck_true(strstr(read_file(NULL, "counts"), "u\tinstructions\t0\t"));
    ck_true(strstr(read_file(NULL, "info/rows"), " other other other other - -\n"));
    engine_set_readers(fx.engine, 1000);
    ck_true(strstr(read_file(NULL, "counts"), "r\tcycles\t"));
    ck_true(strstr(read_file(NULL, "metrics.prom"), "pmcfs_count_total{pmc=\"r\",event="
                                                    "\"cycles\",scope=\"process\"} 0\n"));
}

TEST(rows_are_administered_by_the_superuser)
{
    as_user(100, 1000);
    ck_assert_int_eq(write_slot(0, 0, "disabled"), EPERM);
    as_root();
    static const char *const wrong[] = {"perhaps", "disable", "Disabled", "disabled enabled"};
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_int_eq(write_slot(0, 0, wrong[i]), EINVAL);
        ck_assert_int_eq(fx.err.id, E17);
    }
    ck_assert_int_eq(write_slot(0, 0, "disabled"), 0);
    ck_assert_int_eq(write_slot(0, 0, "disabled"), 0);
    pmc_with("i", "cycles", "100");
    ck_assert_str_eq(value_of("i", "status", "row"), "1");
    ck_assert_int_eq(write_slot(0, 1, "disabled"), EBUSY);
    ck_assert_int_eq(fx.err.id, E03);
    pmc_with("s", "instructions", "cpu1");
    ck_assert_str_eq(value_of("s", "status", "row"), "3");
    ck_assert_int_eq(write_slot(1, 3, "disabled"), EBUSY);
    ck_assert_int_eq(fx.err.id, E04);
    fake_cpu(&fx.host, 3, false);
    ck_assert_int_eq(write_slot(3, 2, "disabled"), ENXIO);
    ck_assert_int_eq(write_slot(0, 0, "enabled"), 0);
}

TEST(the_machine_is_asked_without_the_lock)
{
    static const char *const files[] = {"info/backend", "info/cpu", "info/rows"};

    for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct held held;

        held_read(&held, NULL, files[i]);
        ck_assert_int_eq(held.rc, CALL_WORK);
        ck_assert_uint_eq(held.out.len, 0);
        ck_assert_int_eq(held_finish(&held), 0);
        ck_true(strlen(held_text(&held)) > 3);
    }
    ck_true(strncmp(read_file(NULL, "info/backend"), "sim\n", 4) == 0);
}
