/*
 * For the tests of the perf backend on real processes (attach*.c and record*.c, two programs):
 * results, the host functions of the backend, and target processes.
 */
#pragma once

#pragma GCC diagnostic ignored "-Wformat-zero-length" /* a check without details */

#include "backends/perf/state.h"
#include "core/base/err.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

extern unsigned failed;
extern bool verbose; /* print the details of successful checks too */
extern struct err err;

/* Prints "ok NAME" or "not ok NAME" with details. */
bool check(bool ok, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

extern struct backend_state state;
extern int missing_cpu;      /* a CPU that is reported as offline, or -1 */
extern int impossible_cpu;   /* a CPU that is not reported at all, or -1 */
extern unsigned ready, gone; /* number of calls of the sink for tag 7 */

bool loop_make(void);
/* Handles events until none has come for ms milliseconds, at most 64. Returns their number. */
int pump(int ms);
unsigned open_fds(void);

/* The process `PROGRAM target`, which executes a command per line and answers a number. */
struct target {
    pid_t pid;
    FILE *to, *from;
};
struct target target_start(const char *program);
long answer(struct target *target);
void target_end(struct target *target);
