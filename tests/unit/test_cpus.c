/*
 * Sets of CPUs and their text.
 */
#include "core/base/cpus.h"

#include "tests/unit/unit.h"

#include <errno.h>

SUITE(cpus);

/* Asserts the result of parsing, and the set printed as text. */
static void check_parse(const char *text, int result, const char *printed)
{
    struct cpus cpus = {0};
    struct buf out = {0};

    cpus_add(&cpus, 77); /* must not survive */
    ck_assert_msg(cpus_parse(&cpus, unit_word(text)) == result, "\"%s\"", text);
    cpus_print(&cpus, &out);
    ck_buf(&out, printed);
    buf_free(&out);
    cpus_free(&cpus);
}

TEST(reads_and_prints_lists)
{
    check_parse("0", 0, "0");
    check_parse("0-3,6", 0, "0-3,6");
    check_parse("6,0,2,1,3", 0, "0-3,6");
    check_parse("5-5,4-6,4", 0, "4-6");
    check_parse("63-64,127,128,8191", 0, "63-64,127-128,8191");
    check_parse("0-8191", 0, "0-8191");
    check_parse("1-62,64-126,130-300", 0, "1-62,64-126,130-300");
    check_parse("60-64", 0, "60-64");
    check_parse("63-191", 0, "63-191");
}

TEST(refuses_invalid_lists)
{
    static const char *const lists[] = {"",    ",", "1,",  ",1",  "1,,2", "-1", "1-",   "1-2-3",
                                        "3-1", "a", "1 2", "0x1", "1-a",  "+1", "0-3:2"};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        check_parse(lists[i], -EINVAL, "");
    check_parse("0-3,x", -EINVAL, "");
}

TEST(refuses_numbers_that_cannot_exist)
{
    check_parse("8192", -ERANGE, "");
    check_parse("0-8192", -ERANGE, "");
    check_parse("1,9999999999999999999", -ERANGE, "");
}

TEST(adds_and_removes)
{
    struct cpus cpus = {0};

    ck_true(cpus_add(&cpus, 0) && cpus_add(&cpus, 64) && cpus_add(&cpus, 8191));
    ck_true(!cpus_add(&cpus, CPUS_MAX) && !cpus_has(&cpus, CPUS_MAX));
    ck_assert_uint_eq(cpus_count(&cpus), 3);
    cpus_remove(&cpus, 64);
    cpus_remove(&cpus, 63);
    cpus_remove(&cpus, CPUS_MAX);
    ck_true(cpus_has(&cpus, 0) && !cpus_has(&cpus, 64) && cpus_has(&cpus, 8191));
    ck_assert_uint_eq(cpus_count(&cpus), 2);
    cpus_free(&cpus);
}

TEST(walks_its_members_in_order)
{
    struct cpus cpus = {0};
    struct buf seen = {0};

    ck_assert_int_eq(cpus_next(&cpus, 0), -1);
    ck_assert_int_eq(cpus_parse(&cpus, unit_word("8191,0,63-65,700")), 0);
    for (int c = cpus_next(&cpus, 0); c >= 0; c = cpus_next(&cpus, c + 1))
        buf_printf(&seen, "%d ", c);
    ck_buf(&seen, "0 63 64 65 700 8191 ");
    ck_assert_int_eq(cpus_next(&cpus, -5), 0);
    ck_assert_int_eq(cpus_next(&cpus, 1 << 20), -1);
    buf_free(&seen);
    cpus_free(&cpus);
}

TEST(joins_keeps_and_compares_sets_of_different_lengths)
{
    struct cpus small = {0}, large = {0}, copy = {0};

    cpus_parse(&small, unit_word("1-3"));
    cpus_parse(&large, unit_word("3,500"));
    ck_true(cpus_copy(&copy, &large) && cpus_equal(&copy, &large) && !cpus_equal(&copy, &small));
    ck_true(cpus_copy(&copy, &small) && cpus_equal(&copy, &small) && cpus_equal(&small, &copy));
    ck_true(cpus_add_all(&copy, &large));
    ck_assert_uint_eq(cpus_count(&copy), 4);
    cpus_free(&small);
    cpus_free(&large);
    cpus_free(&copy);
}

TEST(empty_sets_are_equal_however_they_became_so)
{
    struct cpus never = {0}, once = {0};

    cpus_add(&once, 200);
    ck_true(!cpus_equal(&never, &once));
    cpus_remove(&once, 200);
    ck_true(cpus_equal(&never, &once) && cpus_equal(&once, &never));
    ck_true(cpus_copy(&once, &never) && cpus_count(&once) == 0);
    cpus_free(&once);
}
