/*
 * A counter that samples a CPU or a cgroup needs names, mappings, births and ends of all: a task
 * executes its program on one CPU and runs it on another. They are told by the rings' own events,
 * one on each CPU, while a counter that needs them is on; so they cost no descriptor but where a
 * CPU went away, and its event with it: another takes its place when it is back.
 */
#pragma once

#include "backends/perf/record/recorder.h"

/* Once more on, told as of this set; once less: off at last. With setup. 0 or -errno. */
int track_begin(struct recorder *recorder, uint64_t set);
void track_end(struct recorder *recorder);
/* The same, but nothing is switched: the descriptors are closed, or another goes on with them. */
void track_forget(struct recorder *recorder);
/* The CPU of this ring came, or came back. With setup. */
void track_cpu(struct recorder *recorder, struct ring *ring, bool back);
