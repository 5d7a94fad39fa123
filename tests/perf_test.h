/*
 * What the tests of the perf backend on real processes share (attach*.c and record*.c, two
 * programs): results, the machine as far as the backend asks, and the processes that are observed.
 */
#pragma once

#pragma GCC diagnostic ignored "-Wformat-zero-length" /* a check with nothing to add */

#include "backends/perf/state.h"
#include "core/base/err.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

extern unsigned failed;
extern bool tells_all; /* what a check has to add is printed when it is ok, too */
extern struct err err;

/* Prints "ok NAME" or "not ok NAME" and what there is to add. */
bool check(bool ok, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

extern struct backend_state state;
extern int missing_cpu;      /* one that is said to be offline, or -1 */
extern unsigned ready, gone; /* how often the backend told so of tag 7 */

bool machine_make(void);
/* Rounds of the loop until nothing is told; how many. */
int pump(int ms);
unsigned open_fds(void);

/* `PROGRAM target`: does what it is told a line at a time, and answers each with a number. */
struct target {
    pid_t pid;
    FILE *to, *from;
};
struct target target_start(const char *program);
long answer(struct target *target);
void target_end(struct target *target);
