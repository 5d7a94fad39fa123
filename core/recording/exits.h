/*
 * What each process counted, from the values that its threads' switches and ends tell, so that a
 * record of its exit can say how much it was and whether that is exact; the steps from one switch
 * to the next; and what is left over, which belongs to no process that could be named. It reads a
 * table of tasks of its own (tasks.h). Memory only; no lock: its recording has one.
 */
#pragma once

#include "core/log/tasks.h"

struct exits;

/*
 * n events (0: only ends matter); switches: SWITCH records are made; exits: COUNT records are.
 * sums: what was told so far, 3 × n, not owned; at first zero. NULL: no memory.
 */
struct exits *exits_new(unsigned n, bool switches, bool exits, uint64_t *sums);
/* It goes on with the sums of an earlier worker, and does not know what the processes that are
 * there counted: their exits are not exact. */
void exits_again(struct exits *exits);
void exits_free(struct exits *exits); /* NULL allowed */
struct tasks *exits_tasks(struct exits *exits);
/*
 * A COMM, FORK, EXIT, LOST, THROTTLE, MAP or VALUES record as the backend told it (daemon's PIDs);
 * threads that were there before as COMM records (RECORD_FOUND) of the inventory. Others are passed
 * over. Appends to out the records that follow from it, in order: a SWITCH at each switch if
 * switches are wanted, with RECORD_LAST at the end of a thread, and a COUNT when the last thread of
 * a process has ended (RECORD_EXACT: every thread's last value was all that it counted, and nothing
 * was lost meanwhile).
 */
void exits_take(struct exits *exits, const struct record *record, struct buf *out);
/* The system ends the observation of a process that lives: it is given nothing, what it counted so
 * far is in the rest. When it is observed again its exit is not exact. */
void exits_leave(struct exits *exits, uint32_t pid);
/*
 * What the steps do not say. counted: what the PMC counted in all since its count began anew (n
 * values), after all of it was drained. Appends, where it is not zero, a SWITCH (pid 0,
 * RECORD_LAST) with counted less all steps so far, and when `over` (no covered process is left) a
 * COUNT (pid 0) with counted less all COUNTs so far: as with exits_leave(), of all that are left.
 * A thread's first step after a rest lacks what the rest may have said of it already; so steps
 * never say more than was counted.
 */
void exits_rest(struct exits *exits, uint64_t time, const uint64_t *counted, bool over,
                struct buf *out);
/*
 * The count began anew (reset, count written), behind exits_rest(): sums begin anew; per process
 * too. Where the rest spoke of a thread, that thread's first step may be of before and is not given
 * to any process.
 */
void exits_reset(struct exits *exits);
