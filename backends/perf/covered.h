/*
 * The processes that a counter with descendants covers: those opened at attach, then what FORK and
 * EXIT records say. Memory only; the sideband's lock protects it.
 */
#pragma once

#include "backends/perf/sideband.h"
#include "core/buf.h"

struct covered;

struct covered *covered_new(void);
void covered_free(struct covered *covered);
void covered_clear(struct covered *covered);
/* One more (or fewer) thread of a process; the process goes when it has none. False: no memory. */
bool covered_thread(struct covered *covered, pid_t pid, int step);
/* A batch of records in order of time. */
void covered_take(void *arg, const struct side_record *records, size_t n, bool lost);
/* From now on every process may be one of them. */
void covered_doubt(struct covered *covered);
bool covered_has(const struct covered *covered, pid_t pid);
void covered_each(const struct covered *covered, void (*fn)(void *arg, pid_t pid), void *arg);
unsigned covered_count(const struct covered *covered);
/* "PID:THREADS,…" or "-"; a leading "?" when in doubt. covered_scan() puts it into an empty set. */
void covered_print(const struct covered *covered, struct buf *out);
bool covered_scan(struct covered *covered, const char *text);
