/*
 * Any bytes as one word of text, for the saved state: two digits a byte, "-" for none.
 */
#pragma once

#include "core/buf.h"
#include "core/scan.h"

static inline void hex_add(struct buf *out, const void *data, size_t len)
{
    const unsigned char *bytes = data;
    char digits[128];
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        digits[n++] = "0123456789abcdef"[bytes[i] >> 4];
        digits[n++] = "0123456789abcdef"[bytes[i] & 15];
        if (n == sizeof(digits) || i + 1 == len) {
            buf_add(out, digits, n);
            n = 0;
        }
    }
}

/* A whole word. */
static inline void hex_print(struct buf *out, const void *data, size_t len)
{
    hex_add(out, data, len);
    if (!len)
        buf_char(out, '-');
}

static inline int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Bytes in a word; false: it is no such word. */
static inline bool hex_len(struct word word, size_t *len)
{
    *len = word_is(word, "-") ? 0 : word.len / 2;
    return *len * 2 == word.len || word_is(word, "-");
}

/* The bytes, hex_len() of them, to `to`. */
static inline bool hex_scan(struct word word, void *to)
{
    unsigned char *bytes = to;
    size_t len;

    if (!hex_len(word, &len))
        return false;
    for (size_t i = 0; i < len; i++) {
        int high = hex_digit(word.p[2 * i]), low = hex_digit(word.p[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}
