/*
 * Access: names, limits, PMCs that users see, the last error of each user.
 */
#include "tests/unit/unit.h"

#include "tests/unit/fixture.h"

#include <errno.h>

SUITE_SETUP(access, fixture_setup, fixture_close);

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
    ck_assert_uint_eq(fx.verified, 2); /* for the event, and for the set */
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

TEST(a_changed_setting_is_checked_with_the_writers_rights)
{
    as_root();
    pmc_with("i", "cycles", "200");
    accepted("i", "ctl", "stop");
    as_user(100, 1000);
    refused("i", "config", "multiplex=on", EPERM, E40);
    refused("i", "event", "instructions", EPERM, E40);
    accepted("i", "config", "interval=7"); /* opens no counter */
    as_user(200, 2000);
    accepted("i", "config", "multiplex=on");
    ck_assert_str_eq(value_of("i", "config", "kernel"), "off"); /* by the writer's rights */
}

TEST(the_host_is_read_without_the_lock)
{
    static const char *const files[] = {"info/backend", "info/rows"};

    pmc_with("i", "cycles", "100"); /* with the rights of its creator */
    for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct held held;

        held_read(&held, NULL, files[i]);
        ck_assert_int_eq(held.rc, HELD);
        ck_assert_uint_eq(held.out.len, 0);
        ck_assert_int_eq(held_finish(&held), 0);
        ck_true(strlen(held_text(&held)) > 3);
    }
    ck_true(strncmp(read_file(NULL, "info/backend"), "sim\n", 4) == 0);
}
