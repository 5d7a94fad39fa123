/*
 * The log as text: one line for each record, with the keys of its type.
 */
#include "tests/unit/unit.h"

#include "core/log/trace_format.h"
#include "core/read/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SECOND UINT64_C(1000000000)

static struct buf records, text;
static struct log_sets *sets;
static uint64_t state;

static void setup(void)
{
    records = (struct buf){0};
    text = (struct buf){0};
    state = 0;
    sets = log_sets_new();
}

static void teardown(void)
{
    log_sets_unref(sets);
    buf_free(&records);
    buf_free(&text);
}

SUITE_SETUP(logtext, setup, teardown);

/* Returns the lines of the records added since the last call. */
static const char *lines(void)
{
    const struct log_facts facts = {.sets = sets};

    buf_clear(&text);
    form_text.records(&state, &facts, records.data, records.len, &text);
    buf_clear(&records);
    return buf_text(&text);
}

#define LINES_ARE(expected) ck_assert_str_eq(lines(), expected)

static void note(struct note note)
{
    note.time = 12 * SECOND + 345;
    if (note.text)
        note.text_len = strlen(note.text);
    record_add_note(&records, &note);
}

#define NOTE_ON(CPU, ...) note((struct note){.cpu = CPU, __VA_ARGS__})
#define NOTE(...)         NOTE_ON(UINT32_MAX, __VA_ARGS__)
#define VALUES(...)                                                                                \
    .value = (const uint64_t[]){__VA_ARGS__},                                                      \
    .n = sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)

#define SAMPLE(ID)                                                                                 \
    {                                                                                              \
        .id = ID, .ip = 0x401136, .pid = 100, .tid = 101, .time = 7 * SECOND + 1, .cpu = 3,        \
        .period = 1000                                                                             \
    }

static uint64_t set_of(const char *first, const char *second)
{
    const struct log_event events[] = {{.name = (char *)first, .resolved = (char *)first},
                                       {.name = (char *)second, .resolved = (char *)second}};

    return log_sets_add(sets, events, second ? 2 : 1);
}

/* Asserts that a line has this record type and these keys in this order, as "pid tid [cpu]": a key
 * in brackets may be missing. */
static void keys_are(const char *line, const char *word, const char *fields)
{
    char key[64], expected[64] = "", *copy = strdup(fields), *save = NULL;
    const char *at = strchr(line, ' ') + 1;
    char *field = strtok_r(copy, " ", &save);

    ck_assert_ptr_ne(strstr(at, word), NULL);
    ck_assert_int_eq(strncmp(at, word, strlen(word)), 0);
    at += strlen(word);
    while (*at == ' ') {
        size_t len = strcspn(at + 1, "=");

        ck_assert_uint_lt(len, sizeof key);
        memcpy(key, at + 1, len);
        key[len] = '\0';
        for (; field; field = strtok_r(NULL, " ", &save)) {
            bool may = field[0] == '[';

            snprintf(expected, sizeof expected, "%.*s", (int)(strlen(field) - 2 * may),
                     field + may);
            if (strcmp(expected, key) == 0)
                break;
            ck_assert_msg(may, "%s without %s", line, field);
        }
        ck_assert_msg(field, "%s: %s is not a field of %s", line, key, word);
        field = strtok_r(NULL, " ", &save);
        at += 1 + strcspn(at + 1, " \n");
    }
    ck_assert_msg(!field || field[0] == '[', "%s without %s", line, field);
    ck_assert_str_eq(at, "\n");
    free(copy);
}

TEST(the_first_line_names_the_events)
{
    const struct log_facts facts = {
        .processor = "Some CPU @ 2.0GHz",
        .class = (char *)"software",
        .event = (char *)"cpu-clock page-faults,usr",
        .monotonic_ns = 5 * SECOND + 9,
        .realtime_ns = 1700000000 * SECOND + 10,
        .tsc = 4242,
    };
    form_text.head(&state, &facts, &text);
    ck_buf(&text,
           "5.000000009 initialize version=0.3.0 machine=Some\\040CPU\\040@\\0402.0GHz "
           "class=software event=cpu-clock,page-faults\\054usr realtime=1700000000.000000010 "
           "tsc=4242\n");
    keys_are(buf_text(&text), record_table[0].word, record_table[0].fields);
}

TEST(a_sample_names_its_event_of_its_set)
{
    uint64_t first = set_of("cycles", "instructions"), second = set_of("page-faults", NULL);
    const uint64_t ids[] = {LOG_ID(first, 1), LOG_ID(first, 0), LOG_ID(second, 0),
                            LOG_ID(first, 0), LOG_ID(99, 0),    LOG_ID(second, 0)};
    static const char *const names[] = {"instructions", "cycles", "page-faults",
                                        "cycles",       "-",      "page-faults"};

    for (unsigned i = 0; i < 6; i++) {
        struct record_sample sample = SAMPLE(ids[i]);
        char part[64];

        record_add_sample(&records, &sample, RECORD_USERMODE, NULL, 0);
        snprintf(part, sizeof part, " event=%s period=", names[i]);
        ck_assert_msg(strstr(lines(), part), "%u: %s", i, buf_text(&text));
    }
}

TEST(a_long_event_name_is_complete)
{
    char name[3000];

    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct record_sample sample = SAMPLE(LOG_ID(set_of(name, NULL), 0));
    record_add_sample(&records, &sample, RECORD_USERMODE, NULL, 0);
    ck_assert_uint_gt(strlen(lines()), sizeof name);
    ck_true(strstr(buf_text(&text), name));
    ck_true(strstr(buf_text(&text), "x period=1000\n"));
}

TEST(a_call_chain_marks_kernel_frames)
{
    struct record_sample sample = SAMPLE(LOG_ID(set_of("cpu-clock", NULL), 0));
    const uint64_t frames[] = {FRAME_KERNEL, 0xffffffff81000010, 0xffffffff81000020,
                               FRAME_USER,   0x401136,           0x401000};

    record_add_sample(&records, &sample, RECORD_KERNEL, frames, 6);
    LINES_ARE("7.000000001 callchain pid=100 tid=101 cpu=3 ip=0x401136 event=cpu-clock period=1000 "
              "ips=k:0xffffffff81000010,k:0xffffffff81000020,0x401136,0x401000\n");
}

TEST(the_longest_call_chain_is_complete)
{
    struct record_sample sample = SAMPLE(LOG_ID(set_of("cpu-clock", NULL), 0));
    uint64_t frames[4000];
    unsigned n = 0;

    for (unsigned i = 0; i < 4000; i++)
        frames[i] = 0xffff000000000000 + i;
    record_add_sample(&records, &sample, RECORD_KERNEL, frames, 4000);
    for (const char *at = lines(); (at = strstr(at, "k:0xffff00000000")); at++)
        n++;
    ck_assert_uint_eq(n, 4000);
    ck_true(strstr(buf_text(&text), ",k:0xffff000000000f9f\n"));
}

TEST(an_attach_line_has_the_target_and_its_pids)
{
    NOTE(.type = RECORD_ATTACH, .pid = 1234, .text = "1234");
    NOTE(.type = RECORD_ATTACH, .pid = 1234, .tid = 1235, .text = "tid:1235");
    NOTE_ON(0, .type = RECORD_ATTACH, .text = "cpu0");
    NOTE(.type = RECORD_ATTACH, .text = "cgroup:/a b");
    LINES_ARE("12.000000345 attach target=1234 pid=1234\n"
              "12.000000345 attach target=tid:1235 pid=1234 tid=1235\n"
              "12.000000345 attach target=cpu0 cpu=0\n"
              "12.000000345 attach target=cgroup:/a\\040b\n");
}

TEST(the_values_of_the_largest_set_are_complete)
{
    uint64_t values[64];

    memset(values, 0xff, sizeof values);
    NOTE_ON(1, .type = RECORD_SWITCH, .pid = 10, .tid = 11, .n = 64, .value = values);
    ck_assert_uint_eq(strlen(lines()), strlen("12.000000345 csw pid=10 tid=11 cpu=1 count=") +
                                           64 * strlen("18446744073709551615,"));
}

/* Asserts a csw line and an exit line of n values after `starts` other lines, in a text whose first
 * block has `block_bytes`. */
static void ck_values_at(unsigned starts, unsigned n, const uint64_t *values, size_t block_bytes)
{
    const struct log_facts facts = {.sets = sets};
    char *const block = malloc(block_bytes + 1);
    struct buf expected = {0}, out = buf_in(block, block_bytes);

    for (unsigned i = 0; i < starts; i++) {
        NOTE(.type = RECORD_START);
        buf_str(&expected, "12.000000345 start\n");
    }
    NOTE_ON(1, .type = RECORD_SWITCH, .misc = RECORD_LAST | RECORD_INCOMPLETE, .pid = UINT32_MAX,
            .tid = UINT32_MAX, .n = n, .value = values);
    buf_str(&expected, "12.000000345 csw pid=-1 tid=-1 cpu=1 count=");
    for (unsigned i = 0; i < n; i++)
        buf_printf(&expected, "%s%" PRIu64, i ? "," : "", values[i]);
    buf_str(&expected, " last=yes exact=no\n");
    NOTE(.type = RECORD_COUNT, .misc = RECORD_EXACT, .pid = UINT32_MAX, .n = n, .value = values);
    buf_str(&expected, "12.000000345 exit pid=-1 count=");
    for (unsigned i = 0; i < n; i++)
        buf_printf(&expected, "%s%" PRIu64, i ? "," : "", values[i]);
    buf_str(&expected, " exact=yes\n");
    form_text.records(&state, &facts, records.data, records.len, &out);
    ck_assert_str_eq(buf_text(&out), buf_text(&expected));
    buf_clear(&records);
    buf_free(&expected);
    buf_free(&out);
    free(block);
}

/* `at` varies the size of the first block, the digits of the first value and the number of
 * preceding lines, so that the lines cross the end of the block at different offsets. */
TEST(the_longest_lines_of_values_fit_at_each_alignment)
{
    uint64_t values[64], first = 1;

    memset(values, 0xff, sizeof values);
    for (unsigned at = 0; at < 4096; at++, first = at % 20 ? first * 10 : 1) {
        values[0] = first;
        ck_values_at(at / 20, 64, values, at);
    }
}

/* 31 to 64 values of 13 to 20 digits. */
TEST(lines_of_any_number_of_values_fit_at_each_alignment)
{
    uint64_t values[64], value = UINT64_C(1000000000000);

    for (unsigned digits = 13; digits <= 20; digits++, value *= 10) {
        for (unsigned i = 0; i < 64; i++)
            values[i] = value;
        for (unsigned n = 31; n <= 64; n++)
            for (unsigned starts = 0; starts < 27; starts += n % 2 + 1)
                ck_values_at(starts, n, values, 1024);
    }
}

TEST(the_exit_of_a_thread_has_no_line)
{
    record_add_task(&records, RECORD_EXIT, SECOND, 20, 20, 22, 20);
    LINES_ARE("");
}

TEST(a_map_line_has_addresses_offset_and_path)
{
    struct map_facts map = {.pid = 10,
                            .tid = 10,
                            .start = 0x400000,
                            .length = 0x1000,
                            .offset = 0x2000,
                            .path = "/bin/a b"};

    record_add_map(&records, SECOND, &map, RECORD_FOUND);
    map.pid = UINT32_MAX;
    map.path = "[kernel.kallsyms]_text";
    record_add_map(&records, SECOND, &map, RECORD_KERNEL);
    LINES_ARE(
        "1.000000000 map-in pid=10 start=0x400000 end=0x401000 offset=0x2000 path=/bin/a\\040b\n"
        "1.000000000 map-in pid=-1 start=0x400000 end=0x401000 offset=0x2000 "
        "path=[kernel.kallsyms]_text\n");
}

TEST(a_drop_line_has_its_place_and_numbers)
{
    struct record_throttle throttle = {.head = {RECORD_THROTTLE, 0, sizeof throttle},
                                       .time = SECOND};

    NOTE(.type = RECORD_DROP, .text = "log", VALUES(17, 5));
    NOTE(.type = RECORD_DROP, .text = "log", VALUES(2, 0));
    NOTE(.type = RECORD_DROP, .text = "memory", VALUES(3));
    record_add_lost(&records, SECOND, 5, 18);
    buf_add(&records, &throttle, sizeof throttle);
    throttle.head.type = RECORD_UNTHROTTLE;
    buf_add(&records, &throttle, sizeof throttle);
    LINES_ARE("12.000000345 drop lost=5 where=log records=17\n"
              "12.000000345 drop lost=0 where=log records=2\n"
              "12.000000345 drop lost=3 where=memory\n"
              "1.000000000 drop lost=18 where=kernel\n"
              "1.000000000 drop lost=- where=throttle\n");
}

TEST(one_record_is_one_line_whatever_it_contains)
{
    NOTE(.type = RECORD_USER, .text = "a\nb=\"c\" \\ \xff\x1b[31m\r\xe2\x80\xa8\xc3\xa4");
    LINES_ARE("12.000000345 user text=a\\012b\\075\\042c\\042\\040\\134\\040\\377\\033[31m\\015"
              "\\342\\200\\250\xc3\xa4\n");
    note((struct note){.type = RECORD_DETACH, .cpu = UINT32_MAX, .text = "a\n9 stop b\n"});
    LINES_ARE("12.000000345 detach target=a\\0129\\040stop reason=b\\012\n");
    record_add_comm(&records, SECOND, 1, 1, "x\n1.0 close", 0);
    LINES_ARE("1.000000000 process pid=1 name=x\\0121.0\\040close\n");
}

TEST(nuls_inside_a_text_are_escaped)
{
    struct note user = {.type = RECORD_USER, .cpu = UINT32_MAX, .text = "a\0b", .text_len = 3};

    record_add_note(&records, &user);
    LINES_ARE("0.000000000 user text=a\\000b\n");
}

TEST(a_very_long_text_is_cut_and_marked)
{
    char *long_text = malloc(60001);

    memset(long_text, '\n', 60000);
    long_text[60000] = '\0';
    NOTE(.type = RECORD_USER, .text = long_text);
    ck_assert_uint_lt(strlen(lines()), 4 * 32768 + 100);
    ck_assert_uint_gt(text.len, 4 * 32768);
    ck_assert_str_eq(buf_text(&text) + text.len - 8, "\\012…\n");
    /* the cut is not inside a character */
    for (unsigned i = 0; i < 60000; i += 2)
        memcpy(long_text + i, "ä", 2);
    NOTE(.type = RECORD_USER, .text = long_text + 1);
    ck_true(strstr(lines(), "ää…\n"));
    free(long_text);
}

TEST(a_type_of_a_later_version_is_skipped)
{
    NOTE(.type = RECORD_VALUES + 1, .text = "x");
    NOTE(.type = RECORD_START);
    LINES_ARE("12.000000345 start\n");
}

TEST(the_table_names_the_fields_that_are_printed)
{
    struct record_sample sample = SAMPLE(LOG_ID(set_of("cpu-clock", NULL), 0));
    const uint64_t frame = 0x1000;
    const uint64_t values[] = {1, 2, 3};

    for (unsigned i = 1; i < record_rows; i++) {
        const struct record_row *row = &record_table[i];
        struct map_facts map = {.path = "p"};

        if (row->type == RECORD_SAMPLE)
            record_add_sample(&records, &sample, RECORD_USERMODE,
                              strcmp(row->word, "sample") == 0 ? NULL : &frame, 1);
        else if (row->type == RECORD_FORK)
            record_add_task(&records, RECORD_FORK, SECOND, 21, 20, 21, 20);
        else if (row->type == RECORD_MAP)
            record_add_map(&records, SECOND, &map, 0);
        else
            NOTE(.type = row->type, .misc = RECORD_LAST, .pid = 1, .tid = 2, .text = "a b", .n = 3,
                 .value = values);
        keys_are(lines(), row->word, row->fields);
        ck_true(row->help[0] != '\0');
    }
}

static const char *fields_shown(const char *format, const void *data, size_t len)
{
    buf_clear(&text);
    trace_fields_print(format, data, len, &text);
    return buf_text(&text);
}

#define FIELD(type, at, bytes, sign)                                                               \
    "\tfield:" type ";\toffset:" #at ";\tsize:" #bytes ";\tsigned:" #sign ";\n"

TEST(fields_of_every_type_are_printed)
{
    static const char format[] =
        "name: x\nID: 7\nformat:\n" FIELD("unsigned short common_type", 0, 2, 0)
            FIELD("int common_pid", 4, 4, 1) "\n" FIELD("s8 a", 8, 1, 1) FIELD("u8 b", 9, 1, 0)
                FIELD("short c", 10, 2, 1) FIELD("pid_t d", 12, 4, 1) FIELD("u64 e", 16, 8, 0)
                    FIELD("const char * f", 16, 8, 0) FIELD("char g[4]", 24, 4, 0)
                        FIELD("char h[SOME_LEN]", 28, 4, 1) FIELD("u16 i[2]", 32, 4, 0)
                            FIELD("int j[2]", 32, 8, 1) FIELD("unsigned char k[3]", 36, 3, 0)
                                FIELD("__data_loc char[] l", 40, 4, 0)
                                    FIELD("__rel_loc u32[] m", 44, 4, 0)
                                        FIELD("struct some n", 36, 3, 0) FIELD("bool o", 8, 1, 0)
                                            FIELD("long p[]", 56, 0, 1)
                                                FIELD("__data_loc char[] q", 52, 4, 0)
                                                    FIELD("int r", 56, 4, 1);
    struct {
        uint16_t type;
        uint8_t flags, preempt;
        int32_t pid;
        int8_t a;
        uint8_t b;
        int16_t c;
        int32_t d;
        uint64_t e;
        char g[4], h[4];
        uint16_t i[2];
        uint8_t k[4];
        uint32_t l, m;
        char data[4];
        uint32_t q;
    } raw = {
        .a = -1,
        .b = 200,
        .c = -300,
        .d = -70000,
        .e = UINT64_C(0xffffffff81000000),
        .g = "a b",
        .h = {'f', 'u', 'l', 'l'},
        .i = {1, 0xffff},
        .k = {0, 0xab, 0xff, 0xff},
        .l = 48 | 4 << 16,
        .m = 0 | 4 << 16,
        .data = "x=\n",
        .q = 50 | 100 << 16, /* not within the data */
    };

    ck_assert_uint_eq(sizeof raw, 56);
    ck_assert_str_eq(fields_shown(format, &raw, sizeof raw),
                     " a=-1 b=200 c=-300 d=-70000 e=0xffffffff81000000 f=0xffffffff81000000"
                     " g=a\\040b h=full i=0x1,0xffff j=-65535,-21760 k=00abff l=x\\075\\012"
                     " m=0xa3d78 n=00abff o=255 p= q=- r=-");
}

TEST(long_fields_are_cut)
{
    char data[8192];

    memset(data, 'x', sizeof data);
    const char *shown = fields_shown(FIELD("char a[8192]", 0, 8192, 0), data, sizeof data);
    ck_assert_uint_eq(strlen(shown), 3 + 4096 + 3);
    ck_assert_str_eq(shown + 3 + 4096, "…");
    data[10] = '\0';
    ck_assert_uint_eq(strlen(fields_shown(FIELD("char a[8192]", 0, 8192, 0), data, sizeof data)),
                      13);
    ck_assert_str_eq(fields_shown("", data, sizeof data), "");
    ck_assert_str_eq(fields_shown("\tfield:x", data, sizeof data), "");
}
