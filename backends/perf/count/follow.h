/*
 * Values of single threads where the kernel refuses PERF_SAMPLE_READ with inherit (before 6.12).
 * The counting groups stay as they are; beside them each known thread gets groups of its own, one
 * per CPU, that count the same and are not inherited: a leader PERF_COUNT_SW_CONTEXT_SWITCHES with
 * period 1 and the events, flexible (they take only counters of the processor that are free),
 * output to the recorder's rings. They tell a lower bound: threads born meanwhile are found by
 * their FORK records, as these are drained.
 */
#pragma once

#include "backends/perf/count/counter.h"

struct follow;

/*
 * Behind output_begin(): its threads are followed, if it is to tell values and its own events
 * cannot, with at most so many descriptors open at once; a thread that cannot be opened is not
 * followed. Without memory none is. System calls.
 */
void follow_begin(struct counter *counter, const struct plan *plan, unsigned long most_fds);
/* After the counting groups were started, before they are stopped. armed: the start waits for the
 * target's exec still. */
void follow_switch(const struct counter *counter, bool on, bool armed);
void follow_free(struct follow *follow); /* closes all; NULL allowed; with the recorder's lock */
unsigned follow_fds(const struct counter *counter);       /* open now; memory only */
unsigned long follow_most(const struct counter *counter); /* most_fds; 0: none is followed */
