/*
 * Records: layout, construction, and validation of records from outside.
 */
#include "core/log/record.h"

#include "tests/unit/memory.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

static struct buf out;

static void before(void)
{
    out = (struct buf){0};
}

static void after(void)
{
    buf_free(&out);
}

SUITE_SETUP(record, before, after);

static struct record *made(void)
{
    ck_true(!out.failed && out.len >= sizeof(struct record));
    return (struct record *)out.data;
}

/* Appends a note with n values and a text. */
static struct record_note *add_note(unsigned n, const char *text)
{
    static const uint64_t values[] = {7, 8, 9};

    record_add_note(&out, &(struct note){.type = RECORD_USER,
                                         .time = 55,
                                         .pid = 1,
                                         .tid = 2,
                                         .cpu = 3,
                                         .n = n,
                                         .value = values,
                                         .text = text,
                                         .text_len = strlen(text)});
    return (struct record_note *)made();
}

static void add_sample(const uint64_t *frames, uint64_t n)
{
    const struct record_sample fixed = {
        .id = LOG_ID(5, 2), .ip = 0x1000, .pid = 10, .tid = 11, .time = 99, .period = 3};

    record_add_sample(&out, &fixed, RECORD_USERMODE, frames, n);
}

static const struct map_facts libc = {
    .pid = 10,
    .tid = 11,
    .start = 0x7000,
    .length = 0x1000,
    .offset = 0x200,
    .major = 8,
    .minor = 1,
    .inode = 1234,
    .generation = 5,
    .protection = 5,
    .flags = 2,
    .path = "/lib/libc.so.6",
};

TEST(records_have_the_layout_of_perf_events)
{
    ck_assert_uint_eq(offsetof(struct record_sample, ip), 16);
    ck_assert_uint_eq(offsetof(struct record_sample, time), 32);
    ck_assert_uint_eq(SAMPLE_SHORT, 56);
    ck_assert_uint_eq(sizeof(struct record_tail), 32);
    ck_assert_uint_eq(offsetof(struct record_comm, name), 16);
    ck_assert_uint_eq(sizeof(struct record_lost), 24 + 32);
    ck_assert_uint_eq(sizeof(struct record_task), 32 + 32);
    ck_assert_uint_eq(sizeof(struct record_throttle), 32 + 32);
    ck_assert_uint_eq(offsetof(struct record_map, path), 72);
}

/* Appends a sample with one frame, two registers and 16 bytes of stack, 13 of them valid. */
static struct record_sample *add_stack(void)
{
    static const uint64_t frame[] = {FRAME_USER},
                          after_frames[] = {REGISTERS_WORD(2, 2), 70, 71, 16, 0x5a, 0x5b, 13};
    struct record_sample *sample;

    add_sample(frame, 1);
    buf_add(&out, after_frames, sizeof(after_frames));
    sample = (struct record_sample *)made();
    sample->head.size = (uint16_t)out.len;
    sample->head.misc |= RECORD_STACK;
    return sample;
}

TEST(registers_and_stack_follow_the_frames)
{
    const struct record_sample *sample = add_stack();
    struct sample_parts parts;

    ck_true(record_is_valid(&sample->head, out.len));
    ck_assert_uint_eq(sample_frames(sample), 1);
    ck_true(sample_parts(sample, &parts));
    ck_assert_uint_eq(parts.abi, 2);
    ck_assert_uint_eq(parts.n_registers, 2);
    ck_assert_uint_eq(parts.registers[1], 71);
    ck_assert_uint_eq(parts.stack_bytes, 8 + 16 + 8);
    ck_assert_uint_eq(parts.stack[1], 0x5a);
}

TEST(fields_of_a_tracepoint_are_between_frames_and_stack)
{
    static const uint64_t fields[] = {UINT64_C(0x6600000005), 0};
    static const uint64_t after_frames[] = {REGISTERS_WORD(0, 0), 0};
    struct record_sample *sample;
    struct sample_parts parts;

    add_sample(fields, 0);
    buf_add(&out, fields, sizeof(fields)); /* five bytes plus padding */
    buf_add(&out, after_frames, sizeof(after_frames));
    sample = (struct record_sample *)made();
    sample->head.size = (uint16_t)out.len;
    sample->head.misc |= RECORD_RAW | RECORD_STACK;
    ck_true(record_is_valid(&sample->head, out.len));
    ck_true(sample_parts(sample, &parts));
    ck_assert_uint_eq(parts.raw_bytes, 16);
    ck_assert_uint_eq(parts.raw[0] >> 32, 0x66);
    ck_assert_uint_eq(parts.stack_bytes, 8);
    *(uint32_t *)(void *)sample->frame = UINT32_MAX;
    ck_true(!record_is_valid(&sample->head, out.len));
}

TEST(a_stack_with_wrong_sizes_is_refused)
{
    struct record_sample *sample = add_stack();
    uint64_t *word = &sample->frame[1];

    for (unsigned i = 0; i < 7; i++) {
        const uint64_t was = word[i];

        if (i == 1 || i == 2 || i == 4 || i == 5)
            continue; /* any value is valid */
        word[i] = i == 0 ? REGISTERS_WORD(2, UINT32_MAX) : UINT64_MAX - 7;
        ck_true(!record_is_valid(&sample->head, out.len));
        word[i] = was;
    }
    sample->n_frames = UINT64_MAX;
    ck_true(!record_is_valid(&sample->head, out.len));
    sample->n_frames = 1;
    for (uint16_t size = 8; size < out.len; size = (uint16_t)(size + 8)) {
        sample->head.size = size;
        ck_true(!record_is_valid(&sample->head, size));
    }
    sample->head.size = (uint16_t)out.len;
    sample->head.misc = RECORD_USERMODE; /* without RECORD_STACK all words would be frames */
    ck_true(!record_is_valid(&sample->head, out.len));
}

TEST(a_chain_that_is_too_long_is_cut)
{
    uint64_t *frames = calloc(9000, sizeof(*frames));

    add_sample(frames, 9000);
    ck_assert_uint_eq(made()->size, RECORD_MAX);
    ck_assert_uint_eq(out.len, RECORD_MAX);
    ck_true(record_is_valid(made(), out.len));
    free(frames);
}

TEST(a_text_is_cut_so_that_the_record_fits)
{
    char *text = malloc(100000);

    memset(text, 'x', 99999);
    text[99999] = '\0';
    ck_assert_uint_eq(add_note(3, text)->head.size, RECORD_MAX);
    ck_true(record_is_valid(made(), out.len));
    buf_clear(&out);
    record_add_comm(&out, 1, 2, 3, text, 0);
    ck_assert_uint_eq(made()->size, RECORD_MAX);
    ck_true(record_is_valid(made(), out.len));
    free(text);
}

TEST(a_name_is_padded_and_followed_by_the_tail)
{
    const struct record_comm *comm;

    record_add_comm(&out, 77, 10, 11, "12345678", RECORD_EXECUTED);
    comm = (const struct record_comm *)made();
    ck_assert_uint_eq(comm->head.size, 16 + 16 + 32);
    ck_assert_str_eq(comm->name, "12345678");
    ck_assert_uint_eq(comm->head.misc, RECORD_EXECUTED);
    ck_assert_uint_eq(record_tail(made())->tid, 11);
    ck_assert_uint_eq(record_time(made()), 77);
    ck_true(record_is_valid(made(), out.len));
}

TEST(times_can_be_set_in_every_kind)
{
    record_add_lost(&out, 1, LOG_ID(1, 0), 12);
    record_set_time(made(), 4);
    ck_assert_uint_eq(((struct record_lost *)made())->tail.time, 4);
    ck_assert_uint_eq(((struct record_lost *)made())->lost, 12);
    buf_clear(&out);
    record_set_time(&add_note(1, "x")->head, 6);
    ck_assert_uint_eq(((struct record_note *)made())->time, 6);
    buf_clear(&out);
    add_sample(NULL, 0);
    record_set_time(made(), 9);
    ck_assert_uint_eq(((struct record_sample *)made())->time, 9);
}

TEST(nothing_remains_of_a_record_without_memory)
{
    size_t len;

    add_note(0, "whole");
    while (out.size - out.len > 80)
        buf_char(&out, 0);
    len = out.len;
    memory_fail_at(1); /* only the fixed part fits */
    record_add_map(&out, 1, &libc, 0);
    memory_fail_at(0);
    ck_true(out.failed);
    ck_assert_uint_eq(out.len, len);
}

TEST(a_record_larger_than_the_space_does_not_fit)
{
    add_note(2, "text");
    ck_true(record_is_valid(made(), out.len) && record_is_valid(made(), out.len + 8));
    ck_true(!record_is_valid(made(), out.len - 1));
    ck_true(!record_is_valid(made(), 7));
}

TEST(impossible_sizes_do_not_fit)
{
    static const uint16_t wrong[] = {0, 4, 7, 8, 16, 57, 60};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        buf_clear(&out);
        add_sample(NULL, 0);
        made()->size = wrong[i];
        ck_assert_msg(!record_is_valid(made(), out.len), "%u", wrong[i]);
    }
}

TEST(a_type_that_is_not_known_does_not_fit)
{
    static const uint32_t wrong[] = {0, 1, 8, 11, 0xff, RECORD_VALUES + 1, UINT32_MAX};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        buf_clear(&out);
        add_note(1, "text");
        made()->type = wrong[i];
        ck_assert_msg(!record_is_valid(made(), out.len), "%u", wrong[i]);
    }
}

TEST(lengths_inside_must_amount_to_the_size)
{
    const uint64_t frames[] = {1, 2};

    add_note(2, "text")->text_len = 9;
    ck_true(!record_is_valid(made(), out.len));
    buf_clear(&out);
    add_note(2, "text")->n = 3;
    ck_true(!record_is_valid(made(), out.len));
    buf_clear(&out);
    add_sample(frames, 2);
    ((struct record_sample *)made())->n_frames = UINT64_MAX;
    ck_true(!record_is_valid(made(), out.len));
}

TEST(a_name_without_an_end_does_not_fit)
{
    record_add_comm(&out, 1, 2, 3, "1234567", 0);
    ((struct record_comm *)made())->name[7] = '8';
    ck_true(!record_is_valid(made(), out.len));
}

TEST(a_name_has_space_before_the_tail)
{
    record_add_comm(&out, 1, 2, 3, "", 0);
    ck_true(record_is_valid(made(), out.len));
    made()->size -= 8;
    ck_true(!record_is_valid(made(), out.len));
}
