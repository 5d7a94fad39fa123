/*
 * What the kernel's drivers ask for, as far as it depends on the event: its PMU, or bits of its
 * code.
 */
#include "backends/perf/names/needs.h"

#include <linux/perf_event.h>
#include <string.h>

/*
 * AnyThread counts the other thread of the core, too, which may be anybody's. The kernel looks at
 * this bit of a raw code on every Intel processor, also where its format has no such field any
 * more.
 */
#if defined(__x86_64__) || defined(__i386__)
#define ANY_THREAD ((uint64_t)1 << 21)
#else
#define ANY_THREAD 0
#endif

bool needs_kernel(const struct spec *spec)
{
    switch (spec->pmu->kind) {
    case PMU_MSR: /* config 0 is the time stamp counter, which every program may read by itself */
        return spec->config[0] != 0;
    case PMU_OTHER: /* of a driver: both modes, in one count */
        return true;
    default:
        return false;
    }
}

static bool any_thread(const struct spec *spec)
{
    const struct pmu_format *any =
        pmu_format(spec->state->pmus, spec->pmu, (struct word){"any", 3});
    uint64_t bits[CONFIG_WORDS] = {ANY_THREAD};

    if (spec->type == PERF_TYPE_HARDWARE || spec->type == PERF_TYPE_HW_CACHE)
        return false;
    if (any)
        format_put(any, 1, bits);
    for (unsigned i = 0; i < CONFIG_WORDS; i++)
        if (spec->config[i] & bits[i])
            return true;
    return false;
}

bool needs_superuser(const struct spec *spec)
{
    switch (spec->pmu->kind) {
    case PMU_CORE:
        return any_thread(spec);
    case PMU_BREAKPOINT: /* of a kernel address, which the kernel gives to nobody else */
        return spec->needs_kernel;
    default:
        return strcmp(spec->pmu->name, "thread_imc") == 0;
    }
}
