/*
 * Clocks: monotonic, real time, and the processor's cycle counter with its rate.
 */
#include "backends/linux/machine/clock.h"
#include "core/base/clock.h"

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#endif

#define MEASURE_MIN_NS 1000000 /* a shorter interval is not exact enough */

uint64_t host_now_ns(struct host_state *state)
{
    (void)state;
    return monotonic_ns();
}

uint64_t host_realtime_ns(struct host_state *state)
{
    (void)state;
    return clock_ns(CLOCK_REALTIME);
}

uint64_t host_tsc(struct host_state *state)
{
    uint64_t value = 0;
    (void)state;
#if defined(__x86_64__) || defined(__i386__)
    value = __rdtsc();
#elif defined(__aarch64__)
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(value) : : "memory");
#endif
    return value;
}

void host_clock_open(struct host_state *state)
{
    state->began_tsc = host_tsc(state);
    state->began_ns = monotonic_ns();
}

uint64_t host_tsc_hz(struct host_state *state)
{
    const uint64_t ns = monotonic_ns() - state->began_ns;
    if (state->began_tsc == 0 || ns < MEASURE_MIN_NS)
        return 0;
    return (uint64_t)((double)(host_tsc(state) - state->began_tsc) * 1e9 / (double)ns);
}
