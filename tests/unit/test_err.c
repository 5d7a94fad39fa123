/*
 * Errors: ids, errno values, and sentences of one line.
 */
#include "core/base/err.h"

#include "tests/unit/unit.h"

#include <errno.h>

SUITE(err);

TEST(escapes_what_would_break_the_line)
{
    struct err err;

    err_set(&err, P02, "\"%s\"", "a\nb\x1b[1m\x7f");
    ck_assert_str_eq(err.text, "\"a\\012b\\033[1m\\177\"");
}

TEST(keeps_utf8_and_escapes_other_bytes)
{
    struct err err;

    err_set(&err, P02, "é…\U0001F600 %s", "\xff \xc3 \xc0\x80 \xed\xa0\x80");
    ck_assert_str_eq(err.text, "é…\U0001F600 \\377 \\303 \\300\\200 \\355\\240\\200");
}

TEST(escapes_control_characters_beyond_ascii)
{
    struct err err;

    err_set(&err, P02, "%s",
            "\xc2\x9b"
            "31m\xe2\x80\xa8");
    ck_assert_str_eq(err.text, "\\302\\23331m\\342\\200\\250");
}

static void check_cut(const char *filler, size_t repeats, size_t at_least)
{
    struct err err;
    struct buf text = {0};

    for (size_t i = 0; i < repeats; i++)
        buf_str(&text, filler);
    err_set(&err, P02, "%s", buf_text(&text));
    ck_true(strlen(err.text) < sizeof(err.text));
    ck_true(strlen(err.text) >= at_least);
    ck_assert_str_eq(err.text + strlen(err.text) - strlen("…"), "…");
    buf_free(&text);
}

TEST(cuts_a_long_sentence_at_a_character)
{
    check_cut("x", 512, 511);
    check_cut("xx…", 400, 505);
    check_cut("\U0001F600", 4000, 505);
    check_cut("\n", 300, 504);
}

TEST(keeps_a_sentence_that_just_fits)
{
    char text[512];
    struct err err;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    err_set(&err, P02, "%s", text);
    ck_assert_str_eq(err.text, text);
}

TEST(a_shortage_is_e32_or_p10)
{
    struct err err = {.id = ERR_NONE};

    ck_assert_int_eq(err_shortage(&err, 0), 0);
    ck_assert_int_eq(err_shortage(&err, -EIO), 0);
    ck_assert_int_eq(err.id, ERR_NONE);
    ck_assert_int_eq(err_shortage(&err, -ENOMEM), -ENOMEM);
    ck_assert_int_eq(err_shortage(&err, -ENFILE), -EMFILE);
    ck_assert_int_eq(err.id, P10);
}

TEST(the_table_is_complete)
{
    for (int id = ERR_NONE + 1; id < ERR_COUNT; id++) {
        ck_true(err_table[id].code > 0);
        ck_true(err_table[id].id[0] && err_table[id].where[0] && err_table[id].condition[0]);
    }
    ck_assert_str_eq(err_table[CS08].id, "CS08");
}
