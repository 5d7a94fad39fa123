/*
 * Clocks: monotonic, real time, and the processor's cycle counter with its rate.
 */
#include "backends/linux/machine/clock.h"
#include "backends/proc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
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

/* "KVMKVMKVM" and "VMwareVMware"; the leaf means something else to others. */
static bool hypervisor_tells(unsigned highest, unsigned vendor)
{
    return highest >= 0x40000010 && (vendor == 0x4b4d564b || vendor == 0x61774d56);
}

/* Leaf 15h: crystal and ratio; some hypervisors' 40000010h: kHz. Most AMD machines say nothing. */
static uint64_t cpuid_hz(void)
{
    unsigned a, b, c, d;
    if (__get_cpuid(0x15, &a, &b, &c, &d) && a && b && c)
        return (uint64_t)c * b / a;
    if (__get_cpuid(1, &a, &b, &c, &d) && c >> 31 & 1) {
        __cpuid(0x40000000, a, b, c, d);
        if (hypervisor_tells(a, b)) {
            __cpuid(0x40000010, a, b, c, d);
            return (uint64_t)a * 1000;
        }
    }
    return 0;
}

static uint64_t known_hz(void)
{
    char *text = proc_text("/sys/devices/system/cpu/cpu0/tsc_freq_khz");
    uint64_t khz = text ? strtoull(text, NULL, 10) : 0;
    free(text);
    return khz ? khz * 1000 : cpuid_hz();
}

#elif defined(__aarch64__)

uint64_t clock_tsc(void)
{
    uint64_t value;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(value) : : "memory");
    return value;
}

static uint64_t known_hz(void)
{
    uint64_t value;
    __asm__("mrs %0, cntfrq_el0" : "=r"(value));
    return value;
}

#else

uint64_t clock_tsc(void)
{
    return 0;
}

static uint64_t known_hz(void)
{
    return 0;
}

#endif

void clock_open(struct host_clock *clock)
{
    *clock = (struct host_clock){.hz = known_hz(), .tsc = clock_tsc(), .ns = monotonic_ns()};
}

uint64_t clock_tsc_hz(const struct host_clock *clock)
{
    uint64_t ns = monotonic_ns() - clock->ns;
    if (clock->hz || clock->tsc == 0)
        return clock->hz;
    if (ns < MEASURE_MIN_NS)
        return 0;
    return (uint64_t)((double)(clock_tsc() - clock->tsc) * 1e9 / (double)ns);
}
