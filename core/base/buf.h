/*
 * Growable output text. Numbers are printed without stdio. Never fails in between: when memory
 * ends, buf.failed is set, further text is dropped, and the sender of the text answers ENOMEM.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buf {
    char *data; /* not NUL-terminated; use buf_text() */
    size_t len;
    size_t size;
    bool failed;
    bool owned; /* data came from malloc; false while it is the caller's own first block */
};

/* An empty text; storage of size bytes (may be NULL, 0) is used until it is full, then the heap. */
void buf_init(struct buf *buf, char *storage, size_t size);
/* Frees what is owned; the struct may be initialised again. */
void buf_free(struct buf *buf);
void buf_clear(struct buf *buf);

char *buf_grow(struct buf *buf, size_t need); /* for buf_reserve() */
/* Where there is room for need more bytes; NULL: failed for good. */
static inline char *buf_reserve(struct buf *buf, size_t need)
{
    if (!buf->failed && need <= buf->size - buf->len)
        return buf->data + buf->len;
    return buf_grow(buf, need);
}

/* In the header, so that a text of a known length is a store. */
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

void buf_u64(struct buf *buf, uint64_t value);
void buf_i64(struct buf *buf, int64_t value);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * Text that came from a program or a caller: blanks, control bytes, '\', '=', quotes and bytes that
 * are not valid UTF-8 become \ooo (octal), so that it stays one word of one line.
 */
void buf_word(struct buf *buf, const char *text, size_t len);
/* The same, but '=' and quotes stay: the value of a setting. */
void buf_value(struct buf *buf, const char *text, size_t len);
/* The same for what stands between '"' in a sentence: blanks, '=' and "'" stay as they are. */
void buf_quoted(struct buf *buf, const char *text, size_t len);
/* Seconds with nine decimals from nanoseconds: "12.000000345". */
void buf_seconds(struct buf *buf, uint64_t ns);
/* NUL-terminated view; valid until the next call. "" when memory ended. */
const char *buf_text(struct buf *buf);
