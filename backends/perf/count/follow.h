/*
 * Values of single threads where the kernel refuses PERF_SAMPLE_READ with inherit (before 6.12).
 * The counting groups stay as they are. In addition each known thread gets one group per CPU that
 * counts the same events and is not inherited: its leader is PERF_COUNT_SW_CONTEXT_SWITCHES with
 * period 1, its output goes to the recorder's rings, and it is flexible (it uses only free hardware
 * counters). The values are a lower bound: new threads are found by their FORK records, when these
 * are drained.
 */
#pragma once

#include "backends/perf/count/counter.h"

struct follow;

/*
 * Starts to follow the threads of a counter if the plan needs their values and its groups cannot
 * report them. Call after output_begin(). Opens at most most_fds descriptors; a thread that cannot
 * be opened is not followed; on ENOMEM none is. Makes system calls.
 */
void follow_begin(struct counter *counter, const struct plan *plan, unsigned long most_fds);
/* Call after the counting groups were started, and before they are stopped. armed: the start still
 * waits for the exec of the target. */
void follow_switch(const struct counter *counter, bool on, bool armed);
/* Closes all groups. NULL allowed. Needs the recorder's lock. */
void follow_free(struct follow *follow);
/* Returns the number of descriptors that are open now. Makes no system calls. */
unsigned follow_fds(const struct counter *counter);
/* Returns most_fds of follow_begin(), or 0 if no thread is followed. */
unsigned long follow_most(const struct counter *counter);
