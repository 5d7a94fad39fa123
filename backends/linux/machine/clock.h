/*
 * Clocks: monotonic, real time, and the processor's cycle counter with its rate.
 */
#pragma once

#include "core/base/clock.h"

#include <stdint.h>

struct host_clock {
    uint64_t tsc; /* both at open, to measure the rate from */
    uint64_t ns;
};

void clock_open(struct host_clock *clock);
uint64_t clock_realtime_ns(void);
uint64_t clock_tsc(void); /* 0: none here */
uint64_t clock_tsc_hz(const struct host_clock *clock);
