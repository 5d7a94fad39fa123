/*
 * Switching the groups of a counter on and off, in all threads and children that have inherited
 * them.
 */
#pragma once

#include "backends/perf/count/counter.h"
#include "core/base/vec.h"

/* Sorted numbers. */
struct tids {
    VEC(pid_t) list;
};

/* The threads of the target and, as far as they are known, of its descendants. System calls. */
void counter_tids(const struct counter *counter, struct tids *tids);
/* 0 or -EIO. */
int counter_switch(struct counter *counter, bool on);
