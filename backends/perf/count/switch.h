/*
 * Switching the groups of a counter on and off, in all threads and children that have inherited
 * them.
 */
#pragma once

#include "backends/perf/count/counter.h"

/* 0 or -EIO. */
int counter_switch(struct counter *counter, bool on);
