/*
 * From a record of the kernel's to a record of core's (sample.c), for drain.c.
 */
#pragma once

#include "backends/perf/record/recorder.h"

/* Takes what there is now, in order of time. With lock. */
void recorder_take(struct recorder *recorder, const struct intake *intake);
/* When it was written; at: its place in the ring. */
uint64_t kernel_record_time(const struct ring *ring, uint64_t at);
/* Puts a RECORD_VALUES. */
void values_put(const struct note *note, const struct intake *intake);
/* Puts what becomes of the record, if anything. It is changed; it has RECORD_SPACE bytes. */
void kernel_record_take(struct recorder *recorder, struct record *record,
                        const struct intake *intake);
