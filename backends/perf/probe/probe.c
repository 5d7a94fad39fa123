/*
 * Checks whether a core PMU counts, by opening cycles and running for a moment, and finds the
 * reason if it does not.
 */
#include "backends/perf/probe/probe.h"

#include "backends/perf/probe/open.h"
#include "backends/perf/probe/why.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#define SPIN_ROUNDS 200000
#if defined(__aarch64__)
#define OPENS_ANY true
#else
#define OPENS_ANY false
#endif

bool probe_thread(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc == 0;
}

int probe_open(const struct perf_event_attr *attr, int cpu)
{
    struct perf_event_attr copy = *attr;

    copy.disabled = 1;
    int fd = pmus_note(event_open(&copy, cpu < 0 ? 0 : -1, cpu, -1, 0));
    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

void probe_filler(const struct pmu *pmu, struct perf_event_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
    attr->size = sizeof(*attr);
    attr->type = (uint32_t)pmu->filler_type;
    attr->config = pmu->filler_config;
    attr->exclude_kernel = 1;
    attr->exclude_hv = 1;
}

void probe_generic(const struct pmu *pmu, uint64_t which, struct perf_event_attr *attr)
{
    probe_filler(pmu, attr);
    attr->type = PERF_TYPE_HARDWARE;
    attr->config = which | (pmu->extended ? (uint64_t)pmu->type << 32 : 0);
}

/* Chooses an event that has no fixed counter: branches have none on any processor, instructions
 * none on arm64. */
static bool choose_filler(struct pmu *pmu)
{
    static const uint64_t candidates[] = {PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
                                          PERF_COUNT_HW_BRANCH_MISSES, PERF_COUNT_HW_CACHE_MISSES,
                                          PERF_COUNT_HW_INSTRUCTIONS};
    struct perf_event_attr attr;

    for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
        probe_generic(pmu, candidates[i], &attr);
        pmu->filler_type = attr.type;
        pmu->filler_config = attr.config;
        if (probe_open(&attr, -1) == 0)
            return true;
    }
    return false;
}

static bool counts_something(const struct perf_event_attr *attr)
{
    struct {
        uint64_t value, enabled, running;
    } seen = {0, 0, 0};
    struct perf_event_attr copy = *attr;

    copy.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    int fd = pmus_note(event_open(&copy, 0, -1, -1, 0));
    if (fd < 0)
        return false;
    for (volatile unsigned i = 0; i < SPIN_ROUNDS; i++) {
        /* something to count */
    }
    bool got = read(fd, &seen, sizeof(seen)) == (ssize_t)sizeof(seen);
    close(fd);
    /* If it was never on the hardware, others hold every counter: the PMU may still count. */
    return got && (seen.value > 0 || seen.running == 0);
}

/*
 * The arm64 kernel opens every code. Tries loads, stores and arithmetic by Arm's numbers: a loop
 * must count at least one of them if vendor codes count at all.
 */
static void vendor_test(struct pmu *pmu)
{
    static const uint64_t codes[] = {0x66, 0x67, 0x70, 0x71, 0x73, 0x76};
    struct perf_event_attr attr;

    for (size_t i = 0; OPENS_ANY && !pmu->vendor_counts && i < sizeof(codes) / sizeof(codes[0]);
         i++) {
        probe_filler(pmu, &attr);
        attr.type = pmu->type;
        attr.config = codes[i];
        pmu->vendor_counts = counts_something(&attr);
    }
}

/* Prints why the kernel refused the cycles of the probe with this errno. */
static void say_refused(const struct perf_event_attr *attr, int code, char *text, size_t size)
{
    struct err err;

    why_refused(&err, &(struct why){.code = code, .attr = attr, .event = "hardware events"});
    snprintf(text, size, "%.255s",
             code == ENOENT ? "no hardware performance counters on this host (a virtual machine "
                              "without a virtual PMU?). Software events work: ls events/software"
                            : err.text);
}

/* Moves the thread to the CPUs of the PMU: on hybrid processors it counts only there. */
static void stay_on(const struct pmu *pmu)
{
    size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);

    if (!set) {
        pmus_note(-ENOMEM);
        return;
    }
    CPU_ZERO_S(bytes, set);
    for (int cpu = cpus_next(&pmu->cpus, 0); cpu >= 0; cpu = cpus_next(&pmu->cpus, cpu + 1))
        CPU_SET_S((size_t)cpu, bytes, set);
    sched_setaffinity(0, bytes, set);
    CPU_FREE(set);
}

static void *core_test(void *arg)
{
    struct pmu *pmu = arg;
    struct perf_event_attr attr;

    if (cpus_count(&pmu->cpus) > 0)
        stay_on(pmu);
    probe_generic(pmu, PERF_COUNT_HW_CPU_CYCLES, &attr);
    int rc = probe_open(&attr, -1);
    if (rc < 0 && pmu->extended) {
        pmu->extended = false;
        probe_generic(pmu, PERF_COUNT_HW_CPU_CYCLES, &attr);
        rc = probe_open(&attr, -1);
    }
    if (rc < 0) {
        say_refused(&attr, -rc, pmu->why, sizeof(pmu->why));
    } else if (!counts_something(&attr)) {
        snprintf(pmu->why, sizeof(pmu->why),
                 "%s can be opened but counts nothing (a virtual machine that only "
                 "pretends to have a PMU?)",
                 pmu->name);
    } else {
        attr.sample_period = 1000000000;
        pmu->capabilities |= probe_open(&attr, -1) == 0 ? CAP_INTERRUPT : 0U;
        vendor_test(pmu);
    }
    return NULL;
}

static unsigned counter_width(void)
{
#if defined(__x86_64__) || defined(__i386__)
    unsigned a, b, c, d;

    if (__get_cpuid_count(10, 0, &a, &b, &c, &d) && (a & 0xff) != 0)
        return a >> 16 & 0xff;
    return 48;
#elif defined(__aarch64__)
    return 32;
#else
    return 64;
#endif
}

void probe_core(struct pmu *pmu, bool hybrid)
{
    pthread_t thread;

    pmu->extended = hybrid;
    if (!probe_thread(&thread, core_test, pmu)) {
        pmus_note(-EAGAIN);
        snprintf(pmu->why, sizeof(pmu->why), "no thread could be created to probe %s", pmu->name);
        return;
    }
    pthread_join(thread, NULL);
    if (!pmu->why[0] && choose_filler(pmu))
        pmu->width = counter_width();
}

void probe_say_no_core(const struct pmus *pmus, char *text, size_t size)
{
    const struct pmu none = {.name = NULL};
    struct perf_event_attr attr;

    probe_generic(&none, PERF_COUNT_HW_CPU_CYCLES, &attr);
    int rc = probe_open(&attr, -1);

    if (pmus->n > 0 && pmus->list[0].kind == PMU_CORE)
        snprintf(text, size, "%s", pmus->list[0].why);
    else if (rc == 0)
        snprintf(text, size,
                 "the kernel has a PMU, but %s/sys/bus/event_source/devices does not show it",
                 pmus->root);
    else
        say_refused(&attr, -rc, text, size);
}

const char *probe_lacks(const struct pmu *pmu, uint64_t code)
{
    code &= 0xffff;
    /* Codes of the architecture: the kernel has an event file for each one that the processor has.
     */
    const bool common = code < 0x40 || (code >= 0x4000 && code < 0x4040);

    if (!OPENS_ANY || (!common && pmu->vendor_counts))
        return NULL;
    for (unsigned i = 0; common && i < pmu->events.n; i++)
        if (strncmp(pmu->events.items[i].terms, "event=", 6) == 0 &&
            strtoull(pmu->events.items[i].terms + 6, NULL, 0) == code)
            return NULL;
    return common
               ? "the processor says that it does not have it"
               : "of the codes that a vendor defines nothing counts here (an emulated processor?)";
}
