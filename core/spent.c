/* One number a thread. */
#include "core/spent.h"

static __thread uint64_t spent;

static uint64_t ns_of(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_usec * 1000u;
}

void spent_add(const struct rusage *usage)
{
    spent += ns_of(usage->ru_utime) + ns_of(usage->ru_stime);
}

uint64_t spent_ns(void)
{
    return spent;
}
