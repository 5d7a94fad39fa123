/*
 * Converts perf.data in pipe format (samples.perf) into lines as in samples.folded. Callers are
 * found by unwinding the registers and the copy of the stack. Records are in order of time. The
 * input may be hostile.
 */
#include "examples/pmc-names/names.h"

#include "core/base/vec.h"
#include "core/log/tasks.h"
#include "core/read/folded.h"

#include <errno.h>
#include <string.h>

#define SPACES_BYTES (UINT64_C(256) << 20)
#define IDS_MAX      (1u << 20) /* ids of events */

/* Record types that the log does not have: those of perf.data, and the old MMAP. */
#define STREAM_MAP          1u
#define STREAM_LOST_SAMPLES 13u
#define STREAM_ATTR         64u
#define STREAM_TRACING      66u /* followed by bytes that are not records */
#define STREAM_UPDATE       78u
#define STREAM_FEATURE      80u
#define MAP_DATA            0x2000u

/* Bits of sample_type, in the order of the fields in a sample, except the last. */
#define HAS_IP         (1u << 0)
#define HAS_TID        (1u << 1)
#define HAS_TIME       (1u << 2)
#define HAS_ADDR       (1u << 3)
#define HAS_ID         (1u << 6)
#define HAS_STREAM     (1u << 9)
#define HAS_CPU        (1u << 7)
#define HAS_PERIOD     (1u << 8)
#define HAS_READ       (1u << 4)
#define HAS_CALLCHAIN  (1u << 5)
#define HAS_RAW        (1u << 10)
#define HAS_BRANCHES   (1u << 11)
#define HAS_REGISTERS  (1u << 12)
#define HAS_STACK      (1u << 13)
#define HAS_IDENTIFIER (1u << 16) /* the first field */

#define UPDATE_NAME   2u
#define FEATURE_CLOCK 29u

#define READ_GROUP      8u
#define BRANCH_HW_INDEX (1u << 17)

/* The form of the samples of an event. */
struct source {
    uint64_t id, sample_type, read_format, branches, registers;
    char *name; /* NULL: unknown */
};

static struct {
    VEC(struct source) sources;
    struct tasks spaces;
    struct buf made, line;
    /* samples of all events start with an id; a sample after until_ns was read */
    bool all_have_ids, over;
    uint64_t until_ns;
    struct stream_facts facts;
    unsigned long long unread;
} stream;

/* The rest of a record's body. */
struct words {
    const uint64_t *at, *end;
};

/* Takes n words, or returns NULL if fewer are left. */
static const uint64_t *take(struct words *words, uint64_t n)
{
    const uint64_t *at = words->at;

    if (n > (uint64_t)(words->end - at))
        return NULL;
    words->at += n;
    return at;
}

static uint32_t low(uint64_t word)
{
    uint32_t half[2];

    memcpy(half, &word, sizeof word);
    return half[0];
}

static uint32_t high(uint64_t word)
{
    uint32_t half[2];

    memcpy(half, &word, sizeof word);
    return half[1];
}

/* Copies the text at the end of a record. */
static char *text_take(const struct words *words)
{
    return strndup((const char *)words->at, (size_t)(words->end - words->at) * sizeof(uint64_t));
}

/* ---- events ---- */

/* Reads an attribute record: perf_event_attr (with its size member) and the ids. */
static bool attr_take(struct words words)
{
    const uint64_t *attr = take(&words, 1);
    struct source source = {.id = UINT64_MAX};
    uint64_t field[11] = {0}, n;

    if (!attr || high(*attr) % 8 || high(*attr) < 40 || !take(&words, high(*attr) / 8 - 1))
        return false;
    n = (uint64_t)(words.at - attr);
    memcpy(field, attr, (n < 11 ? n : 11) * sizeof *field);
    source.sample_type = field[3];
    source.read_format = field[4];
    source.branches = field[9];
    source.registers = field[10];
    stream.all_have_ids &= (source.sample_type & HAS_IDENTIFIER) != 0;
    do { /* an event without ids is the only event */
        const uint64_t *id = take(&words, 1);

        source.id = id ? *id : UINT64_MAX;
        if (stream.sources.n == IDS_MAX || vec_push(&stream.sources, source))
            return false;
    } while (words.at < words.end);
    return true;
}

/* Reads the name of an event. */
static bool name_take(struct words words)
{
    const uint64_t *field = take(&words, 2);

    if (!field || words.at == words.end)
        return false;
    for (size_t i = 0; low(field[0]) == UPDATE_NAME && i < stream.sources.n; i++) {
        struct source *source = &stream.sources.items[i];

        if (source->id == field[1] && !source->name)
            source->name = text_take(&words);
    }
    return true;
}

/* Finds the event of a sample, or NULL. If the samples of any event have no id at the start, all
 * samples belong to the last event. */
static const struct source *source_of(const struct words *words)
{
    size_t i = stream.sources.n;

    if (i == 0 || words->at == words->end)
        return NULL;
    if (!stream.all_have_ids)
        return &stream.sources.items[i - 1];
    while (i-- > 0)
        if (stream.sources.items[i].id == *words->at)
            return &stream.sources.items[i];
    return NULL;
}

/* ---- samples ---- */

/* The needed fields of a sample. */
struct parts {
    const uint64_t *chain;
    uint64_t n_chain;
    struct user_state user;
    struct record_sample fixed;
};

/* Takes the fields before the call chain. */
static bool fixed_take(struct words *words, const struct source *source,
                       struct record_sample *fixed)
{
    static const unsigned order[] = {HAS_IDENTIFIER, HAS_IP,     HAS_TID, HAS_TIME,  HAS_ADDR,
                                     HAS_ID,         HAS_STREAM, HAS_CPU, HAS_PERIOD};

    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const uint64_t *word = source->sample_type & order[i] ? take(words, 1) : NULL;

        if (!word && source->sample_type & order[i])
            return false;
        if (word && order[i] == HAS_IP)
            fixed->ip = *word;
        if (word && order[i] == HAS_TIME)
            fixed->time = *word;
        if (word && order[i] == HAS_PERIOD)
            fixed->period = *word;
        if (word && order[i] == HAS_TID) {
            fixed->pid = low(*word);
            fixed->tid = high(*word);
        }
    }
    return true;
}

/* Skips the values of READ, for a group or for one event. */
static bool read_pass(struct words *words, uint64_t format)
{
    const uint64_t times = (format & 1) + (format >> 1 & 1);
    const uint64_t each = 1 + (format >> 2 & 1) + (format >> 4 & 1);
    const uint64_t *n;

    if (!(format & READ_GROUP))
        return take(words, times + each);
    n = take(words, 1);
    return n && *n < UINT16_MAX && take(words, times + *n * each);
}

/* Takes a number n, then `before` words and n entries of `each` words. */
static const uint64_t *list_take(struct words *words, uint64_t *n, uint64_t each, uint64_t before)
{
    const uint64_t *count = take(words, 1);

    if (!count || *count > UINT16_MAX)
        return NULL;
    *n = *count;
    return take(words, *n * each + before);
}

static bool raw_pass(struct words *words)
{
    /* the length, in four bytes, and the data, padded */
    return words->at < words->end &&
           take(words, ((uint64_t)low(*words->at) + sizeof(uint32_t) + 7) / 8);
}

static bool registers_take(struct words *words, uint64_t mask, struct user_state *user)
{
    const uint64_t *abi = take(words, 1);

    if (!abi)
        return false;
    user->abi = *abi;
    user->mask = mask;
    user->registers = *abi ? take(words, (uint64_t)__builtin_popcountll(mask)) : NULL;
    return !*abi || user->registers;
}

/* Takes the copy of the stack: its size, the bytes, and the number of valid bytes. */
static bool stack_take(struct words *words, struct user_state *user)
{
    const uint64_t *size = take(words, 1), *filled;

    if (!size)
        return false;
    if (*size == 0)
        return true;
    user->stack = take(words, *size / 8);
    filled = user->stack ? take(words, 1) : NULL;
    if (!filled)
        return false;
    user->stack_bytes = *filled < *size ? *filled : *size / 8 * 8;
    return true;
}

static bool parts_take(struct words words, const struct source *source, struct parts *parts)
{
    const uint64_t type = source->sample_type;
    uint64_t n;

    return fixed_take(&words, source, &parts->fixed) &&
           (!(type & HAS_READ) || read_pass(&words, source->read_format)) &&
           (!(type & HAS_CALLCHAIN) || (parts->chain = list_take(&words, &parts->n_chain, 1, 0))) &&
           (!(type & HAS_RAW) || raw_pass(&words)) &&
           (!(type & HAS_BRANCHES) ||
            list_take(&words, &n, 3, (source->branches & BRANCH_HW_INDEX) != 0)) &&
           (!(type & HAS_REGISTERS) || registers_take(&words, source->registers, &parts->user)) &&
           (!(type & HAS_STACK) || stack_take(&words, &parts->user));
}

/* Returns the number of words for the kernel at the start of the chain: its marker and frames. */
static uint64_t kernel_frames(const struct parts *parts)
{
    uint64_t n = 0;

    if (parts->n_chain == 0 || parts->chain[0] != FRAME_KERNEL)
        return 0;
    while (n < parts->n_chain && (n == 0 || parts->chain[n] < FRAME_MARKERS))
        n++;
    return n;
}

/* Makes the log's record of a sample in stream.made. Unwound frames replace the user frames of the
 * chain. */
static void sample_make(const struct parts *parts, unsigned mode)
{
    static uint64_t frame[UINT16_MAX + UNWIND_MAX + 1];
    const uint64_t kernel = kernel_frames(parts);
    uint64_t user = 0;

    if (parts->user.registers)
        user = unwind(&stream.spaces, parts->fixed.pid, &parts->user, frame + kernel + 1);
    if (user) {
        if (kernel)
            memcpy(frame, parts->chain, kernel * sizeof *frame);
        frame[kernel] = FRAME_USER;
        record_add_sample(&stream.made, &parts->fixed, mode, frame, kernel + 1 + user);
    } else {
        record_add_sample(&stream.made, &parts->fixed, mode, parts->chain, parts->n_chain);
    }
}

static bool sample_take(const struct record *record, struct words words, stack_fn *give)
{
    const struct source *source = source_of(&words);
    struct parts parts = {.n_chain = 0};

    if (!source || !parts_take(words, source, &parts)) {
        stream.unread++;
        return true;
    }
    stream.over = parts.fixed.time > stream.until_ns;
    if (stream.over)
        return true;
    if (!stream.facts.first)
        stream.facts.first = parts.fixed.time;
    stream.facts.last = parts.fixed.time;
    sample_make(&parts, record->misc & RECORD_MODE);
    buf_clear(&stream.line);
    if (stream.made.failed)
        return false;
    folded_line(&stream.line, &stream.spaces, (const void *)stream.made.data);
    buf_char(&stream.line, '\0');
    return !stream.line.failed && give(&(struct stack){.line = stream.line.data,
                                                       .samples = 1,
                                                       .events = parts.fixed.period,
                                                       .event = source->name});
}

/* ---- processes ---- */

static bool made_take(void)
{
    bool done = !stream.made.failed;

    if (done && stream.made.len)
        done = tasks_apply(&stream.spaces, (const void *)stream.made.data);
    spaces_bound(&stream.spaces, SPACES_BYTES);
    return done;
}

/* Adds a mapping. old: the record is MMAP, not MMAP2, and has no inode and no protection. */
static bool map_take(const struct record *record, struct words words, bool old)
{
    const uint64_t *field = take(&words, old ? 4 : 8);
    struct map_facts map = {.pid = 0};
    char *path;

    if (!field || words.at == words.end) {
        stream.unread++;
        return true;
    }
    /* Kernel mappings are not needed for user stacks. */
    if (record->misc & MAP_DATA || low(field[0]) == UINT32_MAX)
        return true;
    path = text_take(&words);
    map = (struct map_facts){.pid = low(field[0]),
                             .tid = high(field[0]),
                             .start = field[1],
                             .length = field[2],
                             .offset = field[3],
                             .inode = old ? 0 : field[5],
                             .path = path};
    if (path)
        record_add_map(&stream.made, 0, &map, record->misc & RECORD_MODE);
    free(path);
    return path && made_take();
}

static bool comm_take(const struct record *record, struct words words)
{
    const uint64_t *task = take(&words, 1);
    char *name;

    if (!task || words.at == words.end) {
        stream.unread++;
        return true;
    }
    name = text_take(&words);
    if (name)
        record_add_comm(&stream.made, 0, low(*task), high(*task), name,
                        record->misc & RECORD_EXECUTED);
    free(name);
    return name && made_take();
}

static bool task_take(const struct record *record, struct words words)
{
    const uint64_t *task = take(&words, 2);

    if (!task) {
        stream.unread++;
        return true;
    }
    record_add_task(&stream.made, (enum record_type)record->type, 0, low(task[0]), high(task[0]),
                    low(task[1]), high(task[1]));
    return made_take();
}

/* ---- the stream ---- */

/* Skips bytes, up to the end of the input. */
static void pass(FILE *in, uint64_t bytes)
{
    char block[4096];

    while (bytes > 0) {
        size_t n = fread(block, 1, bytes < sizeof block ? bytes : sizeof block, in);

        if (n == 0)
            return;
        bytes -= n;
    }
}

/* Reads the feature with the clock: a layout, then the same moment in CLOCK_REALTIME and in the
 * clock of the records. Ignores other features. */
static bool feature_take(struct words words)
{
    const uint64_t *field = take(&words, 4);

    if (field && field[0] == FEATURE_CLOCK) {
        stream.facts.realtime_ns = field[2];
        stream.facts.clock_ns = field[3];
    }
    return true;
}

static bool record_take(FILE *in, const struct record *record, struct words words, stack_fn *give)
{
    buf_clear(&stream.made);
    switch (record->type) {
    case STREAM_ATTR:
        stream.unread += !attr_take(words);
        return true;
    case STREAM_TRACING:
        if (words.at < words.end)
            pass(in, ((uint64_t)low(*words.at) + 7) / 8 * 8);
        return true;
    case STREAM_UPDATE:
        stream.unread += !name_take(words);
        return true;
    case STREAM_FEATURE:
        return feature_take(words);
    case STREAM_LOST_SAMPLES:
        if (words.at < words.end)
            stream.facts.lost += *words.at;
        return true;
    case STREAM_MAP:
        return map_take(record, words, true);
    case RECORD_MAP:
        return map_take(record, words, false);
    case RECORD_COMM:
        return comm_take(record, words);
    case RECORD_FORK:
    case RECORD_EXIT:
        return task_take(record, words);
    case RECORD_SAMPLE:
        return sample_take(record, words, give);
    default:
        return true;
    }
}

/* Reads a complete record and fills the rest of its last word with zeroes. Returns false at the end
 * of the stream, also inside a record. */
static bool record_read(FILE *in, uint64_t *room)
{
    struct record *record = (struct record *)room;
    size_t n = fread(record, 1, sizeof *record, in), rest;

    if (n < sizeof *record || record->size < sizeof *record) {
        if (ferror(in) && errno == EAGAIN)
            clearerr(in); /* the file may grow later */
        stream.unread += n > 0;
        return false;
    }
    rest = record->size - sizeof *record;
    n = fread(record + 1, 1, rest, in);
    stream.unread += n < rest;
    memset((char *)room + record->size, 0, -(size_t)record->size % sizeof *room);
    return n == rest;
}

bool stream_begins(FILE *in)
{
    static const char magic[] = STREAM_MAGIC;
    char head[sizeof magic - 1];
    size_t n = fread(head, 1, sizeof head, in);
    bool is = n == sizeof head && memcmp(head, magic, n) == 0;

    while (!is && n > 0) /* ungetc() works for so many bytes in all C libraries in use */
        ungetc((unsigned char)head[--n], in);
    return is;
}

bool stream_convert(FILE *in, uint64_t until_ns, stack_fn *give, struct stream_facts *facts)
{
    static uint64_t room[UINT16_MAX / 8 + 1];
    const struct record *record = (const struct record *)room;
    bool done = true;
    uint64_t size;

    if (fread(&size, sizeof size, 1, in) != 1 || size != 16) {
        fputs("pmc-names: this is perf.data, but not a stream: perf record -o - writes one\n",
              stderr);
        errno = EINVAL;
        return false;
    }
    memset(&stream, 0, sizeof stream);
    stream.all_have_ids = true;
    stream.until_ns = until_ns;
    tasks_init(&stream.spaces);
    while (done && !stream.over && record_read(in, room))
        done =
            record_take(in, record, (struct words){room + 1, room + (record->size + 7) / 8}, give);
    if (stream.unread)
        fprintf(stderr, "pmc-names: records that could not be read: %llu\n", stream.unread);
    *facts = stream.facts;
    tasks_free(&stream.spaces);
    buf_free(&stream.made);
    buf_free(&stream.line);
    for (size_t i = 0; i < stream.sources.n; i++)
        free(stream.sources.items[i].name);
    free(stream.sources.items);
    return done;
}
