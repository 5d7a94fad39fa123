/*
 * The list of PMUs from sysfs: their kinds and CPUs. The abilities of a core PMU are not in sysfs:
 * probe.c and trial.c find them by opening events.
 */
#include "backends/perf/probe/pmu.h"

#include "backends/perf/probe/open.h"
#include "backends/perf/probe/probe.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICES "/sys/bus/event_source/devices"

/*
 * PMUs whose kind does not follow from their files, and names of PMUs of other machines or of
 * modules that are not loaded (PMU_OTHER: the kind follows from the files). A trailing '*' matches
 * any text; the first matching row counts.
 */
static const struct known_name {
    const char *name;
    enum pmu_kind kind;
    const char *why;
} known_names[] = {
    {"software", PMU_SOFTWARE, NULL},
    {"tracepoint", PMU_TRACEPOINT, NULL},
    {"breakpoint", PMU_BREAKPOINT, NULL},
    {"msr", PMU_MSR, NULL},
    {"cpu", PMU_CORE, NULL},
    {"cpu_*", PMU_CORE, NULL},
    {"cpum_cf", PMU_CORE, NULL},
    {"armv8_*", PMU_CORE, NULL},
    {"power*", PMU_FREE, NULL},
    {"cstate_*", PMU_FREE, NULL},
    {"kprobe", PMU_REFUSED,
     "needs a new probe, which pmcfs does not create: use an existing tracepoint"},
    {"uprobe", PMU_REFUSED,
     "needs a new probe, which pmcfs does not create: use an existing tracepoint"},
    {"intel_pt", PMU_REFUSED, "writes a trace and does not count: use perf record"},
    {"intel_bts", PMU_REFUSED, "writes a trace and does not count: use perf record"},
    {"arm_spe*", PMU_REFUSED, "writes a trace and does not count: use perf record"},
    {"ibs_*", PMU_REFUSED, "samples single instructions and does not count: use perf record"},
    {"cs_etm", PMU_REFUSED, "writes a trace and does not count: use perf record"},
    {"trace_imc", PMU_REFUSED, "writes a trace and does not count: use perf record"},
    {"hisi_ptt*", PMU_REFUSED, "writes a trace and does not count: use perf record"},
    {"uncore_*", PMU_OTHER, NULL},
    {"amd_*", PMU_OTHER, NULL},
    {"i915", PMU_OTHER, NULL},
    {"arm_*", PMU_OTHER, NULL},
    {"smmuv3_pmcg_*", PMU_OTHER, NULL},
    {"hisi_*", PMU_OTHER, NULL},
    {"nvidia_*", PMU_OTHER, NULL},
};

static const struct known_name *known_find(struct word name)
{
    for (size_t i = 0; i < sizeof(known_names) / sizeof(known_names[0]); i++) {
        const char *known = known_names[i].name;
        size_t len = strcspn(known, "*");
        if (known[len] ? name.len >= len && strncmp(known, name.p, len) == 0 : word_is(name, known))
            return &known_names[i];
    }
    return NULL;
}

enum pmu_kind pmu_kind_known(struct word name)
{
    const struct known_name *known = known_find(name);

    return known ? known->kind : PMU_UNKNOWN;
}

static enum pmu_kind kind_of(struct pmu *pmu, bool has_cpus, bool has_cpumask)
{
    const struct known_name *known = known_find((struct word){pmu->name, strlen(pmu->name)});

    if (known && known->why)
        snprintf(pmu->why, sizeof(pmu->why), "%s %s", pmu->name, known->why);
    if (known && known->kind != PMU_OTHER)
        return known->kind;
    return has_cpus ? PMU_CORE : has_cpumask ? PMU_UNCORE : PMU_OTHER;
}

/* Flags of a kind's events and capabilities of its class. */
static const struct {
    uint64_t flags;
    unsigned capabilities;
} kinds[] = {
    [PMU_CORE] = {CODE_HARDWARE | CODE_EXCLUDE_GUEST, CAP_USER | CAP_SYSTEM | CAP_QUALIFIER},
    [PMU_SOFTWARE] = {0, CAP_INTERRUPT | CAP_USER | CAP_SYSTEM},
    [PMU_TRACEPOINT] = {0, CAP_INTERRUPT | CAP_SYSTEM},
    [PMU_BREAKPOINT] = {0, CAP_INTERRUPT | CAP_USER | CAP_SYSTEM},
    [PMU_MSR] = {CODE_NO_EXCLUDE, 0},
    [PMU_FREE] = {CODE_NO_EXCLUDE | CODE_CPU_ONLY, 0},
    [PMU_UNCORE] = {CODE_HARDWARE | CODE_NO_EXCLUDE | CODE_CPU_ONLY, 0},
    [PMU_OTHER] = {CODE_NO_EXCLUDE, 0},
    [PMU_REFUSED] = {0, 0},
};

static void core_capabilities(const struct pmus *pmus, struct pmu *pmu)
{
    char text[32];

    if (pmus_read(pmus, text, sizeof(text), DEVICES "/%s/caps/max_precise", pmu->name) > 0)
        pmu->precise = (unsigned)strtoul(text, NULL, 10);
    pmu->capabilities |=
        (pmu_format(pmu, "edge") ? CAP_EDGE : 0U) | (pmu_format(pmu, "inv") ? CAP_INVERT : 0U) |
        (pmu_format(pmu, "cmask") || pmu_format(pmu, "threshold") ? CAP_THRESHOLD : 0U) |
        (pmu->precise ? CAP_PRECISE : 0U);
}

static atomic_bool lacked;

int pmus_note(int rc)
{
    if (rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE || rc == -EAGAIN)
        lacked = true;
    return rc;
}

/* Reads one directory of sysfs. Returns 1, 0 if it is not a PMU, or -ENOMEM. */
static int pmu_read(const struct pmus *pmus, struct pmu *pmu, const char *name)
{
    char text[4096];
    bool has_cpus = false, has_mask = false;

    memset(pmu, 0, sizeof(*pmu));
    pmu->class_index = NO_CLASS;
    cpus_init(&pmu->cpus);
    if (pmus_read(pmus, text, sizeof(text), DEVICES "/%s/type", name) <= 0)
        return 0;
    pmu->type = (uint32_t)strtoul(text, NULL, 10);
    pmu->name = strdup(name);
    if (!pmu->name)
        return -ENOMEM;
    int len = pmus_read(pmus, text, sizeof(text), DEVICES "/%s/cpus", name);
    has_cpus = len >= 0;
    if (len < 0) {
        len = pmus_read(pmus, text, sizeof(text), DEVICES "/%s/cpumask", name);
        has_mask = len >= 0;
    }
    if (len > 0)
        pmus_note(cpus_parse(&pmu->cpus, (struct word){text, (size_t)len}));
    pmu->kind = kind_of(pmu, has_cpus, has_mask);
    return 1;
}

/*
 * Core PMUs first, then software, tracepoint, breakpoint, others; by name within a kind. The kernel
 * uses the core PMU with type PERF_TYPE_RAW for events without a PMU, so it comes first.
 */
static int pmu_order(const void *a, const void *b)
{
    const struct pmu *x = a, *y = b;

    if (x->kind != y->kind && (x->kind < PMU_MSR || y->kind < PMU_MSR))
        return x->kind < y->kind ? -1 : 1;
    if (x->kind == PMU_CORE && (x->type == PERF_TYPE_RAW) != (y->type == PERF_TYPE_RAW))
        return x->type == PERF_TYPE_RAW ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Reads the directory of PMUs, which does not exist in a kernel without perf_events. */
static bool pmus_scan(struct pmus *pmus)
{
    char path[512];
    struct dirent *entry;

    snprintf(path, sizeof(path), "%s" DEVICES, pmus->root);
    DIR *dir = opendir(path);
    bool ok = dir || errno == ENOENT;
    while (dir && ok && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        int added = vec_grow(&pmus->list, &pmus->size, pmus->n + 1, sizeof(*pmus->list));
        if (added == 0)
            added = pmu_read(pmus, &pmus->list[pmus->n], entry->d_name);
        ok = added >= 0;
        pmus->n += added > 0;
    }
    if (dir)
        closedir(dir);
    if (pmus->n > 0)
        qsort(pmus->list, pmus->n, sizeof(*pmus->list), pmu_order);
    return ok;
}

/* Returns true if one CPU of the mask counts for several CPUs, i.e. for a package. */
static bool covers_several(const struct pmus *pmus, const struct pmu *pmu)
{
    char text[4096];
    struct cpus online;
    bool several = true;

    cpus_init(&online);
    int len = pmus_read(pmus, text, sizeof(text), "/sys/devices/system/cpu/online");
    if (len > 0 && pmus_note(cpus_parse(&online, (struct word){text, (size_t)len})) == 0)
        several = cpus_count(&pmu->cpus) < cpus_count(&online) || cpus_count(&online) == 1;
    cpus_free(&online);
    return several;
}

static void pmu_settle(struct pmus *pmus, struct pmu *pmu, bool hybrid)
{
    pmu->flags = kinds[pmu->kind].flags;
    pmu->capabilities = kinds[pmu->kind].capabilities | CAP_READ | CAP_WRITE;
    if (!pmu->why[0])
        pmu_load(pmus, pmu);
    if (pmu->kind == PMU_CORE) {
        core_capabilities(pmus, pmu);
        probe_core(pmu, hybrid);
    }
    if (pmu->width) /* the PMU counts */
        probe_counters(pmus, pmu);
    if (pmu->flags & CODE_CPU_ONLY) {
        pmu->package = covers_several(pmus, pmu);
        if (cpus_count(&pmu->cpus) == 0)
            snprintf(pmu->why, sizeof(pmu->why), "%s has no CPU that counts it", pmu->name);
    }
}

static void pmus_make_class(struct pmus *pmus, struct pmu *pmu)
{
    const unsigned rows = pmu->general + pmu->fixed;

    /* Only the order matters: a fixed counter counts one event, a general one counts many. */
    for (unsigned i = 0; i < PMU_ROWS; i++)
        pmu->row_events[i] = i < pmu->general ? UINT16_MAX : 1;
    pmu->class_index = pmus->n_classes++;
    pmus->classes[pmu->class_index] =
        (struct class_info){.name = pmu->name,
                            .rows = rows,
                            .row_events = rows ? pmu->row_events : NULL,
                            .width = pmu->kind == PMU_CORE ? pmu->width : 64,
                            .capabilities = pmu->capabilities,
                            .cpus = pmu->cpus, /* shared with the PMU, which frees it */
                            .hardware = pmu->flags & CODE_HARDWARE};
}

static struct pmus *pmus_make(const char *root)
{
    struct pmus *pmus = calloc(1, sizeof(*pmus));
    unsigned cores = 0;

    if (!pmus)
        return NULL;
    pmus->root = strdup(root ? root : "");
    pmus->tracefs = pmus_note(tracefs_mount(root ? root : ""));
    bool ok = pmus->root && parked_start(&pmus->parked) && pmus_scan(pmus);
    for (unsigned i = 0; ok && i < pmus->n; i++)
        cores += pmus->list[i].kind == PMU_CORE;
    for (unsigned i = 0; ok && i < pmus->n; i++)
        pmu_settle(pmus, &pmus->list[i], cores > 1);
    if (ok && !pmus_core(pmus))
        probe_say_no_core(pmus, pmus->no_core, sizeof(pmus->no_core));
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
    struct pmus *pmus;

    lacked = false;
    pmus = pmus_make(root);
    if (pmus && !lacked)
        return pmus;
    pmus_free(pmus);
    return pmus_make(root);
}

static void pmu_free(struct pmu *pmu)
{
    for (unsigned i = 0; i < pmu->formats.n; i++)
        free((char *)pmu->formats.items[i].name);
    for (unsigned i = 0; i < pmu->events.n; i++) {
        free(pmu->events.items[i].name);
        free(pmu->events.items[i].terms);
    }
    free(pmu->formats.items);
    free(pmu->events.items);
    free(pmu->name);
    cpus_free(&pmu->cpus);
}

void pmus_free(struct pmus *pmus)
{
    if (!pmus)
        return;
    parked_stop(&pmus->parked);
    if (pmus->tracefs >= 0)
        close(pmus->tracefs);
    for (unsigned i = 0; i < pmus->n; i++)
        pmu_free(&pmus->list[i]);
    free(pmus->classes);
    free(pmus->list);
    free(pmus->root);
    free(pmus);
}

struct pmu *pmus_core(struct pmus *pmus)
{
    for (unsigned i = 0; i < pmus->n; i++)
        if (pmus->list[i].kind == PMU_CORE && !pmus->list[i].why[0])
            return &pmus->list[i];
    return NULL;
}

struct pmu *pmus_kind(struct pmus *pmus, enum pmu_kind kind)
{
    for (unsigned i = 0; i < pmus->n; i++)
        if (pmus->list[i].kind == kind)
            return &pmus->list[i];
    return NULL;
}

struct pmu *pmus_by_type(struct pmus *pmus, uint32_t type)
{
    for (unsigned i = 0; i < pmus->n; i++)
        if (pmus->list[i].type == type)
            return &pmus->list[i];
    return NULL;
}

struct pmu *pmus_of_class(struct pmus *pmus, unsigned class_index)
{
    struct pmu *pmu = pmus->list;

    while (pmu->class_index != class_index)
        pmu++;
    return pmu;
}

struct pmu *pmus_find(struct pmus *pmus, struct word name)
{
    for (unsigned i = 0; i < pmus->n; i++)
        if (word_is(name, pmus->list[i].name))
            return &pmus->list[i];
    for (unsigned i = 0; i < pmus->n; i++)
        if (word_alike(name, pmus->list[i].name, true))
            return &pmus->list[i];
    return NULL;
}

bool pmu_stays(const struct pmus *pmus, const struct pmu *pmu)
{
    char text[16];

    return pmu->kind < PMU_MSR ||
           (pmus_read(pmus, text, sizeof(text), DEVICES "/%s/type", pmu->name) > 0 &&
            strtoul(text, NULL, 10) == pmu->type);
}
