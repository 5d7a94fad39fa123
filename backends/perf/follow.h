/*
 * Values of single threads where the kernel refuses PERF_SAMPLE_READ with inherit (before 6.12).
 * The counting groups stay as they are; beside them each known thread gets groups of its own, one
 * per CPU, that count the same and are not inherited: a leader PERF_COUNT_SW_CONTEXT_SWITCHES with
 * period 1 and the events, flexible (they take only counters of the processor that are free),
 * output to the recorder's rings. They tell a lower bound: threads born meanwhile are found by
 * their FORK records, at the next drain. One per counter; own mutex, taken under all others.
 */
#pragma once

#include "backends/perf/count/counter.h"
#include "core/log/record.h"

struct follow;

/* Does this counter need it? */
bool follow_is_needed(const struct counter *counter, const struct plan *plan);
/*
 * Behind output_begin(), attached or adopted: the threads of all processes that it covers now; they
 * begin anew. most_fds: descriptors it may have open at once; a thread that cannot be opened is not
 * followed. It is the counter's from then on; a drain may be under way. System calls; takes the
 * recorder's locks. Without memory nothing is followed.
 */
void follow_begin(struct counter *counter, const struct plan *plan, unsigned long most_fds);
/* Closes all; behind output_end(). NULL allowed, here and below. */
void follow_free(struct follow *follow);
/* After the counting groups were started, before they are stopped. armed: the start waits for the
 * target's exec still. */
void follow_switch(struct follow *follow, bool on, bool armed);
/*
 * In the drain: every FORK, EXIT and COMM record of the counter, before it is put; with the
 * recorder's lock. A thread that ended is read for the last time, told, and closed.
 */
void follow_record(struct follow *follow, const struct record *record, const struct intake *intake);
/* At the end of a drain, with the recorder's setup, without its lock: threads born are opened. */
void follow_newcomers(struct follow *follow);
unsigned follow_fds(struct follow *follow);             /* open now; memory only */
unsigned long follow_most(const struct follow *follow); /* most_fds */
/* The process of a thread; 0: it is gone. */
pid_t task_process(pid_t tid);
