/*
 * Counts per thread and process, from the values in records of context switches and thread exits:
 * SWITCH records with the thread's counts since its previous switch (a step), COUNT records with
 * the count of a process that exited and whether it is exact, and remainders: counts of the PMC
 * that are not in a SWITCH record of a thread, or not in a COUNT record of a process. Has a task
 * table (tasks.h). Memory only. Not thread-safe: the recording's lock protects it.
 */
#pragma once

#include "core/log/tasks.h"

struct exits;

/*
 * n: events, at most SET_MAX (0: exits without counts). switches, exits: create SWITCH and COUNT
 * records. Returns NULL on ENOMEM.
 */
struct exits *exits_new(unsigned n, bool switches, bool exits);
/* Returns 3 × n numbers: totals of all SWITCH records, totals of all COUNT records, and counts
 * reported in remainders and not yet subtracted from later steps. A later worker passes them to
 * exits_restore(), which ignores the last n. */
const uint64_t *exits_totals(const struct exits *exits);
/* Continues with the totals of an earlier worker. Counts of running processes are unknown, so their
 * COUNT records are not exact, and no count has to be subtracted from their steps. */
void exits_restore(struct exits *exits, const uint64_t *totals);
void exits_free(struct exits *exits); /* exits may be NULL */
struct tasks *exits_tasks(struct exits *exits);
/*
 * Processes a COMM, FORK, EXIT, LOST, THROTTLE, MAP or VALUES record of the backend, with PIDs of
 * the worker's namespace; other types are ignored. Existing threads come as COMM records with
 * RECORD_FOUND from the inventory. Appends the resulting records to out, in order: a SWITCH for
 * each context switch (RECORD_LAST when the thread exits) and a COUNT when the last thread of a
 * process exits. RECORD_EXACT in a COUNT: the last values of all its threads were complete, and no
 * record was lost.
 */
void exits_apply(struct exits *exits, const struct record *record, struct buf *out);
/*
 * Writes remainders. counted: the n counts of the PMC since the last reset, read after a complete
 * drain. Appends a SWITCH (pid 0, RECORD_LAST) with counted minus all steps so far, unless it is 0.
 * over: no target process is left; also appends a COUNT (pid 0) with counted minus all COUNTs so
 * far, unless it is 0, and calls tasks_leave() for all processes. The first step of a thread
 * after a remainder leaves out the counts that may be in the remainder, so that no count is
 * reported twice.
 */
void exits_remainder(struct exits *exits, uint64_t time, const uint64_t *counted, bool over,
                     struct buf *out);
/*
 * Zeroes all totals, also per process, after the PMC's count was reset or written. runs: the PMC
 * counts; otherwise call exits_remainder() first. The first step of a thread after the reset or
 * that remainder may include counts from before the reset and is not added to its process.
 */
void exits_reset(struct exits *exits, bool runs);
