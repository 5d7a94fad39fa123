/*
 * Start times are of CLOCK_BOOTTIME, which runs on while the machine sleeps: whoever began before
 * its last sleep is older than the difference of today says, never younger.
 */
#include "backends/linux/birth.h"

#include "core/clock.h"

#include <unistd.h>

bool born_after(uint64_t start, uint64_t time_ns)
{
    const uint64_t tick_ns = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);
    const uint64_t monotonic = monotonic_ns(), boot = clock_ns(CLOCK_BOOTTIME);

    return start * tick_ns > time_ns + (boot - monotonic);
}
