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
    int failed; /* some are missing, for want of memory or descriptors: -errno */
};

/* The threads of the target and, as far as they are known, of its descendants. System calls. */
void counter_tids(const struct counter *counter, struct tids *tids);
/* 0, -EIO, or -ENOMEM, -EMFILE, -ENFILE: some threads or children may have been left out. */
int counter_switch(struct counter *counter, bool on);
