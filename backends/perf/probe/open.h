/*
 * perf_event_open(2) with CLOEXEC.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct perf_event_attr;

/*
 * A descriptor or -errno; -ETIME: the task was executing a program all the time. That is a moment,
 * unless this thread has said how long it waits (0: a moment, from now on).
 */
void event_patience(uint64_t until_ns);
int event_open(const struct perf_event_attr *attr, pid_t pid, int cpu, int group,
               unsigned long flags);
/* Closes *fd if it is one and makes it -1. */
void event_close(int *fd);
