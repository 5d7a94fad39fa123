/*
 * Stacks as a profile.proto of pprof, compressed by gzip. Each event is a sample type, after the
 * number of samples. A frame is a location; functions that were inlined there are its first lines.
 */
#include "examples/pmc-names/names.h"

#include "core/base/vec.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define FRAMES_MAX 1024 /* of a stack; outer ones beyond it are left out */

/* Fields of the messages Profile, ValueType, Sample, Label, Mapping, Location, Line and Function.
 */
enum {
    PROFILE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING = 6,
    PROFILE_TIME = 9,
    PROFILE_DURATION = 10,
    PROFILE_COMMENT = 13,
    SAMPLE_LOCATIONS = 1,
    SAMPLE_VALUES = 2,
    SAMPLE_LABEL = 3,
    MAPPING_LIMIT = 3,
    MAPPING_FILE = 5,
    MAPPING_HAS_FUNCTIONS = 7,
    LOCATION_MAPPING = 2,
    LOCATION_ADDRESS = 3,
    LOCATION_LINE = 4
};

/* A table of different byte strings, numbered from 1 in the order of their addition. */
struct item {
    UT_hash_handle hh;
    uint32_t number;
    uint64_t value[2]; /* samples: number of samples and of events; mappings: the limit */
    char key[];        /* a NUL follows */
};
struct items {
    struct item *first;
};

static struct {
    struct items strings, functions, mappings, locations, samples, events;
    struct buf out; /* functions and locations, as they are found */
    bool failed;
} profile;

static struct item *item_of(struct items *items, const void *key, size_t len)
{
    struct item *item;

    HASH_FIND(hh, items->first, key, len, item);
    if (item)
        return item;
    item = calloc(1, sizeof *item + len + 1);
    if (item) {
        memcpy(item->key, key, len);
        item->number = HASH_COUNT(items->first) + 1;
        HASH_ADD_KEYPTR(hh, items->first, item->key, len, item);
    }
    if (item && hash_has(item))
        return item;
    free(item);
    profile.failed = true;
    return NULL;
}

static uint32_t number_of(struct items *items, const void *key, size_t len)
{
    const struct item *item = item_of(items, key, len);

    return item ? item->number : 0;
}

/* Returns the number of a string, which is added when it is new. The empty string has number 0. */
static uint32_t string_of(const char *text)
{
    return *text ? number_of(&profile.strings, text, strlen(text)) : 0;
}

/* ---- the wire format ---- */

static void put_varint(struct buf *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        buf_char(out, (char)(value | 0x80));
    buf_char(out, (char)value);
}

static void put_number(struct buf *out, unsigned field, uint64_t value)
{
    put_varint(out, field << 3);
    put_varint(out, value);
}

static void put_bytes(struct buf *out, unsigned field, const void *data, size_t len)
{
    put_varint(out, field << 3 | 2);
    put_varint(out, len);
    buf_add(out, data, len);
}

/* Adds a message and frees it. */
static void put_message(struct buf *out, unsigned field, struct buf *message)
{
    profile.failed |= message->failed;
    if (!message->failed)
        put_bytes(out, field, message->data, message->len);
    buf_free(message);
}

/* ---- frames ---- */

/* Undoes the escapes of ';', '\\' and blanks, which only lines of frames need. Bytes that are not
 * UTF-8 and control characters stay escaped. */
static void string_clean(char *text)
{
    char *to = text;

    for (const char *from = text; *from;) {
        char byte = *from;
        size_t n = 1;

        if (strncmp(from, "\\073", 4) == 0 || strncmp(from, "\\134", 4) == 0 ||
            strncmp(from, "\\040", 4) == 0) {
            byte = from[1] == '1' ? '\\' : from[2] == '7' ? ';' : ' ';
            n = 4;
        }
        *to++ = byte;
        from += n;
    }
    *to = '\0';
}

/* Returns the number of a function, which is added when it is new. Changes `name`. */
static uint32_t function_of(char *name)
{
    const uint32_t known = HASH_COUNT(profile.functions.first);
    const size_t len = strlen(name);
    uint32_t number;

    if (len > 4 && strcmp(name + len - 4, "_[i]") == 0)
        name[len - 4] = '\0';
    string_clean(name);
    number = number_of(&profile.functions, name, strlen(name));
    if (number > known) {
        struct buf message = {0};

        put_number(&message, 1, number);
        put_number(&message, 2, string_of(name));
        put_number(&message, 3, string_of(name));
        put_message(&profile.out, PROFILE_FUNCTION, &message);
    }
    return number;
}

/* Adds the functions in `names` to a location, the last (the innermost inlined one) first. Changes
 * `names`. */
static void lines_add(struct buf *location, char *names)
{
    for (char *last; names;) {
        struct buf line = {0};

        last = strrchr(names, ';');
        put_number(&line, 1, function_of(last ? last + 1 : names));
        put_message(location, LOCATION_LINE, &line);
        if (last)
            *last = '\0';
        else
            names = NULL;
    }
}

/* Sets *address to the number in the frame. Returns the number of the mapping of the file in
 * [path+0xoffset], or of the kernel in [kernel+0xaddress]; each mapping starts at address 0.
 * Returns 0 for other frames. */
static uint32_t mapping_of(const char *frame, uint64_t *address)
{
    const char *at = strrchr(frame, 'x');
    struct item *mapping;

    *address = at ? strtoull(at + 1, NULL, 16) : 0;
    if (!at || at - frame < 4 || at[-2] != '+')
        return 0;
    mapping = item_of(&profile.mappings, frame + 1, (size_t)(at - 2 - (frame + 1)));
    if (mapping && mapping->value[0] <= *address)
        mapping->value[0] = *address + 1;
    return mapping ? mapping->number : 0;
}

static uint32_t location_of(const char *frame, bool caller)
{
    const uint32_t known = HASH_COUNT(profile.locations.first);
    struct buf key = {0}, names = {0}, message = {0};
    uint32_t number, mapping = 0;
    uint64_t address = 0;

    buf_char(&key, caller ? 'c' : ' ');
    buf_str(&key, frame);
    number = key.failed ? 0 : number_of(&profile.locations, key.data, key.len);
    buf_free(&key);
    if (number <= known)
        return number;
    frame_add(&names, frame, caller);
    buf_char(&names, '\0');
    if (frame[0] == '[')
        mapping = mapping_of(frame, &address);
    put_number(&message, 1, number);
    if (mapping)
        put_number(&message, LOCATION_MAPPING, mapping);
    put_number(&message, LOCATION_ADDRESS, address);
    if (!names.failed)
        lines_add(&message, names.data);
    profile.failed |= names.failed;
    buf_free(&names);
    put_message(&profile.out, PROFILE_LOCATION, &message);
    return number;
}

/* ---- stacks ---- */

bool profile_take(const struct stack *stack)
{
    const char *event = stack->event ? stack->event : "events";
    uint32_t key[FRAMES_MAX + 2], n = 2;
    char *frame = strchr(stack->line, ';'), *next;
    struct item *sample;

    key[0] = stack->events ? number_of(&profile.events, event, strlen(event)) : 0;
    if (frame)
        *frame++ = '\0';
    for (; frame; frame = next) {
        next = strchr(frame, ';');
        if (next)
            *next++ = '\0';
        if (n == FRAMES_MAX + 2)
            memmove(key + 2, key + 3, (--n - 2) * sizeof *key);
        key[n++] = location_of(frame, frame_is_caller(frame, next));
    }
    string_clean(stack->line);
    key[1] = string_of(stack->line);
    sample = item_of(&profile.samples, key, n * sizeof *key);
    if (sample) {
        sample->value[0] += stack->samples;
        sample->value[1] += stack->events;
    }
    return !profile.failed;
}

/* ---- the end ---- */

static void sample_print(const struct item *item, uint32_t comm)
{
    struct buf message = {0}, packed = {0};
    uint32_t key[FRAMES_MAX + 2];
    const size_t n = item->hh.keylen / sizeof *key;

    memcpy(key, item->key, item->hh.keylen);
    for (size_t i = n; i-- > 2;) /* the innermost is the first */
        put_varint(&packed, key[i]);
    put_message(&message, SAMPLE_LOCATIONS, &packed);
    put_varint(&packed, item->value[0]);
    for (uint32_t i = 1; i <= HASH_COUNT(profile.events.first); i++)
        put_varint(&packed, i == key[0] ? item->value[1] : 0);
    put_message(&message, SAMPLE_VALUES, &packed);
    put_number(&packed, 1, comm);
    put_number(&packed, 2, key[1]);
    put_message(&message, SAMPLE_LABEL, &packed);
    put_message(&profile.out, PROFILE_SAMPLE, &message);
}

static void type_print(const char *type, const char *unit)
{
    struct buf message = {0};

    put_number(&message, 1, string_of(type));
    put_number(&message, 2, string_of(unit));
    put_message(&profile.out, PROFILE_TYPE, &message);
}

static void mapping_print(const struct item *item)
{
    struct buf message = {0};

    put_number(&message, 1, item->number);
    put_number(&message, MAPPING_LIMIT, item->value[0]);
    put_number(&message, MAPPING_FILE, string_of(item->key));
    put_number(&message, MAPPING_HAS_FUNCTIONS, 1);
    put_message(&profile.out, PROFILE_MAPPING, &message);
}

static bool is_clock(const char *event)
{
    return strncmp(event, "cpu-clock", 9) == 0 || strncmp(event, "task-clock", 10) == 0;
}

static void parts_print(const struct stream_facts *facts, const char *comment)
{
    const uint32_t comm = string_of("comm");
    const struct item *item;

    type_print("samples", "count");
    for (item = profile.events.first; item; item = item->hh.next)
        type_print(item->key, is_clock(item->key) ? "nanoseconds" : "count");
    for (item = profile.samples.first; item; item = item->hh.next)
        sample_print(item, comm);
    for (item = profile.mappings.first; item; item = item->hh.next)
        mapping_print(item);
    if (facts->clock_ns)
        put_number(&profile.out, PROFILE_TIME, facts->first - facts->clock_ns + facts->realtime_ns);
    put_number(&profile.out, PROFILE_DURATION, facts->last - facts->first);
    put_number(&profile.out, PROFILE_COMMENT, string_of(comment));
    put_bytes(&profile.out, PROFILE_STRING, "", 0);
    for (item = profile.strings.first; item; item = item->hh.next)
        put_bytes(&profile.out, PROFILE_STRING, item->key, item->hh.keylen);
}

/* Called once, at the end; therefore it does not free the tables. */
bool profile_print(const struct stream_facts *facts, const char *comment)
{
    const int fd = dup(STDOUT_FILENO);
    gzFile file = fd < 0 ? NULL : gzdopen(fd, "wb");
    bool done = file && !profile.failed;

    parts_print(facts, comment);
    done = done && !profile.failed && !profile.out.failed;
    for (size_t at = 0, n; done && at < profile.out.len; at += n) {
        n = profile.out.len - at < 1 << 20 ? profile.out.len - at : 1 << 20;
        done = gzwrite(file, profile.out.data + at, (unsigned)n) == (int)n;
    }
    if (file)
        done = gzclose(file) == Z_OK && done;
    else if (fd >= 0)
        close(fd);
    return done;
}
