/*
 * Words, settings, numbers and near misses.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>

SUITE(scan);

/* Asserts the words that scan_word or scan_setting finds, each followed by '|'. */
static void check_words(const char *text, bool (*next)(struct scan *, struct word *),
                        const char *expected)
{
    struct scan scan = scan_of(word_of(text));
    struct word word;
    struct buf found = {0};

    while (next(&scan, &word)) {
        buf_add(&found, word.p, word.len);
        buf_char(&found, '|');
    }
    ck_buf(&found, expected);
    buf_free(&found);
}

TEST(skips_comments_between_settings)
{
    check_words("# first\na=1 # second b=2\nc=3", scan_setting, "a=1|c=3|");
    check_words("a=x#y #", scan_setting, "a=x#y|");
    check_words("#", scan_setting, "");
}

TEST(splits_at_the_first_equals_sign)
{
    struct word key, value;

    ck_true(word_split(unit_word("event=a=b"), &key, &value));
    ck_true(word_is(key, "event") && word_is(value, "a=b"));
    ck_true(word_split(unit_word("count="), &key, &value));
    ck_true(word_is(key, "count") && word_is(value, ""));
    ck_true(!word_split(unit_word("=x"), &key, &value));
    ck_true(!word_split(unit_word("event"), &key, &value));
    ck_true(!word_split(unit_word(""), &key, &value));
}

TEST(compares_words_exactly_or_alike)
{
    ck_true(word_is(unit_word("log-csw"), "log-csw"));
    ck_true(!word_is(unit_word("log-csw"), "log-cs"));
    ck_true(!word_is(unit_word("Log-csw"), "log-csw"));
    ck_true(word_alike(unit_word("LOG_csw"), "log-csw", false));
    ck_true(!word_alike(unit_word("log.csw"), "log-csw", false));
    ck_true(word_alike(unit_word("log.csw"), "log-csw", true));
    ck_true(!word_alike(unit_word("log-csws"), "log-csw", true));
}

TEST(reads_numbers_within_a_range)
{
    uint64_t value = 0;

    ck_true(word_u64(unit_word("18446744073709551615"), false, 0, UINT64_MAX, &value));
    ck_assert_uint_eq(value, UINT64_MAX);
    ck_true(word_u64(unit_word("0"), false, 0, 0, &value) && value == 0);
    ck_true(word_u64(unit_word("007"), false, 1, 10, &value) && value == 7);
    ck_true(!word_u64(unit_word("0"), false, 1, 10, &value));
    ck_true(!word_u64(unit_word("11"), false, 1, 10, &value));
    ck_assert_uint_eq(value, 7);
}

TEST(reads_hexadecimal_only_when_asked)
{
    uint64_t value = 0;

    ck_true(word_u64(unit_word("0xC0ffee"), true, 0, UINT64_MAX, &value) && value == 0xc0ffee);
    ck_true(word_u64(unit_word("0Xff"), true, 0, UINT64_MAX, &value) && value == 255);
    ck_true(word_u64(unit_word("12"), true, 0, UINT64_MAX, &value) && value == 12);
    ck_true(!word_u64(unit_word("0xff"), false, 0, UINT64_MAX, &value));
    ck_true(!word_u64(unit_word("ff"), true, 0, UINT64_MAX, &value));
    ck_true(!word_u64(unit_word("0x"), true, 0, UINT64_MAX, &value));
    ck_true(!word_u64(unit_word("0x10000000000000000"), true, 0, UINT64_MAX, &value));
}

TEST(refuses_invalid_numbers)
{
    static const char *const words[] = {"",
                                        "-1",
                                        "+1",
                                        " 1",
                                        "1 ",
                                        "1.5",
                                        "1e3",
                                        "1k",
                                        "0x1g",
                                        "18446744073709551616",
                                        "99999999999999999999999"};
    uint64_t value = 42;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        ck_assert_msg(!word_u64(unit_word(words[i]), true, 0, UINT64_MAX, &value), "\"%s\"",
                      words[i]);
    ck_assert_uint_eq(value, 42);
}

TEST(reads_on_and_off_in_all_spellings)
{
    bool value = false;

    ck_true(word_bool(unit_word("on"), &value) && value);
    ck_true(word_bool(unit_word("no"), &value) && !value);
    ck_true(word_bool(unit_word("1"), &value) && value);
    ck_true(word_bool(unit_word("False"), &value) && !value);
    ck_true(word_bool(unit_word("yes"), &value) && value);
    ck_true(!word_bool(unit_word("maybe"), &value) && !word_bool(unit_word(""), &value));
}

static const char *const events[] = {
    "instructions", "cycles",    "cache-misses", "branch-misses", "page-faults",
    "ref-cycles",   "cpu-clock", "task-clock",   "minor-faults",  "major-faults",
};

static void check_near(const char *text, const char *expected)
{
    struct near near = {.word = unit_word(text)};

    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        near_offer(&near, events[i]);
    ck_assert_str_eq(near_text(&near), expected);
}

TEST(suggests_the_nearest_word)
{
    check_near("isntructions", " (did you mean instructions?)");
    check_near("PAGE.FAULT", " (did you mean page-faults?)");
    check_near("cycels", " (did you mean cycles?)");
    check_near("cache_mises", " (did you mean cache-misses?)");
}

TEST(offers_names_that_contain_the_word_nearest_first)
{
    check_near("clock", " (did you mean cpu-clock, task-clock?)");
    check_near("faults", " (did you mean page-faults, minor-faults, major-faults?)");
    check_near("cycle", " (did you mean cycles, ref-cycles?)");
}

TEST(guesses_nothing_from_far_away)
{
    check_near("tlb-flushes", "");
    check_near("", "");
    check_near("xy", "");
    check_near("c", "");
}

TEST(guesses_survive_endless_words)
{
    char endless[300];
    struct near near;

    memset(endless, 'a', sizeof(endless) - 1);
    endless[sizeof(endless) - 1] = '\0';
    check_near(endless, "");
    near = (struct near){.word = unit_word("aaa")};
    near_offer(&near, endless);
    ck_assert_str_eq(near_text(&near), "");
    for (unsigned i = 0; i < 3; i++) {
        endless[92 + i] = '\0';
        near_offer(&near, endless);
        near_offer(&near, endless);
        endless[92 + i] = 'a';
    }
    ck_assert_uint_eq(near.n, 3);
    ck_assert_uint_eq(strlen(near_text(&near)), strlen(" (did you mean , , ?)") + 92 + 93 + 94);
}

static void check_shown(const char *text, const char *expected)
{
    ck_assert_str_eq(text_shown(text), expected);
}

TEST(words_are_shown_so_that_no_two_look_alike)
{
    check_shown("page-faults:u", "page-faults:u");
    check_shown("\033[2J", "\\033[2J");
    check_shown("\\033[2J", "\\134033[2J");
    check_shown("cpu/event=0x3c,umask=1/", "cpu/event=0x3c,umask=1/");
    check_shown("a='b' \"c\"\n", "a='b' \\042c\\042\\012");
    check_shown("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
    check_shown("\xc3", "\\303");
    check_shown("", "");
}

TEST(long_words_are_cut_after_a_complete_character)
{
    char text[300], expected[820];
    size_t n = 0;

    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    text[199] = '\xc3';
    text[200] = '\xbc';
    snprintf(expected, sizeof expected, "%.199s…", text);
    check_shown(text, expected);
    memset(text, '\x80', sizeof text - 1);
    for (unsigned i = 0; i < 200; i++)
        n += (size_t)sprintf(expected + n, "\\200");
    strcpy(expected + n, "…");
    check_shown(text, expected);
}

TEST(four_words_fit_into_one_sentence)
{
    char text[100];

    snprintf(text, sizeof text, "%s %s %s %s", text_shown("a b"), text_shown("c"), text_shown("d"),
             text_shown("e\\"));
    ck_assert_str_eq(text, "a b c d e\\134");
}
