/*
 * Growable output text, the only text writer of the program. Every function reserves the room for
 * its own output, so that no caller has to compute a bound. Numbers are printed without stdio. On
 * ENOMEM buf.failed is set, further text is dropped, and the caller that sends the text returns
 * ENOMEM.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Zeroes are an empty text. */
struct buf {
    char *data; /* not NUL-terminated; use buf_text() */
    size_t len;
    size_t size;
    bool failed;
    bool owned; /* data was allocated; false while it is the caller's block */
};

/* Returns an empty text that uses `storage` until it is full, then the heap. */
static inline struct buf buf_in(char *storage, size_t size)
{
    return (struct buf){.data = storage, .size = size};
}

/* Frees the memory of the text, which is empty then. */
void buf_free(struct buf *buf);
void buf_clear(struct buf *buf); /* empties the text and resets `failed`; keeps the memory */

char *buf_grow(struct buf *buf, size_t need); /* for buf_reserve() */
/* Returns the end of the text, with room for need more bytes; NULL after ENOMEM, also an earlier
 * one. */
static inline char *buf_reserve(struct buf *buf, size_t need)
{
    if (!buf->failed && need <= buf->size - buf->len)
        return buf->data + buf->len;
    return buf_grow(buf, need);
}

/* Adds the bytes that were written after buf_reserve(), up to `end`. */
static inline void buf_advance(struct buf *buf, const char *end)
{
    const size_t len = (size_t)(end - buf->data);

    assert(len >= buf->len && len <= buf->size);
    buf->len = len;
}

/* Appends bytes. Inline, so that the compiler copies a text of a known length without a call. */
static inline void buf_add(struct buf *buf, const void *data, size_t len)
{
    char *to = len ? buf_reserve(buf, len) : NULL;

    if (!to)
        return;
    memcpy(to, data, len);
    buf->len += len;
}

static inline void buf_str(struct buf *buf, const char *text)
{
    buf_add(buf, text, strlen(text));
}

static inline void buf_char(struct buf *buf, char c)
{
    char *to = buf_reserve(buf, 1);

    if (!to)
        return;
    *to = c;
    buf->len++;
}

/* Appends a string literal, whose length is a constant. */
#define BUF_LITERAL(buf, literal) buf_add(buf, "" literal, sizeof(literal) - 1)

#define U64_DIGITS 20 /* of the largest value */

/* Writes value before `end` and returns its first digit. Needs U64_DIGITS bytes. */
static inline char *u64_digits(char *end, uint64_t value)
{
    do
        *--end = (char)('0' + value % 10);
    while (value /= 10);
    return end;
}

static inline void buf_u64(struct buf *buf, uint64_t value)
{
    char digits[U64_DIGITS], *const end = digits + sizeof(digits);
    const char *const from = u64_digits(end, value);

    buf_add(buf, from, (size_t)(end - from));
}

/* Appends a hexadecimal number with a leading 0x. */
static inline void buf_hex(struct buf *buf, uint64_t value)
{
    unsigned shift = value ? (63u - (unsigned)__builtin_clzll(value)) & ~3u : 0;
    char *to = buf_reserve(buf, 2 + 16);

    if (!to)
        return;
    *to++ = '0';
    *to++ = 'x';
    for (;; shift -= 4) {
        *to++ = "0123456789abcdef"[value >> shift & 15];
        if (!shift)
            break;
    }
    buf_advance(buf, to);
}

/* Appends nanoseconds as seconds with nine decimals: "12.000000345". */
static inline void buf_seconds(struct buf *buf, uint64_t ns)
{
    char text[U64_DIGITS + 10], *const point = text + U64_DIGITS;
    uint32_t rest = (uint32_t)(ns % 1000000000);
    const char *const from = u64_digits(point, ns / 1000000000);

    *point = '.';
    for (unsigned i = 9; i > 0; i--, rest /= 10)
        point[i] = (char)('0' + rest % 10);
    buf_add(buf, from, (size_t)(text + sizeof(text) - from));
}

void buf_i64(struct buf *buf, int64_t value);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * Adds a text that came from a program or a caller as one word of one line: blanks, control
 * characters, '\', '=', quotes and bytes that are not valid UTF-8 become \ooo (octal).
 */
void buf_word(struct buf *buf, const char *text, size_t len);
/* Escapes like buf_word(), except '=' and quotes: for values of settings. */
void buf_value(struct buf *buf, const char *text, size_t len);
/* Escapes like buf_word(), except blanks, '=' and "'": for text within '"' in a sentence. */
void buf_in_quotes(struct buf *buf, const char *text, size_t len);
/* Returns the text with a NUL, valid until the buf is changed or freed; "" on ENOMEM. */
const char *buf_text(struct buf *buf);

/*
 * Returns the length of the printable UTF-8 character at text, of which `left` bytes (at least 1)
 * remain. Returns 0 for invalid, overlong or surrogate bytes, control characters (U+0080…U+009F
 * too, which control terminals) and the line separators U+2028, U+2029.
 */
size_t utf8_printable(const char *text, size_t left);
/* Returns the length of the text, or if that is more than `most`, the largest length of at most
 * `most` that does not cut a UTF-8 character. */
size_t utf8_cut(const char *text, size_t len, size_t most);
/* Writes the byte as \ooo: four characters without a NUL. */
void octal_escape(char to[4], char byte);
