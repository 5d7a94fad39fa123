/*
 * The PMUs that the kernel offers (/sys/bus/event_source/devices): what each can count, where, and
 * how its config words are made. All of it is read once, at open: a driver that comes later is
 * found at the next mount.
 */
#pragma once

#include "backends/perf/probe/trial.h"

#include "core/backend.h"
#include "core/base/scan.h"
#include "core/base/vec.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    CONFIG_WORDS = 4,
    FORMAT_RANGES = 8,
    PMU_FIXED = 4,
    PMU_ROWS = 64,
    NO_CLASS = 0xffff
};

enum pmu_kind {
    PMU_CORE,
    PMU_SOFTWARE,
    PMU_TRACEPOINT,
    PMU_BREAKPOINT,
    PMU_MSR,
    PMU_FREE,   /* power, cstate: free-running, counted per CPU or package */
    PMU_UNCORE, /* counters outside the cores */
    PMU_OTHER,
    PMU_REFUSED, /* traces or needs a program (intel_pt, uprobe): nothing to count; `why` says so */
    PMU_UNKNOWN
};

/* A term of pmu/term=value/: which bits of which config word it fills, low bits first. */
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
    bool snapshot; /* the value at the moment of reading, not a count */
};

struct pmu {
    char *name;
    uint32_t type;
    enum pmu_kind kind;
    struct cpus cpus;     /* empty: every CPU */
    bool package;         /* one CPU stands for several */
    uint64_t flags;       /* enum code_flag of its events */
    unsigned class_index; /* NO_CLASS: nothing of it can be counted here, see why */
    char why[256];
    unsigned capabilities;

    /* Core PMUs, found by probe_core(). */
    unsigned precise; /* the highest level of precise samples; 0: it has none */
    bool extended;    /* generic events carry the type in the upper half of config (hybrid) */
    unsigned general; /* counters that count any event: rows 0…general-1 */
    unsigned fixed;   /* counters for one event each: the rows after them */
    uint64_t fixed_event[PMU_FIXED];     /* PERF_COUNT_HW_… of each */
    uint64_t filler_type, filler_config; /* an event that only general counters count */
    unsigned row_events[PMU_ROWS];       /* class_info's: so that fixed rows are chosen first */
    unsigned width;
    bool vendor_counts; /* arm64: codes that the vendor defines count something */

    VEC(struct pmu_format) formats; /* of its files; every PMU has config=… besides */
    VEC(struct pmu_event) events;
};

struct pmus {
    char *root;       /* before /sys and /proc; "" but in tests */
    struct pmu *list; /* core PMUs first */
    unsigned n;
    size_t size;
    char no_core[256]; /* why there is no core PMU, "" when there is one */
    struct class_info *classes;
    unsigned n_classes;
    struct parked parked; /* where groups are tried */
    int tracefs;          /* an own mount (tracefs.c), or -errno */
};

/* The kind of PMU that has this name on some machine, as far as the name tells it; else PMU_OTHER.
 * PMU_UNKNOWN: none has. */
enum pmu_kind pmu_kind_known(struct word name);
/* Finds all PMUs below root and what the core PMUs really have. NULL: no memory. What lacked memory
 * or a descriptor is looked at once more, and then as if it were not there. */
struct pmus *pmus_new(const char *root);
/* Of what is looked at for that: gives rc back, and notes when it is -errno of such a lack. */
int pmus_note(int rc);
void pmus_free(struct pmus *pmus);
/* Has its name still the number that it had? Another driver may have got that. */
bool pmu_stays(const struct pmus *pmus, const struct pmu *pmu);
/* Can anything of it be counted? */
static inline bool pmu_is_here(const struct pmu *pmu)
{
    return !pmu->why[0];
}
/* The first core PMU that counts, or NULL. */
struct pmu *pmus_core(struct pmus *pmus);
struct pmu *pmus_kind(struct pmus *pmus, enum pmu_kind kind);
struct pmu *pmus_by_type(struct pmus *pmus, uint32_t type);
/* Of a class that there is. */
struct pmu *pmus_of_class(struct pmus *pmus, unsigned class_index);
/* Exactly this name first, then one alike. */
struct pmu *pmus_find(struct pmus *pmus, struct word name);
/* Reads formats and events, at open. */
void pmu_load(const struct pmus *pmus, struct pmu *pmu);
/* NULL: no such. */
const struct pmu_format *pmu_format(const struct pmu *pmu, const char *name);
const struct pmu_format *pmu_format_word(const struct pmu *pmu, struct word name);
const struct pmu_event *pmu_event(const struct pmu *pmu, struct word name);
unsigned format_bits(const struct pmu_format *format);
/* Puts value into its bits of config[], replacing what was there. False: it has too many bits. */
bool format_put(const struct pmu_format *format, uint64_t value, uint64_t config[CONFIG_WORDS]);
/* A small file, without its last newline; the length, or -errno. */
int file_read(int dir, const char *path, char *text, size_t size);
/* The same below root. */
int pmus_read(const struct pmus *pmus, char *text, size_t size, const char *path, ...)
    __attribute__((format(printf, 4, 5)));
