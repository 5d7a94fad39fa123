/*
 * The processes that a counter with descendants covers: those opened at attach, then what FORK and
 * EXIT records say. Memory only; the sideband's lock protects it.
 */
#pragma once

#include "backends/perf/record/sideband.h"

struct covered;

/* target: what its own exec takes off is told by a guard (end_events.h). */
struct covered *covered_new(pid_t target);
void covered_free(struct covered *covered);
/* Records that are told from now on count. */
void covered_begin(struct covered *covered);
/* This thread of this process is there. False: no memory. */
bool covered_thread(struct covered *covered, pid_t pid, pid_t tid);
/* Records in order of time. */
void covered_take(void *arg, const struct side_record *record);
/* From now on every process may be one of them. */
void covered_doubt(struct covered *covered);
bool covered_has(const struct covered *covered, pid_t pid);

/*
 * Processes that may have lost their events to the exec of a privileged program: EXEC soon followed
 * by EXIT. Whether one lives is found out without the lock.
 */
/* The one with the lowest number above `after`, or 0. */
pid_t covered_next_suspect(const struct covered *covered, pid_t after);
/* After the rings were drained since the look. */
void covered_judge(struct covered *covered, pid_t pid, bool lives);
/* Did any? Stays true. */
bool covered_dropped(const struct covered *covered);
void covered_each(const struct covered *covered, void (*fn)(void *arg, pid_t pid), void *arg);
unsigned covered_count(const struct covered *covered);
