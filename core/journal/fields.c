/*
 * Tables of what is saved of each object, and the one way in and out for all of them.
 */
#include "core/journal/fields.h"

#include "core/pmc/pmc.h"
#include "core/read/reader_state.h"

#include <stdlib.h>
#include <string.h>

/* Its kind follows from its type: an enum is an unsigned. */
#define KIND_OF(value)                                                                             \
    _Generic((value), bool: FIELD_BOOL, unsigned: FIELD_U32, int: FIELD_I32, uint64_t: FIELD_U64,  \
             double: FIELD_DOUBLE, char *: FIELD_TEXT)
#define MEMBER(type, member) ((const type *)0)->member
#define BELOW(type, member, limit)                                                                 \
    {                                                                                              \
#member, offsetof(type, member), KIND_OF(MEMBER(type, member)), 1, limit                   \
    }
#define FIELD(type, member) BELOW(type, member, 0)
#define ARRAY(type, member)                                                                        \
    {                                                                                              \
#member, offsetof(type, member), KIND_OF(MEMBER(type, member)[0]),                         \
            sizeof MEMBER(type, member) / sizeof MEMBER(type, member)[0], 0                        \
    }
#define CHARS(type, member)                                                                        \
    {                                                                                              \
#member, offsetof(type, member), FIELD_CHARS, sizeof MEMBER(type, member), 0               \
    }
#define SAVED(text, list)                                                                          \
    {                                                                                              \
        text, list, sizeof list / sizeof list[0]                                                   \
    }

static const struct field pmc_fields[] = {
    FIELD(struct pmc, id),
    FIELD(struct pmc, uid),
    FIELD(struct pmc, payer),
    FIELD(struct pmc, gid),
    FIELD(struct pmc, mode),
    FIELD(struct pmc, maker),
    FIELD(struct pmc, maker_key),
    FIELD(struct pmc, created_ns),
    FIELD(struct pmc, changed_ns),
    FIELD(struct pmc, made_ns),
    FIELD(struct pmc, made_tsc),
    BELOW(struct pmc, state, PMC_STATES),
    BELOW(struct pmc, effective, MODE_COUNT),
    FIELD(struct pmc, kernel),
    FIELD(struct pmc, had_target),
    FIELD(struct pmc, epoch),
    FIELD(struct pmc, resets),
    FIELD(struct pmc, change),
    FIELD(struct pmc, first_start_ns),
    FIELD(struct pmc, started_ns),
    FIELD(struct pmc, ran_ns),
    FIELD(struct pmc, metrics),
    FIELD(struct pmc, wants_all),
    FIELD(struct pmc, held_by),
    FIELD(struct pmc, left_out),
    FIELD(struct pmc, raced),
    FIELD(struct pmc, missed),
    FIELD(struct pmc, throttled),
    FIELD(struct pmc, error),
    FIELD(struct pmc, began),
    FIELD(struct pmc, set_number),
    FIELD(struct pmc, sampling.period),
    FIELD(struct pmc, sampling.freq),
    FIELD(struct pmc, sampling.asked),
    FIELD(struct pmc, sampling.slowed),
    FIELD(struct pmc, sampling.chain_user),
    FIELD(struct pmc, sampling.chain_kernel),
    FIELD(struct pmc, sampling.depth),
    FIELD(struct pmc, sampling.depth_asked),
    BELOW(struct pmc, recorded, 2 * RECORDED_EXITS),
    FIELD(struct pmc, recorded_kernel),
};
const struct saved saved_pmc = SAVED("pmc", pmc_fields);

#define LINKS_MAX (1u << 20)

static const struct field pmc_rest_fields[] = {
    FIELD(struct pmc_rest, instance),
    FIELD(struct pmc_rest, name),
    FIELD(struct pmc_rest, owner),
    BELOW(struct pmc_rest, events, SET_MAX + 1),
    BELOW(struct pmc_rest, links, LINKS_MAX),
    FIELD(struct pmc_rest, log),
    FIELD(struct pmc_rest, sets_bytes),
};
const struct saved saved_pmc_rest = SAVED("", pmc_rest_fields);

static const struct field event_fields[] = {
    FIELD(struct event, written),
    FIELD(struct event, resolved),
    CHARS(struct event, generic),
    CHARS(struct event, unit),
    FIELD(struct event, scale),
    FIELD(struct event, rows),
    BELOW(struct event, rows_needed, 3),
    FIELD(struct event, scope),
    FIELD(struct event, sampling),
    FIELD(struct event, whole),
    FIELD(struct event, needs_kernel),
    FIELD(struct event, needs_superuser),
    BELOW(struct event, user, SAID_ON + 1),
    BELOW(struct event, kernel, SAID_ON + 1),
    ARRAY(struct event, code),
};
const struct saved saved_event = SAVED("event", event_fields);

static const struct field tally_fields[] = {
    FIELD(struct tally, covered_ns),
    FIELD(struct tally, enabled_ns),
    FIELD(struct tally, running_ns),
    FIELD(struct tally, never_ran),
};
const struct saved saved_tally = SAVED("base", tally_fields);

static const struct field claim_fields[] = {
    FIELD(struct claim, instance),
    FIELD(struct claim, system),
    BELOW(struct claim, n, SET_MAX + 1),
};
const struct saved saved_claim = SAVED("claim", claim_fields);

static const struct field member_fields[] = {
    FIELD(struct claim_member, fits),
    FIELD(struct claim_member, needed),
    FIELD(struct claim_member, asked),
    FIELD(struct claim_member, got),
};
const struct saved saved_member = SAVED("member", member_fields);

static const struct field link_fields[] = {
    FIELD(struct link, id),
    BELOW(struct link, kind, TARGET_CGROUP + 1),
    FIELD(struct link, pid),
    FIELD(struct link, tid),
    BELOW(struct link, cpu, CPUS_MAX),
    FIELD(struct link, from_all),
    FIELD(struct link, offline),
    FIELD(struct link, cgroup_fd),
    FIELD(struct link, cgroup_key),
    FIELD(struct link, cgroup),
    FIELD(struct link, ended),
    FIELD(struct link, gone),
    FIELD(struct link, stale),
    FIELD(struct link, armed),
    FIELD(struct link, dropped),
    FIELD(struct link, below),
    FIELD(struct link, refused),
    FIELD(struct link, asked),
    FIELD(struct link, missed),
    FIELD(struct link, shown_pid),
    FIELD(struct link, shown_tid),
    FIELD(struct link, attached_ns),
    FIELD(struct link, gap_ns),
    FIELD(struct link, gone_since_ns),
    FIELD(struct link, facts.threads),
    FIELD(struct link, facts.descriptors),
    FIELD(struct link, facts.raced),
    FIELD(struct link, facts.left_out),
    FIELD(struct link, facts.covered),
};
const struct saved saved_link = SAVED("link", link_fields);

static const struct field held_fields[] = {
    FIELD(struct held, proc),
    FIELD(struct held, rights),
};
const struct saved saved_held = SAVED("", held_fields);

static const struct field proc_fields[] = {
    FIELD(struct proc, id),
    FIELD(struct proc, dead),
    FIELD(struct proc, guarded),
    FIELD(struct proc, left),
};
const struct saved saved_proc = SAVED("process", proc_fields);

static const struct field counts_fields[] = {
    FIELD(struct engine, operations),
    FIELD(struct engine, operations_failed),
    FIELD(struct engine, attaches),
    FIELD(struct engine, attaches_raced),
    FIELD(struct engine, drained),
    FIELD(struct engine, released.records),
    FIELD(struct engine, released.lost),
    FIELD(struct engine, released.kernel_lost),
    FIELD(struct engine, released.throttled),
    FIELD(struct engine, released.hidden),
    FIELD(struct engine, released.refused),
    FIELD(struct engine, next_instance),
    FIELD(struct engine, kept_serial),
    ARRAY(struct engine, stats),
};
const struct saved saved_counts = SAVED("engine", counts_fields);

static const struct field instance_fields[] = {
    FIELD(struct instance, id),
    FIELD(struct instance, name),
    FIELD(struct instance, uid),
    FIELD(struct instance, gid),
    FIELD(struct instance, mode),
    FIELD(struct instance, made_ns),
    FIELD(struct instance, changed_ns),
    ARRAY(struct instance, limit),
    FIELD(struct instance, operations),
    FIELD(struct instance, operations_failed),
    FIELD(struct instance, attaches),
    FIELD(struct instance, attaches_raced),
    FIELD(struct instance, drained),
    FIELD(struct instance, released.records),
    FIELD(struct instance, released.lost),
    FIELD(struct instance, released.kernel_lost),
    FIELD(struct instance, released.throttled),
    FIELD(struct instance, released.hidden),
    FIELD(struct instance, released.refused),
};
const struct saved saved_instance = SAVED("instance", instance_fields);

static const struct field error_fields[] = {
    FIELD(struct last_error, uid),
    FIELD(struct last_error, when),
    FIELD(struct last_error, line),
};
const struct saved saved_error = SAVED("error", error_fields);

static const struct field open_file_fields[] = {
    FIELD(struct open_file, refused),     FIELD(struct open_file, began),
    FIELD(struct open_file, swapped),     FIELD(struct open_file, swap),
    FIELD(struct open_file, holds),       FIELD(struct open_file, payer_uid),
    FIELD(struct open_file, instance),    FIELD(struct open_file, has_seen),
    FIELD(struct open_file, seen_change), FIELD(struct open_file, seen_count),
    FIELD(struct open_file, seen_resets),
};
const struct saved saved_open_file = SAVED("file", open_file_fields);

static const struct field sampled_fields[] = {
    FIELD(struct log_event, name),   FIELD(struct log_event, resolved),
    FIELD(struct log_event, period), FIELD(struct log_event, freq),
    FIELD(struct log_event, chains), FIELD(struct log_event, type),
    FIELD(struct log_event, config),
};
const struct saved saved_sampled = SAVED("sampled", sampled_fields);

static const struct field reader_fields[] = {
    FIELD(struct log_reader, pmc),
    FIELD(struct log_reader, uid),
    FIELD(struct log_reader, headed),
    FIELD(struct log_reader, closed),
    FIELD(struct log_reader, told_sets),
    FIELD(struct log_reader, name),
    FIELD(struct log_reader, class),
    FIELD(struct log_reader, event),
    FIELD(struct log_reader, facts.monotonic_ns),
    FIELD(struct log_reader, facts.realtime_ns),
    FIELD(struct log_reader, facts.tsc),
};
const struct saved saved_reader = SAVED("reader", reader_fields);

static const struct field reader_place_fields[] = {
    FIELD(struct reader_place, form),
    FIELD(struct reader_place, log),
    FIELD(struct reader_place, mark.next),
    FIELD(struct reader_place, mark.begun),
    FIELD(struct reader_place, mark.had.records),
    ARRAY(struct reader_place, mark.had.lost),
};
const struct saved saved_reader_place = SAVED("", reader_place_fields);

/* ---- out ---- */

static void value_print(const struct field *field, const char *at, struct buf *out)
{
    switch (field->kind) {
    case FIELD_BOOL:
        buf_char(out, *(const bool *)at ? '1' : '0');
        break;
    case FIELD_U32:
        buf_u64(out, *(const uint32_t *)at);
        break;
    case FIELD_I32:
        buf_i64(out, *(const int32_t *)at);
        break;
    case FIELD_U64:
        buf_u64(out, *(const uint64_t *)at);
        break;
    case FIELD_DOUBLE:
        buf_printf(out, "%a", *(const double *)at);
        break;
    case FIELD_CHARS:
        buf_word(out, at, strnlen(at, field->n));
        break;
    case FIELD_TEXT: {
        const char *text = *(char *const *)at;

        if (text)
            buf_word(out, text, strlen(text));
        break;
    }
    }
}

/* Bytes from one value of an array to the next. */
static size_t kind_size(enum field_kind kind)
{
    static const size_t sizes[] = {
        [FIELD_BOOL] = sizeof(bool),
        [FIELD_U32] = sizeof(uint32_t),
        [FIELD_I32] = sizeof(int32_t),
        [FIELD_U64] = sizeof(uint64_t),
        [FIELD_DOUBLE] = sizeof(double),
        [FIELD_TEXT] = sizeof(char *),
        [FIELD_CHARS] = 0,
    };
    return sizes[kind];
}

static unsigned field_values(const struct field *field)
{
    return field->kind == FIELD_CHARS ? 1 : field->n;
}

void saved_begin(const struct saved *saved, struct buf *out)
{
    buf_str(out, saved->name);
}

void saved_print(const struct saved *saved, const void *object, struct buf *out)
{
    for (const struct field *field = saved->fields; field < saved->fields + saved->n; field++) {
        const char *at = (const char *)object + field->offset;

        buf_char(out, ' ');
        buf_str(out, field->name);
        buf_char(out, '=');
        for (unsigned i = 0; i < field_values(field); i++) {
            if (i)
                buf_char(out, ',');
            value_print(field, at + i * kind_size(field->kind), out);
        }
    }
}

/* ---- in ---- */

/* The bytes that buf_word() escaped, NUL-terminated; to has room for the word's own and one more.
 */
static void unescape(struct word word, char *to)
{
    for (size_t i = 0; i < word.len; i++) {
        const char *p = word.p + i;

        if (*p == '\\' && i + 3 < word.len) {
            *to++ = (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + p[3] - '0');
            i += 3;
        } else {
            *to++ = *p;
        }
    }
    *to = '\0';
}

/* An empty text is none. */
static bool text_scan(struct word word, char **text)
{
    char *copy = word.len ? malloc(word.len + 1) : NULL;

    if (copy)
        unescape(word, copy);
    *text = copy;
    return copy || !word.len;
}

static bool chars_scan(struct word word, char *to, size_t room)
{
    char *text;
    bool fine = text_scan(word, &text) && strlen(text ? text : "") < room;

    if (fine)
        strcpy(to, text ? text : "");
    free(text);
    return fine;
}

static bool double_scan(struct word word, double *value)
{
    char text[64], *end;

    if (word.len == 0 || word.len >= sizeof text)
        return false;
    memcpy(text, word.p, word.len);
    text[word.len] = '\0';
    *value = strtod(text, &end);
    return *end == '\0';
}

static bool i32_scan(struct word word, int32_t *value)
{
    bool negative = word.len > 0 && *word.p == '-';
    struct word digits = {word.p + negative, word.len - negative};
    uint64_t number;

    if (!word_u64(digits, false, 0, INT32_MAX, &number))
        return false;
    *value = negative ? -(int32_t)number : (int32_t)number;
    return true;
}

static bool value_scan(const struct field *field, struct word word, char *at)
{
    uint64_t max = UINT64_MAX, number;

    if (field->limit)
        max = field->limit - 1;
    else if (field->kind != FIELD_U64)
        max = field->kind == FIELD_BOOL ? 1 : UINT32_MAX;
    switch (field->kind) {
    case FIELD_I32:
        return i32_scan(word, (int32_t *)at);
    case FIELD_DOUBLE:
        return double_scan(word, (double *)at);
    case FIELD_CHARS:
        return chars_scan(word, at, field->n);
    case FIELD_TEXT:
        return text_scan(word, (char **)at);
    case FIELD_BOOL:
    case FIELD_U32:
    case FIELD_U64:
        break;
    }
    if (!word_u64(word, false, 0, max, &number))
        return false;
    if (field->kind == FIELD_BOOL)
        *(bool *)at = number;
    else if (field->kind == FIELD_U32)
        *(uint32_t *)at = (uint32_t)number;
    else
        *(uint64_t *)at = number;
    return true;
}

/* "1,2,3": as many as the field has. */
static bool array_scan(const struct field *field, struct word word, char *at)
{
    for (unsigned i = 0; i < field->n; i++, at += kind_size(field->kind)) {
        const char *comma = memchr(word.p, ',', word.len);
        size_t len = comma ? (size_t)(comma - word.p) : word.len;

        if (!comma != (i + 1 == field->n) || !value_scan(field, (struct word){word.p, len}, at))
            return false;
        word.p += len + 1;
        word.len -= comma ? len + 1 : len;
    }
    return true;
}

bool line_find(const struct scan *line, const char *name, struct word *value)
{
    struct scan rest = *line;
    struct word word, key;

    while (scan_word(&rest, &word))
        if (word_split(word, &key, value) && word_is(key, name))
            return true;
    return false;
}

bool line_u64(const struct scan *line, const char *name, uint64_t *value)
{
    struct word word;

    return line_find(line, name, &word) && word_u64(word, false, 0, UINT64_MAX, value);
}

bool saved_scan(const struct saved *saved, void *object, const struct scan *line)
{
    for (const struct field *field = saved->fields; field < saved->fields + saved->n; field++) {
        char *at = (char *)object + field->offset;
        struct word value;

        if (!line_find(line, field->name, &value))
            continue;
        if (field_values(field) > 1 ? !array_scan(field, value, at) : !value_scan(field, value, at))
            return false;
    }
    return true;
}

/* ---- parts of several records ---- */

void numbers_print(const char *name, const uint64_t *value, unsigned n, struct buf *out)
{
    buf_char(out, ' ');
    buf_str(out, name);
    for (unsigned i = 0; i < n; i++) {
        buf_char(out, i ? ',' : '=');
        buf_u64(out, value[i]);
    }
}

bool numbers_scan(const char *name, uint64_t *value, unsigned n, const struct scan *line)
{
    const struct field field = {name, 0, FIELD_U64, n, 0};
    struct word word;

    return n == 0 || (line_find(line, name, &word) && array_scan(&field, word, (char *)value));
}

void tally_print(const struct tally *tally, unsigned n, struct buf *out)
{
    saved_print(&saved_tally, tally, out);
    numbers_print("value", tally->value, 2 * n, out);
    buf_char(out, '\n');
}

bool tally_scan(struct tally *tally, unsigned n, const struct scan *line)
{
    return saved_scan(&saved_tally, tally, line) &&
           numbers_scan("value", tally->value, 2 * n, line);
}

bool held_fill(struct held *held, const struct rights *rights)
{
    struct buf text;

    held->rights = NULL;
    if (!rights)
        return true;
    buf_init(&text, NULL, 0);
    rights_print(rights, &text);
    held->rights = text.failed ? NULL : strdup(buf_text(&text));
    buf_free(&text);
    return held->rights;
}

bool held_take(struct held *held, struct rights **rights)
{
    bool any = held->rights != NULL;

    *rights = any ? rights_scan(held->rights) : NULL;
    free(held->rights);
    held->rights = NULL;
    return *rights || !any;
}
