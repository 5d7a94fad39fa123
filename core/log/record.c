/*
 * Creates, checks and reads single records. Records and their fields of eight bytes are aligned to
 * eight bytes.
 */
#include "core/log/record.h"

struct record_tail *record_tail(const struct record *record)
{
    if (record_is_note(record) || record->type == RECORD_SAMPLE)
        return NULL;
    return (struct record_tail *)((char *)record + record->size - sizeof(struct record_tail));
}

uint64_t record_time(const struct record *record)
{
    return *(const uint64_t *)((const char *)record + record_time_offset(record));
}

void record_set_time(struct record *record, uint64_t time_ns)
{
    *(uint64_t *)((char *)record + record_time_offset(record)) = time_ns;
    if (record->type == RECORD_FORK || record->type == RECORD_EXIT)
        ((struct record_task *)record)->time = time_ns;
    else if (record->type == RECORD_THROTTLE || record->type == RECORD_UNTHROTTLE)
        ((struct record_throttle *)record)->time = time_ns;
}

const char *note_text(const struct record_note *note)
{
    return (const char *)&note->value[note->n];
}

/* Returns true if there is a text with a NUL between offset `from` and the tail. */
static bool text_is_valid(const struct record *record, size_t from)
{
    return record->size >= from + 8 + sizeof(struct record_tail) &&
           memchr((const char *)record + from, '\0',
                  record->size - sizeof(struct record_tail) - from);
}

uint64_t sample_frames(const struct record_sample *sample)
{
    const uint64_t room = sample->head.size > SAMPLE_SHORT
                              ? (sample->head.size - sizeof(*sample)) / sizeof(sample->frame[0])
                              : 0;

    return room && sample->n_frames < room ? sample->n_frames : room;
}

/* The words of a sample that are not parsed yet. */
struct words {
    const uint64_t *at;
    uint64_t n;
};

static bool words_take(struct words *words, uint64_t n)
{
    if (n > words->n)
        return false;
    words->at += n;
    words->n -= n;
    return true;
}

static bool stack_take(struct words *words, struct sample_parts *out)
{
    if (words->n < 2)
        return false;
    out->abi = REGISTERS_ABI(*words->at);
    out->n_registers = REGISTERS_N(*words->at);
    out->registers = words->at + 1;
    if (!words_take(words, 1) || !words_take(words, out->n_registers) || !words->n)
        return false;
    out->stack = words->at;
    uint64_t bytes = *words->at;
    if (bytes % 8 || !words_take(words, 1) || (bytes && !words_take(words, bytes / 8 + 1)))
        return false;
    out->stack_bytes = (size_t)(words->at - out->stack) * sizeof(uint64_t);
    return !bytes || words->at[-1] <= bytes;
}

bool sample_parts(const struct record_sample *sample, struct sample_parts *out)
{
    struct words words = {.at = sample->frame};
    uint32_t raw_bytes;

    *out = (struct sample_parts){.registers = NULL};
    if (sample->head.size < sizeof(*sample))
        return false;
    words.n = (sample->head.size - sizeof(*sample)) / sizeof(sample->frame[0]);
    if (!words_take(&words, sample->n_frames))
        return false;
    if (sample->head.misc & RECORD_RAW) {
        if (!words.n)
            return false;
        out->raw = words.at;
        memcpy(&raw_bytes, words.at, sizeof(raw_bytes));
        out->raw_bytes = record_padded(sizeof(raw_bytes) + (size_t)raw_bytes);
        if (!words_take(&words, out->raw_bytes / sizeof(uint64_t)))
            return false;
    }
    if (sample->head.misc & RECORD_STACK && !stack_take(&words, out))
        return false;
    return words.n == 0;
}

static bool sample_is_valid(const struct record *record)
{
    const struct record_sample *sample = (const struct record_sample *)record;
    struct sample_parts parts;

    if (record->misc & (RECORD_RAW | RECORD_STACK))
        return sample_parts(sample, &parts);
    if (record->size <= SAMPLE_SHORT)
        return record->size == SAMPLE_SHORT;
    return sample->n_frames == (record->size - sizeof(*sample)) / sizeof(sample->frame[0]);
}

bool record_is_valid(const struct record *record, size_t room)
{
    const struct record_note *note = (const struct record_note *)record;

    if (room < sizeof(*record) || record->size < sizeof(*record) || record->size % 8 ||
        record->size > room)
        return false;
    switch ((enum record_type)record->type) {
    case RECORD_SAMPLE:
        return sample_is_valid(record);
    case RECORD_LOST:
        return record->size == sizeof(struct record_lost);
    case RECORD_FORK:
    case RECORD_EXIT:
        return record->size == sizeof(struct record_task);
    case RECORD_THROTTLE:
    case RECORD_UNTHROTTLE:
        return record->size == sizeof(struct record_throttle);
    case RECORD_COMM:
        return text_is_valid(record, offsetof(struct record_comm, name));
    case RECORD_MAP:
        return text_is_valid(record, offsetof(struct record_map, path));
    default:
        return record->type >= RECORD_ALLOCATE && record->type <= RECORD_VALUES &&
               record->size >= sizeof(*note) &&
               record->size ==
                   sizeof(*note) + note->n * sizeof(note->value[0]) + record_padded(note->text_len);
    }
}

/* ---- creation ---- */

/* Appends a record that is zero after its head. Returns NULL on ENOMEM. */
static void *record_add(struct buf *out, enum record_type type, unsigned misc, size_t size)
{
    struct record *record = (struct record *)buf_reserve(out, size);

    if (!record)
        return NULL;
    memset(record, 0, size);
    *record = (struct record){.type = type, .misc = (uint16_t)misc, .size = (uint16_t)size};
    out->len += size;
    return record;
}

static void set_tail(struct record *record, uint64_t time, uint32_t pid, uint32_t tid)
{
    *record_tail(record) = (struct record_tail){.pid = pid, .tid = tid, .time = time};
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

void record_add_note(struct buf *out, const struct note *note)
{
    const size_t most = RECORD_MAX - sizeof(struct record_note);
    const size_t n = least(note->n, most / sizeof(note->value[0]));
    const size_t values = n * sizeof(note->value[0]), len = least(note->text_len, most - values);
    struct record_note *record =
        record_add(out, note->type, note->misc, sizeof(*record) + values + record_padded(len));

    if (!record)
        return;
    record->time = note->time;
    record->pid = note->pid;
    record->tid = note->tid;
    record->cpu = note->cpu;
    record->n = (uint16_t)n;
    record->text_len = (uint16_t)len;
    record->id = note->id;
    if (n)
        memcpy(record->value, note->value, values);
    if (len)
        memcpy(&record->value[n], note->text, len);
}

void record_add_drop(struct buf *out, uint64_t time, unsigned misc, const char *where, unsigned n,
                     const uint64_t *value)
{
    record_add_note(out, &(struct note){.type = RECORD_DROP,
                                        .misc = misc,
                                        .time = time,
                                        .cpu = UINT32_MAX,
                                        .n = n,
                                        .value = value,
                                        .text = where,
                                        .text_len = strlen(where)});
}

/* Appends a COMM or MAP record: a fixed part of `size` bytes, a text and the tail. Fixed part and
 * tail are zero after the head. Returns NULL on ENOMEM. */
static void *record_add_text(struct buf *out, enum record_type type, unsigned misc, size_t size,
                             const char *text)
{
    const size_t len = least(strlen(text), RECORD_MAX - size - sizeof(struct record_tail) - 1);
    char *record =
        record_add(out, type, misc, size + record_padded(len + 1) + sizeof(struct record_tail));

    if (record)
        memcpy(record + size, text, len);
    return record;
}

void record_add_comm(struct buf *out, uint64_t time, uint32_t pid, uint32_t tid, const char *name,
                     unsigned misc)
{
    struct record_comm *comm =
        record_add_text(out, RECORD_COMM, misc, offsetof(struct record_comm, name), name);

    if (!comm)
        return;
    comm->pid = pid;
    comm->tid = tid;
    set_tail(&comm->head, time, pid, tid);
}

void record_add_map(struct buf *out, uint64_t time, const struct map_facts *map, unsigned misc)
{
    struct record_map *record =
        record_add_text(out, RECORD_MAP, misc, offsetof(struct record_map, path), map->path);

    if (!record)
        return;
    record->pid = map->pid;
    record->tid = map->tid;
    record->start = map->start;
    record->length = map->length;
    record->offset = map->offset;
    record->major = map->major;
    record->minor = map->minor;
    record->inode = map->inode;
    record->generation = map->generation;
    record->protection = map->protection;
    record->flags = map->flags;
    set_tail(&record->head, time, map->pid, map->tid);
}

void record_add_map_of(struct buf *out, uint64_t time, const struct record_map *map, uint32_t pid,
                       uint32_t tid, unsigned misc)
{
    const size_t begun = out->len;

    buf_add(out, map, map->head.size);
    if (out->failed)
        return;
    struct record_map *copy = (struct record_map *)(out->data + begun);
    copy->head.misc = (uint16_t)misc;
    copy->pid = pid;
    copy->tid = tid;
    set_tail(&copy->head, time, pid, tid);
}

void record_add_lost(struct buf *out, uint64_t time, uint64_t id, uint64_t lost)
{
    const struct record_lost record = {
        .head = {RECORD_LOST, 0, sizeof(record)},
        .id = id,
        .lost = lost,
        .tail = {.time = time, .id = id},
    };

    buf_add(out, &record, sizeof(record));
}

void record_add_task(struct buf *out, enum record_type type, uint64_t time, uint32_t pid,
                     uint32_t ppid, uint32_t tid, uint32_t ptid)
{
    struct record_task *record = record_add(out, type, 0, sizeof(*record));

    if (!record)
        return;
    record->pid = pid;
    record->ppid = ppid;
    record->tid = tid;
    record->ptid = ptid;
    record->time = time;
    set_tail(&record->head, time, pid, tid);
}

void record_add_sample(struct buf *out, const struct record_sample *fixed, unsigned mode,
                       const uint64_t *frames, uint64_t n_frames)
{
    const size_t size = frames ? sizeof(*fixed) : SAMPLE_SHORT;
    const uint64_t n =
        frames ? least(n_frames, (RECORD_MAX - sizeof(*fixed)) / sizeof(frames[0])) : 0;
    struct record_sample *sample =
        record_add(out, RECORD_SAMPLE, mode, size + n * sizeof(frames[0]));

    if (!sample)
        return;
    memcpy((char *)sample + sizeof(sample->head), (const char *)fixed + sizeof(fixed->head),
           SAMPLE_SHORT - sizeof(fixed->head));
    if (!frames)
        return;
    sample->n_frames = n;
    memcpy(sample->frame, frames, n * sizeof(frames[0]));
}

/* ---- the table of types ---- */

/* In the order of the table in pmcfs.5. The first row has no record type: each reader gets its own
 * initialize line. */
const struct record_row record_table[] = {
    {0, "initialize", "version machine class event realtime tsc",
     "the first line for each reader, with the time of mkdir in three clocks", "INITIALIZE"},
    {RECORD_ALLOCATE, "allocate", "event", "the event was set", "PMCALLOCATE, PMCALLOCATEDYN"},
    {RECORD_ATTACH, "attach", "target [pid] [tid] [cpu]", "a target was attached", "PMCATTACH"},
    {RECORD_DETACH, "detach", "target [pid] [tid] [cpu] reason", "a target was detached",
     "PMCDETACH"},
    {RECORD_START, "start", "", "the PMC was started", ""},
    {RECORD_STOP, "stop", "", "the PMC was stopped", ""},
    {RECORD_SAMPLE, "sample", "pid tid cpu ip event period", "a sample without a call chain",
     "PCSAMPLE"},
    {RECORD_SAMPLE, "callchain", "pid tid cpu ip event period ips",
     "a sample with its call chain. Kernel frames start with k:", "CALLCHAIN"},
    {RECORD_RUN, "run", "pid tid cpu [off_ns] [reason]",
     "a thread runs again, the nanoseconds since it left its CPU, and why it left: sleep or "
     "preempt",
     ""},
    {RECORD_SWITCH, "csw", "pid tid cpu count [last] [exact]",
     "a thread left a CPU, and its count since its last record", "PROCCSW"},
    {RECORD_COUNT, "exit", "pid [count] [exact]",
     "a process exited, and its count. pid=- has the events of unknown processes",
     "PROCEXIT, SYSEXIT"},
    {RECORD_FORK, "fork", "pid child", "a process created a child", "PROCFORK"},
    {RECORD_EXEC, "exec", "pid path", "a process executed a program", "PROCEXEC"},
    {RECORD_MAP, "map-in", "pid start end offset path",
     "an executable mapping was created. pid=-1 is the kernel", "MAP_IN"},
    {RECORD_UNMAP, "map-out", "pid start end offset path", "an executable mapping was replaced",
     "MAP_OUT"},
    {RECORD_PROCESS, "process", "pid name", "a process that already ran, or that has a new name",
     "PROC_CREATE"},
    {RECORD_THREAD, "thread", "pid tid [name]",
     "a thread that already ran, is new, or has a new name", "THR_CREATE"},
    {RECORD_USER, "user", "text", "text that a user wrote to samples", "USERDATA"},
    {RECORD_DROP, "drop", "lost where [records]",
     "samples or other records were lost, or (where=throttle) the kernel paused sampling",
     "DROPNOTIFY"},
    {RECORD_CLOSE, "close", "", "the log was closed", "CLOSELOG"},
};
const unsigned record_rows = sizeof record_table / sizeof record_table[0];
