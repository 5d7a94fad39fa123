/*
 * The PMUs of the kernel (/sys/bus/event_source/devices): what each can count, on which CPUs, and
 * the format of its config words. Read once, when the backend is opened: a driver that is loaded
 * later is found at the next mount. Also tracefs.
 */
#pragma once

#include "core/backend.h"
#include "core/base/scan.h"
#include "core/base/vec.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define DEVICES "/sys/bus/event_source/devices"

enum {
    CONFIG_WORDS = 4,
    FORMAT_RANGES = 8,
    PMU_FIXED = 4,
    PMU_ROWS = 64,
    NO_CLASS = 0xffff
};

enum pmu_kind {
    PMU_CORE,
    PMU_CORES, /* all core PMUs of a hybrid processor: class `generic` (pmus_add_cores()) */
    PMU_SOFTWARE,
    PMU_TRACEPOINT,
    PMU_BREAKPOINT,
    PMU_MSR,
    PMU_FREE,   /* power, cstate: free-running, counted per CPU or package */
    PMU_UNCORE, /* counters outside the cores */
    PMU_OTHER,
    PMU_REFUSED, /* cannot count (intel_pt writes a trace, uprobe needs a probe); see `why` */
    PMU_UNKNOWN
};

/* A term of pmu/term=value/: the bits of a config word that it fills, low bits first. */
struct pmu_format {
    const char *name;
    unsigned word;
    unsigned n;
    struct {
        uint8_t low, high;
    } range[FORMAT_RANGES];
};

struct pmu_event {
    char *name;
    char *terms; /* "event=0xc0,umask=0x01" */
    char unit[16];
    double scale;
    bool snapshot; /* a current value, not a count */
};

struct pmu {
    char *name;
    uint32_t type;
    enum pmu_kind kind;
    struct cpus cpus;     /* empty: every CPU */
    bool package;         /* one CPU counts for several */
    uint64_t flags;       /* enum code_flag of its events */
    unsigned class_index; /* NO_CLASS: cannot be used here, see `why` */
    char why[256];
    unsigned capabilities;
    _Atomic uint64_t accepted; /* software events that the kernel has accepted, see event_try() */

    /* Only of core PMUs and PMU_CORES; set in probe.c and trial.c. */
    unsigned max_precise; /* the highest level of precise samples; 0: none */
    bool extended;        /* generic events carry the type in the upper half of config (hybrid) */
    unsigned n_general;   /* counters that count any event: rows 0…n_general-1 */
    unsigned n_fixed;     /* counters for one event each: the rows after the general ones */
    uint64_t fixed_event[PMU_FIXED];     /* PERF_COUNT_HW_… of each */
    uint64_t filler_type, filler_config; /* an event that only general counters count */
    unsigned row_events[PMU_ROWS];       /* for class_info: lets fixed rows be chosen first */
    unsigned width;
    bool vendor_counts; /* arm64: vendor-defined codes count */

    VEC(struct pmu_format) formats; /* from its files; every PMU also has config=… */
    VEC(struct pmu_event) events;
};

/* A thread that sleeps, so that events on it are never on the hardware. */
struct idle_thread {
    pthread_t thread;
    pid_t tid;
    sem_t ready;
};

struct pmus {
    char *root;       /* prefix of /sys and /proc; "" except in tests */
    struct pmu *list; /* core PMUs first */
    unsigned n;
    size_t size;
    char why_no_core[256]; /* why no core PMU counts here, "" if one does */
    struct class_info *classes;
    unsigned n_classes;
    struct idle_thread idle; /* the thread on which groups are tried */
    int tracefs;             /* descriptor of the daemon's private mount, or -errno */
};

/* Returns the kind of the PMUs of this name on any host; PMU_OTHER if the name is known but its
 * kind depends on the host, PMU_UNKNOWN if the name is not known. */
enum pmu_kind pmu_kind_of_name(struct word name);
/* Adds the PMUs of sysfs without formats and events (pmu_load()); none in a kernel without
 * perf_events. Returns false on ENOMEM, or if the directory cannot be read. */
bool pmus_scan(struct pmus *pmus);
/* Returns rc. If rc is a shortage of memory, descriptors or threads, sets pmus_shortage, which
 * pmus_new() (probe.c) reads. */
int pmus_note_shortage(int rc);
extern atomic_bool pmus_shortage;
/* Returns false if the PMU's type number is gone or has changed, because its driver was unloaded.
 * Always true for kinds before PMU_MSR. */
bool pmu_still_exists(const struct pmus *pmus, const struct pmu *pmu);
/* Returns true if the PMU can count here. */
static inline bool pmu_is_here(const struct pmu *pmu)
{
    return !pmu->why[0];
}
/* Returns true if events of `class` are opened on `pmu`: on itself, or on each core PMU. */
static inline bool pmu_serves(const struct pmu *class, const struct pmu *pmu)
{
    return class->kind == PMU_CORES ? pmu->kind == PMU_CORE && pmu_is_here(pmu) : class == pmu;
}
/* Returns the first core PMU that counts, or NULL. */
struct pmu *pmus_first_core(struct pmus *pmus);
struct pmu *pmus_first_of(struct pmus *pmus, enum pmu_kind kind);
struct pmu *pmus_by_type(struct pmus *pmus, uint32_t type);
/* Returns the PMU of a class, which must exist. */
struct pmu *pmus_of_class(struct pmus *pmus, unsigned class_index);
/* Finds a PMU by its exact name, or else by a name that differs only in case or in '-', '_' and
 * '.'. Returns NULL if there is none. */
struct pmu *pmus_find(struct pmus *pmus, struct word name);
/* Reads the formats and events of a PMU. */
void pmu_load(const struct pmus *pmus, struct pmu *pmu);
/* Find a format (also config, config1…, which every PMU has), or an event file, by name. Return
 * NULL if the PMU has none. */
const struct pmu_format *pmu_format(const struct pmu *pmu, struct word name);
const struct pmu_event *pmu_event(const struct pmu *pmu, struct word name);
unsigned format_bits(const struct pmu_format *format);
/* Replaces the bits of the format in config[] by value. Returns false, and changes nothing, if the
 * value is too large. */
bool format_put(const struct pmu_format *format, uint64_t value, uint64_t config[CONFIG_WORDS]);
/* Reads a small file without its trailing newline and adds a NUL. Returns the length, or -errno
 * with an empty text. */
int file_read(int dir, const char *path, char *text, size_t size);
/* Reads a small file below pmus->root like file_read(). */
int pmus_read(const struct pmus *pmus, char *text, size_t size, const char *path, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- the kernel's tracefs, whose directory "events" has the numbers of tracepoints ---- */

struct backend_state;
/* Creates a private mount of tracefs. Only the program's start has the right to do so. Returns a
 * descriptor, or -errno; -ENOENT if root is not "" (tests). */
int tracefs_mount(const char *root);
/* Opens the directory "events". The caller closes it. Returns a descriptor, or -errno. */
int tracefs_events(const struct backend_state *state);
/* Prints where tracefs was found and returns true, or prints why not and returns false. */
bool tracefs_print(const struct backend_state *state, struct buf *out);
