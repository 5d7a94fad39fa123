/*
 * Samples that the kernel loses without a word. While any event is enabled or disabled on a CPU a
 * software event there may count an occurrence and write neither its sample nor a loss (seen on
 * 6.18, once in some 30,000 times). Where every occurrence is to be a sample, or every so many of
 * one event alone (a thread, a CPU), the counters say how many there must be: when all of a
 * recorder's are off, and its rings were taken to the end, what is missing is told as one loss.
 *
 * Known is the sum over all counters of a recorder. Nothing is claimed while one of them is on; of
 * other periods of processes, of frequencies, clocks, tracepoints and hardware; of a recorder for
 * as long as one of its counters samples these; of what was counted before a state was adopted that
 * does not have the sums. Where the kernel reports losses it includes records other than samples:
 * so many untold ones of the same run are taken for reported.
 */
#pragma once

#include "backends/perf/counter.h"
#include "backends/perf/recorder.h"

/* Do its counters say how many samples there are? */
bool settle_fits(const struct counter *counter, const struct plan *plan);
/* Its origin is made, and not known yet to others: may it count, from now on or already? With lock.
 */
void settle_begin(struct counter *counter);
/* Before it is started; after it was stopped; before its descriptors are closed. Take lock, and
 * wait for a drain under way. */
void settle_wake(const struct counter *counter);
void settle_rest(const struct counter *counter);
void settle_close(struct counter *counter);

/* Before the rings are looked at, all to be taken: reads what there must be. True: settle_tell() is
 * to follow when they were, unless the kernel may have a loss to tell still. With lock, both. */
bool settle_look(struct recorder *recorder, uint64_t *counted);
/* Is it less than that? Then a sample may still be on its way: waits until each CPU has done what
 * it was doing (false: the kernel cannot), and all is to be looked at and taken once more. */
bool settle_misses(const struct recorder *recorder, uint64_t counted);
bool settle_wait(void);
void settle_tell(struct recorder *recorder, uint64_t counted, const struct intake *intake);
