/*
 * samples.perf: the log as perf.data in pipe format, for perf report and perf script. The head has
 * the records that perf needs first: attributes and name of each event, formats of tracepoints, the
 * processor and the clock. Records of perf types are copied.
 */
#include "core/base/event.h"
#include "core/read/reader.h"

#include <string.h>

#define BATCH_BYTES (112 * 1024)

/* The form's state per reader, in one number: the last set written, and the last set whose
 * tracepoint formats were written (0: no formats). */
#define STATE(sets, fields)  ((uint64_t)(fields) << 32 | (sets))
#define STATE_SETS(number)   ((number)&UINT32_MAX)
#define STATE_FIELDS(number) ((number) >> 32)

/* The arguments of a call of the form. */
struct stream {
    uint64_t *number;
    const struct log_facts *facts;
    struct buf *out;
};

/* Returns true if the reader may see user stacks of this event. perf then unwinds them; otherwise
 * samples have frames. */
static inline bool has_stack(const struct stream *stream, const struct log_event *event)
{
    return event->stack && memory_right_covers(&stream->facts->reader, &event->observer);
}

/* Returns true if the stream has the format of this event, and the reader may see its tracepoint
 * fields, which can describe other tasks. */
static inline bool has_fields(const struct stream *stream, const struct log_event *event,
                              uint64_t id)
{
    return event->raw && LOG_ID_SET(id) <= STATE_FIELDS(*stream->number) &&
           memory_right_covers(&stream->facts->reader, &event->observer);
}

/* Record types of the stream. */
#define STREAM_LOST_SAMPLES 13
#define STREAM_ATTR         64
#define STREAM_TRACING      66
#define STREAM_ROUND        68
#define STREAM_UPDATE       78
#define STREAM_FEATURE      80

#define UPDATE_NAME   2
#define FEATURE_CPU   8  /* name of the processor */
#define FEATURE_CLOCK 29 /* one time in CLOCK_REALTIME and in the clock of the records */
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

/*
 * perf_event_attr, with the size of most perf versions. Some versions expect the ids at the size of
 * their own struct, and older versions reject files with a longer one (perf inject).
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

/* ---- events ---- */

/* Appends the head of a record of the stream. */
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

/* Appends a text, padded with NULs to `room` bytes. */
static void add_text(struct buf *out, const char *text, size_t room)
{
    size_t len = text_len(text);

    buf_add(out, text, len);
    for (; len < room; len++)
        buf_char(out, '\0');
}

/*
 * Returns true if perf can read the event with its type. Other events are declared as a clock and
 * keep their name: dynamic PMU numbers differ between hosts, tracepoints need fields that the
 * reader may not see, and perf handles a few software events specially.
 */
static bool type_is_plain(const struct log_event *event)
{
    if (event->type == TYPE_SOFTWARE)
        return event->config < DUMMY;
    return event->type < TYPE_BREAKPOINT && event->type != TYPE_TRACEPOINT;
}

/* Returns true if the event counts only in this mode, ":u" or ":k". perf needs kernel symbols only
 * for events that count the kernel. */
static bool counts_only(const struct log_event *event, const char *mode)
{
    size_t len = strlen(event->resolved);

    return len >= strlen(mode) && strcmp(event->resolved + len - strlen(mode), mode) == 0;
}

/* Appends the attributes and the name of an event. */
static void add_event(const struct stream *stream, const struct log_event *event, uint64_t id)
{
    bool stack = has_stack(stream, event), raw = has_fields(stream, event, id);
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
    const uint64_t update[] = {UPDATE_NAME, id};
    const size_t room = record_padded(text_len(event->name) + 1);

    add_head(stream->out, STREAM_ATTR, sizeof(struct record) + sizeof(attr) + sizeof(id));
    buf_add(stream->out, &attr, sizeof(attr));
    buf_add(stream->out, &id, sizeof(id));
    add_head(stream->out, STREAM_UPDATE, sizeof(struct record) + sizeof(update) + room);
    buf_add(stream->out, update, sizeof(update));
    add_text(stream->out, event->name, room);
}

/* ---- formats of tracepoints ---- */

/* Finds the tracepoints of sets from..to whose fields the reader may see, without duplicates.
 * Returns their number, or 0 if there are too many. */
static unsigned fields_find(const struct stream *stream, uint64_t from, uint64_t to,
                            const struct log_event *events[SET_MAX])
{
    unsigned n = 0, same;

    for (uint64_t set = from; set <= to; set++)
        for (unsigned i = 0; i < log_sets_events(stream->facts->sets, set); i++) {
            const struct log_event *event = log_sets_event(stream->facts->sets, set, i);

            if (!event->raw || !memory_right_covers(&stream->facts->reader, &event->observer))
                continue;
            for (same = 0; same < n && events[same]->config != event->config; same++)
                ;
            if (same == SET_MAX)
                return 0;
            events[same] = event;
            n += same == n;
        }
    return n;
}

/*
 * Appends the events of all sets that are not written yet, and the formats of their tracepoints.
 * perf reads formats only once per stream and aborts at fields without a format, so only sets known
 * at that time have fields.
 */
static void perfdata_sets(struct stream *stream)
{
    const struct log_facts *facts = stream->facts;
    const struct log_sets *sets = facts->sets;
    const uint64_t before = STATE_SETS(*stream->number), last = sets ? log_sets_last(sets) : 0;
    const struct log_event *events[SET_MAX];
    struct buf formats = {0};
    unsigned n = 0;

    if (before >= last)
        return;
    if (!STATE_FIELDS(*stream->number) && facts->print_tracing_data)
        n = fields_find(stream, before + 1, last, events);
    bool fields = n && facts->print_tracing_data(facts->backend_state, events, n, &formats);
    while (fields && formats.len % 8 && !formats.failed)
        buf_char(&formats, '\0');
    fields = fields && !formats.failed;
    *stream->number = STATE(last, fields ? last : STATE_FIELDS(*stream->number));
    for (uint64_t set = before + 1; set <= last; set++)
        for (unsigned index = 0; index < log_sets_events(sets, set); index++)
            add_event(stream, log_sets_event(sets, set, index), LOG_ID(set, index));
    if (fields) {
        const uint32_t size = (uint32_t)formats.len;

        add_head(stream->out, STREAM_TRACING, sizeof(struct record) + sizeof(size));
        buf_add(stream->out, &size, sizeof(size));
        buf_add(stream->out, formats.data, formats.len);
    }
    stream->out->failed |= formats.failed;
    buf_free(&formats);
}

/* ---- the head ---- */

static void perfdata_head(uint64_t *number, const struct log_facts *facts, struct buf *out)
{
    static const uint64_t size = 16, feature_cpu = FEATURE_CPU, feature_clock = FEATURE_CLOCK;
    static const uint32_t clock_form[] = {CLOCK_LAYOUT, CLOCK_ID};
    const uint64_t moment[] = {facts->realtime_ns, facts->monotonic_ns};
    const uint32_t room =
        (uint32_t)(record_padded(sizeof(room) + text_len(facts->processor) + 1) - sizeof(room));
    struct stream stream = {.number = number, .facts = facts, .out = out};

    *number = 0;
    buf_add(out, "PERFILE2", 8);
    buf_add(out, &size, sizeof(size));
    perfdata_sets(&stream);
    if (*number == 0) { /* perf needs at least one event to read names */
        char name[] = "dummy", resolved[] = "dummy:u";
        struct log_event dummy = {.name = name, .resolved = resolved, .type = TYPE_SOFTWARE};

        add_event(&stream, &dummy, DUMMY_ID);
    }
    add_head(out, STREAM_FEATURE,
             sizeof(struct record) + sizeof(feature_cpu) + sizeof(room) + room);
    buf_add(out, &feature_cpu, sizeof(feature_cpu));
    buf_add(out, &room, sizeof(room));
    add_text(out, facts->processor, room);
    /* lets perf script -F +tod print times of day */
    add_head(out, STREAM_FEATURE,
             sizeof(struct record) + sizeof(feature_clock) + sizeof(clock_form) + sizeof(moment));
    buf_add(out, &feature_clock, sizeof(feature_clock));
    buf_add(out, clock_form, sizeof(clock_form));
    buf_add(out, moment, sizeof(moment));
}

/* ---- records ---- */

/* Returns misc without bits that perf would misunderstand. */
static unsigned misc_of(const struct record *record)
{
    if (record->type == RECORD_COMM)
        return record->misc & (RECORD_MODE | RECORD_EXECUTED);
    if (record->type == RECORD_MAP && ((const struct record_map *)record)->pid == UINT32_MAX)
        return RECORD_KERNEL; /* perf expects this for kernel mappings */
    if (record->type == RECORD_MAP)
        return record->misc & (RECORD_MODE | RECORD_DATA);
    return record->misc & RECORD_MODE;
}

/* Appends the first len bytes of a record, with `size` in its head. */
static void add_begin(struct buf *out, const struct record *record, size_t len, size_t size)
{
    struct record head = {record->type, (uint16_t)misc_of(record), (uint16_t)size};

    buf_add(out, &head, sizeof(head));
    buf_add(out, record + 1, len - sizeof(head));
}

/* Appends a sample with tracepoint fields or a stack. raw, stack: the parts that the attributes of
 * the event declare; a part that the sample lacks is written as empty. User frames are left out if
 * there is a stack: perf unwinds it and adds them. */
static void add_with_parts(struct buf *out, const struct log_event *event, bool raw, bool stack,
                           const struct record_sample *sample)
{
    static const uint64_t none = 0, no_raw = 4; /* raw: a size of 4 and four bytes of 0 */
    uint64_t n = sample_frames(sample), kernel = 0;
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
    while (kernel < n && sample->frame[kernel] != FRAME_USER)
        kernel++;
    if (stack)
        n = kernel;
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

/*
 * Appends a sample with the parts that the attributes of its event declare. Skips samples of
 * unknown events, because perf would abort.
 */
static void add_sample(struct stream *stream, const struct record_sample *sample)
{
    const struct log_event *event = event_of(stream->facts->sets, sample->id);
    const uint64_t n = sample_frames(sample);
    const size_t size = sizeof(*sample) + n * sizeof(sample->frame[0]);

    if (!event)
        return;
    const bool raw = has_fields(stream, event, sample->id), stack = has_stack(stream, event);
    if (raw || stack)
        add_with_parts(stream->out, event, raw, stack, sample);
    else if (!event->chains)
        add_begin(stream->out, &sample->head, SAMPLE_SHORT, SAMPLE_SHORT);
    else if (n > 0)
        add_begin(stream->out, &sample->head, size, size);
    else { /* perf script prints only frames: add the address as a frame */
        const bool kernel = (sample->head.misc & RECORD_MODE) == RECORD_KERNEL;
        const uint64_t chain[] = {2, kernel ? FRAME_KERNEL : FRAME_USER, sample->ip};

        add_begin(stream->out, &sample->head, SAMPLE_SHORT, SAMPLE_SHORT + sizeof(chain));
        buf_add(stream->out, chain, sizeof(chain));
    }
}

/* Appends a record of a perf type other than SAMPLE. perf aborts at unknown ids: they become 0. */
static void add_fact(struct stream *stream, const struct record *record)
{
    uint64_t id = record_tail(record)->id;

    if (!event_of(stream->facts->sets, id))
        id = 0;
    add_begin(stream->out, record, record->size - sizeof(id), record->size);
    buf_add(stream->out, &id, sizeof(id));
}

/*
 * Appends a LOST_SAMPLES record. perf record writes LOST and LOST_SAMPLES too: perf script shows
 * the time of LOST, and perf report adds up the numbers in LOST_SAMPLES.
 */
static void add_lost_samples(struct stream *stream, uint64_t time, uint64_t id, uint64_t lost)
{
    const struct record_tail tail = {.time = time,
                                     .id = event_of(stream->facts->sets, id) ? id : 0};

    add_head(stream->out, STREAM_LOST_SAMPLES, sizeof(struct record) + sizeof(lost) + sizeof(tail));
    buf_add(stream->out, &lost, sizeof(lost));
    buf_add(stream->out, &tail, sizeof(tail));
}

/* Returns true for samples that can be copied unchanged. */
static bool is_copied(struct stream *stream, const struct record *record)
{
    const struct record_sample *sample = (const struct record_sample *)record;
    const struct log_event *event;

    if (record->type != RECORD_SAMPLE || record->misc != misc_of(record) ||
        !(event = event_of(stream->facts->sets, sample->id)))
        return false;
    if (event->stack || event->raw)
        return false;
    if (!event->chains)
        return record->size == SAMPLE_SHORT;
    return record->size != SAMPLE_SHORT && sample->n_frames > 0;
}

static void add_record(struct stream *stream, const struct record *record)
{
    static const char inventory[] = "inventory"; /* counts processes, not samples */
    const struct record_lost *lost = (const struct record_lost *)record;
    const struct record_note *drop = (const struct record_note *)record;
    uint64_t samples;

    switch ((enum record_type)record->type) {
    case RECORD_SAMPLE:
        add_sample(stream, (const struct record_sample *)record);
        break;
    case RECORD_LOST:
        add_fact(stream, record);
        add_lost_samples(stream, lost->tail.time, lost->tail.id, lost->lost);
        break;
    case RECORD_DROP:
        if (!drop->n)
            break;
        samples = drop->value[drop->n > 1];
        record_add_lost(stream->out, drop->time, 0, samples ? samples : drop->value[0]);
        if (samples && (drop->text_len != strlen(inventory) ||
                        memcmp(note_text(drop), inventory, drop->text_len) != 0))
            add_lost_samples(stream, drop->time, 0, samples);
        break;
    default:
        if (!record_is_note(record))
            add_fact(stream, record);
    }
}

/* Appends PERF_RECORD_FINISHED_ROUND, which lets perf sort and show earlier records. */
void perfdata_round(struct buf *out)
{
    add_head(out, STREAM_ROUND, sizeof(struct record));
}

/* perf shows the records of a round after the next round is finished, so the second one makes it
 * show them now. The log is in order, so no older record follows. */
static void add_rounds(struct buf *out)
{
    perfdata_round(out);
    perfdata_round(out);
}

static bool perfdata_in_place(uint64_t *number, const struct log_facts *facts, size_t begun,
                              struct buf *out)
{
    struct stream stream = {.number = number, .facts = facts, .out = out};
    const struct record *record;

    if (facts->sets && STATE_SETS(*number) < log_sets_last(facts->sets))
        return false;
    for (size_t at = begun; at < out->len; at += record->size) {
        record = (const struct record *)(out->data + at);
        if (!is_copied(&stream, record))
            return false;
    }
    add_rounds(out);
    return true;
}

static void perfdata_records(uint64_t *number, const struct log_facts *facts, const void *records,
                             size_t len, struct buf *out)
{
    struct stream stream = {.number = number, .facts = facts, .out = out};
    const char *at = records, *end = len ? at + len : at,
               *run = at; /* run: samples that are copied at once */

    perfdata_sets(&stream);
    while (at < end) {
        const struct record *record = (const struct record *)at;

        at += record->size;
        if (is_copied(&stream, record))
            continue;
        buf_add(out, run, (size_t)((const char *)record - run));
        add_record(&stream, record);
        run = at;
    }
    buf_add(out, run, (size_t)(at - run));
    add_rounds(out);
}

const struct log_form form_perf = {
    .name = "perf",
    .batch = BATCH_BYTES,
    .head = perfdata_head,
    .in_place = perfdata_in_place,
    .records = perfdata_records,
};
