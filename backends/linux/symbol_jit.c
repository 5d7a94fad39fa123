/*
 * Names from a perf-PID.map, which just-in-time compilers write: "START SIZE NAME" a line, in
 * hexadecimal. Code moves: of several lines for one address the last is true. Read in the helper.
 */
#include "backends/linux/symbol.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096 /* what is longer is cut */

/* A number in hexadecimal, with or without 0x; the text behind it and one blank. NULL: none. */
static const char *hex_take(const char *text, uint64_t *out)
{
    char *end;

    if (*text == ' ' || *text == '-' || *text == '+')
        return NULL;
    *out = strtoull(text, &end, 16);
    return end != text && *end == ' ' ? end + 1 : NULL;
}

static void line_offer(struct symbol_point *points, size_t n, const char *line)
{
    uint64_t start, size;
    const char *rest = hex_take(line, &start);

    if (rest)
        rest = hex_take(rest, &size);
    if (!rest || !*rest)
        return;
    for (size_t i = symbol_points_from(points, n, start); i < n && points[i].at - start < size; i++)
        symbol_point_name(&points[i], rest, strlen(rest));
}

/* Takes whole lines from the buffer; what is left at its end is moved to the front. */
static size_t lines_offer(char *text, size_t len, struct symbol_point *points, size_t n, bool *skip)
{
    char *line = text, *end;

    while ((end = memchr(line, '\n', len - (size_t)(line - text)))) {
        *end = '\0';
        if (!*skip)
            line_offer(points, n, line);
        *skip = false;
        line = end + 1;
    }
    len -= (size_t)(line - text);
    memmove(text, line, len);
    if (len < LINE_MAX_BYTES)
        return len;
    text[len] = '\0';
    if (!*skip)
        line_offer(points, n, text);
    *skip = true; /* the rest of a line too long */
    return 0;
}

void symbol_jit(int fd, struct symbol_point *points, size_t n)
{
    static char text[16 * LINE_MAX_BYTES + 1];
    bool skip = false;
    size_t len = 0;
    uint64_t at = 0;

    while (at < SYMBOL_JIT_BYTES) {
        ssize_t got = pread(fd, text + len, sizeof text - 1 - len, (off_t)at);

        if (got <= 0)
            break;
        at += (uint64_t)got;
        len = lines_offer(text, len + (size_t)got, points, n, &skip);
    }
    if (len > 0 && !skip) {
        text[len] = '\0';
        line_offer(points, n, text);
    }
}
