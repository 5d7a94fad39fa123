/*
 * samples.perf: the log as perf.data in pipe format, for perf report and perf script. Records of
 * perf types are copied. perfdata_head.c writes the records that perf needs first.
 */
#include "core/read/perfdata.h"

#include <string.h>

/* Record types of the stream. */
#define STREAM_LOST_SAMPLES 13
#define STREAM_ROUND        68

#define BATCH_BYTES (112 * 1024)

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

/* Returns the number of frames before the user frames. */
static uint64_t frames_of_kernel(const struct record_sample *sample, uint64_t n)
{
    uint64_t i = 0;

    while (i < n && sample->frame[i] != FRAME_USER)
        i++;
    return i;
}

/* Appends a sample with tracepoint fields or a stack. User frames are left out if there is a stack:
 * perf unwinds it and adds them. */
static void add_with_parts(struct buf *out, const struct log_event *event, bool raw, bool stack,
                           const struct record_sample *sample)
{
    static const uint64_t none = 0, no_raw = 4; /* four bytes, all 0 */
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

/* Appends a sample with its address as the only frame, because perf script prints only frames. */
static void add_one_frame(struct buf *out, const struct record_sample *sample)
{
    bool kernel = (sample->head.misc & RECORD_MODE) == RECORD_KERNEL;
    uint64_t chain[] = {2, kernel ? FRAME_KERNEL : FRAME_USER, sample->ip};

    add_begin(out, &sample->head, SAMPLE_SHORT, SAMPLE_SHORT + sizeof(chain));
    buf_add(out, chain, sizeof(chain));
}

/*
 * Appends a sample with the parts that the attributes of its event declare. Skips samples of
 * unknown events, because perf would abort.
 */
static void add_sample(struct told *told, const struct record_sample *sample)
{
    const struct log_event *event = event_of(told->facts->sets, sample->id);
    const uint64_t n = sample_frames(sample);
    const size_t size = sizeof(*sample) + n * sizeof(sample->frame[0]);

    if (!event)
        return;
    const bool raw = told_fields(told, event, sample->id), stack = told_stack(told, event);
    if (raw || stack)
        add_with_parts(told->out, event, raw, stack, sample);
    else if (!event->chains)
        add_begin(told->out, &sample->head, SAMPLE_SHORT, SAMPLE_SHORT);
    else if (n == 0)
        add_one_frame(told->out, sample);
    else
        add_begin(told->out, &sample->head, size, size);
}

/* Appends a record other than a sample. perf aborts at unknown ids, so these become 0 (no event).
 */
static void add_fact(struct told *told, const struct record *record)
{
    size_t before_id = record->size - sizeof(uint64_t);
    uint64_t id = record_tail(record)->id;

    if (!event_of(told->facts->sets, id))
        id = 0;
    add_begin(told->out, record, before_id, record->size);
    buf_add(told->out, &id, sizeof(id));
}

/*
 * Appends a LOST_SAMPLES record. perf record writes LOST and LOST_SAMPLES too: perf script shows
 * the time of LOST, and perf report adds up the numbers in LOST_SAMPLES.
 */
static void add_lost_samples(struct told *told, uint64_t time, uint64_t id, uint64_t lost)
{
    const struct record_tail tail = {.time = time, .id = event_of(told->facts->sets, id) ? id : 0};

    perfdata_record(told->out, STREAM_LOST_SAMPLES,
                    sizeof(struct record) + sizeof(lost) + sizeof(tail));
    buf_add(told->out, &lost, sizeof(lost));
    buf_add(told->out, &tail, sizeof(tail));
}

static void add_lost(struct told *told, const struct record_lost *lost)
{
    add_fact(told, &lost->head);
    add_lost_samples(told, lost->tail.time, lost->tail.id, lost->lost);
}

/* Returns false for drops of the inventory: they count processes. */
static bool drop_has_samples(const struct record_note *note)
{
    static const char processes[] = "inventory";

    return note->text_len != sizeof(processes) - 1 ||
           memcmp(note_text(note), processes, note->text_len) != 0;
}

static void add_drop(struct told *told, const struct record_note *note)
{
    const uint64_t samples = note->n > 1 ? note->value[1] : note->n ? note->value[0] : 0;

    if (!note->n)
        return;
    record_add_lost(told->out, note->time, 0, samples ? samples : note->value[0]);
    if (samples && drop_has_samples(note))
        add_lost_samples(told, note->time, 0, samples);
}

/* Returns true for samples that can be copied unchanged. */
static bool goes_as_it_is(struct told *told, const struct record *record)
{
    const struct record_sample *sample = (const struct record_sample *)record;
    const struct log_event *event;

    if (record->type != RECORD_SAMPLE || record->misc != misc_of(record) ||
        !(event = event_of(told->facts->sets, sample->id)))
        return false;
    if (event->stack || event->raw)
        return false;
    if (!event->chains)
        return record->size == SAMPLE_SHORT;
    return record->size != SAMPLE_SHORT && sample->n_frames > 0;
}

static void add_record(struct told *told, const struct record *record)
{
    switch ((enum record_type)record->type) {
    case RECORD_SAMPLE:
        add_sample(told, (const struct record_sample *)record);
        break;
    case RECORD_LOST:
        add_lost(told, (const struct record_lost *)record);
        break;
    case RECORD_DROP:
        add_drop(told, (const struct record_note *)record);
        break;
    default:
        if (!record_is_note(record))
            add_fact(told, record);
    }
}

void perfdata_round(struct buf *out)
{
    perfdata_record(out, STREAM_ROUND, sizeof(struct record));
}

/*
 * Appends two FINISHED_ROUND records. perf shows the records of a round after the next round is
 * finished, so the second one makes it show them now. The log is in order, so no older record
 * follows.
 */
static void add_rounds(struct buf *out)
{
    perfdata_round(out);
    perfdata_round(out);
}

static void perfdata_records(uint64_t *number, const struct log_facts *facts, const void *records,
                             size_t len, struct buf *out)
{
    struct told told = {.number = number, .facts = facts, .out = out};
    const char *at = records, *end = len ? at + len : at,
               *run = at; /* run: samples that are copied at once */

    perfdata_sets(&told);
    while (at < end) {
        const struct record *record = (const struct record *)at;

        at += record->size;
        if (goes_as_it_is(&told, record))
            continue;
        buf_add(out, run, (size_t)((const char *)record - run));
        add_record(&told, record);
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
