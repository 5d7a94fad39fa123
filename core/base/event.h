/*
 * One event, resolved by the backend from what a user wrote. A value: copied, never shared
 * half-made.
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
}; /* what the spelling's own modifiers say */

struct event {
    char *written;  /* as written; owned (free) */
    char *resolved; /* canonical form without privilege modifiers, may be written back; owned */
    unsigned class_index; /* into backend.classes() */
    uint64_t rows; /* bit per row of its class that can count it; 0 when the class has no rows */
    unsigned rows_needed; /* 1; 2 for an event that needs two counters; 0 without rows */
    unsigned scope;       /* mask of enum event_scope in which it can be counted */
    bool sampling;        /* raises interrupts, so that it can be sampled */
    bool whole;           /* raised by the kernel itself: user and kernel cannot be told apart */
    bool needs_kernel;    /* counting it at all needs the right to kernel mode (tracepoints) */
    bool needs_superuser; /* … with more rights still: it is for the superuser alone */
    enum event_said user, kernel;
    char generic[32];                /* the kernel's generic name of what it counts, or "" */
    char unit[16];                   /* "" when it is a plain count */
    double scale;                    /* value * scale is in unit; 1 without one */
    uint64_t code[EVENT_CODE_WORDS]; /* the backend's own encoding; the first two are what
                                      * a reader of perf.data takes for type and config */
};

/* Frees the strings. */
static inline void event_clear(struct event *event)
{
    free(event->written);
    free(event->resolved);
    *event = (struct event){0};
}

/* What the texts of all events begin with: the lines `event` (what to write) to `rows`. */
void event_print(const struct event *event, const char *spelling, const char *about,
                 struct buf *out);
