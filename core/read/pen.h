/*
 * A pen: the parts of a log's lines are put together in its room and go into the text many at a
 * time, without stdio. At the beginning of a record PEN_ROOM / 2 is free; lists and texts make
 * room.
 */
#pragma once

#include "core/base/buf.h"
#include "core/log/record.h"

#include <string.h>

#define PEN_ROOM 1024
#define PEN_PART 24    /* of a list: a comma, a mark and a number */
#define TEXT_MAX 32768 /* bytes shown of one text that a program or caller gave */

struct pen {
    struct buf *out;
    char *p;
    char room[PEN_ROOM];
};

#define PUT(pen, literal)                                                                          \
    ((pen)->p = (char *)memcpy((pen)->p, literal, sizeof(literal) - 1) + sizeof(literal) - 1)

static inline void pen_begin(struct pen *pen, struct buf *out)
{
    pen->out = out;
    pen->p = pen->room;
}

static inline void pen_flush(struct pen *pen)
{
    buf_add(pen->out, pen->room, (size_t)(pen->p - pen->room));
    pen->p = pen->room;
}

static inline void put_u64(struct pen *pen, uint64_t value)
{
    char text[20], *p = text + sizeof text;

    do {
        *--p = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    pen->p = mempcpy(pen->p, p, (size_t)(text + sizeof text - p));
}

static inline void put_hex(struct pen *pen, uint64_t value)
{
    unsigned shift = value ? (63u - (unsigned)__builtin_clzll(value)) & ~3u : 0;

    PUT(pen, "0x");
    for (;; shift -= 4) {
        *pen->p++ = "0123456789abcdef"[value >> shift & 15];
        if (!shift)
            return;
    }
}

static inline void put_decimals(struct pen *pen, uint32_t ns)
{
    *pen->p = '.';
    for (unsigned i = 9; i > 0; i--, ns /= 10)
        pen->p[i] = (char)('0' + ns % 10);
    pen->p += 10;
}

static inline void put_time(struct pen *pen, uint64_t ns)
{
    put_u64(pen, ns / 1000000000);
    put_decimals(pen, (uint32_t)(ns % 1000000000));
}

/* -1 is the kernel. */
static inline void put_pid(struct pen *pen, uint32_t pid)
{
    if (pid == UINT32_MAX)
        PUT(pen, "-1");
    else
        put_u64(pen, pid);
}

static inline void put_cpu(struct pen *pen, uint32_t cpu)
{
    if (cpu == UINT32_MAX)
        PUT(pen, "-");
    else
        put_u64(pen, cpu);
}

/* A list's next part may be this long. */
static inline void pen_make_room(struct pen *pen)
{
    if (pen->p + PEN_PART > pen->room + PEN_ROOM)
        pen_flush(pen);
}

/* ---- pen.c ---- */

/* Text of a program or a caller: one word whatever it is, cut and marked beyond TEXT_MAX.
 */
void put_text(struct pen *pen, const char *text, size_t len);
/* The members of a set, separated by blanks; printed with commas. */
void put_events(struct pen *pen, const char *text, size_t len);

/* The whole line of a record that is no sample, if it has one (logtext_notes.c). */
void put_line(struct pen *pen, const struct record *record);
