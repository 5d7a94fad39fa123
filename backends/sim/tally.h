/*
 * What one event counts in the time that it runs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

__extension__ typedef unsigned __int128 wide;

struct tally {
    uint64_t rate, divisor; /* rate / divisor events a millisecond */
    bool user, kernel;      /* 3/4 of them in user mode, the rest in kernel mode */
};

static inline uint64_t tally_value(const struct tally *tally, uint64_t running_ns)
{
    const wide total = (wide)tally->rate * running_ns / 1000000 / tally->divisor;
    const wide kernel = total / 4;

    return (uint64_t)((tally->user ? total - kernel : 0) + (tally->kernel ? kernel : 0));
}
