/*
 * Clocks: monotonic, real time, and the processor's cycle counter with its rate.
 */
#include "backends/linux/machine/clock.h"

#include <time.h>

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#endif

#define MEASURE_MIN_NS 1000000 /* shorter, the two readings' distance shows */

uint64_t clock_realtime_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

#if defined(__x86_64__) || defined(__i386__)

uint64_t clock_tsc(void)
{
    return __rdtsc();
}

#elif defined(__aarch64__)

uint64_t clock_tsc(void)
{
    uint64_t value;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(value) : : "memory");
    return value;
}

#else

uint64_t clock_tsc(void)
{
    return 0;
}

#endif

void clock_open(struct host_clock *clock)
{
    *clock = (struct host_clock){.tsc = clock_tsc(), .ns = monotonic_ns()};
}

uint64_t clock_tsc_hz(const struct host_clock *clock)
{
    uint64_t ns = monotonic_ns() - clock->ns;
    if (clock->tsc == 0 || ns < MEASURE_MIN_NS)
        return 0;
    return (uint64_t)((double)(clock_tsc() - clock->tsc) * 1e9 / (double)ns);
}
