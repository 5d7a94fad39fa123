/*
 * Growable output text: growing, formatted output and escaping. Numbers are printed in buf.h.
 */
#include "core/base/buf.h"

#include "core/base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 256

void buf_init(struct buf *buf, char *storage, size_t size)
{
    *buf = (struct buf){.data = storage, .size = storage ? size : 0};
}

void buf_free(struct buf *buf)
{
    if (buf->owned)
        free(buf->data);
    *buf = (struct buf){0};
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->failed = false;
}

/* Moves the text to a larger block on the heap. */
static bool moved(struct buf *buf, size_t need)
{
    size_t size = buf->size > FIRST_BYTES ? buf->size : FIRST_BYTES;
    char *data;

    while (size - buf->len < need && size <= SIZE_MAX / 2)
        size *= 2;
    if (size - buf->len < need)
        return false;
    data = realloc(buf->owned ? buf->data : NULL, size);
    if (!data)
        return false;
    if (!buf->owned && buf->len)
        memcpy(data, buf->data, buf->len);
    buf->data = data;
    buf->size = size;
    buf->owned = true;
    return true;
}

char *buf_grow(struct buf *buf, size_t need)
{
    buf->failed = buf->failed || !moved(buf, need);
    return buf->failed ? NULL : buf->data + buf->len;
}

void buf_i64(struct buf *buf, int64_t value)
{
    if (value < 0)
        buf_char(buf, '-');
    buf_u64(buf, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    for (size_t need = 64;;) {
        va_list args;
        int len;

        if (!buf_reserve(buf, need))
            return;
        va_start(args, format);
        len = vsnprintf(buf->data + buf->len, buf->size - buf->len, format, args);
        va_end(args);
        if (len < 0) {
            buf->failed = true;
            return;
        }
        if ((size_t)len < buf->size - buf->len) {
            buf->len += (size_t)len;
            return;
        }
        need = (size_t)len + 1;
    }
}

static void add_escaped(struct buf *buf, const char *text, size_t len, const char *also)
{
    size_t step, plain = 0; /* start of the run without escapes */

    for (size_t i = 0; i < len; i += step) {
        char octal[4];
        size_t shown = utf8_printable(text + i, len - i);

        step = shown ? shown : 1;
        if (shown && !(shown == 1 && strchr(also, text[i])))
            continue;
        utf8_octal(octal, text[i]);
        buf_add(buf, text + plain, i - plain);
        buf_add(buf, octal, sizeof(octal));
        plain = i + 1;
    }
    buf_add(buf, text + plain, len - plain);
}

void buf_word(struct buf *buf, const char *text, size_t len)
{
    add_escaped(buf, text, len, " \\='\"");
}

void buf_value(struct buf *buf, const char *text, size_t len)
{
    add_escaped(buf, text, len, " \\");
}

void buf_quoted(struct buf *buf, const char *text, size_t len)
{
    add_escaped(buf, text, len, "\\\"");
}

const char *buf_text(struct buf *buf)
{
    if (!buf_reserve(buf, 1))
        return "";
    buf->data[buf->len] = '\0';
    return buf->data;
}
