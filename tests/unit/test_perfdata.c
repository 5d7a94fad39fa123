/*
 * samples.perf: the header, and the form of each record. Numbers are those of perf's pipe format
 * and of perf_event_attr. tests/mount/perf.sh reads the stream with perf.
 */
#include "core/read/reader.h"
#include "tests/unit/unit.h"

#define ATTR_BYTES 128

static struct log_sets *sets;
static struct log_facts facts;
static struct buf records, out;
static uint64_t announced_sets;
static size_t at; /* offset in out */

static void before(void)
{
    sets = log_sets_new();
    facts = (struct log_facts){
        .processor = "A processor",
        .class = (char *)"software",
        .monotonic_ns = 5000,
        .realtime_ns = 1700000000000000000,
        .sets = sets,
    };
    records = (struct buf){0};
    out = (struct buf){0};
    announced_sets = 0;
    at = 0;
}

static void after(void)
{
    buf_free(&out);
    buf_free(&records);
    log_sets_unref(sets);
}

SUITE_SETUP(perfdata, before, after);

/* ---- input ---- */

static struct log_event event_named(char *name)
{
    return (struct log_event){.name = name, .resolved = name, .type = 1, .period = 1};
}

static uint64_t add_set(struct log_event event)
{
    return log_sets_add(sets, &event, 1);
}

static uint64_t add_plain_set(void)
{
    char name[] = "page-faults";

    return add_set(event_named(name));
}

static uint64_t add_chain_set(void)
{
    char name[] = "cpu-clock";
    struct log_event event = event_named(name);

    event.chains = true;
    return add_set(event);
}

static void add_sample(uint64_t id, unsigned mode, const uint64_t *frames, uint64_t n)
{
    struct record_sample sample = {
        .id = id, .ip = 0x1234, .pid = 7, .tid = 8, .time = 6000, .cpu = 3, .period = 99};

    record_add_sample(&records, &sample, mode, frames, n);
}

/* ---- output ---- */

static void read_head(void)
{
    form_perf.head(&announced_sets, &facts, &out);
}

static void read_records(void)
{
    form_perf.records(&announced_sets, &facts, records.data, records.len, &out);
    buf_clear(&records);
}

static const struct record *next(void)
{
    const struct record *record = (const struct record *)(out.data + at);

    if (at == out.len)
        return NULL;
    ck_assert_uint_ge(out.len - at, sizeof(*record));
    ck_assert_uint_ge(record->size, sizeof(*record));
    ck_assert_uint_eq(record->size % 8, 0);
    at += record->size;
    ck_assert_uint_le(at, out.len);
    return record;
}

/* Returns the next record of this type, or NULL. */
static const struct record *next_of(unsigned type)
{
    const struct record *record;

    while ((record = next()) && record->type != type)
        ;
    return record;
}

static uint64_t u64_at(const struct record *record, size_t offset)
{
    uint64_t value;

    ck_assert_uint_ge(record->size, offset + sizeof(value));
    memcpy(&value, (const char *)record + offset, sizeof(value));
    return value;
}

static uint32_t u32_at(const struct record *record, size_t offset)
{
    uint32_t value;

    ck_assert_uint_ge(record->size, offset + sizeof(value));
    memcpy(&value, (const char *)record + offset, sizeof(value));
    return value;
}

static void read_head_of_pipe(void)
{
    read_head();
    ck_assert_int_eq(memcmp(out.data, "PERFILE2\20\0\0\0\0\0\0\0", 16), 0);
    at = 16;
}

/* Appends the header and the records to `out`; next() then returns the first record. */
static void read_after_head(void)
{
    read_head();
    at = out.len;
    read_records();
}

#define ATTR         64
#define LOST_SAMPLES 13
#define ROUND        68
#define UPDATE       78
#define attr(what)   (sizeof(struct record) + ATTR_##what)
#define ATTR_type    0
#define ATTR_config  8
#define ATTR_id      ATTR_BYTES

/* ---- header ---- */

static void check_type(uint32_t type, uint64_t config, uint32_t announced,
                       uint64_t announced_config)
{
    char name[] = "an event";
    struct log_event event = event_named(name);

    event.type = type;
    event.config = config;
    add_set(event);
    read_records();

    const struct record *record = next_of(ATTR);

    ck_assert_uint_eq(u32_at(record, attr(type)), announced);
    ck_assert_uint_eq(u64_at(record, attr(config)), announced_config);
    ck_assert_str_eq((const char *)next_of(UPDATE) + 24, name);
}

TEST(events_that_mean_the_same_everywhere_keep_their_type)
{
    check_type(0, 1, 0, 1);             /* instructions */
    check_type(1, 2, 1, 2);             /* page-faults */
    check_type(3, 0x10001, 3, 0x10001); /* L1 misses */
    check_type(4, 0x1c2, 4, 0x1c2);     /* raw */
}

/* perf 6.1 prints neither address nor symbol for type 2 and types from 6 on, and a blank line for
 * type 1, config 10. */
TEST(events_that_perf_would_misread_are_announced_as_a_clock_event)
{
    check_type(2, 300, 1, 0); /* tracepoint */
    check_type(5, 0, 1, 0);   /* breakpoint */
    check_type(11, 3, 1, 0);  /* some PMU */
    check_type(1, 9, 1, 0);   /* dummy */
    check_type(1, 10, 1, 0);  /* bpf-output */
}

TEST(a_header_without_memory_is_written_again)
{
    add_plain_set();
    read_head();
    buf_clear(&out);
    read_head_of_pipe();
    ck_assert_uint_eq(u64_at(next_of(ATTR), attr(id)), LOG_ID(1, 0));
}

/* ---- records ---- */

TEST(a_later_set_is_announced_before_its_records_and_once)
{
    add_plain_set();
    read_after_head();
    add_sample(LOG_ID(add_chain_set(), 0), RECORD_USERMODE, NULL, 0);
    read_records();
    ck_assert_uint_eq(next()->type, ROUND);
    ck_assert_uint_eq(next()->type, ROUND);
    ck_assert_uint_eq(u64_at(next(), attr(id)), LOG_ID(2, 0));
    ck_assert_uint_eq(next()->type, UPDATE);
    ck_assert_uint_eq(next()->type, RECORD_SAMPLE);
    read_records();
    ck_assert_ptr_null(next_of(ATTR));
}

TEST(a_chain_where_none_was_announced_is_cut)
{
    static const uint64_t frames[] = {FRAME_USER, 0x1234};

    add_sample(LOG_ID(add_plain_set(), 0), RECORD_USERMODE, frames, 2);
    read_after_head();

    const struct record *record = next();

    ck_assert_uint_eq(record->type, RECORD_SAMPLE);
    ck_assert_uint_eq(record->size, SAMPLE_SHORT);
    ck_assert_uint_eq(((const struct record_sample *)record)->period, 99);
    ck_assert_uint_eq(next()->type, ROUND);
}

static void check_one_frame(uint64_t marker)
{
    const struct record_sample *sample = (const struct record_sample *)next();

    ck_assert_uint_eq(sample->head.type, RECORD_SAMPLE);
    ck_assert_uint_eq(sample->head.size, sizeof(*sample) + 16);
    ck_assert_uint_eq(sample->period, 99);
    ck_assert_uint_eq(sample->n_frames, 2);
    ck_assert_uint_eq(sample->frame[0], marker);
    ck_assert_uint_eq(sample->frame[1], 0x1234);
}

/* perf script prints a chain's frames, not the address. */
TEST(without_the_announced_chain_the_address_is_the_chain)
{
    uint64_t id = LOG_ID(add_chain_set(), 0), none[1];

    add_sample(id, RECORD_USERMODE, NULL, 0);
    add_sample(id, RECORD_KERNEL, NULL, 0);
    add_sample(id, RECORD_USERMODE, none, 0);
    read_after_head();
    check_one_frame(FRAME_USER);
    check_one_frame(FRAME_KERNEL);
    check_one_frame(FRAME_USER);
}

/* ---- memory ---- */

#define HAS_STACK_BITS 0x3020u /* CALLCHAIN, REGS_USER, STACK_USER */

/* Adds a set of uid 7 with call chains, two registers and 16 bytes of stack, and one sample. */
static uint64_t add_stack_sample(void)
{
    static const uint64_t frames[] = {FRAME_KERNEL, 5, FRAME_USER, 6};
    static const uint64_t after_frames[] = {REGISTERS_WORD(2, 2), 70, 71, 16, 0x5a, 0x5b, 13};
    char name[] = "cpu-clock";
    struct log_event event = event_named(name);
    uint64_t id;

    event.chains = true;
    event.stack = 16;
    event.registers = 0x3;
    event.observer = (struct memory_right){.uid = 7, .gid = 7, .capabilities = 1, .known = true};
    id = LOG_ID(add_set(event), 0);
    add_sample(id, RECORD_KERNEL, frames, 4);
    buf_add(&records, after_frames, sizeof(after_frames));
    ((struct record *)records.data)->size = (uint16_t)records.len;
    ((struct record *)records.data)->misc |= RECORD_STACK;
    return id;
}

TEST(a_reader_that_may_read_the_memory_gets_registers_and_stack)
{
    const struct record *record;

    add_stack_sample();
    facts.reader = (struct memory_right){.uid = 7, .gid = 7, .capabilities = 3, .known = true};
    read_head_of_pipe();
    record = next_of(ATTR);
    ck_assert_uint_eq(u64_at(record, 8 + 24) & HAS_STACK_BITS, HAS_STACK_BITS);
    ck_assert_uint_eq(u64_at(record, 8 + 80), 0x3);
    ck_assert_uint_eq(u32_at(record, 8 + 88), 16);
    read_after_head();
    record = next();
    ck_assert_uint_eq(record->type, RECORD_SAMPLE);
    ck_assert_uint_eq(record->misc, RECORD_KERNEL);
    ck_assert_uint_eq(u64_at(record, 56), 2); /* the kernel frames */
    ck_assert_uint_eq(u64_at(record, 72), 5);
    ck_assert_uint_eq(u64_at(record, 80), 2); /* the ABI of the registers */
    ck_assert_uint_eq(u64_at(record, 96), 71);
    ck_assert_uint_eq(u64_at(record, 104), 16);
    ck_assert_uint_eq(u64_at(record, 128), 13);
    ck_assert_uint_eq(record->size, 136);
}

TEST(other_readers_get_frames_without_registers_and_stack)
{
    const struct memory_right others[] = {
        {.uid = 7, .gid = 7, .capabilities = 1},
        {.uid = 8, .gid = 7, .capabilities = 1, .known = true},
        {.uid = 7, .gid = 8, .capabilities = 1, .known = true},
        {.uid = 7, .gid = 7, .capabilities = 2, .known = true},
        {.uid = 7, .gid = 7, .capabilities = 1, .userns = 9, .known = true},
        {.uid = 0, .superuser = true, .userns = 9, .known = true},
    };

    add_stack_sample();
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const struct record *record;
        const size_t len = records.len;

        facts.reader = others[i];
        buf_clear(&out);
        announced_sets = 0;
        read_head_of_pipe();
        record = next_of(ATTR);
        ck_assert_uint_eq(u64_at(record, 8 + 24) & HAS_STACK_BITS, 0x20);
        ck_assert_uint_eq(u64_at(record, 8 + 80), 0);
        at = out.len;
        form_perf.records(&announced_sets, &facts, records.data, len, &out);
        record = next();
        ck_assert_uint_eq(record->size, 64 + 4 * 8);
        ck_assert_uint_eq(u64_at(record, 56), 4);
        ck_assert_uint_eq(record->misc, RECORD_KERNEL);
    }
    facts.reader = (struct memory_right){.superuser = true, .known = true};
    ck_true(memory_right_covers(&facts.reader, &log_sets_event(sets, 1, 0)->observer));
}

static unsigned n_formats;
static bool formats_are_there;

static bool formats(struct backend_state *state, const struct log_event *const *events, unsigned n,
                    struct buf *out_formats)
{
    (void)state, (void)events;
    n_formats += n;
    buf_str(out_formats, "formats");
    return formats_are_there;
}

/* Adds a set of a tracepoint with fields, of the superuser. */
static uint64_t add_fields_set(uint64_t config)
{
    char name[] = "sched:sched_switch";
    struct log_event event = event_named(name);

    event.type = 2;
    event.config = config;
    event.raw = true;
    event.observer = (struct memory_right){.superuser = true, .known = true};
    return add_set(event);
}

/* Returns whether the next event announces fields. */
static bool next_has_fields(void)
{
    const struct record *record = next_of(ATTR);

    ck_assert_ptr_nonnull(record);
    ck_assert_uint_eq(u32_at(record, 8), u64_at(record, 8 + 24) & 0x400 ? 2 : 1);
    return u64_at(record, 8 + 24) & 0x400;
}

TEST(formats_are_written_once_before_their_fields)
{
    n_formats = 0;
    formats_are_there = true;
    facts.print_tracing_data = formats;
    facts.reader = (struct memory_right){.superuser = true, .known = true};
    add_fields_set(7);
    add_fields_set(7);
    add_fields_set(8);
    read_head_of_pipe();
    ck_true(next_has_fields() && next_has_fields() && next_has_fields());
    ck_assert_uint_eq(n_formats, 2);
    add_fields_set(9);
    at = out.len;
    read_records();
    ck_assert_uint_eq(n_formats, 2);
    ck_true(!next_has_fields());
}

TEST(without_their_format_or_the_right_no_fields_are_announced)
{
    n_formats = 0;
    formats_are_there = false;
    facts.print_tracing_data = formats;
    facts.reader = (struct memory_right){.superuser = true, .known = true};
    add_fields_set(7);
    read_head_of_pipe();
    ck_true(!next_has_fields());
    formats_are_there = true;
    facts.reader = (struct memory_right){.uid = 7, .known = true};
    buf_clear(&out);
    read_head_of_pipe();
    ck_true(!next_has_fields());
    ck_assert_uint_eq(n_formats, 1);
}

/* perf stops at an id that was not announced. */
TEST(a_sample_of_an_unknown_event_is_left_out)
{
    uint64_t set = add_plain_set();

    add_sample(LOG_ID(set, 1), RECORD_USERMODE, NULL, 0);
    add_sample(LOG_ID(set + 1, 0), RECORD_USERMODE, NULL, 0);
    add_sample(0, RECORD_USERMODE, NULL, 0);
    read_after_head();
    ck_assert_ptr_null(next_of(RECORD_SAMPLE));
}

TEST(other_records_keep_a_known_id_and_lose_an_unknown_one)
{
    uint64_t known = LOG_ID(add_plain_set(), 0), unknown = LOG_ID(77, 0);

    record_add_task(&records, RECORD_FORK, 6000, 10, 7, 10, 7);
    record_tail((struct record *)records.data)->id = known;
    record_add_task(&records, RECORD_EXIT, 6000, 10, 7, 10, 7);
    record_tail((struct record *)(records.data + sizeof(struct record_task)))->id = unknown;
    read_after_head();

    const struct record *fork = next(), *exit = next();

    ck_assert_uint_eq(fork->type, RECORD_FORK);
    ck_assert_uint_eq(record_tail(fork)->id, known);
    ck_assert_uint_eq(exit->type, RECORD_EXIT);
    ck_assert_uint_eq(record_tail(exit)->id, 0);
    ck_assert_uint_eq(record_tail(exit)->time, 6000);
}

TEST(every_record_type_of_perf_is_printed_in_order)
{
    struct map_facts map = {.pid = 7, .tid = 7, .start = 0x1000, .length = 0x1000, .path = "/a"};
    struct record_throttle throttle = {.head = {RECORD_THROTTLE, 0, sizeof(throttle)}};
    static const unsigned types[] = {RECORD_COMM, RECORD_MAP,   RECORD_FORK,     RECORD_EXIT,
                                     RECORD_LOST, LOST_SAMPLES, RECORD_THROTTLE, ROUND};

    add_plain_set();
    record_add_comm(&records, 6000, 7, 7, "name", RECORD_EXECUTED);
    record_add_map(&records, 6000, &map, RECORD_USERMODE);
    record_add_task(&records, RECORD_FORK, 6000, 10, 7, 10, 7);
    record_add_task(&records, RECORD_EXIT, 6000, 10, 7, 10, 7);
    record_add_lost(&records, 6000, 0, 3);
    buf_add(&records, &throttle, sizeof(throttle));
    read_after_head();
    for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        ck_assert_uint_eq(next()->type, types[i]);
}

/* In MMAP2, bit 14 means another layout. */
TEST(only_bits_that_perf_knows_stay)
{
    struct map_facts map = {.pid = 7, .tid = 7, .start = 0x1000, .length = 0x1000, .path = "/a"};
    unsigned all = RECORD_FOUND | 0x4000u | 0x1000u | RECORD_USERMODE;

    add_plain_set();
    record_add_map(&records, 6000, &map, all);
    record_add_comm(&records, 6000, 7, 7, "name", all | RECORD_EXECUTED);
    read_after_head();
    ck_assert_uint_eq(next()->misc, RECORD_USERMODE);
    ck_assert_uint_eq(next()->misc, RECORD_USERMODE | RECORD_EXECUTED);
}

/* perf prints records up to the round before the last: a second round avoids a delay. */
TEST(each_batch_is_followed_by_two_finished_rounds)
{
    uint64_t id = LOG_ID(add_plain_set(), 0);

    read_after_head();
    for (unsigned batch = 0; batch < 3; batch++) {
        at = out.len;
        add_sample(id, RECORD_USERMODE, NULL, 0);
        read_records();
        ck_assert_uint_eq(next()->type, RECORD_SAMPLE);
        for (unsigned i = 0; i < 2; i++) {
            const struct record *round = next();

            ck_assert_uint_eq(round->type, ROUND);
            ck_assert_uint_eq(round->size, 8);
        }
        ck_assert_ptr_null(next());
    }
}
