/*
 * Values of single threads where the kernel refuses PERF_SAMPLE_READ with inherit (before 6.12).
 * The counting groups stay as they are; beside them each known thread gets groups of its own, one
 * per CPU, that count the same and are not inherited: a leader PERF_COUNT_SW_CONTEXT_SWITCHES with
 * period 1 and the events, flexible (they take only counters of the processor that are free),
 * output to the recorder's rings. They tell a lower bound: threads born meanwhile are found by
 * their FORK records, as these are drained. All is called with the recorder's lock held, but for
 * the last two.
 */
#pragma once

#include "backends/perf/record/recorder.h"

/*
 * most_fds: descriptors it may have open at once; a thread that cannot be opened is not followed.
 * armed: the start waits for the target's exec still. NULL: no memory.
 */
struct follow *follow_new(const struct origin *origin, const struct plan *plan, bool on, bool armed,
                          unsigned long most_fds);
void follow_free(struct follow *follow); /* closes all; NULL allowed, here and below */
/* A thread that is there; its process, or 0. System calls. */
void follow_thread(struct follow *follow, pid_t tid, pid_t pid);
/* After the counting groups were started, before they are stopped. */
void follow_switch(struct follow *follow, bool on, bool armed);
/* Every FORK, EXIT and COMM record of the counter, before it is put. A thread that ended is read
 * for the last time, told, and closed. */
void follow_record(struct follow *follow, const struct record *record, const struct intake *intake);
unsigned follow_fds(const struct follow *follow);       /* open now */
unsigned long follow_most(const struct follow *follow); /* most_fds */
