/*
 * The PMUs in sysfs: their kinds and CPUs, the bits of a config word that a term fills, and the
 * events for which the kernel has a file. Also tracefs. The abilities of a core PMU are not in
 * sysfs: probe.c and trial.c find them by opening events.
 */
#include "backends/perf/probe/pmu.h"

#include "backends/perf/state.h"
#include "backends/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#define TRACING "/sys/kernel/tracing"

/* ---- reading files ---- */

atomic_bool pmus_shortage;

int pmus_note_shortage(int rc)
{
    if (is_shortage(rc) || rc == -EAGAIN)
        pmus_shortage = true;
    return rc;
}

int file_read(int dir, const char *path, char *text, size_t size)
{
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);
    int error = errno;

    fd_close(fd);
    for (; got > 0 && (text[got - 1] == '\n' || text[got - 1] == '\0'); got--)
        ;
    text[got > 0 ? got : 0] = '\0';
    return got < 0 ? -error : (int)got;
}

int pmus_read(const struct pmus *pmus, char *text, size_t size, const char *path, ...)
{
    char full[512];
    va_list args;
    int used = snprintf(full, sizeof(full), "%s", pmus->root), more;

    text[0] = '\0';
    if (used < 0 || (size_t)used >= sizeof(full))
        return pmus_note_shortage(-ENAMETOOLONG);
    va_start(args, path);
    more = vsnprintf(full + used, sizeof(full) - (size_t)used, path, args);
    va_end(args);
    if (more < 0 || (size_t)(used + more) >= sizeof(full))
        return pmus_note_shortage(-ENAMETOOLONG);
    return pmus_note_shortage(file_read(AT_FDCWD, full, text, size));
}

/* ---- formats and events of one PMU ---- */

unsigned format_bits(const struct pmu_format *format)
{
    unsigned bits = 0;

    for (unsigned i = 0; i < format->n; i++)
        bits += 1u + format->range[i].high - format->range[i].low;
    return bits;
}

bool format_put(const struct pmu_format *format, uint64_t value, uint64_t config[CONFIG_WORDS])
{
    unsigned bits = format_bits(format);

    if (bits < 64 && value >> bits != 0)
        return false;
    for (unsigned i = 0; i < format->n; i++) {
        unsigned low = format->range[i].low, width = 1u + format->range[i].high - low;
        uint64_t mask = width == 64 ? ~(uint64_t)0 : ((uint64_t)1 << width) - 1;
        config[format->word] &= ~(mask << low);
        config[format->word] |= (value & mask) << low;
        value = width == 64 ? 0 : value >> width;
    }
    return true;
}

/* Reads a format file such as "config1:0-7,32-35". Skips files with another syntax. */
static void load_format(const struct pmus *pmus, struct pmu *pmu, const char *name)
{
    struct pmu_format format = {.name = NULL};
    char text[256], *at = text + strlen("config");

    if (pmus_read(pmus, text, sizeof(text), DEVICES "/%s/format/%s", pmu->name, name) <= 0 ||
        strncmp(text, "config", strlen("config")) != 0)
        return;
    format.word = *at == ':' ? 0 : (unsigned)(*at++ - '0');
    if (format.word >= CONFIG_WORDS || *at != ':')
        return;
    do {
        char *end;
        unsigned long low = strtoul(at + 1, &end, 10), high = low;
        if (end == at + 1 || format.n == FORMAT_RANGES)
            return;
        if (*end == '-')
            high = strtoul(end + 1, &end, 10);
        if (high > 63 || low > high)
            return;
        format.range[format.n].low = (uint8_t)low;
        format.range[format.n++].high = (uint8_t)high;
        at = end;
    } while (*at == ',');
    if (*at != '\0')
        return;
    char *copy = strdup(name);
    format.name = copy;
    if (!copy || vec_push(&pmu->formats, format)) {
        pmus_note_shortage(-ENOMEM);
        free(copy);
    }
}

/* Reads a file that describes an event, such as "energy-pkg.unit". Returns its length. */
static int read_event_file(const struct pmus *pmus, const struct pmu *pmu, const char *name,
                           const char *what, char text[32])
{
    return pmus_read(pmus, text, 32, DEVICES "/%s/events/%s.%s", pmu->name, name, what);
}

static void load_event(const struct pmus *pmus, struct pmu *pmu, const char *name)
{
    static const char *const side_files[] = {".unit", ".scale", ".snapshot", ".per-pkg"};
    struct pmu_event event = {.scale = 1};
    const char *dot = strrchr(name, '.');
    char terms[512], text[32];

    for (size_t i = 0; dot && i < sizeof(side_files) / sizeof(side_files[0]); i++)
        if (strcmp(dot, side_files[i]) == 0)
            return;
    if (pmus_read(pmus, terms, sizeof(terms), DEVICES "/%s/events/%s", pmu->name, name) <= 0)
        return;
    event.name = strdup(name);
    event.terms = strdup(terms);
    if (read_event_file(pmus, pmu, name, "unit", text) > 0)
        snprintf(event.unit, sizeof(event.unit), "%.15s", text);
    if (read_event_file(pmus, pmu, name, "scale", text) > 0 && strtod(text, NULL) > 0)
        event.scale = strtod(text, NULL);
    event.snapshot = read_event_file(pmus, pmu, name, "snapshot", text) > 0 && text[0] == '1';
    if (event.name && event.terms && vec_push(&pmu->events, event) == 0)
        return;
    pmus_note_shortage(-ENOMEM);
    free(event.name);
    free(event.terms);
}

void pmu_load(const struct pmus *pmus, struct pmu *pmu)
{
    static const struct {
        const char *name;
        void (*load)(const struct pmus *pmus, struct pmu *pmu, const char *name);
    } directories[] = {{"format", load_format}, {"events", load_event}};
    char path[512];
    struct dirent *entry;

    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s" DEVICES "/%s/%s", pmus->root, pmu->name,
                 directories[i].name);
        DIR *dir = opendir(path);
        if (!dir)
            pmus_note_shortage(-errno);
        while (dir && (entry = readdir(dir)))
            if (entry->d_name[0] != '.')
                directories[i].load(pmus, pmu, entry->d_name);
        if (dir)
            closedir(dir);
    }
}

/* The terms config=…, config1=…: a full config word. */
static const struct pmu_format config_words[CONFIG_WORDS] = {
    {"config", 0, 1, {{0, 63}}},
    {"config1", 1, 1, {{0, 63}}},
    {"config2", 2, 1, {{0, 63}}},
    {"config3", 3, 1, {{0, 63}}},
};

const struct pmu_format *pmu_format(const struct pmu *pmu, struct word name)
{
    for (unsigned i = 0; i < pmu->formats.n; i++)
        if (word_alike(name, pmu->formats.items[i].name, true))
            return &pmu->formats.items[i];
    for (unsigned i = 0; i < CONFIG_WORDS; i++)
        if (word_alike(name, config_words[i].name, true))
            return &config_words[i];
    return NULL;
}

const struct pmu_event *pmu_event(const struct pmu *pmu, struct word name)
{
    for (unsigned i = 0; i < pmu->events.n; i++)
        if (word_alike(name, pmu->events.items[i].name, true))
            return &pmu->events.items[i];
    return NULL;
}

/* ---- the list of PMUs ---- */

/*
 * PMUs whose kind does not follow from their files, and names of PMUs of other hosts or of
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

enum pmu_kind pmu_kind_of_name(struct word name)
{
    const struct known_name *known = known_find(name);

    return known ? known->kind : PMU_UNKNOWN;
}

/* Reads one directory of sysfs. Returns 1, 0 if it is not a PMU, or -ENOMEM (also for a shortage of
 * descriptors: without the PMU, a saved state with its events could not be loaded). */
static int pmu_read(const struct pmus *pmus, struct pmu *pmu, const char *name)
{
    char text[4096];
    bool has_cpus = false, has_mask = false;

    memset(pmu, 0, sizeof(*pmu));
    pmu->class_index = NO_CLASS;
    int len = pmus_read(pmus, text, sizeof(text), DEVICES "/%s/type", name);
    if (len <= 0)
        return is_shortage(len) ? -ENOMEM : 0;
    pmu->type = (uint32_t)strtoul(text, NULL, 10);
    pmu->name = strdup(name);
    if (!pmu->name)
        return -ENOMEM;
    len = pmus_read(pmus, text, sizeof(text), DEVICES "/%s/cpus", name);
    has_cpus = len >= 0;
    if (len < 0) {
        len = pmus_read(pmus, text, sizeof(text), DEVICES "/%s/cpumask", name);
        has_mask = len >= 0;
    }
    if (len > 0)
        pmus_note_shortage(cpus_parse(&pmu->cpus, (struct word){text, (size_t)len}));

    const struct known_name *known = known_find(word_of(name));
    if (known && known->why)
        snprintf(pmu->why, sizeof(pmu->why), "%s %s", name, known->why);
    if (known && known->kind != PMU_OTHER)
        pmu->kind = known->kind;
    else
        pmu->kind = has_cpus ? PMU_CORE : has_mask ? PMU_UNCORE : PMU_OTHER;
    return 1;
}

/*
 * Core PMUs first, then software, tracepoint, breakpoint, others; by name within a kind. The kernel
 * uses the core PMU with type PERF_TYPE_RAW for events without a PMU, so that PMU comes first.
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

bool pmus_scan(struct pmus *pmus)
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

bool pmu_still_exists(const struct pmus *pmus, const struct pmu *pmu)
{
    char text[16];

    return pmu->kind < PMU_MSR ||
           (pmus_read(pmus, text, sizeof(text), DEVICES "/%s/type", pmu->name) > 0 &&
            strtoul(text, NULL, 10) == pmu->type);
}

struct pmu *pmus_first_core(struct pmus *pmus)
{
    for (unsigned i = 0; i < pmus->n; i++)
        if (pmus->list[i].kind == PMU_CORE && !pmus->list[i].why[0])
            return &pmus->list[i];
    return NULL;
}

struct pmu *pmus_first_of(struct pmus *pmus, enum pmu_kind kind)
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

/*
 * ---- tracefs ----
 *
 * The private mount, which is not attached to the tree, is tried first: it does not depend on
 * another mount and does not prevent one from being unmounted.
 */

int tracefs_mount(const char *root)
{
    int fs, mount = -1;

    if (root[0])
        return -ENOENT;
    fs = fsopen("tracefs", FSOPEN_CLOEXEC);
    if (fs >= 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        mount =
            fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (mount < 0)
        mount = -errno;
    fd_close(fs);
    return mount;
}

int tracefs_events(const struct backend_state *state)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, mount = state->pmus->tracefs;
    char path[512];
    int fd = mount >= 0 ? openat(mount, "events", flags) : -1;

    if (fd < 0) {
        snprintf(path, sizeof(path), "%s" TRACING "/events", state->pmus->root);
        fd = open(path, flags);
    }
    return fd < 0 ? -errno : fd;
}

bool tracefs_print(const struct backend_state *state, struct buf *out)
{
    const int events = tracefs_events(state), mount = state->pmus->tracefs;

    fd_close(events);
    if (events >= 0)
        buf_str(out, mount >= 0 ? "yes, mounted by pmcfs itself" : TRACING);
    else if (mount >= 0)
        buf_str(out, "tracefs has no events: this kernel was built without tracepoints, or it is "
                     "locked down (confidentiality)");
    else
        buf_printf(out,
                   "tracefs is not mounted, and pmcfs cannot mount it (%s): "
                   "mount -t tracefs tracefs " TRACING,
                   err_errno_name(-mount));
    return events >= 0;
}
