/*
 * The longer strokes of a pen: beginnings of lines, and texts of other people.
 */
#include "core/read/pen.h"

void put_text(struct pen *pen, const char *text, size_t len)
{
    size_t shown = len < TEXT_MAX ? len : TEXT_MAX;

    pen_flush(pen);
    while (shown < len && shown > TEXT_MAX - 4 && (text[shown] & 0xc0) == 0x80)
        shown--; /* not inside a character */
    buf_word(pen->out, text, shown);
    if (shown < len)
        PUT(pen, "…");
}

void put_events(struct pen *pen, const char *text, size_t len)
{
    pen_flush(pen);
    for (size_t at = 0, n; at < len; at += n + 1) {
        for (n = 0; at + n < len && text[at + n] != ' ' && text[at + n] != ',';)
            n++;
        buf_word(pen->out, text + at, n);
        if (at + n < len)
            buf_str(pen->out, text[at + n] == ' ' ? "," : "\\054");
    }
    if (!len)
        PUT(pen, "-");
}
