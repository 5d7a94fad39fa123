/*
 * Opening a counter: the rounds of list, open, decide for a process; the simple kinds of target.
 * Entry: perf_attach() in counter.h.
 */
#pragma once

#include "backends/perf/attach/task_list.h"
#include "backends/perf/count/counter.h"

struct attach {
    struct backend_state *state;
    const struct plan *plan;
    struct err *err;
    const struct shape *shape; /* the counter's */
    struct census census;
    unsigned long fds_used;
    uint64_t births_end_ns; /* the longest that births are waited for; 0: not yet */
    bool raced;
};

void attach_close_all(struct attach *attach);
/* Opens all tasks of the target's process, and of those below it (attach_scan.c). 0, or an error.
 */
int attach_tries(struct attach *attach);
/* 0; P13 when the plan's deadline has passed, P10 when a task may not have been seen. */
int attach_in_time(const struct attach *attach);
/* 0, or P11 when `groups` more groups exceed the owner's quota, P10 when with `others`, which are
 * closed again, they exceed what the process has left. */
int attach_fits(const struct attach *attach, size_t groups, size_t others);
int attach_refused(const struct attach *attach, int code, const struct perf_event_attr *failed);
