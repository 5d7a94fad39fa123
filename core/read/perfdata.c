/*
 * The log as perf.data in its pipe form, for perf report and perf script. Records of perf's types
 * go through as they are; the rest is what perf must be told before it can read them: attributes
 * and name of each event.
 */
#include "core/log/form.h"

#include <stdlib.h>
#include <string.h>

/* Records of the stream itself. */
#define STREAM_LOST_SAMPLES 13
#define STREAM_ATTR         64
#define STREAM_TRACING      66
#define STREAM_ROUND        68
#define STREAM_UPDATE       78
#define STREAM_FEATURE      80

#define UPDATE_NAME   2
#define FEATURE_CPU   8  /* the processor's name */
#define FEATURE_CLOCK 29 /* one moment in CLOCK_REALTIME and in the clock of the records */
#define CLOCK_LAYOUT  1
#define CLOCK_ID      1 /* CLOCK_MONOTONIC */

/* Bits of sample_type. */
#define HAS_IP         (1u << 0)
#define HAS_TID        (1u << 1)
#define HAS_TIME       (1u << 2)
#define HAS_CALLCHAIN  (1u << 5)
#define HAS_CPU        (1u << 7)
#define HAS_PERIOD     (1u << 8)
#define HAS_RAW        (1u << 10)
#define HAS_REGISTERS  (1u << 12)
#define HAS_STACK      (1u << 13)
#define HAS_IDENTIFIER (1u << 16)
#define HAS_ALWAYS     (HAS_IDENTIFIER | HAS_IP | HAS_TID | HAS_TIME | HAS_CPU | HAS_PERIOD)

/* Types of events, and configs of software events. */
#define TYPE_SOFTWARE   1u
#define TYPE_TRACEPOINT 2u
#define TYPE_BREAKPOINT 5u
#define CPU_CLOCK       0u
#define DUMMY           9u

#define DUMMY_ID     UINT64_MAX
#define TEXT_LONGEST 4095
#define BATCH_BYTES  (112 * 1024)

/*
 * perf_event_attr. Some versions of perf look for the ids behind as many bytes as their own struct
 * has, and read all of it: so it is as long as that of most versions. A longer one would end up in
 * files (perf inject) that an older perf refuses.
 */
struct stream_attr {
    uint32_t type, size;
    uint64_t config;
    uint64_t period_or_freq;
    uint64_t sample_type, read_format;
    uint64_t disabled : 1, inherit : 1, pinned : 1, exclusive : 1, exclude_user : 1,
        exclude_kernel : 1, exclude_hv : 1, exclude_idle : 1, mmap : 1, comm : 1, freq : 1,
        inherit_stat : 1, enable_on_exec : 1, task : 1, watermark : 1, precise : 2, mmap_data : 1,
        sample_id_all : 1, exclude_host : 1, exclude_guest : 1, exclude_chain_kernel : 1,
        exclude_chain_user : 1, mmap2 : 1, comm_exec : 1, use_clockid : 1, flags : 38;
    uint32_t wakeup, bp_type;
    uint64_t config1, config2, branches, user_registers;
    uint32_t user_stack;
    int32_t clockid;
    uint64_t not_used[4];
};
_Static_assert(sizeof(struct stream_attr) == 128, "PERF_ATTR_SIZE_VER7");

/* One call for records. */
struct batch {
    const struct log_facts *facts;
    const struct log_sets *sets;
    struct buf *out;
};

/* Of processes' memory, is this reader given any? Then callers are found in it, else in frames. */
static bool shows_stack(const struct log_facts *facts, const struct log_event *event)
{
    return event->stack && memory_right_covers(&facts->reader, &event->observer);
}

/* The fields of a tracepoint, which can be of other tasks, go the same way. */
static bool shows_raw(const struct log_facts *facts, const struct log_event *event)
{
    return event->raw && memory_right_covers(&facts->reader, &event->observer);
}

/* ---- what is told of events and machine ---- */

static void add_head(struct buf *out, unsigned type, size_t size)
{
    struct record head = {.type = type, .size = (uint16_t)size};

    buf_add(out, &head, sizeof(head));
}

static size_t text_len(const char *text)
{
    size_t len = strlen(text);

    return len < TEXT_LONGEST ? len : TEXT_LONGEST;
}

/* A text and NULs: room bytes. */
static void add_text(struct buf *out, const char *text, size_t room)
{
    size_t len = text_len(text);

    buf_add(out, text, len);
    for (; len < room; len++)
        buf_char(out, '\0');
}

/*
 * A PMU's number means another PMU elsewhere, tracepoints are printed with their fields, which may
 * not be shown, and a few software events are no samples to perf: it would fail, or leave out what
 * it should show. As a clock they are read like any sample, under their name.
 */
static bool type_is_plain(const struct log_event *event)
{
    if (event->type == TYPE_SOFTWARE)
        return event->config < DUMMY;
    return event->type < TYPE_BREAKPOINT && event->type != TYPE_TRACEPOINT;
}

/* Does what is counted end so? perf asks for kernel addresses only where there can be some. */
static bool counts_only(const struct log_event *event, const char *mode)
{
    size_t len = strlen(event->resolved);

    return len >= strlen(mode) && strcmp(event->resolved + len - strlen(mode), mode) == 0;
}

static void add_attr(const struct log_facts *facts, struct buf *out, const struct log_event *event,
                     uint64_t id)
{
    bool stack = shows_stack(facts, event), raw = shows_raw(facts, event);
    bool plain = raw || type_is_plain(event);
    struct stream_attr attr = {
        .type = plain ? event->type : TYPE_SOFTWARE,
        .size = sizeof(attr),
        .config = plain ? event->config : CPU_CLOCK,
        .period_or_freq = event->freq ? event->freq : event->period,
        .sample_type = HAS_ALWAYS | (event->chains ? HAS_CALLCHAIN : 0) |
                       (stack ? HAS_REGISTERS | HAS_STACK : 0) | (raw ? HAS_RAW : 0),
        .exclude_user = counts_only(event, ":k"),
        .exclude_kernel = counts_only(event, ":u"),
        .exclude_chain_user = stack,
        .freq = event->freq != 0,
        .mmap = 1,
        .comm = 1,
        .task = 1,
        .sample_id_all = 1,
        .mmap2 = 1,
        .comm_exec = 1,
        .use_clockid = 1,
        .clockid = CLOCK_ID,
        .user_registers = stack ? event->registers : 0,
        .user_stack = stack ? event->stack : 0,
    };

    add_head(out, STREAM_ATTR, sizeof(struct record) + sizeof(attr) + sizeof(id));
    buf_add(out, &attr, sizeof(attr));
    buf_add(out, &id, sizeof(id));
}

static void add_name(struct buf *out, const struct log_event *event, uint64_t id)
{
    uint64_t update[] = {UPDATE_NAME, id};
    size_t room = record_padded(text_len(event->name) + 1);

    add_head(out, STREAM_UPDATE, sizeof(struct record) + sizeof(update) + room);
    buf_add(out, update, sizeof(update));
    add_text(out, event->name, room);
}

static void add_event(const struct log_facts *facts, struct buf *out, const struct log_event *event,
                      uint64_t id)
{
    add_attr(facts, out, event, id);
    add_name(out, event, id);
}

/* Behind the events that need it. Some may be gone: perf prints no fields then. */
static void add_tracing(const struct log_facts *facts, uint64_t set, struct buf *out)
{
    const unsigned n = log_sets_events(facts->sets, set);
    const char *names[SET_MAX];
    unsigned n_names = 0;
    struct buf tracing;
    uint32_t size;

    for (unsigned i = 0; i < n && n_names < SET_MAX; i++) {
        const struct log_event *event = log_sets_event(facts->sets, set, i);

        if (shows_raw(facts, event))
            names[n_names++] = event->resolved;
    }
    if (!n_names || !facts->formats)
        return;
    buf_init(&tracing, NULL, 0);
    facts->formats(facts->backend_state, names, n_names, &tracing);
    while (tracing.len % 8 && !tracing.failed)
        buf_char(&tracing, '\0');
    size = (uint32_t)tracing.len;
    if (size) {
        add_head(out, STREAM_TRACING, sizeof(struct record) + sizeof(size));
        buf_add(out, &size, sizeof(size));
        buf_add(out, tracing.data, tracing.len);
    }
    out->failed |= tracing.failed;
    buf_free(&tracing);
}

static void add_new_sets(uint64_t *told, const struct log_facts *facts, struct buf *out)
{
    struct log_sets *sets = facts->sets;
    uint64_t last = sets ? log_sets_last(sets) : 0;

    while (*told < last) {
        unsigned n = log_sets_events(sets, ++*told);

        for (unsigned place = 0; place < n; place++)
            add_event(facts, out, log_sets_event(sets, *told, place), LOG_ID(*told, place));
        add_tracing(facts, *told, out);
    }
}

static void add_feature_cpu(struct buf *out, const char *machine)
{
    uint64_t feature = FEATURE_CPU;
    uint32_t room = (uint32_t)(record_padded(sizeof(room) + text_len(machine) + 1) - sizeof(room));

    add_head(out, STREAM_FEATURE, sizeof(struct record) + sizeof(feature) + sizeof(room) + room);
    buf_add(out, &feature, sizeof(feature));
    buf_add(out, &room, sizeof(room));
    add_text(out, machine, room);
}

/* For times of day: perf script -F +tod. */
static void add_feature_clock(struct buf *out, const struct log_facts *facts)
{
    uint64_t feature = FEATURE_CLOCK;
    uint32_t form[] = {CLOCK_LAYOUT, CLOCK_ID};
    uint64_t moment[] = {facts->realtime_ns, facts->monotonic_ns};

    add_head(out, STREAM_FEATURE,
             sizeof(struct record) + sizeof(feature) + sizeof(form) + sizeof(moment));
    buf_add(out, &feature, sizeof(feature));
    buf_add(out, form, sizeof(form));
    buf_add(out, moment, sizeof(moment));
}

static void perfdata_head(uint64_t *told, const struct log_facts *facts, struct buf *out)
{
    static const uint64_t size = 16;

    *told = 0;
    buf_add(out, "PERFILE2", 8);
    buf_add(out, &size, sizeof(size));
    add_new_sets(told, facts, out);
    if (*told == 0) { /* without any perf does not even understand a name */
        char name[] = "dummy", resolved[] = "dummy:u";
        struct log_event dummy = {.name = name, .resolved = resolved, .type = TYPE_SOFTWARE};

        add_event(facts, out, &dummy, DUMMY_ID);
    }
    add_feature_cpu(out, facts->machine);
    add_feature_clock(out, facts);
}

/* ---- records ---- */

/* Types of pmcfs or of a later kernel, which perf would take for others. */
static unsigned misc_of(const struct record *record)
{
    if (record->type == RECORD_COMM)
        return record->misc & (RECORD_MODE | RECORD_EXECUTED);
    if (record->type == RECORD_MAP && ((const struct record_map *)record)->pid == UINT32_MAX)
        return RECORD_KERNEL; /* by which perf knows them */
    if (record->type == RECORD_MAP)
        return record->misc & (RECORD_MODE | RECORD_DATA);
    return record->misc & RECORD_MODE;
}

/* The first len bytes of a record which is to have `size` bytes. */
static void add_begin(struct buf *out, const struct record *record, size_t len, size_t size)
{
    struct record head = {record->type, (uint16_t)misc_of(record), (uint16_t)size};

    buf_add(out, &head, sizeof(head));
    buf_add(out, record + 1, len - sizeof(head));
}

/* Up to the program's own. */
static uint64_t frames_of_kernel(const struct record_sample *sample, uint64_t n)
{
    uint64_t i = 0;

    while (i < n && sample->frame[i] != FRAME_USER)
        i++;
    return i;
}

/* perf finds the program's callers in the stack, and adds those to the frames. */
static void add_with_parts(struct buf *out, const struct log_event *event, bool raw, bool stack,
                           const struct record_sample *sample)
{
    static const uint64_t none = 0, no_raw = 4; /* which are 0 */
    uint64_t n = sample_frames(sample);
    struct sample_parts parts;

    if (!sample_parts(sample, &parts))
        parts.raw = parts.registers = NULL;
    if (!parts.raw) {
        parts.raw = &no_raw;
        parts.raw_bytes = sizeof(no_raw);
    }
    if (!parts.registers)
        parts = (struct sample_parts){.raw = parts.raw,
                                      .raw_bytes = parts.raw_bytes,
                                      .stack = &none,
                                      .stack_bytes = sizeof(none)};
    if (stack)
        n = frames_of_kernel(sample, n);
    const size_t chain = event->chains ? (1 + n) * sizeof(n) : 0;
    const size_t registers = (1 + parts.n_registers) * sizeof(n);
    add_begin(out, &sample->head, SAMPLE_SHORT,
              SAMPLE_SHORT + chain + (raw ? parts.raw_bytes : 0) +
                  (stack ? registers + parts.stack_bytes : 0));
    if (chain) {
        buf_add(out, &n, sizeof(n));
        buf_add(out, sample->frame, n * sizeof(n));
    }
    if (raw)
        buf_add(out, parts.raw, parts.raw_bytes);
    if (!stack)
        return;
    buf_add(out, &parts.abi, sizeof(parts.abi));
    buf_add(out, parts.registers, registers - sizeof(parts.abi));
    buf_add(out, parts.stack, parts.stack_bytes);
}

/* perf script prints the frames only: a sample without any would have no address. */
static void add_one_frame(struct buf *out, const struct record_sample *sample)
{
    bool kernel = (sample->head.misc & RECORD_MODE) == RECORD_KERNEL;
    uint64_t chain[] = {2, kernel ? FRAME_KERNEL : FRAME_USER, sample->ip};

    add_begin(out, &sample->head, SAMPLE_SHORT, SAMPLE_SHORT + sizeof(chain));
    buf_add(out, chain, sizeof(chain));
}

/*
 * A sample has what its event's attributes say: a call chain or none. One of an unknown event
 * would make perf give up the stream.
 */
static void add_sample(struct batch *batch, const struct record_sample *sample)
{
    const struct log_event *event = event_of(batch->sets, sample->id);
    const uint64_t n = sample_frames(sample);
    const size_t size = sizeof(*sample) + n * sizeof(sample->frame[0]);

    if (!event)
        return;
    const bool raw = shows_raw(batch->facts, event), stack = shows_stack(batch->facts, event);
    if (raw || stack)
        add_with_parts(batch->out, event, raw, stack, sample);
    else if (!event->chains)
        add_begin(batch->out, &sample->head, SAMPLE_SHORT, SAMPLE_SHORT);
    else if (n == 0)
        add_one_frame(batch->out, sample);
    else
        add_begin(batch->out, &sample->head, size, size);
}

/* An unknown id makes perf give up; 0 stands for what no event told. */
static void add_fact(struct batch *batch, const struct record *record)
{
    size_t before_id = record->size - sizeof(uint64_t);
    uint64_t id = record_tail(record)->id;

    if (!event_of(batch->sets, id))
        id = 0;
    add_begin(batch->out, record, before_id, record->size);
    buf_add(batch->out, &id, sizeof(id));
}

/*
 * perf counts a LOST as one piece, whatever its number, and perf script shows when it came; the
 * number itself it adds up, for perf report, from LOST_SAMPLES. perf record writes both too.
 */
static void add_lost_samples(struct batch *batch, uint64_t time, uint64_t id, uint64_t lost)
{
    const struct record_tail tail = {.time = time, .id = event_of(batch->sets, id) ? id : 0};

    add_head(batch->out, STREAM_LOST_SAMPLES, sizeof(struct record) + sizeof(lost) + sizeof(tail));
    buf_add(batch->out, &lost, sizeof(lost));
    buf_add(batch->out, &tail, sizeof(tail));
}

static void add_lost(struct batch *batch, const struct record_lost *lost)
{
    add_fact(batch, &lost->head);
    add_lost_samples(batch, lost->tail.time, lost->tail.id, lost->lost);
}

/* Processes are no samples. */
static bool drop_has_samples(const struct record_note *note)
{
    static const char processes[] = "inventory";

    return note->text_len != sizeof(processes) - 1 ||
           memcmp(note_text(note), processes, note->text_len) != 0;
}

static void add_drop(struct batch *batch, const struct record_note *note)
{
    if (!note->n)
        return;
    record_add_lost(batch->out, note->time, 0, note->value[0]);
    if (drop_has_samples(note))
        add_lost_samples(batch, note->time, 0, note->value[0]);
}

/* A sample to which nothing is to be done. */
static bool goes_as_it_is(struct batch *batch, const struct record *record)
{
    const struct record_sample *sample = (const struct record_sample *)record;
    const struct log_event *event;

    if (record->type != RECORD_SAMPLE || record->misc != misc_of(record) ||
        !(event = event_of(batch->sets, sample->id)))
        return false;
    if (event->stack || event->raw)
        return false;
    if (!event->chains)
        return record->size == SAMPLE_SHORT;
    return record->size != SAMPLE_SHORT && sample->n_frames > 0;
}

static void add_record(struct batch *batch, const struct record *record)
{
    switch ((enum record_type)record->type) {
    case RECORD_SAMPLE:
        add_sample(batch, (const struct record_sample *)record);
        break;
    case RECORD_LOST:
        add_lost(batch, (const struct record_lost *)record);
        break;
    case RECORD_DROP:
        add_drop(batch, (const struct record_note *)record);
        break;
    default:
        if (!record_is_note(record))
            add_fact(batch, record);
    }
}

/*
 * perf shows records only when a later round has ended: of two that end at once the second has none
 * to wait for. Nothing older can come: a log is in order.
 */
static void add_rounds(struct buf *out)
{
    add_head(out, STREAM_ROUND, sizeof(struct record));
    add_head(out, STREAM_ROUND, sizeof(struct record));
}

static void perfdata_records(uint64_t *told, const struct log_facts *facts, const void *records,
                             size_t len, struct buf *out)
{
    struct batch batch = {.facts = facts, .sets = facts->sets, .out = out};
    const char *at = records, *end = len ? at + len : at, *run = at; /* of samples, copied as one */

    add_new_sets(told, facts, out);
    while (at < end) {
        const struct record *record = (const struct record *)at;

        at += record->size;
        if (goes_as_it_is(&batch, record))
            continue;
        buf_add(out, run, (size_t)((const char *)record - run));
        add_record(&batch, record);
        run = at;
    }
    buf_add(out, run, (size_t)(at - run));
    add_rounds(out);
}

const struct log_form form_perf = {
    .name = "perf",
    .batch = BATCH_BYTES,
    .head = perfdata_head,
    .records = perfdata_records,
};
