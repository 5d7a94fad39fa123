/*
 * Writes the records that perf needs first: attributes and name of each event, formats of
 * tracepoints, the processor and the clock.
 */
#include "core/read/perfdata.h"

#include "core/base/event.h"

#include <string.h>

/* Record types of the stream. */
#define STREAM_ATTR    64
#define STREAM_TRACING 66
#define STREAM_UPDATE  78
#define STREAM_FEATURE 80

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

void perfdata_record(struct buf *out, unsigned type, size_t size)
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

/* Returns true if the event has this mode suffix. perf needs kernel symbols only for kernel events.
 */
static bool counts_only(const struct log_event *event, const char *mode)
{
    size_t len = strlen(event->resolved);

    return len >= strlen(mode) && strcmp(event->resolved + len - strlen(mode), mode) == 0;
}

static void add_attr(const struct told *told, const struct log_event *event, uint64_t id)
{
    bool stack = told_stack(told, event), raw = told_fields(told, event, id);
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

    perfdata_record(told->out, STREAM_ATTR, sizeof(struct record) + sizeof(attr) + sizeof(id));
    buf_add(told->out, &attr, sizeof(attr));
    buf_add(told->out, &id, sizeof(id));
}

static void add_name(struct buf *out, const struct log_event *event, uint64_t id)
{
    uint64_t update[] = {UPDATE_NAME, id};
    size_t room = record_padded(text_len(event->name) + 1);

    perfdata_record(out, STREAM_UPDATE, sizeof(struct record) + sizeof(update) + room);
    buf_add(out, update, sizeof(update));
    add_text(out, event->name, room);
}

static void add_event(const struct told *told, const struct log_event *event, uint64_t id)
{
    add_attr(told, event, id);
    add_name(told->out, event, id);
}

/* ---- formats of tracepoints ---- */

/* Finds the tracepoints of sets from..to whose fields the reader may see, without duplicates.
 * Returns their number, or 0 if there are too many. */
static unsigned fields_find(const struct told *told, uint64_t from, uint64_t to,
                            const struct log_event *events[SET_MAX])
{
    unsigned n = 0, same;

    for (uint64_t set = from; set <= to; set++)
        for (unsigned i = 0; i < log_sets_events(told->facts->sets, set); i++) {
            const struct log_event *event = log_sets_event(told->facts->sets, set, i);

            if (!event->raw || !memory_right_covers(&told->facts->reader, &event->observer))
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
 * Prints the tracepoint formats. perf reads formats only once per stream and aborts at fields
 * without a format, so only sets known at that time have fields. Returns false if there are no
 * formats.
 */
static bool formats_make(const struct told *told, uint64_t from, uint64_t to, struct buf *out)
{
    const struct log_event *events[SET_MAX];
    const struct log_facts *facts = told->facts;
    const unsigned n =
        TOLD_FIELDS(*told->number) || !facts->formats ? 0 : fields_find(told, from, to, events);

    if (!n || !facts->formats(facts->backend_state, events, n, out))
        return false;
    while (out->len % 8 && !out->failed)
        buf_char(out, '\0');
    return !out->failed;
}

static void add_formats(struct buf *out, const struct buf *formats)
{
    const uint32_t size = (uint32_t)formats->len;

    perfdata_record(out, STREAM_TRACING, sizeof(struct record) + sizeof(size));
    buf_add(out, &size, sizeof(size));
    buf_add(out, formats->data, formats->len);
}

void perfdata_sets(struct told *told)
{
    const struct log_sets *sets = told->facts->sets;
    const uint64_t before = TOLD_SETS(*told->number), last = sets ? log_sets_last(sets) : 0;
    struct buf formats;

    if (before >= last)
        return;
    buf_init(&formats, NULL, 0);
    const bool fields = formats_make(told, before + 1, last, &formats);
    *told->number = TOLD(last, fields ? last : TOLD_FIELDS(*told->number));
    for (uint64_t set = before + 1; set <= last; set++)
        for (unsigned place = 0; place < log_sets_events(sets, set); place++)
            add_event(told, log_sets_event(sets, set, place), LOG_ID(set, place));
    if (fields)
        add_formats(told->out, &formats);
    told->out->failed |= formats.failed;
    buf_free(&formats);
}

/* ---- processor and clock ---- */

static void add_feature_cpu(struct buf *out, const char *machine)
{
    uint64_t feature = FEATURE_CPU;
    uint32_t room = (uint32_t)(record_padded(sizeof(room) + text_len(machine) + 1) - sizeof(room));

    perfdata_record(out, STREAM_FEATURE,
                    sizeof(struct record) + sizeof(feature) + sizeof(room) + room);
    buf_add(out, &feature, sizeof(feature));
    buf_add(out, &room, sizeof(room));
    add_text(out, machine, room);
}

/* Lets perf script -F +tod print times of day. */
static void add_feature_clock(struct buf *out, const struct log_facts *facts)
{
    uint64_t feature = FEATURE_CLOCK;
    uint32_t form[] = {CLOCK_LAYOUT, CLOCK_ID};
    uint64_t moment[] = {facts->realtime_ns, facts->monotonic_ns};

    perfdata_record(out, STREAM_FEATURE,
                    sizeof(struct record) + sizeof(feature) + sizeof(form) + sizeof(moment));
    buf_add(out, &feature, sizeof(feature));
    buf_add(out, form, sizeof(form));
    buf_add(out, moment, sizeof(moment));
}

void perfdata_head(uint64_t *number, const struct log_facts *facts, struct buf *out)
{
    static const uint64_t size = 16;
    struct told told = {.number = number, .facts = facts, .out = out};

    *number = 0;
    buf_add(out, "PERFILE2", 8);
    buf_add(out, &size, sizeof(size));
    perfdata_sets(&told);
    if (*number == 0) { /* perf needs at least one event to read names */
        char name[] = "dummy", resolved[] = "dummy:u";
        struct log_event dummy = {.name = name, .resolved = resolved, .type = TYPE_SOFTWARE};

        add_event(&told, &dummy, DUMMY_ID);
    }
    add_feature_cpu(out, facts->machine);
    add_feature_clock(out, facts);
}
