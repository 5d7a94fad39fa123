/*
 * A counter that samples a CPU or a cgroup needs names, mappings, births and ends of all: a task
 * executes its program on one CPU and runs it on another. They are told by an event on each CPU,
 * open while a counter that needs them is on. No record of the journal names them: a later worker
 * opens its own.
 */
#pragma once

#include "backends/perf/record/recorder.h"

/* Once more on, told as of this set; once less: closed at last. With setup. 0 or -errno. */
int track_begin(struct recorder *recorder, uint64_t set);
void track_end(struct recorder *recorder);
/* The CPU of this ring came, or came back: an event that was there died with it. With setup. */
void track_cpu(struct recorder *recorder, struct ring *ring);
