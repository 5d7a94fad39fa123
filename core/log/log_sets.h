/*
 * The events of the ids in a log: each set number has its events and their sampling settings. Sets
 * are added, never removed. The engine adds under its lock; readers need no lock.
 */
#pragma once

#include "core/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* Credentials of an observer of process memory, or of a reader. */
struct memory_right {
    uint64_t capabilities, userns;
    uint32_t uid, gid;
    uint32_t superuser, known; /* used as bool. If known is false, nothing is covered */
};
/* Returns true if the reader may see memory that was read with the observer's credentials. */
bool memory_right_covers(const struct memory_right *reader, const struct memory_right *observer);

struct log_event {
    char *name;     /* as written by the user */
    char *resolved; /* with modifiers: "cycles:u" */
    char *word;     /* the name, escaped for a line; set by log_sets_add() */
    size_t word_len;
    uint64_t period, freq; /* one is set; both 0: the event does not sample */
    bool chains;
    uint32_t stack;               /* maximum bytes of user stack in samples; 0: no stack */
    bool raw;                     /* samples have tracepoint fields */
    uint64_t registers;           /* registers in samples with a stack: a mask of perf */
    struct memory_right observer; /* credentials, if samples contain memory */
    uint32_t type;                /* type and config of perf_event_attr, for perf.data */
    uint64_t config;
    char *format; /* see log_event_keep_format() */
};
struct log_sets;
struct log_sets *log_sets_new(void);
struct log_sets *log_sets_ref(struct log_sets *sets);
void log_sets_unref(struct log_sets *sets);
/* Adds a set of n events (at most 256) and copies their strings, except formats. Returns the number
 * of the set (1 or more), or 0 on ENOMEM. */
uint64_t log_sets_add(struct log_sets *sets, const struct log_event *events, unsigned n);
/* log_sets_last() returns the highest set number, or 0. log_sets_event() returns an event, valid
 * until the sets are freed, or NULL. log_sets_events() returns the number of events of a set. */
uint64_t log_sets_last(const struct log_sets *sets);
const struct log_event *log_sets_event(const struct log_sets *sets, uint64_t set, unsigned index);
unsigned log_sets_events(const struct log_sets *sets, uint64_t set);
/* log_event_format() returns the tracepoint format that a reader has stored, or NULL.
 * log_event_keep_format() stores one, which the set then owns, or frees it if another reader was
 * faster, and returns the stored one. */
const char *log_event_format(const struct log_event *event);
const char *log_event_keep_format(const struct log_event *event, char *format);
