/*
 * Steps where the kernel refuses PERF_SAMPLE_READ with inherit (before 6.12). The counting groups
 * stay as they are; beside them each known thread gets groups of its own, one per CPU, that count
 * the same and are not inherited: a leader PERF_COUNT_SW_CONTEXT_SWITCHES with period 1 and the
 * events, flexible (they take only counters of the processor that nobody needs), output to the
 * recorder's rings. What they say is a lower bound: threads born meanwhile are found by their FORK
 * records, at the next drain. One per counter; own mutex, taken under all others.
 */
#pragma once

#include "backends/perf/counter.h"
#include "core/record.h"

struct follow;
struct steps;

/* Does this counter need it? */
bool follow_is_needed(const struct counter *counter, const struct plan *plan);
/*
 * Behind output_begin(): the threads that are attached, stopped (armed, if the plan is at_exec).
 * most_fds: descriptors it may have open at once; who cannot be opened is not followed. System
 * calls; takes the recorder's locks. NULL: no memory.
 */
struct follow *follow_new(struct counter *counter, const struct plan *plan, unsigned long most_fds);
/* The same for a counter that was adopted, perhaps switched on: the threads of all processes that
 * it covers now, which begin anew. */
struct follow *follow_again(struct counter *counter, const struct plan *plan,
                            unsigned long most_fds);
/* It is the counter's from now on; a drain may be under way. */
void follow_publish(struct counter *counter, struct follow *follow);
/* Closes all; behind output_end(). NULL allowed, here and below. */
void follow_free(struct follow *follow);
/* After the counting groups were started, before they are stopped. armed: the start waits for the
 * target's exec still. */
void follow_switch(struct follow *follow, bool on, bool armed);
/*
 * In the drain: every FORK, EXIT and COMM record of the counter, before steps_follow(); with the
 * recorder's lock. A thread that ended is read for the last time, told to steps, and closed.
 */
void follow_record(struct follow *follow, const struct record *record, struct steps *steps,
                   const struct intake *intake);
/* At the end of a drain, with the recorder's setup, without its lock: threads born are opened. */
void follow_newcomers(struct follow *follow);
unsigned follow_fds(struct follow *follow); /* open now; memory only */
/* The process of a thread; 0: it is gone. */
pid_t task_process(pid_t tid);
unsigned long follow_most(const struct follow *follow); /* most_fds */
