/*
 * struct buf: growing, numbers, escaping.
 */
#include "tests/unit/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static struct buf buf;

static void before(void)
{
    buf = (struct buf){0};
}

static void after(void)
{
    buf_free(&buf);
}

SUITE_SETUP(buf, before, after);

TEST(grows_from_the_callers_block_to_the_heap)
{
    char storage[8];

    buf = buf_in(storage, sizeof(storage));
    buf_str(&buf, "1234567");
    ck_true(!buf.owned && buf.data == storage);
    buf_str(&buf, "89");
    ck_true(buf.owned);
    ck_buf(&buf, "123456789");
}

TEST(drops_everything_after_running_out_of_memory)
{
    volatile size_t too_much = SIZE_MAX;
    const void *volatile nothing = NULL;

    buf_str(&buf, "before");
    buf_add(&buf, nothing, too_much); /* refused before it is read */
    ck_true(buf.failed);
    buf_str(&buf, "after");
    buf_printf(&buf, "%d", 1);
    buf_char(&buf, 'x');
    ck_buf(&buf, "");
    buf_clear(&buf);
    buf_str(&buf, "again");
    ck_buf(&buf, "again");
}

/* Each function reserves space for its output, at any fill level of the block. */
TEST(no_function_writes_beyond_its_block)
{
    for (size_t size = 0; size < 200; size++) {
        char *const block = malloc(size + !size);
        struct buf out = buf_in(block, size);

        buf_u64(&out, UINT64_MAX);
        buf_hex(&out, UINT64_MAX);
        buf_hex(&out, 0);
        BUF_LITERAL(&out, " text ");
        buf_seconds(&out, UINT64_MAX);
        buf_i64(&out, INT64_MIN);
        buf_word(&out, "\377 =", 3);
        buf_printf(&out, "%20s", "x");
        ck_buf(&out, "184467440737095516150xffffffffffffffff0x0 text 18446744073.709551615"
                     "-9223372036854775808\\377\\040\\075                   x");
        buf_free(&out);
        free(block);
    }
}

static void check_u64(uint64_t value)
{
    char expected[32];

    snprintf(expected, sizeof(expected), "%" PRIu64, value);
    buf_clear(&buf);
    buf_u64(&buf, value);
    ck_buf(&buf, expected);
    snprintf(expected, sizeof(expected), "%" PRId64, (int64_t)value);
    buf_clear(&buf);
    buf_i64(&buf, (int64_t)value);
    ck_buf(&buf, expected);
}

TEST(prints_numbers_like_stdio)
{
    uint64_t power = 1;

    for (unsigned i = 0; i <= 20; i++, power *= 10) {
        check_u64(power - 1);
        check_u64(power);
        check_u64(power + 1);
    }
    for (uint64_t value = 0; value < 11000; value++)
        check_u64(value);
    check_u64(UINT64_MAX);
    check_u64((uint64_t)INT64_MIN);
    check_u64((uint64_t)INT64_MAX);
}

TEST(keeps_a_programs_name_one_word)
{
    const char name[] = "a b=c\\d\"e'\tf\0g\xff…";

    buf_word(&buf, name, sizeof(name) - 1);
    ck_buf(&buf, "a\\040b\\075c\\134d\\042e\\047\\011f\\000g\\377…");
}

TEST(escapes_a_character_that_is_cut_off)
{
    buf_word(&buf, "x…", 3);
    ck_buf(&buf, "x\\342\\200");
}

TEST(prints_seconds_with_nine_decimals)
{
    buf_seconds(&buf, UINT64_C(12000000345));
    buf_char(&buf, ' ');
    buf_seconds(&buf, 0);
    buf_char(&buf, ' ');
    buf_seconds(&buf, UINT64_MAX);
    ck_buf(&buf, "12.000000345 0.000000000 18446744073.709551615");
}
