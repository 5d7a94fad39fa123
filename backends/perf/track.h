/*
 * Who samples a CPU or a cgroup needs names, mappings, births and ends of all: a task executes its
 * program on one CPU and runs it on another. They are told by the rings' own events, one on each
 * CPU, while a counter that needs them is on; so they cost no descriptor but where a CPU went away,
 * and its event with it: another takes its place when it is back.
 */
#pragma once

#include "backends/perf/recorder.h"

/* Of a counter that sees CPUs: on, before it is started; off, when it was stopped, or is freed. Has
 * no effect on others, or said twice. 0 or -errno. */
int track_begin(struct counter *counter);
void track_end(struct counter *counter);
/* On as long as the recorder is there. 0 or -errno. */
int track_always(struct recorder *recorder);
/* Nothing is switched: somebody else will go on with the descriptors. */
void track_forget(struct counter *counter);
/* The CPU of this ring came, or came back. With setup. */
void track_cpu(struct recorder *recorder, struct ring *ring, bool back);
