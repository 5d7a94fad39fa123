/*
 * What the ids in a log mean: for each number of a set its events and how they were sampled. Grows
 * only; shared: readers look without a lock while the engine adds, under its own.
 */
#pragma once

#include "core/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* With which the memory of a process was observed; or the same of a reader. */
struct memory_right {
    uint64_t capabilities, userns;
    uint32_t uid, gid;
    uint32_t superuser, known; /* bool */
};
/* May the reader see of memory what was observed with that right? */
bool memory_right_covers(const struct memory_right *reader, const struct memory_right *observer);

struct log_event {
    char *name;     /* as written */
    char *resolved; /* with what is counted: "cycles:u" */
    char *word;     /* the name as it stands in a line; made with the set */
    size_t word_len;
    uint64_t period, freq; /* one of them, or both 0: it only counts */
    bool chains;
    uint32_t stack;               /* bytes of the stack, at most, that its samples have; 0: none */
    bool raw;                     /* they have the fields of a tracepoint */
    uint64_t registers;           /* which registers they have then: a mask of perf's */
    struct memory_right observer; /* with whose right, where they have memory */
    uint32_t type;                /* of perf_event_attr, as far as a reader of perf.data cares */
    uint64_t config;
};
struct log_sets;
struct log_sets *log_sets_new(void);
struct log_sets *log_sets_ref(struct log_sets *sets);
void log_sets_unref(struct log_sets *sets);
/* A new set of n events, strings copied; its number (from 1), or 0: no memory. */
uint64_t log_sets_add(struct log_sets *sets, const struct log_event *events, unsigned n);
/* Numbers of sets so far; and one event, valid until the sets are freed. NULL: none. */
uint64_t log_sets_last(const struct log_sets *sets);
const struct log_event *log_sets_event(const struct log_sets *sets, uint64_t set, unsigned place);
unsigned log_sets_events(const struct log_sets *sets, uint64_t set);
