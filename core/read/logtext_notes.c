/*
 * The lines of a log that are no samples: their fields are those of the table of types
 * (record_table.c), in its order. A field in brackets is left out where there is nothing to say.
 */
#include "core/read/pen.h"

/* The words of a line. */
struct said {
    enum record_type type;
    uint64_t time;
    bool rest;                     /* pid and tid 0 are `-`: it belongs to no process */
    uint32_t pid, tid, child, cpu; /* 0, UINT32_MAX: none */
    unsigned n;                    /* values */
    const uint64_t *value;
    const char *text;
    size_t text_len;
    unsigned misc;
};

/* The last word of a detach is its reason. */
static const char *reason_of(const struct said *said)
{
    return said->type == RECORD_DETACH ? memrchr(said->text, ' ', said->text_len) : NULL;
}

/* ---- fields ---- */

enum key { /* the frequent ones first */
    KEY_PID,
    KEY_TID,
    KEY_CPU,
    KEY_COUNT,
    KEY_LAST,
    KEY_EXACT,
    KEY_START,
    KEY_END,
    KEY_OFFSET,
    KEY_CHILD,
    KEY_RECORDS,
    KEY_REASON,
    KEY_EVENT,
    KEY_NAME,
    KEY_TEXTS /* path, text, where, target */
};

static const char *const keys[KEY_TEXTS] = {
    [KEY_PID] = "pid",     [KEY_TID] = "tid",         [KEY_CPU] = "cpu",
    [KEY_COUNT] = "count", [KEY_LAST] = "last",       [KEY_EXACT] = "exact",
    [KEY_START] = "start", [KEY_END] = "end",         [KEY_OFFSET] = "offset",
    [KEY_CHILD] = "child", [KEY_RECORDS] = "records", [KEY_REASON] = "reason",
    [KEY_EVENT] = "event", [KEY_NAME] = "name",
};

static enum key key_of(const char *word, size_t len)
{
    enum key key = 0;

    while (key < KEY_TEXTS && (strncmp(keys[key], word, len) != 0 || keys[key][len]))
        key++;
    return key;
}

/* Of those that may be left out. */
static bool key_is_said(const struct said *said, enum key key)
{
    switch (key) {
    case KEY_PID:
        return said->pid;
    case KEY_TID:
        return said->tid;
    case KEY_CPU:
        return said->cpu != UINT32_MAX;
    case KEY_COUNT:
        return said->n;
    case KEY_LAST:
        return said->misc & RECORD_LAST;
    case KEY_EXACT:
        return said->n && said->pid;
    default:
        return said->text_len;
    }
}

static void put_dash(struct pen *pen)
{
    *pen->p++ = '-';
}

static void put_number(struct pen *pen, const struct said *said, uint32_t number)
{
    if (said->rest && !number)
        put_dash(pen);
    else
        put_pid(pen, number);
}

static void put_values(struct pen *pen, const struct said *said)
{
    for (unsigned i = 0; i < said->n; i++) {
        pen_make_room(pen);
        if (i)
            *pen->p++ = ',';
        put_u64(pen, said->value[i]);
    }
}

static void put_reason(struct pen *pen, const struct said *said)
{
    const char *reason = reason_of(said);

    if (reason)
        put_text(pen, reason + 1, (size_t)(said->text + said->text_len - (reason + 1)));
    else
        put_dash(pen);
}

static void put_words(struct pen *pen, const struct said *said)
{
    const char *reason = reason_of(said);

    put_text(pen, said->text, reason ? (size_t)(reason - said->text) : said->text_len);
}

static void put_place(struct pen *pen, const struct said *said, unsigned i)
{
    if (i < said->n)
        put_hex(pen, said->value[i]);
    else
        put_dash(pen);
}

static void put_key(struct pen *pen, const struct said *said, enum key key)
{
    switch (key) {
    case KEY_PID:
        return put_number(pen, said, said->pid);
    case KEY_TID:
        return put_number(pen, said, said->tid);
    case KEY_CHILD:
        return put_pid(pen, said->child);
    case KEY_CPU:
        return put_cpu(pen, said->cpu);
    case KEY_COUNT:
        return put_values(pen, said);
    case KEY_RECORDS:
        return said->n ? put_values(pen, said) : put_dash(pen);
    case KEY_LAST:
    case KEY_EXACT:
        pen->p = stpcpy(pen->p, key == KEY_LAST || said->misc & RECORD_EXACT ? "yes" : "no");
        return;
    case KEY_START:
    case KEY_END:
    case KEY_OFFSET:
        return put_place(pen, said, key - KEY_START);
    case KEY_EVENT:
        return put_events(pen, said->text, said->text_len);
    case KEY_REASON:
        return put_reason(pen, said);
    default:
        return put_words(pen, said);
    }
}

static void put_said(struct pen *pen, const struct said *said)
{
    const struct record_row *row = record_table + 1; /* the first has no record */

    while (row < record_table + record_rows && row->type != said->type)
        row++;
    if (row == record_table + record_rows) /* of a later version */
        return;
    put_time(pen, said->time);
    *pen->p++ = ' ';
    pen->p = stpcpy(pen->p, row->word);
    for (const char *at = row->fields; *at;) {
        const bool optional = *at == '[';
        const char *word = at + optional;
        const size_t len = strcspn(word, " ]");
        const enum key key = key_of(word, len);

        at = word + len + optional;
        at += *at == ' ';
        if (optional && !key_is_said(said, key))
            continue;
        *pen->p++ = ' ';
        pen->p = mempcpy(pen->p, word, len);
        *pen->p++ = '=';
        put_key(pen, said, key);
    }
    PUT(pen, "\n");
}

/* ---- records ---- */

/* A text that ends in a NUL, or with its record. */
static void text_of(struct said *said, const struct record *record, const char *text)
{
    said->text = text;
    said->text_len = strnlen(text, (size_t)((const char *)record + record->size - text));
}

static void put_comm(struct pen *pen, const struct record_comm *comm)
{
    struct said said = {.type = comm->pid == comm->tid ? RECORD_PROCESS : RECORD_THREAD,
                        .time = record_time(&comm->head),
                        .pid = comm->pid,
                        .tid = comm->tid};

    if (comm->head.misc & RECORD_EXECUTED)
        return; /* `exec` says so */
    text_of(&said, &comm->head, comm->name);
    put_said(pen, &said);
}

static void put_fork(struct pen *pen, const struct record_task *task)
{
    const bool thread = task->pid == task->ppid;

    put_said(pen, &(struct said){.type = thread ? RECORD_THREAD : RECORD_FORK,
                                 .time = task->time,
                                 .pid = task->ppid,
                                 .tid = task->tid,
                                 .child = task->pid});
}

static void put_map(struct pen *pen, const struct record_map *map)
{
    const uint64_t place[] = {map->start, map->start + map->length, map->offset};
    struct said said = {.type = RECORD_MAP,
                        .time = record_time(&map->head),
                        .pid = map->pid,
                        .n = 3,
                        .value = place};

    text_of(&said, &map->head, map->path);
    put_said(pen, &said);
}

static void put_drop(struct pen *pen, uint64_t time, const uint64_t *lost, const char *where)
{
    put_said(pen, &(struct said){.type = RECORD_DROP,
                                 .time = time,
                                 .n = lost != NULL,
                                 .value = lost,
                                 .text = where,
                                 .text_len = strlen(where)});
}

static void put_note(struct pen *pen, const struct record_note *note)
{
    put_said(pen, &(struct said){.type = note->head.type,
                                 .time = note->time,
                                 .rest = note->head.type == RECORD_SWITCH ||
                                         note->head.type == RECORD_COUNT,
                                 .pid = note->pid,
                                 .tid = note->tid,
                                 .cpu = note->cpu,
                                 .n = note->n,
                                 .value = note->value,
                                 .text = note_text(note),
                                 .text_len = note->text_len,
                                 .misc = note->head.misc});
}

void put_line(struct pen *pen, const struct record *record)
{
    switch (record->type) {
    case RECORD_COMM:
        put_comm(pen, (const struct record_comm *)record);
        break;
    case RECORD_FORK:
        put_fork(pen, (const struct record_task *)record);
        break;
    case RECORD_MAP:
        put_map(pen, (const struct record_map *)record);
        break;
    case RECORD_LOST:
        put_drop(pen, record_time(record), &((const struct record_lost *)record)->lost, "kernel");
        break;
    case RECORD_THROTTLE:
        put_drop(pen, ((const struct record_throttle *)record)->time, NULL, "throttle");
        break;
    case RECORD_EXIT:       /* of a thread; a process's is a COUNT */
    case RECORD_UNTHROTTLE: /* its beginning was told */
        break;
    default:
        if (record_is_note(record))
            put_note(pen, (const struct record_note *)record);
    }
}
