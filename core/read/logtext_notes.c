/*
 * Prints all records except samples. Fields and their order come from record_table. A field in
 * brackets is omitted if it has no value.
 */
#include "core/read/logtext.h"

#include <string.h>

/* The field values of a line. */
struct said {
    enum record_type type;
    uint64_t time;
    uint32_t pid, tid, child, cpu; /* unused: 0, cpu UINT32_MAX */
    unsigned n;                    /* number of values */
    const uint64_t *value;
    const char *text;
    size_t text_len;
    unsigned misc;
};

/* ---- fields: print a value, or return false if there is none ---- */

/* 0 means no process in these record types; in others it is an unknown number. */
static bool put_number(struct buf *out, const struct said *said, uint32_t number)
{
    put_pid(out, number);
    return number || (said->type != RECORD_SWITCH && said->type != RECORD_COUNT &&
                      said->type != RECORD_ATTACH && said->type != RECORD_DETACH);
}

static bool put_process(struct buf *out, const struct said *said)
{
    return put_number(out, said, said->pid);
}

static bool put_thread(struct buf *out, const struct said *said)
{
    return put_number(out, said, said->tid);
}

static bool put_child(struct buf *out, const struct said *said)
{
    put_pid(out, said->child);
    return true;
}

static bool put_on(struct buf *out, const struct said *said)
{
    if (said->cpu != UINT32_MAX)
        buf_u64(out, said->cpu);
    return said->cpu != UINT32_MAX;
}

static bool put_values(struct buf *out, const struct said *said)
{
    for (unsigned i = 0; i < said->n; i++) {
        if (i)
            buf_char(out, ',');
        buf_u64(out, said->value[i]);
    }
    return said->n;
}

/* The samples of a RECORD_DROP: its last value. */
static bool put_lost(struct buf *out, const struct said *said)
{
    if (said->n)
        buf_u64(out, said->value[said->n - 1]);
    return said->n;
}

/* The records of all types of a RECORD_DROP that has two values. */
static bool put_records(struct buf *out, const struct said *said)
{
    if (said->n > 1)
        buf_u64(out, said->value[0]);
    return said->n > 1;
}

static bool put_last(struct buf *out, const struct said *said)
{
    BUF_LITERAL(out, "yes");
    return said->misc & RECORD_LAST;
}

/* SWITCH, and COUNT of unknown processes, have this field only if counts may be missing. */
static bool put_exact(struct buf *out, const struct said *said)
{
    buf_str(out, said->misc & RECORD_EXACT ? "yes" : "no");
    return said->misc & RECORD_LACKS || (said->type == RECORD_COUNT && said->n && said->pid);
}

static bool put_place(struct buf *out, const struct said *said, unsigned i)
{
    if (i < said->n)
        buf_hex(out, said->value[i]);
    return i < said->n;
}

static bool put_start(struct buf *out, const struct said *said)
{
    return put_place(out, said, 0);
}

static bool put_end(struct buf *out, const struct said *said)
{
    return put_place(out, said, 1);
}

static bool put_offset(struct buf *out, const struct said *said)
{
    return put_place(out, said, 2);
}

static bool put_set(struct buf *out, const struct said *said)
{
    put_events(out, said->text, said->text_len);
    return true;
}

/* The last word of a detach is its reason. */
static const char *reason_of(const struct said *said)
{
    return said->type == RECORD_DETACH ? memrchr(said->text, ' ', said->text_len) : NULL;
}

static bool put_reason(struct buf *out, const struct said *said)
{
    const char *reason = reason_of(said);

    if (reason)
        put_text(out, reason + 1, (size_t)(said->text + said->text_len - (reason + 1)));
    return reason;
}

static bool put_words(struct buf *out, const struct said *said)
{
    const char *reason = reason_of(said);

    if (said->type == RECORD_THREAD && !said->text_len)
        return false;
    put_text(out, said->text, reason ? (size_t)(reason - said->text) : said->text_len);
    return true;
}

static const struct key {
    const char *word;
    bool (*put)(struct buf *out, const struct said *said);
} keys[] = {
    /* frequent fields first */
    {"pid", put_process},   {"tid", put_thread},    {"cpu", put_on},      {"count", put_values},
    {"last", put_last},     {"exact", put_exact},   {"start", put_start}, {"end", put_end},
    {"offset", put_offset}, {"child", put_child},   {"lost", put_lost},   {"records", put_records},
    {"event", put_set},     {"reason", put_reason}, {"", put_words}, /* path, name, text, where,
                                                                        target */
};

static const struct key *key_of(const char *word, size_t len)
{
    const struct key *key = keys;

    while (*key->word && (strncmp(key->word, word, len) != 0 || key->word[len]))
        key++;
    return key;
}

/* Prints a field. Without a value an optional field is omitted and others get `-`. */
static void put_field(struct buf *out, const struct said *said, const char *word, size_t len,
                      bool optional)
{
    const size_t begun = out->len;
    size_t value;

    buf_char(out, ' ');
    buf_add(out, word, len);
    buf_char(out, '=');
    value = out->len;
    if (key_of(word, len)->put(out, said))
        return;
    out->len = optional ? begun : value;
    if (!optional)
        BUF_LITERAL(out, "-");
}

static void put_said(struct buf *out, const struct said *said)
{
    const struct record_row *row = record_table + 1; /* the first row has no record */

    while (row < record_table + record_rows && row->type != said->type)
        row++;
    if (row == record_table + record_rows) /* a type of a later version */
        return;
    buf_seconds(out, said->time);
    buf_char(out, ' ');
    buf_str(out, row->word);
    for (const char *at = row->fields; *at;) {
        const bool optional = *at == '[';
        const char *word = at + optional;
        const size_t len = strcspn(word, " ]");

        put_field(out, said, word, len, optional);
        at = word + len + optional;
        at += *at == ' ';
    }
    BUF_LITERAL(out, "\n");
}

/* ---- records ---- */

/* Sets the text, which ends at a NUL or at the end of the record. */
static void text_of(struct said *said, const struct record *record, const char *text)
{
    said->text = text;
    said->text_len = strnlen(text, (size_t)((const char *)record + record->size - text));
}

static void put_comm(struct buf *out, const struct record_comm *comm)
{
    struct said said = {.type = comm->pid == comm->tid ? RECORD_PROCESS : RECORD_THREAD,
                        .time = record_time(&comm->head),
                        .pid = comm->pid,
                        .tid = comm->tid};

    if (comm->head.misc & RECORD_EXECUTED)
        return; /* an EXEC record follows */
    text_of(&said, &comm->head, comm->name);
    put_said(out, &said);
}

static void put_fork(struct buf *out, const struct record_task *task)
{
    const bool thread = task->pid == task->ppid;

    put_said(out, &(struct said){.type = thread ? RECORD_THREAD : RECORD_FORK,
                                 .time = task->time,
                                 .pid = task->ppid,
                                 .tid = task->tid,
                                 .child = task->pid});
}

static void put_map(struct buf *out, const struct record_map *map)
{
    const uint64_t place[] = {map->start, map->start + map->length, map->offset};
    struct said said = {.type = RECORD_MAP,
                        .time = record_time(&map->head),
                        .pid = map->pid,
                        .n = 3,
                        .value = place};

    text_of(&said, &map->head, map->path);
    put_said(out, &said);
}

static void put_drop(struct buf *out, uint64_t time, const uint64_t *lost, const char *where)
{
    put_said(out, &(struct said){.type = RECORD_DROP,
                                 .time = time,
                                 .n = lost != NULL,
                                 .value = lost,
                                 .text = where,
                                 .text_len = strlen(where)});
}

static void put_note(struct buf *out, const struct record_note *note)
{
    put_said(out, &(struct said){.type = note->head.type,
                                 .time = note->time,
                                 .pid = note->pid,
                                 .tid = note->tid,
                                 .cpu = note->cpu,
                                 .n = note->n,
                                 .value = note->value,
                                 .text = note_text(note),
                                 .text_len = note->text_len,
                                 .misc = note->head.misc});
}

void put_line(struct buf *out, const struct record *record)
{
    switch (record->type) {
    case RECORD_COMM:
        put_comm(out, (const struct record_comm *)record);
        break;
    case RECORD_FORK:
        put_fork(out, (const struct record_task *)record);
        break;
    case RECORD_MAP:
        if (!(record->misc & RECORD_DATA)) /* data mappings are only for perf */
            put_map(out, (const struct record_map *)record);
        break;
    case RECORD_LOST:
        put_drop(out, record_time(record), &((const struct record_lost *)record)->lost, "kernel");
        break;
    case RECORD_THROTTLE:
        put_drop(out, ((const struct record_throttle *)record)->time, NULL, "throttle");
        break;
    case RECORD_EXIT:       /* processes have a COUNT record */
    case RECORD_UNTHROTTLE: /* the THROTTLE record has a line */
        break;
    default:
        if (record_is_note(record))
            put_note(out, (const struct record_note *)record);
    }
}
