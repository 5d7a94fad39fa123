/*
 * Reading records out of the rings (drain.c), and conversion of the kernel's records to the records
 * of the log (sample.c).
 */
#pragma once

#include "backends/perf/record/recorder.h"

/* Puts all records that are in the rings now, in order of time. Needs the recorder's lock. */
void recorder_take(struct recorder *recorder, const struct intake *intake);
/* Returns the time of the record at position `at` of the ring, or 0 if it is malformed. */
uint64_t kernel_record_time(const struct ring *ring, uint64_t at);
/* Passes a sample that has no other parts after its frames. Returns false if it is not such a
 * sample. */
bool kernel_sample_take(struct recorder *recorder, const struct record *record,
                        const struct intake *intake);
/* Converts any other record of the kernel and passes the result, if there is one. Changes the
 * record, which must be in a buffer of RECORD_SPACE bytes. */
void kernel_record_take(struct recorder *recorder, struct record *record,
                        const struct intake *intake);
/* Puts a RECORD_VALUES. */
void values_put(const struct note *note, const struct intake *intake);
