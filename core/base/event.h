/*
 * An event, resolved by the backend from the spelling of a user. Passed by value.
 */
#pragma once

#include "core/base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define SET_MAX          64 /* events in one set */
#define EVENT_CODE_WORDS 16

enum event_scope {
    EVENT_PROCESS = 1,
    EVENT_CPU = 2,
    EVENT_PACKAGE = 4
};

enum event_said {
    SAID_NOTHING,
    SAID_OFF,
    SAID_ON
}; /* a modifier of the spelling */

struct event {
    char *written;        /* as written; owned */
    char *resolved;       /* canonical form without mode modifiers, can be written back; owned */
    unsigned class_index; /* index into backend.classes() */
    uint64_t rows;        /* rows of its class that can count it, one bit each; 0: no rows */
    unsigned rows_needed; /* number of rows: 1, or 2 for a wide event; 0 without rows */
    unsigned scope;       /* mask of enum event_scope */
    bool sampling;        /* can be sampled */
    bool whole;           /* user and kernel mode cannot be counted separately */
    bool needs_kernel;    /* needs the right to kernel mode (tracepoints) */
    bool needs_superuser; /* only the superuser may count it */
    enum event_said user, kernel;
    char generic[32];                /* the kernel's generic name of the event, or "" */
    char unit[16];                   /* "" for a plain count */
    double scale;                    /* value * scale is in unit; 1 without one */
    uint64_t code[EVENT_CODE_WORDS]; /* the backend's encoding; the first two words are
                                      * type and config in perf.data */
};

/* Frees the strings. */
static inline void event_clear(struct event *event)
{
    free(event->written);
    free(event->resolved);
    *event = (struct event){0};
}

/* Prints the lines that the texts of all events start with: `event` (the spelling) to `rows`. */
void event_print(const struct event *event, const char *spelling, const char *about,
                 struct buf *out);
