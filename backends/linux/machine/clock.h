/*
 * Clocks: monotonic, real time, and the processor's cycle counter with its rate.
 */
#pragma once

#include "backends/linux/linux.h"

void host_clock_open(struct host_state *state);
/* Members of struct host (core/host.h). */
uint64_t host_now_ns(struct host_state *state);
uint64_t host_realtime_ns(struct host_state *state);
uint64_t host_tsc(struct host_state *state);
uint64_t host_tsc_hz(struct host_state *state);
