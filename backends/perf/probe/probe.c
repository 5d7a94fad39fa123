/*
 * Does a PMU count, and if not, why: cycles are opened, and run for a moment.
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

int probe_open(const struct perf_event_attr *attr, int cpu)
{
    struct perf_event_attr copy = *attr;

    copy.disabled = 1;
    int fd = event_open(&copy, cpu < 0 ? 0 : -1, cpu, -1, 0);
    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

bool probe_thread(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc == 0;
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

/* An event without a counter of its own. Branches have none anywhere; instructions have none on
 * arm64. */
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
    int fd = event_open(&copy, 0, -1, -1, 0);
    if (fd < 0)
        return false;
    for (volatile unsigned i = 0; i < SPIN_ROUNDS; i++) {
        /* something to count */
    }
    bool got = read(fd, &seen, sizeof(seen)) == (ssize_t)sizeof(seen);
    close(fd);
    /* Never on the hardware: others hold every counter, which says nothing against the PMU. */
    return got && (seen.value > 0 || seen.running == 0);
}

struct core_test {
    struct pmu *pmu;
    bool hybrid;
    int error; /* positive errno of the open */
    bool counts;
};

/* Hybrid processors: only a thread on one of its CPUs can make this PMU count. */
static void stay_on(const struct pmu *pmu)
{
    size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);

    if (!set)
        return;
    CPU_ZERO_S(bytes, set);
    for (int cpu = cpus_next(&pmu->cpus, 0); cpu >= 0; cpu = cpus_next(&pmu->cpus, cpu + 1))
        CPU_SET_S((size_t)cpu, bytes, set);
    sched_setaffinity(0, bytes, set);
    CPU_FREE(set);
}

static void *core_test_run(void *arg)
{
    struct core_test *test = arg;
    struct pmu *pmu = test->pmu;
    struct perf_event_attr attr;

    if (cpus_count(&pmu->cpus) > 0)
        stay_on(pmu);
    pmu->extended = test->hybrid;
    probe_generic(pmu, PERF_COUNT_HW_CPU_CYCLES, &attr);
    int rc = probe_open(&attr, -1);
    if (rc < 0 && pmu->extended) {
        pmu->extended = false;
        probe_generic(pmu, PERF_COUNT_HW_CPU_CYCLES, &attr);
        rc = probe_open(&attr, -1);
    }
    test->error = -rc;
    test->counts = rc == 0 && counts_something(&attr);
    if (test->counts) {
        attr.sample_period = 1000000000;
        pmu->interrupt = probe_open(&attr, -1) == 0;
    }
    return NULL;
}

static unsigned counter_width(const struct pmu *pmu)
{
#if defined(__x86_64__) || defined(__i386__)
    unsigned a, b, c, d;

    (void)pmu;
    if (__get_cpuid_count(10, 0, &a, &b, &c, &d) && (a & 0xff) != 0)
        return a >> 16 & 0xff;
    return 48;
#elif defined(__aarch64__)
    (void)pmu;
    return 32;
#else
    (void)pmu;
    return 64;
#endif
}

static void say_open_error(char *text, size_t size, int error)
{
    struct buf why;

    buf_init(&why, NULL, 0);
    if (error == EACCES || error == EPERM) {
        why_barriers(&why);
        snprintf(text, size, "pmcfs may not open hardware events: %s", buf_text(&why));
    } else if (error == EBUSY) {
        why_users(&why);
        snprintf(
            text, size,
            "another user held the hardware counters when pmcfs was mounted: %s; mount it again "
            "when they are free",
            buf_text(&why));
    } else if (error == EOPNOTSUPP)
        snprintf(text, size, "the kernel has lent the hardware counters to a virtual machine");
    else if (error == ENOSYS)
        snprintf(text, size, "this kernel has no perf_event_open, or a seccomp filter hides it");
    else if (error == EMFILE || error == ENFILE)
        snprintf(text, size, "no descriptor was left to try the hardware counters with");
    else
        snprintf(text, size, "the kernel refuses to open cycles (%s)", err_errno_name(error));
    buf_free(&why);
}

void probe_core(struct pmu *pmu, bool hybrid)
{
    struct core_test test = {.pmu = pmu, .hybrid = hybrid};
    pthread_t thread;

    if (!probe_thread(&thread, core_test_run, &test)) {
        snprintf(pmu->why, sizeof(pmu->why), "no thread could be made to try %s", pmu->name);
        return;
    }
    pthread_join(thread, NULL);
    if (test.error)
        say_open_error(pmu->why, sizeof(pmu->why), test.error);
    else if (!test.counts)
        snprintf(pmu->why, sizeof(pmu->why),
                 "%s can be opened but counts nothing (a virtual machine "
                 "whose PMU is only pretended?)",
                 pmu->name);
    if (!pmu->why[0] && choose_filler(pmu))
        pmu->width = counter_width(pmu);
}

static bool in_virtual_machine(void)
{
#if defined(__x86_64__) || defined(__i386__)
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c >> 31 & 1);
#else
    return false;
#endif
}

void probe_say_no_core(const struct pmus *pmus, char *text, size_t size)
{
    struct perf_event_attr attr = {.size = sizeof(attr),
                                   .type = PERF_TYPE_HARDWARE,
                                   .config = PERF_COUNT_HW_CPU_CYCLES,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};
    int rc = probe_open(&attr, -1);

    for (unsigned i = 0; i < pmus->n; i++)
        if (pmus->list[i].kind == PMU_CORE && pmus->list[i].why[0]) {
            snprintf(text, size, "%s", pmus->list[i].why);
            return;
        }
    if (rc == -EACCES || rc == -EPERM || rc == -EBUSY || rc == -EOPNOTSUPP || rc == -ENOSYS)
        say_open_error(text, size, -rc);
    else if (rc == 0)
        snprintf(text, size,
                 "the kernel has a PMU, but %s/sys/bus/event_source/devices does not show it",
                 pmus->root);
    else if (in_virtual_machine())
        snprintf(text, size,
                 "this virtual machine has no hardware counters: its hypervisor gives it "
                 "no PMU");
    else
        snprintf(text, size,
                 "the kernel found no PMU on this machine (a virtual machine without one, or "
                 "a processor it does not know)");
}

#if defined(__aarch64__)
/* Loads, stores and arithmetic, as cores of Arm's number them: a loop cannot leave them all at
 * zero. */
static void *vendor_test_run(void *arg)
{
    static const uint64_t codes[] = {0x66, 0x67, 0x70, 0x71, 0x73, 0x76};
    struct pmu *pmu = arg;
    struct perf_event_attr attr;

    if (cpus_count(&pmu->cpus) > 0)
        stay_on(pmu);
    for (size_t i = 0; !pmu->vendor_counts && i < sizeof(codes) / sizeof(codes[0]); i++) {
        probe_filler(pmu, &attr);
        attr.type = pmu->type;
        attr.config = codes[i];
        pmu->vendor_counts = counts_something(&attr);
    }
    return NULL;
}

static bool vendor_counts(struct pmus *pmus, struct pmu *pmu)
{
    pthread_t thread;

    pthread_mutex_lock(&pmus->lock);
    if (!pmu->vendor_tried && probe_thread(&thread, vendor_test_run, pmu)) {
        pthread_join(thread, NULL);
        pmu->vendor_tried = true;
    }
    bool counts = pmu->vendor_counts;
    pthread_mutex_unlock(&pmus->lock);
    return counts;
}

static bool has_event_file(struct pmus *pmus, struct pmu *pmu, uint64_t code)
{
    pmu_load(pmus, pmu);
    for (unsigned i = 0; i < pmu->events.n; i++)
        if (strncmp(pmu->events.items[i].terms, "event=", 6) == 0 &&
            strtoull(pmu->events.items[i].terms + 6, NULL, 0) == code)
            return true;
    return false;
}

/* The architecture's own codes: the processor says which it has, and the kernel has a file for
 * each. */
static bool is_common(uint64_t code)
{
    return code < 0x40 || (code >= 0x4000 && code < 0x4040);
}

const char *probe_lacks(struct pmus *pmus, struct pmu *pmu, uint64_t code)
{
    code &= 0xffff;
    if (is_common(code))
        return has_event_file(pmus, pmu, code) ? NULL
                                               : "the processor says that it does not have it";
    return vendor_counts(pmus, pmu) ? NULL
                                    : "of the codes that a vendor defines nothing counts here (an "
                                      "emulated processor?)";
}
#else
const char *probe_lacks(struct pmus *pmus, struct pmu *pmu, uint64_t code)
{
    (void)pmus;
    (void)pmu;
    (void)code;
    return NULL;
}
#endif
