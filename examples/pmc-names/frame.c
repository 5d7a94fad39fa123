/*
 * Names of frames: [path+0xoffset] is looked up in the file, [kernel+0xaddress] in /proc/kallsyms,
 * [PID:0xaddress] in perf-PID.map. A frame without a name is not changed.
 */
#include "examples/pmc-names/names.h"

#include "core/base/scan.h"

#include <stdlib.h>
#include <string.h>

#define CACHE_SIZE 16384 /* frames with their names; a power of two */

/* ---- text ---- */

/* Returns true if the blank is followed by digits only: at the end of a line that is its count. */
static bool looks_like_count(const char *text)
{
    const size_t digits = strspn(text + 1, "0123456789");

    return digits && !text[1 + digits];
}

void text_add(struct buf *out, const char *text)
{
    while (*text) {
        const size_t n = utf8_printable(text, strlen(text));

        if (n && *text != ';' && *text != '\\' && (*text != ' ' || !looks_like_count(text)))
            buf_add(out, text, n);
        else
            buf_printf(out, "\\%03o", (unsigned char)*text);
        text += n ? n : 1;
    }
}

void escaped_add(struct buf *out, const char *text, size_t len)
{
    char *plain = strndup(text, len);

    if (!plain) {
        out->failed = true;
        return;
    }
    text_unescape(plain);
    text_add(out, plain);
    free(plain);
}

/* ---- names ---- */

/* Appends a function and the functions that were inlined into it, outermost first. */
static void names_add(struct buf *out, const char *name, size_t bytes)
{
    const char *end = name + bytes;

    for (const char *first = name; name < end; name += strlen(name) + 1) {
        char *source = demangled(name);

        if (name > first)
            buf_char(out, ';');
        text_add(out, source ? source : name);
        if (name > first)
            buf_str(out, "_[i]");
        free(source);
    }
}

static void frame_resolve(struct buf *out, const char *frame, bool caller)
{
    char *text = strdup(frame + 1), *end = NULL, *at;
    const char *name = NULL, *mark = "";
    size_t bytes = 0;
    uint64_t number = 0;

    at = text ? strrchr(text, 'x') : NULL; /* "+0x" or ":0x", and digits to the end */
    if (at && at - text > 2 && at[-1] == '0' && (at[-2] == '+' || at[-2] == ':'))
        number = strtoull(at + 1, &end, 16) - caller;
    if (end && end > at + 1 && strcmp(end, "]") == 0) {
        char kind = at[-2];

        at[-2] = '\0';
        if (kind == '+' && strcmp(text, "kernel") == 0) {
            name = kernel_name(number);
            mark = "_[k]";
        } else if (kind == '+' && *text == '/') {
            text_unescape(text);
            name = file_names(text, number, &bytes);
        } else if (kind == ':') {
            name = made_name((uint32_t)strtoul(text, NULL, 10), number);
            mark = "_[j]";
        }
    }
    if (name) {
        names_add(out, name, bytes ? bytes : strlen(name) + 1);
        buf_str(out, mark);
    } else {
        escaped_add(out, frame, strlen(frame));
    }
    free(text);
}

static bool is_kernel(const char *frame)
{
    return strncmp(frame, "[kernel+", strlen("[kernel+")) == 0;
}

bool frame_is_caller(const char *frame, const char *next)
{
    return next && (is_kernel(frame) || !is_kernel(next));
}

static uint64_t text_hash(const char *text)
{
    uint64_t hash = 14695981039346656037u;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash ^ hash >> 32;
}

void frame_add(struct buf *out, const char *frame, bool caller)
{
    static struct {
        char *frame, *name;
    } cache[CACHE_SIZE];
    const size_t slot = (text_hash(frame) + caller) & (CACHE_SIZE - 1);
    const size_t begun = out->len;

    if (frame[0] != '[') {
        escaped_add(out, frame, strlen(frame));
        return;
    }
    /* the first byte is 'c' for callers, otherwise '[' */
    if (cache[slot].frame && cache[slot].frame[0] == (caller ? 'c' : '[') &&
        strcmp(cache[slot].frame + 1, frame + 1) == 0) {
        buf_str(out, cache[slot].name);
        return;
    }
    frame_resolve(out, frame, caller);
    free(cache[slot].frame);
    free(cache[slot].name);
    cache[slot].frame = strdup(frame);
    cache[slot].name = strdup(buf_text(out) + begun);
    if (!cache[slot].name || !cache[slot].frame) {
        free(cache[slot].frame);
        cache[slot].frame = NULL;
    } else if (caller) {
        cache[slot].frame[0] = 'c';
    }
}
