/*
 * Finds bytes that must be escaped in a line of text; used by err and buf.
 */
#pragma once

#include <stddef.h>

/*
 * Returns the length of the printable UTF-8 character at text, of which `left` bytes (at least 1)
 * remain. Returns 0 for invalid, overlong or surrogate bytes, control characters (U+0080…U+009F
 * too, which control terminals) and the line separators U+2028, U+2029.
 */
static inline size_t utf8_printable(const char *text, size_t left)
{
    static const unsigned smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *p = (const unsigned char *)text;
    size_t len = p[0] < 0x80 ? 1 : (p[0] & 0xe0) == 0xc0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : 4;
    unsigned point;

    if (len == 1)
        return p[0] >= 0x20 && p[0] != 0x7f;
    if ((len == 4 && (p[0] & 0xf8) != 0xf0) || len > left)
        return 0;
    point = p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (p[i] & 0x3fu);
    }
    if (point < smallest[len] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
        return 0;
    return point < 0xa0 || point == 0x2028 || point == 0x2029 ? 0 : len;
}

/* Writes the byte as \ooo: four characters without a NUL. */
static inline void utf8_octal(char to[4], char byte)
{
    unsigned char c = (unsigned char)byte;

    to[0] = '\\';
    to[1] = (char)('0' + (c >> 6));
    to[2] = (char)('0' + (c >> 3 & 7));
    to[3] = (char)('0' + (c & 7));
}
