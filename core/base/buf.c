/*
 * Growable output text: growing, formatted output and escaping. Numbers are printed in buf.h.
 */
#include "core/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_BYTES 256

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

char *buf_grow(struct buf *buf, size_t need)
{
    size_t size = buf->size > FIRST_BYTES ? buf->size : FIRST_BYTES;
    char *data = NULL;

    while (size - buf->len < need && size <= SIZE_MAX / 2)
        size *= 2;
    if (!buf->failed && size - buf->len >= need)
        data = realloc(buf->owned ? buf->data : NULL, size);
    if (!data) {
        buf->failed = true;
        return NULL;
    }
    if (!buf->owned && buf->len)
        memcpy(data, buf->data, buf->len);
    buf->data = data;
    buf->size = size;
    buf->owned = true;
    return data + buf->len;
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

        if (!buf_reserve(buf, need))
            return;
        va_start(args, format);
        int len = vsnprintf(buf->data + buf->len, buf->size - buf->len, format, args);
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

/* ---- escaping ---- */

size_t utf8_printable(const char *text, size_t left)
{
    static const unsigned smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *p = (const unsigned char *)text;
    size_t len = p[0] < 0x80 ? 1 : (p[0] & 0xe0) == 0xc0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : 4;

    if (len == 1)
        return p[0] >= 0x20 && p[0] != 0x7f;
    if ((len == 4 && (p[0] & 0xf8) != 0xf0) || len > left)
        return 0;
    unsigned point = p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (p[i] & 0x3fu);
    }
    if (point < smallest[len] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
        return 0;
    return point < 0xa0 || point == 0x2028 || point == 0x2029 ? 0 : len;
}

size_t utf8_cut(const char *text, size_t len, size_t most)
{
    if (len <= most)
        return len;
    for (size_t cut = most; cut > 0 && most - cut < 4; cut--)
        if ((text[cut] & 0xc0) != 0x80)
            return cut;
    return most;
}

void octal_escape(char to[4], char byte)
{
    unsigned char c = (unsigned char)byte;

    to[0] = '\\';
    to[1] = (char)('0' + (c >> 6));
    to[2] = (char)('0' + (c >> 3 & 7));
    to[3] = (char)('0' + (c & 7));
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
        octal_escape(octal, text[i]);
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

void buf_in_quotes(struct buf *buf, const char *text, size_t len)
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
