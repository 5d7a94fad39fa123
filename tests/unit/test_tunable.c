/*
 * Every tunable: its default, accepted values and refusals.
 */
#include "core/pmc/tunable.h"

#include "tests/unit/unit.h"

#include <errno.h>

static struct tunables tunables;
static struct err err;

static void before(void)
{
    tunables_init(&tunables);
    err = (struct err){.id = ERR_NONE};
}

SUITE_SETUP(tunable, before, NULL);

static int set(const char *name, const char *value, bool at_start)
{
    int which = tunable_find(unit_word(name));

    ck_assert_msg(which >= 0, "no tunable %s", name);
    return tunable_set(&tunables, (enum tunable)which, unit_word(value), at_start, &err);
}

static void check_value(const char *name, const char *printed)
{
    struct buf out = {0};

    tunable_print(&tunables, (enum tunable)tunable_find(unit_word(name)), &out);
    ck_buf(&out, printed);
    buf_free(&out);
}

TEST(every_row_is_complete_and_its_default_is_accepted)
{
    for (enum tunable which = 0; which < TUNABLE_COUNT; which++) {
        const struct tunable_row *row = tunable_row(which);
        struct buf value = {0};

        ck_assert_msg(row->name && row->help && row->effect, "row %d", (int)which);
        ck_assert_int_eq(tunable_find(unit_word(row->name)), (int)which);
        tunable_print(&tunables, which, &value);
        ck_assert_msg(set(row->name, buf_text(&value), true) == 0, "%s", row->name);
        check_value(row->name, buf_text(&value));
        buf_free(&value);
    }
}

TEST(a_number_out_of_range_is_refused_and_the_range_named)
{
    ck_assert_int_eq(set("attach_ms", "9", false), -EINVAL);
    ck_assert_int_eq(err.id, P27);
    ck_assert_str_eq(err.text, "attach_ms cannot be \"9\": write 10 to 60000 (milliseconds)");
    ck_assert_int_eq(set("attach_ms", "60001", false), -EINVAL);
    ck_assert_int_eq(set("attach_ms", "many", false), -EINVAL);
    check_value("attach_ms", "5000");
    ck_assert_int_eq(set("attach_ms", "60000", false), 0);
    check_value("attach_ms", "60000");
}

TEST(at_start_a_bad_callchaindepth_becomes_the_maximum)
{
    ck_assert_int_eq(set("callchaindepth", "513", true), -EINVAL);
    check_value("callchaindepth", "512");
    ck_err_has(err, "write 1 to 512; using 512");
}

TEST(the_host_may_lower_a_maximum)
{
    tunable_limit(&tunables, TUNABLE_CALLCHAINDEPTH, 100);
    check_value("callchaindepth", "100");
    ck_assert_int_eq(set("callchaindepth", "101", true), -EINVAL);
    ck_err_has(err, "write 1 to 100 (kernel.perf_event_max_stack); using 100");
    tunable_limit(&tunables, TUNABLE_CALLCHAINDEPTH, 9999);
    ck_assert_int_eq(set("callchaindepth", "513", true), -EINVAL);
}

TEST(modes_are_octal_and_bounded)
{
    ck_assert_int_eq(set("rootmode", "755", false), 0);
    check_value("rootmode", "0755");
    ck_assert_int_eq(set("rootmode", "4755", false), -EINVAL);
    ck_assert_int_eq(set("rootmode", "0x1", false), -EINVAL);
    ck_assert_int_eq(set("rootmode", "778", false), -EINVAL);
    ck_assert_int_eq(set("dirmode", "1700", false), -EINVAL);
    ck_err_has(err, "an octal mode within 0777");
    ck_assert_uint_eq(tunable_u64(&tunables, TUNABLE_ROOTMODE), 0755);
}

TEST(a_group_is_a_name_a_number_or_none)
{
    ck_assert_int_eq(set("readers", "perf-users", false), 0);
    ck_assert_str_eq(tunable_text(&tunables, TUNABLE_READERS), "perf-users");
    ck_assert_int_eq(set("readers", "1000", false), 0);
    ck_assert_int_eq(set("readers", "two words", false), -EINVAL);
    ck_assert_int_eq(set("readers", "a\nb", false), -EINVAL);
    check_value("readers", "1000");
    ck_assert_int_eq(set("readers", "-", false), 0);
    ck_assert_str_eq(tunable_text(&tunables, TUNABLE_READERS), "");
}

TEST(a_limit_stays_within_the_range)
{
    tunable_limit(&tunables, TUNABLE_CALLCHAINDEPTH, 0);
    check_value("callchaindepth", "1");
    ck_assert_int_eq(set("callchaindepth", "1", true), 0);
    tunable_limit(&tunables, TUNABLE_CALLCHAINDEPTH, UINT64_MAX);
    ck_assert_int_eq(set("callchaindepth", "512", true), 0);
    ck_assert_int_eq(set("callchaindepth", "513", true), -EINVAL);
    check_value("callchaindepth", "512");
}
