/*
 * Clocks: monotonic, real time, and the processor's cycle counter with its rate.
 */
#pragma once

#include "core/base/clock.h"

#include <stdint.h>

struct host_clock {
    uint64_t hz;  /* as the processor or the kernel tell it; 0: measured */
    uint64_t tsc; /* both at open, to measure from */
    uint64_t ns;
};

void clock_open(struct host_clock *clock);
uint64_t clock_realtime_ns(void);
uint64_t clock_tsc(void); /* 0: none here */
uint64_t clock_tsc_hz(const struct host_clock *clock);
