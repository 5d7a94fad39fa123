/*
 * The processes that a counter with descendants covers: those found at attach, and later those that
 * FORK and EXIT records add and remove. Also finds out if one of them lost its events because it
 * executed a privileged program: records show which processes may have, /proc whether they live.
 */
#pragma once

#include "backends/perf/record/sideband.h"

struct counter;
struct covered;

/*
 * Starts to follow records. fill() adds the processes that are covered already; it runs with the
 * sideband's lock, so that no record is delivered meanwhile. Returns NULL on ENOMEM.
 */
struct covered *covered_new(struct sideband *sideband, const struct counter *counter,
                            void (*fill)(struct covered *covered, const void *arg),
                            const void *arg);
void covered_free(struct covered *covered); /* NULL allowed */

/* For fill(): adds a thread of a process. */
void covered_thread(struct covered *covered, uint32_t pid, uint32_t tid);
/* For fill(): applies a record; records must come in order of time. */
void covered_record(struct covered *covered, const struct side_record *record);
/* For fill(): the list is incomplete; covered_has() then returns true for every process. */
void covered_doubt(struct covered *covered);

bool covered_has(struct covered *covered, pid_t pid);
void covered_each(struct covered *covered, void (*fn)(void *arg, pid_t pid), void *arg);
/* Sets *dropped if a process has lost its events since the attach. Returns 0, or -EAGAIN if this
 * needs a read of /proc and `patient` is false. */
int covered_dropped(struct covered *covered, bool patient, bool *dropped);
/* Returns true if the process exists and is not about to exit. Reads /proc. */
bool process_lives(pid_t pid);
