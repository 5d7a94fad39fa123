/*
 * Probing: the list of PMUs with the abilities of each. Checks whether a core PMU counts, by
 * opening cycles and running for a moment, and finds the reason if it does not.
 */
#include "backends/perf/probe/probe.h"

#include "backends/perf/probe/open.h"

#include <errno.h>
#include <limits.h>
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
#define OPENS_EVERY_CODE true
#else
#define OPENS_EVERY_CODE false
#endif

bool probe_start_thread(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc == 0;
}

int probe_try_open(const struct perf_event_attr *attr, int cpu)
{
    struct perf_event_attr copy = *attr;

    copy.disabled = 1;
    int fd = pmus_note_shortage(event_open(&copy, cpu < 0 ? 0 : -1, cpu, -1, 0));
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

static bool counts_something(const struct perf_event_attr *attr)
{
    struct {
        uint64_t value, enabled, running;
    } seen = {0, 0, 0};
    struct perf_event_attr copy = *attr;

    copy.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    int fd = pmus_note_shortage(event_open(&copy, 0, -1, -1, 0));
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

/* Prints why the kernel refused the probe's event of cycles. code: the positive errno. */
static void print_refusal(const struct perf_event_attr *attr, int code, char *text, size_t size)
{
    struct err err;

    why_refused(&err, &(struct why){.code = code, .attr = attr, .event = "hardware events"});
    snprintf(text, size, "%.255s",
             code == ENOENT ? "no hardware performance counters on this host (a virtual machine "
                              "without a virtual PMU?). Software events work: ls events/software"
                            : err.text);
}

/* Tests if a core PMU counts and raises interrupts: sets `why`, or CAP_INTERRUPT and vendor_counts;
 * clears `extended` if the kernel refuses it. Runs on a separate thread, because it moves to the
 * CPUs of the PMU: on hybrid processors the PMU counts only there. */
static void *core_test(void *arg)
{
    /* Loads, stores and arithmetic by Arm's numbers. The arm64 kernel opens every code, and a loop
     * must count at least one of them if vendor codes count at all. */
    static const uint64_t codes[] = {0x66, 0x67, 0x70, 0x71, 0x73, 0x76};
    struct pmu *pmu = arg;
    struct perf_event_attr attr;
    size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
    cpu_set_t *set = cpus_count(&pmu->cpus) > 0 ? CPU_ALLOC(CPUS_MAX) : NULL;

    if (set) {
        CPU_ZERO_S(bytes, set);
        for (int cpu = cpus_next(&pmu->cpus, 0); cpu >= 0; cpu = cpus_next(&pmu->cpus, cpu + 1))
            CPU_SET_S((size_t)cpu, bytes, set);
        sched_setaffinity(0, bytes, set);
        CPU_FREE(set);
    } else if (cpus_count(&pmu->cpus) > 0) {
        pmus_note_shortage(-ENOMEM);
    }
    probe_generic(pmu, PERF_COUNT_HW_CPU_CYCLES, &attr);
    int rc = probe_try_open(&attr, -1);
    if (rc < 0 && pmu->extended) {
        pmu->extended = false;
        probe_generic(pmu, PERF_COUNT_HW_CPU_CYCLES, &attr);
        rc = probe_try_open(&attr, -1);
    }
    if (rc < 0) {
        print_refusal(&attr, -rc, pmu->why, sizeof(pmu->why));
    } else if (!counts_something(&attr)) {
        snprintf(pmu->why, sizeof(pmu->why),
                 "%s can be opened but counts nothing (a virtual machine that only "
                 "pretends to have a PMU?)",
                 pmu->name);
    } else {
        attr.sample_period = 1000000000;
        pmu->capabilities |= probe_try_open(&attr, -1) == 0 ? CAP_INTERRUPT : 0U;
        for (size_t i = 0;
             OPENS_EVERY_CODE && !pmu->vendor_counts && i < sizeof codes / sizeof *codes; i++) {
            probe_filler(pmu, &attr);
            attr.type = pmu->type;
            attr.config = codes[i];
            pmu->vendor_counts = counts_something(&attr);
        }
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

/*
 * Fills the probed members of struct pmu, except the counters. pmu->why is the reason if the PMU
 * cannot be used. hybrid: there are several core PMUs, so generic events must name their PMU.
 */
static void probe_core(struct pmu *pmu, bool hybrid)
{
    /* Candidates for an event without a fixed counter: branches have none on any processor,
     * instructions have none on arm64. */
    static const uint64_t fillers[] = {PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
                                       PERF_COUNT_HW_BRANCH_MISSES, PERF_COUNT_HW_CACHE_MISSES,
                                       PERF_COUNT_HW_INSTRUCTIONS};
    struct perf_event_attr attr;
    pthread_t thread;

    pmu->extended = hybrid;
    if (!probe_start_thread(&thread, core_test, pmu)) {
        pmus_note_shortage(-EAGAIN);
        snprintf(pmu->why, sizeof(pmu->why), "no thread could be created to probe %s", pmu->name);
        return;
    }
    pthread_join(thread, NULL);
    for (size_t i = 0; !pmu->why[0] && !pmu->width && i < sizeof fillers / sizeof *fillers; i++) {
        probe_generic(pmu, fillers[i], &attr);
        pmu->filler_type = attr.type;
        pmu->filler_config = attr.config;
        if (probe_try_open(&attr, -1) == 0)
            pmu->width = counter_width();
    }
}

/* Prints the reason why this host has no core PMU. */
static void probe_print_no_core(const struct pmus *pmus, char *text, size_t size)
{
    const struct pmu none = {.name = NULL};
    struct perf_event_attr attr;

    probe_generic(&none, PERF_COUNT_HW_CPU_CYCLES, &attr);
    int rc = probe_try_open(&attr, -1);

    if (pmus->n > 0 && pmus->list[0].kind == PMU_CORE)
        snprintf(text, size, "%s", pmus->list[0].why);
    else if (rc == 0)
        snprintf(text, size,
                 "the kernel has a PMU, but %s/sys/bus/event_source/devices does not show it",
                 pmus->root);
    else
        print_refusal(&attr, -rc, text, size);
}

const char *probe_why_uncounted(const struct pmu *pmu, uint64_t code)
{
    code &= 0xffff;
    /* Codes of the architecture: the kernel has an event file for each one that the processor has.
     */
    const bool common = code < 0x40 || (code >= 0x4000 && code < 0x4040);

    if (!OPENS_EVERY_CODE || (!common && pmu->vendor_counts))
        return NULL;
    for (unsigned i = 0; common && i < pmu->events.n; i++)
        if (strncmp(pmu->events.items[i].terms, "event=", 6) == 0 &&
            strtoull(pmu->events.items[i].terms + 6, NULL, 0) == code)
            return NULL;
    return common ? "this processor does not have the event"
                  : "no vendor-defined event counts on this processor (is it emulated?)";
}

/* ---- the list of PMUs ---- */

/* Flags of a kind's events and capabilities of its class. */
static const struct {
    uint64_t flags;
    unsigned capabilities;
} kinds[] = {
    [PMU_CORE] = {CODE_HARDWARE | CODE_EXCLUDE_GUEST, CAP_USER | CAP_SYSTEM | CAP_QUALIFIER},
    [PMU_CORES] = {CODE_HARDWARE | CODE_EXCLUDE_GUEST | CODE_EVERY_CORE, 0},
    [PMU_SOFTWARE] = {0, CAP_INTERRUPT | CAP_USER | CAP_SYSTEM},
    [PMU_TRACEPOINT] = {0, CAP_INTERRUPT | CAP_SYSTEM},
    [PMU_BREAKPOINT] = {0, CAP_INTERRUPT | CAP_USER | CAP_SYSTEM},
    [PMU_MSR] = {CODE_NO_EXCLUDE, 0},
    [PMU_FREE] = {CODE_NO_EXCLUDE | CODE_CPU_ONLY, 0},
    [PMU_UNCORE] = {CODE_HARDWARE | CODE_NO_EXCLUDE | CODE_CPU_ONLY, 0},
    [PMU_OTHER] = {CODE_NO_EXCLUDE, 0},
    [PMU_REFUSED] = {0, 0},
};

/* Completes a PMU that pmus_scan() found: its flags, files, abilities and counters. hybrid: as for
 * probe_core(). */
static void pmu_complete(struct pmus *pmus, struct pmu *pmu, bool hybrid)
{
    char text[4096];

    pmu->flags = kinds[pmu->kind].flags;
    pmu->capabilities = kinds[pmu->kind].capabilities | CAP_READ | CAP_WRITE;
    if (!pmu->why[0])
        pmu_load(pmus, pmu);
    if (pmu->kind == PMU_CORE) {
        if (pmus_read(pmus, text, sizeof(text), DEVICES "/%s/caps/max_precise", pmu->name) > 0)
            pmu->max_precise = (unsigned)strtoul(text, NULL, 10);
        pmu->capabilities |=
            (pmu_format(pmu, word_of("edge")) ? CAP_EDGE : 0U) |
            (pmu_format(pmu, word_of("inv")) ? CAP_INVERT : 0U) |
            (pmu_format(pmu, word_of("cmask")) || pmu_format(pmu, word_of("threshold"))
                 ? CAP_THRESHOLD
                 : 0U) |
            (pmu->max_precise ? CAP_PRECISE : 0U);
        probe_core(pmu, hybrid);
    }
    if (pmu->width) /* the PMU counts */
        probe_counters(pmus, pmu);
    if (pmu->flags & CODE_CPU_ONLY) {
        struct cpus online = {0};

        /* One CPU of the mask counts for several CPUs. */
        pmu->package = true;
        int len = pmus_read(pmus, text, sizeof(text), "/sys/devices/system/cpu/online");
        if (len > 0 &&
            pmus_note_shortage(cpus_parse(&online, (struct word){text, (size_t)len})) == 0)
            pmu->package = cpus_count(&pmu->cpus) < cpus_count(&online) || cpus_count(&online) == 1;
        cpus_free(&online);
        if (cpus_count(&pmu->cpus) == 0)
            snprintf(pmu->why, sizeof(pmu->why), "%s has no CPU that counts it", pmu->name);
    }
}

/*
 * On a hybrid processor adds the class of generic events, which are counted on every core PMU, if
 * the kernel can bind these events to each PMU. Its type and rows are those of the core PMU with
 * the fewest counters. Returns false on ENOMEM.
 */
static bool pmus_add_cores(struct pmus *pmus)
{
    struct pmu all = {.name = NULL};
    unsigned cores = 0, capabilities = ~(unsigned)(CAP_EDGE | CAP_INVERT | CAP_THRESHOLD);
    unsigned precise = UINT_MAX, width = UINT_MAX;
    bool every = true, ok = true;
    struct cpus cpus = {0};

    for (unsigned i = 0; i < pmus->n; i++) {
        const struct pmu *pmu = &pmus->list[i];

        if (pmu->kind != PMU_CORE || !pmu_is_here(pmu))
            continue;
        if (!cores++ || pmu->n_general + pmu->n_fixed < all.n_general + all.n_fixed)
            all = *pmu;
        every &= pmu->extended;
        ok &= cpus_add_all(&cpus, &pmu->cpus);
        capabilities &= pmu->capabilities;
        precise = pmu->max_precise < precise ? pmu->max_precise : precise;
        width = pmu->width < width ? pmu->width : width;
    }
    const bool add = ok && every && cores > 1;

    all.name = add ? strdup("generic") : NULL;
    if (add)
        ok = all.name && vec_grow(&pmus->list, &pmus->size, pmus->n + 1, sizeof all) == 0;
    if (!add || !ok) {
        free(all.name);
        cpus_free(&cpus);
        return ok;
    }
    all.kind = PMU_CORES;
    all.cpus = cpus;
    all.flags = kinds[PMU_CORES].flags;
    all.capabilities = capabilities;
    all.max_precise = precise;
    all.width = width;
    memset(&all.formats, 0, sizeof all.formats);
    memset(&all.events, 0, sizeof all.events);
    pmus->list[pmus->n++] = all;
    return true;
}

static void pmus_make_class(struct pmus *pmus, struct pmu *pmu)
{
    unsigned n_core_pmus = 0;
    const unsigned rows = pmu->n_general + pmu->n_fixed;

    /* Only the order matters: a fixed counter counts one event, a general one counts many. */
    for (unsigned i = 0; i < PMU_ROWS; i++)
        pmu->row_events[i] = i < pmu->n_general ? UINT16_MAX : 1;
    for (unsigned i = 0; pmu->kind == PMU_CORES && i < pmus->n; i++)
        n_core_pmus += pmu_serves(pmu, &pmus->list[i]);
    pmu->class_index = pmus->n_classes++;
    pmus->classes[pmu->class_index] =
        (struct class_info){.name = pmu->name,
                            .rows = rows,
                            .row_events = rows ? pmu->row_events : NULL,
                            .width = pmu->kind <= PMU_CORES ? pmu->width : 64,
                            .capabilities = pmu->capabilities,
                            .cpus = pmu->cpus, /* shared with the PMU, which frees it */
                            .hardware = pmu->flags & CODE_HARDWARE,
                            .n_core_pmus = n_core_pmus <= CORE_PMUS_MAX ? n_core_pmus : 0};
}

static struct pmus *pmus_make(const char *root)
{
    struct pmus *pmus = calloc(1, sizeof(*pmus));
    unsigned cores = 0;

    if (!pmus)
        return NULL;
    pmus->root = strdup(root ? root : "");
    pmus->tracefs = pmus_note_shortage(tracefs_mount(root ? root : ""));
    bool ok = pmus->root && idle_thread_start(&pmus->idle) && pmus_scan(pmus);
    for (unsigned i = 0; ok && i < pmus->n; i++)
        cores += pmus->list[i].kind == PMU_CORE;
    for (unsigned i = 0; ok && i < pmus->n; i++)
        pmu_complete(pmus, &pmus->list[i], cores > 1);
    ok = ok && pmus_add_cores(pmus);
    if (ok && !pmus_first_core(pmus))
        probe_print_no_core(pmus, pmus->why_no_core, sizeof(pmus->why_no_core));
    pmus->classes = calloc(pmus->n + 1, sizeof(*pmus->classes));
    if (!ok || !pmus->classes) {
        pmus_free(pmus);
        return NULL;
    }
    for (unsigned i = 0; i < pmus->n; i++)
        if (pmu_is_here(&pmus->list[i]))
            pmus_make_class(pmus, &pmus->list[i]);
    return pmus;
}

struct pmus *pmus_new(const char *root)
{
    pmus_shortage = false;
    struct pmus *pmus = pmus_make(root);
    if (pmus && !pmus_shortage)
        return pmus;
    pmus_free(pmus);
    return pmus_make(root);
}

void pmus_free(struct pmus *pmus)
{
    if (!pmus)
        return;
    idle_thread_stop(&pmus->idle);
    if (pmus->tracefs >= 0)
        close(pmus->tracefs);
    for (unsigned i = 0; i < pmus->n; i++) {
        struct pmu *pmu = &pmus->list[i];

        for (unsigned k = 0; k < pmu->formats.n; k++)
            free((char *)pmu->formats.items[k].name);
        for (unsigned k = 0; k < pmu->events.n; k++) {
            free(pmu->events.items[k].name);
            free(pmu->events.items[k].terms);
        }
        free(pmu->formats.items);
        free(pmu->events.items);
        free(pmu->name);
        cpus_free(&pmu->cpus);
    }
    free(pmus->classes);
    free(pmus->list);
    free(pmus->root);
    free(pmus);
}
