/*
 * A log as text: one line per record, "SECONDS.NANOSECONDS TYPE key=value …". Lines of samples are
 * written without stdio, because a reader may read millions of them per second.
 */
#include "core/base/buf.h"
#include "core/call.h"
#include "core/log/trace_format.h"
#include "core/read/reader.h"

#include <string.h>

#define TEXT_MAX 32768 /* bytes shown of one text that a program or caller supplied */

/* Prints a PID or TID; UINT32_MAX is the kernel, printed as -1. */
static void put_pid(struct buf *out, uint32_t pid)
{
    if (pid == UINT32_MAX)
        BUF_LITERAL(out, "-1");
    else
        buf_u64(out, pid);
}

/* Prints text of a program or a caller as one escaped word. Longer text is cut after TEXT_MAX
 * bytes, with "…" at the end. */
static void put_text(struct buf *out, const char *text, size_t len)
{
    const size_t shown = utf8_cut(text, len, TEXT_MAX);

    buf_word(out, text, shown);
    if (shown < len)
        BUF_LITERAL(out, "…");
}

/* Prints the events of a set, separated by blanks in text, with commas between them. Commas in an
 * event are escaped. Prints "-" for no event. */
static void put_events(struct buf *out, const char *text, size_t len)
{
    for (size_t at = 0, n; at < len; at += n + 1) {
        for (n = 0; at + n < len && text[at + n] != ' ' && text[at + n] != ',';)
            n++;
        buf_word(out, text + at, n);
        if (at + n < len)
            buf_str(out, text[at + n] == ' ' ? "," : "\\054");
    }
    if (!len)
        buf_char(out, '-');
}

/* ---- the first line ---- */

static void text_head(uint64_t *state, const struct log_facts *facts, struct buf *out)
{
    (void)state;
    buf_seconds(out, facts->monotonic_ns);
    BUF_LITERAL(out, " initialize version=" PMCFS_VERSION " machine=");
    put_text(out, facts->processor, strlen(facts->processor));
    BUF_LITERAL(out, " class=");
    put_text(out, facts->class, strlen(facts->class));
    BUF_LITERAL(out, " event=");
    put_events(out, facts->event, strlen(facts->event));
    BUF_LITERAL(out, " realtime=");
    buf_seconds(out, facts->realtime_ns);
    BUF_LITERAL(out, " tsc=");
    if (facts->tsc)
        buf_u64(out, facts->tsc);
    else
        buf_char(out, '-');
    buf_char(out, '\n');
}

/* ---- samples ---- */

static void put_frames(struct buf *out, const struct record_sample *sample, uint64_t n)
{
    bool kernel = (sample->head.misc & RECORD_MODE) == RECORD_KERNEL, any = false;

    BUF_LITERAL(out, " ips=");
    for (uint64_t i = 0; i < n; i++) {
        uint64_t frame = sample->frame[i];

        if (frame >= FRAME_MARKERS) {
            kernel = frame == FRAME_KERNEL;
            continue;
        }
        if (any)
            buf_char(out, ',');
        if (kernel)
            BUF_LITERAL(out, "k:");
        buf_hex(out, frame);
        any = true;
    }
    if (!any)
        buf_char(out, '-');
}

/* Prints the tracepoint fields of a sample, if the reader may see them. The backend reads the
 * format when it is first needed, and in a later worker again. */
static void put_raw(struct buf *out, const struct log_facts *facts, const struct log_event *event,
                    const struct record_sample *sample)
{
    const char *format = log_event_format(event);
    struct sample_parts parts;
    uint32_t bytes;

    if (!memory_right_covers(&facts->reader, &event->observer) || !sample_parts(sample, &parts) ||
        !parts.raw)
        return;
    if (!format && facts->tracepoint_format) {
        char *text = facts->tracepoint_format(facts->backend_state, event);

        format = text ? log_event_keep_format(event, text) : NULL;
    }
    memcpy(&bytes, parts.raw, sizeof bytes);
    if (format && bytes <= parts.raw_bytes - sizeof bytes)
        trace_fields_print(format, (const char *)parts.raw + sizeof bytes, bytes, out);
}

static void put_sample(struct buf *out, const struct log_facts *facts,
                       const struct record_sample *sample)
{
    const struct log_event *event = event_of(facts->sets, sample->id);
    const bool chain = sample->head.size >= sizeof *sample &&
                       (!(sample->head.misc & RECORD_RAW) || (event && event->chains));

    buf_seconds(out, sample->time);
    if (chain)
        BUF_LITERAL(out, " callchain pid=");
    else
        BUF_LITERAL(out, " sample pid=");
    put_pid(out, sample->pid);
    BUF_LITERAL(out, " tid=");
    put_pid(out, sample->tid);
    BUF_LITERAL(out, " cpu=");
    if (sample->cpu == UINT32_MAX)
        buf_char(out, '-');
    else
        buf_u64(out, sample->cpu);
    BUF_LITERAL(out, " ip=");
    buf_hex(out, sample->ip);
    BUF_LITERAL(out, " event=");
    if (event)
        buf_add(out, event->word, event->word_len);
    else
        buf_char(out, '-');
    BUF_LITERAL(out, " period=");
    buf_u64(out, sample->period);
    if (chain)
        put_frames(out, sample, sample_frames(sample));
    if (event && event->raw)
        put_raw(out, facts, event, sample);
    buf_char(out, '\n');
}

/*
 * ---- other records ----
 *
 * Fields and their order come from record_table. A field in brackets is omitted if it has no value.
 */

/* The field values of a line. */
struct fields {
    enum record_type type;
    uint64_t time;
    uint32_t pid, tid, child, cpu; /* unused: 0, cpu UINT32_MAX */
    unsigned n;                    /* number of values */
    const uint64_t *value;
    const char *text;
    size_t text_len;
    unsigned misc;
};

enum line_word {
    WORD_PID,
    WORD_TID,
    WORD_CPU,
    WORD_COUNT,
    WORD_LAST,
    WORD_EXACT,
    WORD_START,
    WORD_END,
    WORD_OFFSET,
    WORD_CHILD,
    WORD_LOST,
    WORD_RECORDS,
    WORD_EVENT,
    WORD_REASON,
    WORD_OFF_NS,
    WORD_TEXT /* path, name, text, where, target */
};

static enum line_word key_of(const char *word, size_t len)
{
    static const char *const words[WORD_TEXT] = {"pid",   "tid",     "cpu",   "count",  "last",
                                                 "exact", "start",   "end",   "offset", "child",
                                                 "lost",  "records", "event", "reason", "off_ns"};
    unsigned key = 0;

    while (key < WORD_TEXT && (strncmp(words[key], word, len) != 0 || words[key][len]))
        key++;
    return key;
}

/* Prints the value of a field. Returns false if it has none; the caller then discards what was
 * printed. */
static bool put_value(struct buf *out, const struct fields *fields, enum line_word key)
{
    const enum record_type type = fields->type;
    const uint32_t number = key == WORD_TID ? fields->tid : fields->pid;
    /* the last word of a detach is its reason */
    const char *reason =
        type == RECORD_DETACH ? memrchr(fields->text, ' ', fields->text_len) : NULL;

    switch (key) {
    case WORD_PID:
    case WORD_TID:
        put_pid(out, number);
        /* 0 means no process in these types, and in others a number outside of the namespace */
        return number || (type != RECORD_SWITCH && type != RECORD_COUNT && type != RECORD_ATTACH &&
                          type != RECORD_DETACH);
    case WORD_CPU:
        buf_u64(out, fields->cpu);
        return fields->cpu != UINT32_MAX;
    case WORD_COUNT:
    case WORD_OFF_NS:
        for (unsigned i = 0; i < fields->n; i++) {
            if (i)
                buf_char(out, ',');
            buf_u64(out, fields->value[i]);
        }
        return fields->n;
    case WORD_LAST:
        BUF_LITERAL(out, "yes");
        return fields->misc & RECORD_LAST;
    case WORD_EXACT: /* SWITCH, and COUNT of unknown processes: only if counts may be missing */
        buf_str(out, fields->misc & RECORD_EXACT ? "yes" : "no");
        return fields->misc & RECORD_INCOMPLETE ||
               (type == RECORD_COUNT && fields->n && fields->pid);
    case WORD_START:
    case WORD_END:
    case WORD_OFFSET:
        if (fields->n > key - WORD_START)
            buf_hex(out, fields->value[key - WORD_START]);
        return fields->n > key - WORD_START;
    case WORD_CHILD:
        put_pid(out, fields->child);
        return true;
    case WORD_LOST: /* the samples of a DROP: its last value */
        if (fields->n)
            buf_u64(out, fields->value[fields->n - 1]);
        return fields->n;
    case WORD_RECORDS: /* the records of all types of a DROP that has two values */
        if (fields->n > 1)
            buf_u64(out, fields->value[0]);
        return fields->n > 1;
    case WORD_EVENT:
        put_events(out, fields->text, fields->text_len);
        return true;
    case WORD_REASON:
        if (type == RECORD_RUN) {
            buf_str(out, fields->misc & RECORD_WAS_PREEMPTED ? "preempt" : "sleep");
            return fields->n;
        }
        if (reason)
            put_text(out, reason + 1, fields->text_len - (size_t)(reason + 1 - fields->text));
        return reason;
    case WORD_TEXT:
        break;
    }
    put_text(out, fields->text, reason ? (size_t)(reason - fields->text) : fields->text_len);
    return type != RECORD_THREAD || fields->text_len;
}

static void put_fields(struct buf *out, const struct fields *fields)
{
    const struct record_row *row = record_table + 1; /* the first row has no record */

    while (row < record_table + record_rows && row->type != fields->type)
        row++;
    if (row == record_table + record_rows) /* a type of a later version */
        return;
    buf_seconds(out, fields->time);
    buf_char(out, ' ');
    buf_str(out, row->word);
    for (const char *at = row->fields; *at;) {
        const bool optional = *at == '[';
        const char *word = at + optional;
        const size_t len = strcspn(word, " ]"), begun = out->len;

        buf_char(out, ' ');
        buf_add(out, word, len);
        buf_char(out, '=');
        const size_t value = out->len;
        if (!put_value(out, fields, key_of(word, len))) {
            out->len = optional ? begun : value;
            if (!optional)
                BUF_LITERAL(out, "-");
        }
        at = word + len + optional;
        at += *at == ' ';
    }
    BUF_LITERAL(out, "\n");
}

/* ---- records ---- */

/* Returns the length of a text that ends at a NUL or at the end of the record. */
static size_t text_len(const struct record *record, const char *text)
{
    return strnlen(text, (size_t)((const char *)record + record->size - text));
}

/* Prints the line of a record that is not a sample; nothing for a type without a line. */
static void put_line(struct buf *out, const struct record *record)
{
    const struct record_comm *comm = (const void *)record;
    const struct record_task *fork = (const void *)record;
    const struct record_map *map = (const void *)record;
    const struct record_note *note = (const void *)record;
    struct fields fields = {.time = record_time(record)};
    uint64_t place[3];

    switch (record->type) {
    case RECORD_COMM:
        if (record->misc & RECORD_EXECUTED)
            return; /* an EXEC record follows */
        fields.type = comm->pid == comm->tid ? RECORD_PROCESS : RECORD_THREAD;
        fields.pid = comm->pid;
        fields.tid = comm->tid;
        fields.text = comm->name;
        fields.text_len = text_len(record, comm->name);
        break;
    case RECORD_FORK:
        fields.type = fork->pid == fork->ppid ? RECORD_THREAD : RECORD_FORK;
        fields.time = fork->time;
        fields.pid = fork->ppid;
        fields.tid = fork->tid;
        fields.child = fork->pid;
        break;
    case RECORD_MAP:
        if (record->misc & RECORD_DATA)
            return; /* data mappings are only for perf */
        place[0] = map->start;
        place[1] = map->start + map->length;
        place[2] = map->offset;
        fields.type = RECORD_MAP;
        fields.pid = map->pid;
        fields.n = 3;
        fields.value = place;
        fields.text = map->path;
        fields.text_len = text_len(record, map->path);
        break;
    case RECORD_LOST:
        fields.type = RECORD_DROP;
        fields.n = 1;
        fields.value = &((const struct record_lost *)record)->lost;
        fields.text = "kernel";
        fields.text_len = strlen(fields.text);
        break;
    case RECORD_THROTTLE:
        fields.type = RECORD_DROP;
        fields.time = ((const struct record_throttle *)record)->time;
        fields.text = "throttle";
        fields.text_len = strlen(fields.text);
        break;
    default:
        if (!record_is_note(record))
            return; /* EXIT: processes have a COUNT record; UNTHROTTLE: THROTTLE has a line */
        fields = (struct fields){.type = record->type,
                                 .time = note->time,
                                 .pid = note->pid,
                                 .tid = note->tid,
                                 .cpu = note->cpu,
                                 .n = note->n,
                                 .value = note->value,
                                 .text = note_text(note),
                                 .text_len = note->text_len,
                                 .misc = record->misc};
    }
    put_fields(out, &fields);
}

/* ---- the form ---- */

static void text_records(uint64_t *state, const struct log_facts *facts, const void *records,
                         size_t len, struct buf *out)
{
    const char *at = records, *end = at + len;

    (void)state;
    for (; at < end; at += ((const struct record *)at)->size) {
        const struct record *record = (const struct record *)at;

        if (record->type == RECORD_SAMPLE)
            put_sample(out, facts, (const struct record_sample *)record);
        else
            put_line(out, record);
    }
}

const struct log_form form_text = {
    .name = "text",
    .batch = 48 << 10,
    .head = text_head,
    .records = text_records,
};
