/*
 * Reading sysfs: which PMUs there are, of what kind, on which CPUs; and later their format and
 * event files. What a core PMU can really do is not in sysfs: probe.c asks the kernel.
 */
#include "backends/perf/probe/pmu.h"

#include "backends/perf/probe/probe.h"
#include "backends/perf/probe/tracefs.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICES "/sys/bus/event_source/devices"

/* Kinds that do not follow from a PMU's files. A trailing '*' stands for any end. */
static const struct {
    const char *name;
    enum pmu_kind kind;
    const char *why;
} known_names[] = {
    {"software", PMU_SOFTWARE, NULL},
    {"tracepoint", PMU_TRACEPOINT, NULL},
    {"breakpoint", PMU_BREAKPOINT, NULL},
    {"msr", PMU_MSR, NULL},
    {"cpu", PMU_CORE, NULL},
    {"cpum_cf", PMU_CORE, NULL},
    {"power*", PMU_FREE, NULL},
    {"cstate_*", PMU_FREE, NULL},
    {"kprobe", PMU_REFUSED, "needs a place in the kernel to probe; use an existing tracepoint"},
    {"uprobe", PMU_REFUSED, "needs a place in a program to probe; use an existing tracepoint"},
    {"intel_pt", PMU_REFUSED, "writes a trace, it does not count"},
    {"intel_bts", PMU_REFUSED, "writes a trace, it does not count"},
    {"arm_spe*", PMU_REFUSED, "writes a trace, it does not count"},
    {"ibs_fetch", PMU_REFUSED, "samples single instructions, it does not count"},
    {"ibs_op", PMU_REFUSED, "samples single instructions, it does not count"},
    {"cs_etm", PMU_REFUSED, "writes a trace, it does not count"},
    {"trace_imc", PMU_REFUSED, "writes a trace, it does not count"},
    {"hisi_ptt*", PMU_REFUSED, "writes a trace, it does not count"},
};

/* Of other machines, or of kernel modules that are not loaded. */
static const char *const elsewhere[] = {"cpu_*", "armv8_*", "uncore_*",      "amd_*",  "i915",
                                        "ibs_*", "arm_*",   "smmuv3_pmcg_*", "hisi_*", "nvidia_*"};

static bool name_matches(const char *pattern, const char *name)
{
    size_t len = strlen(pattern);

    return pattern[len - 1] == '*' ? strncmp(pattern, name, len - 1) == 0
                                   : strcmp(pattern, name) == 0;
}

bool pmu_is_known(struct word name)
{
    char text[64];
    bool known = false;

    snprintf(text, sizeof(text), "%.*s", (int)name.len, name.p);
    for (size_t i = 0; i < sizeof(known_names) / sizeof(known_names[0]); i++)
        known |= name_matches(known_names[i].name, text);
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
        known |= name_matches(elsewhere[i], text);
    return known;
}

static enum pmu_kind kind_of(struct pmu *pmu, bool has_cpus, bool has_cpumask)
{
    for (size_t i = 0; i < sizeof(known_names) / sizeof(known_names[0]); i++) {
        if (!name_matches(known_names[i].name, pmu->name))
            continue;
        if (known_names[i].why)
            snprintf(pmu->why, sizeof(pmu->why), "%s %s", pmu->name, known_names[i].why);
        return known_names[i].kind;
    }
    return has_cpus ? PMU_CORE : has_cpumask ? PMU_UNCORE : PMU_OTHER;
}

static bool pmu_has(const struct pmus *pmus, const struct pmu *pmu, const char *file)
{
    char full[512];

    snprintf(full, sizeof(full), "%s" DEVICES "/%s/%s", pmus->root, pmu->name, file);
    return access(full, F_OK) == 0;
}

static unsigned core_capabilities(const struct pmus *pmus, struct pmu *pmu)
{
    static const struct {
        const char *file;
        unsigned capability;
    } files[] = {
        {"format/edge", CAP_EDGE},
        {"format/inv", CAP_INVERT},
        {"format/cmask", CAP_THRESHOLD},
        {"format/threshold", CAP_THRESHOLD},
    };
    unsigned all = CAP_USER | CAP_SYSTEM | CAP_READ | CAP_WRITE | CAP_QUALIFIER;
    char text[32];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (pmu_has(pmus, pmu, files[i].file))
            all |= files[i].capability;
    if (pmu->interrupt)
        all |= CAP_INTERRUPT;
    if (pmus_read(pmus, text, sizeof(text), DEVICES "/%s/caps/max_precise", pmu->name) > 0)
        pmu->precise = (unsigned)strtoul(text, NULL, 10);
    if (pmu->precise)
        all |= CAP_PRECISE;
    return all;
}

static unsigned capabilities_of(const struct pmus *pmus, struct pmu *pmu)
{
    switch (pmu->kind) {
    case PMU_CORE:
        return core_capabilities(pmus, pmu);
    case PMU_SOFTWARE:
    case PMU_BREAKPOINT:
        return CAP_INTERRUPT | CAP_USER | CAP_SYSTEM | CAP_READ | CAP_WRITE;
    case PMU_TRACEPOINT:
        return CAP_INTERRUPT | CAP_SYSTEM | CAP_READ | CAP_WRITE;
    default:
        return CAP_READ | CAP_WRITE;
    }
}

/* One directory of sysfs; false: it is no PMU. */
static bool pmu_read(const struct pmus *pmus, struct pmu *pmu, const char *name)
{
    char text[4096];
    bool has_cpus = false, has_mask = false;

    memset(pmu, 0, sizeof(*pmu));
    pmu->class_index = NO_CLASS;
    cpus_init(&pmu->cpus);
    if (pmus_read(pmus, text, sizeof(text), DEVICES "/%s/type", name) <= 0)
        return false;
    pmu->type = (uint32_t)strtoul(text, NULL, 10);
    pmu->name = strdup(name);
    if (!pmu->name)
        return false;
    int len = pmus_read(pmus, text, sizeof(text), DEVICES "/%s/cpus", name);
    has_cpus = len >= 0;
    if (len < 0) {
        len = pmus_read(pmus, text, sizeof(text), DEVICES "/%s/cpumask", name);
        has_mask = len >= 0;
    }
    if (len > 0)
        cpus_parse(&pmu->cpus, (struct word){text, (size_t)len});
    pmu->kind = kind_of(pmu, has_cpus, has_mask);
    return true;
}

static bool pmus_add(struct pmus *pmus, const struct dirent *entry)
{
    if (vec_grow(&pmus->list, &pmus->size, pmus->n + 1, sizeof(*pmus->list)))
        return false;
    pmus->n += pmu_read(pmus, &pmus->list[pmus->n], entry->d_name);
    return true;
}

/*
 * Core PMUs first, then software, tracepoint, breakpoint; names break ties. Of several core PMUs
 * the one with the fixed number is what the kernel itself takes for a name without a PMU.
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

static bool pmus_scan(struct pmus *pmus)
{
    char path[512];
    struct dirent *entry;
    bool ok = true;

    snprintf(path, sizeof(path), "%s" DEVICES, pmus->root);
    DIR *dir = opendir(path);
    while (dir && ok && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            ok = pmus_add(pmus, entry);
    if (dir)
        closedir(dir);
    if (pmus->n > 0)
        qsort(pmus->list, pmus->n, sizeof(*pmus->list), pmu_order);
    return ok;
}

/* Without sysfs the three that every kernel has are still there, under their fixed numbers. */
static bool pmus_add_fixed(struct pmus *pmus)
{
    static const struct {
        const char *name;
        uint32_t type;
        enum pmu_kind kind;
    } fixed[] = {
        {"software", PERF_TYPE_SOFTWARE, PMU_SOFTWARE},
        {"tracepoint", PERF_TYPE_TRACEPOINT, PMU_TRACEPOINT},
        {"breakpoint", PERF_TYPE_BREAKPOINT, PMU_BREAKPOINT},
    };
    const unsigned n = sizeof(fixed) / sizeof(fixed[0]);

    free(pmus->list);
    pmus->list = calloc(n, sizeof(*pmus->list));
    if (!pmus->list)
        return false;
    for (unsigned i = 0; i < n; i++) {
        struct pmu *pmu = &pmus->list[i];
        pmu->name = strdup(fixed[i].name);
        pmu->type = fixed[i].type;
        pmu->kind = fixed[i].kind;
        pmu->class_index = NO_CLASS;
        cpus_init(&pmu->cpus);
        pmus->n += pmu->name != NULL;
    }
    return pmus->n == n;
}

/* Is one CPU of the mask responsible for several? Then counts are those of a package. */
static bool covers_several(const struct pmus *pmus, const struct pmu *pmu)
{
    char text[4096];
    struct cpus online;
    bool several = true;

    cpus_init(&online);
    int len = pmus_read(pmus, text, sizeof(text), "/sys/devices/system/cpu/online");
    if (len > 0 && cpus_parse(&online, (struct word){text, (size_t)len}) == 0)
        several = cpus_count(&pmu->cpus) < cpus_count(&online) || cpus_count(&online) == 1;
    cpus_free(&online);
    return several;
}

static void pmu_settle(struct pmus *pmus, struct pmu *pmu, bool hybrid)
{
    if (pmu->kind == PMU_CORE)
        probe_core(pmu, hybrid);
    if (pmu->width) /* it counts */
        probe_counters(pmu);
    if (pmu->kind == PMU_UNCORE || pmu->kind == PMU_FREE) {
        pmu->package = covers_several(pmus, pmu);
        if (cpus_count(&pmu->cpus) == 0)
            snprintf(pmu->why, sizeof(pmu->why), "%s has no CPU that counts it", pmu->name);
    }
    pmu->capabilities = capabilities_of(pmus, pmu);
}

/* Only the order matters: a fixed counter is for one event, a general one for all the others, too.
 */
static const unsigned *row_events(struct pmu *pmu)
{
    unsigned rows = pmu->general + pmu->fixed;

    for (unsigned i = 0; i < rows && i < PMU_ROWS; i++)
        pmu->row_events[i] = i < pmu->general ? UINT16_MAX : 1;
    return rows ? pmu->row_events : NULL;
}

static bool pmus_make_class(struct pmus *pmus, struct pmu *pmu)
{
    struct class_info *class = &pmus->classes[pmus->n_classes];

    if (pmu->why[0])
        return true;
    class->name = pmu->name;
    class->rows = pmu->general + pmu->fixed;
    class->row_events = row_events(pmu);
    class->width = pmu->kind == PMU_CORE ? pmu->width : 64;
    class->capabilities = pmu->capabilities;
    class->hardware = pmu->kind == PMU_CORE || pmu->kind == PMU_UNCORE;
    cpus_init(&class->cpus);
    if (!cpus_copy(&class->cpus, &pmu->cpus))
        return false;
    pmu->class_index = pmus->n_classes++;
    return true;
}

static bool pmus_make_classes(struct pmus *pmus)
{
    bool ok;

    pmus->classes = calloc(pmus->n + 1, sizeof(*pmus->classes));
    ok = pmus->classes != NULL;
    for (unsigned i = 0; ok && i < pmus->n; i++)
        ok = pmus_make_class(pmus, &pmus->list[i]);
    return ok;
}

struct pmus *pmus_new(const char *root)
{
    struct pmus *pmus = calloc(1, sizeof(*pmus));
    unsigned cores = 0;

    if (!pmus)
        return NULL;
    pthread_mutex_init(&pmus->lock, NULL);
    pmus->root = strdup(root ? root : "");
    bool ok = pmus->root && pmus_scan(pmus) && (pmus->n > 0 || pmus_add_fixed(pmus));
    for (unsigned i = 0; ok && i < pmus->n; i++)
        cores += pmus->list[i].kind == PMU_CORE;
    for (unsigned i = 0; ok && i < pmus->n; i++)
        pmu_settle(pmus, &pmus->list[i], cores > 1);
    if (ok && !pmus_core(pmus))
        probe_say_no_core(pmus, pmus->no_core, sizeof(pmus->no_core));
    if (!ok || !pmus_make_classes(pmus)) {
        pmus_free(pmus);
        return NULL;
    }
    return pmus;
}

static void pmu_free(struct pmu *pmu)
{
    for (unsigned i = 0; i < pmu->formats.n; i++)
        free(pmu->formats.items[i].name);
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
    tracefs_free(pmus->tracefs);
    for (unsigned i = 0; i < pmus->n_classes; i++)
        cpus_free(&pmus->classes[i].cpus);
    for (unsigned i = 0; i < pmus->n; i++)
        pmu_free(&pmus->list[i]);
    free(pmus->classes);
    free(pmus->list);
    free(pmus->root);
    pthread_mutex_destroy(&pmus->lock);
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
