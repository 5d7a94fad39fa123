/*
 * series: one line for each interval, skipped intervals, lines that add up to the count.
 */
#include "tests/unit/unit.h"

#include "core/show/series.h"
#include "tests/unit/fixture.h"

#include <errno.h>
#include <stdlib.h>

static struct open_file file;

static void setup(void)
{
    fixture_setup();
    file_open(&file);
}

static void teardown(void)
{
    file_close(&file);
    fixture_close();
}

SUITE_SETUP(series, setup, teardown);

static const char *next(void)
{
    return read_open(&file, "i", "series");
}

static void started(const char *config)
{
    ck_assert_int_eq(pmc_make("i"), 0);
    accepted("i", "config", config);
}

TEST(the_lines_add_up_at_the_end)
{
    started("event=page-faults interval=10 target=100");
    next();
    pass_ms(10);
    next();
    pass_ms(4);
    accepted("i", "ctl", "stop");
    pass_ms(10);
    ck_assert_str_eq(next(), "0.024000000\t8\n");
    ck_assert_str_eq(next(), "");
}

TEST(a_restart_starts_a_new_sequence)
{
    started("event=page-faults interval=10 count=5 target=100");
    next();
    pass_ms(10);
    next();
    accepted("i", "ctl", "restart");
    pass_ms(1);
    ck_assert_str_eq(next(), "# seconds\tpage-faults\n");
    ck_assert_str_eq(next(), "WAIT");
    pass_ms(9);
    ck_assert_str_eq(next(), "0.020000000\t20\n"); /* the growth since the restart */
    pass_ms(10);
    ck_assert_str_eq(next(), "0.030000000\t20\n");
}

TEST(a_reset_discards_the_remainder)
{
    started("event=page-faults interval=10 target=100");
    next();
    pass_ms(15);
    accepted("i", "ctl", "stop");
    accepted("i", "ctl", "reset");
    ck_assert_str_eq(next(), "");
    ck_assert_str_eq(next(), "");
    accepted("i", "ctl", "start");
    ck_assert_str_eq(next(), "# seconds\tpage-faults\n");
    pass_ms(10);
    ck_assert_str_eq(next(), "0.025000000\t20\n");
}

TEST(end_of_file_lasts_until_a_run_with_an_interval)
{
    started("event=page-faults interval=10 target=100");
    accepted("i", "ctl", "stop");
    ck_assert_str_eq(next(), "# seconds\tpage-faults\n");
    ck_assert_str_eq(next(), "");
    accepted("i", "config", "interval=off");
    ck_assert_str_eq(next(), "");
    accepted("i", "ctl", "start");
    ck_assert_str_eq(next(), "");
    accepted("i", "ctl", "stop");
    accepted("i", "config", "interval=10");
    ck_assert_str_eq(next(), "");
    accepted("i", "ctl", "start");
    ck_assert_str_eq(next(), "# seconds\tpage-faults\n");
    pass_ms(10);
    ck_assert_str_eq(next(), "0.010000000\t20\n");
}

TEST(a_new_start_is_another_run)
{
    started("event=page-faults interval=10 target=100");
    next();
    pass_ms(15);
    accepted("i", "ctl", "stop");
    pass_ms(1);
    accepted("i", "ctl", "start");
    ck_assert_str_eq(next(), "0.016000000\t30\n");
    ck_assert_str_eq(next(), "# seconds\tpage-faults\n");
    ck_assert_str_eq(next(), "WAIT");
    pass_ms(4);
    accepted("i", "ctl", "stop");
    pass_ms(1);
    ck_assert_str_eq(next(), "0.021000000\t8\n");
    ck_assert_str_eq(next(), "");
}

TEST(another_event_is_another_sequence)
{
    started("event=page-faults interval=10 target=100");
    next();
    accepted("i", "ctl", "stop");
    accepted("i", "event", "page-faults task-clock");
    ck_assert_str_eq(next(), "WAIT");
    accepted("i", "ctl", "start");
    pass_ms(10);
    ck_assert_str_eq(next(), "# seconds\tpage-faults\ttask-clock\n");
    pass_ms(10);
    ck_assert_str_eq(next(), "0.020000000\t40\t20000000\n");
}

TEST(an_estimate_may_step_back)
{
    started("event=cycles multiplex=on interval=10 target=100");
    next();
    pass_ms(10);
    ck_assert_str_eq(next(), "0.010000000\t10000000\n");
    file.series->last[0] += 15000000; /* estimates of sim never decrease */
    pass_ms(10);
    ck_assert_str_eq(next(), "0.020000000\t-5000000\n");
}

TEST(many_targets_are_read_in_a_slow_part)
{
    started("event=task-clock interval=10");
    accepted("i", "target", "100 101 102 103 104 105 106 107 108 109 200 201");
    next();
    pass_ms(10);
    ck_assert_str_eq(next(), "0.010000000\t120000000\n");
    pass_ms(20);
    ck_assert_str_eq(next(), "# skipped 1\n0.030000000\t240000000\n");
}

TEST(a_failed_read_is_an_error_and_loses_nothing)
{
    started("event=task-clock interval=10 target=100");
    next();
    pass_ms(10);
    fx.fail[FAIL_READ] = 1;
    ck_assert_str_eq(next(), "EIO");
    ck_assert_int_eq(fx.err.id, P14);
    ck_assert_str_eq(next(), "0.010000000\t10000000\n");
    ck_assert_str_eq(next(), "WAIT");
}
