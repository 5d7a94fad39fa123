/*
 * What starting and stopping a counter has to do with how it is read. perf_read() is in counter.h.
 */
#pragma once

#include "backends/perf/count/counter.h"

/* Before it is started: what was found out about lost hardware is forgotten: it is tried again. */
void verdicts_clear(struct counter *counter);
