/*
 * The processes that a counter with descendants covers: those opened at attach, then what FORK and
 * EXIT records say; and whether one of those lost its events to the exec of a privileged program:
 * the records tell which may have, /proc whether it lives.
 */
#pragma once

#include "backends/perf/record/sideband.h"

struct counter;
struct covered;

/*
 * The processes that are covered by now are put into the set by fill(), which finds it entered:
 * nothing is told meanwhile. From then on records are followed. NULL: no memory.
 */
struct covered *covered_new(struct sideband *sideband, const struct counter *counter,
                            void (*fill)(struct covered *covered, const void *arg),
                            const void *arg);
void covered_free(struct covered *covered); /* NULL allowed */

/* For fill(): this thread of this process is there; a record, in order of time; every process may
 * be one of them. */
void covered_thread(struct covered *covered, uint32_t pid, uint32_t tid);
void covered_record(struct covered *covered, const struct side_record *record);
void covered_doubt(struct covered *covered);

bool covered_has(struct covered *covered, pid_t pid);
void covered_each(struct covered *covered, void (*fn)(void *arg, pid_t pid), void *arg);
/* Has one lost its events since the attach? 0; or, without patience, -EAGAIN: /proc has to be
 * asked. */
int covered_dropped(struct covered *covered, bool patient, bool *dropped);
/* Is this process there, and not about to end? */
bool process_lives(pid_t pid);
