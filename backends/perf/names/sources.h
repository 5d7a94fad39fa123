/*
 * The sources of names besides the kernel's files: its generic events, tracepoints, and libpfm4's
 * tables of the processor's own events.
 */
#pragma once

#include "backends/perf/names/spec.h"

#include "core/base/catalog.h"

/*
 * Generic names, the same on every machine: the kernel's own (software events, generalised hardware
 * and cache events), hwpmc's aliases of them, and PAPI's presets. Lists end with NULL.
 */
struct generic {
    const char *name;
    const char *others[4];
    uint32_t type; /* PERF_TYPE_MAX: a preset, which one of its candidates serves */
    uint64_t config;
    enum spec_split split;
    const char *never;         /* why it would always read 0 here, or NULL */
    const char *raw_names[3];  /* kernel event files with the processor's code for it */
    const char *candidates[5]; /* of a preset: spellings to try, in this order */
    const char *description;
};

/* generic.c: the table; a row without a name is its end. */
extern const struct generic generics[];
/* By any of its names, "PERF_COUNT_…" included. NULL: none. */
const struct generic *generic_find(struct word name);
const struct generic *generic_by_code(uint32_t type, uint64_t config);
/* By the kernel's event file that has the processor's code for it. NULL: none. */
const struct generic *generic_by_file(const char *file);
/* The processor's, by a number of the kernel's. */
bool generic_is_hardware(const struct generic *generic);
/* Is it a preset that no event is known to serve? */
bool generic_is_unserved(struct word name);
/* Offers every name and every other name. */
void generic_near(struct near *near);

/* generic_parse.c: what it means on spec->pmu, which is chosen already, but its resolved form. */
void generic_put(struct spec *spec, const struct generic *generic);
/* Chooses the PMU, too. P09. */
int generic_use(struct spec *spec, const struct generic *generic, struct err *err);

/* What events/ lists: every one that this machine can count. */
void generic_list(struct backend_state *state, struct catalog *out);
void tracepoint_list(struct backend_state *state, struct catalog *out);
void pfm_list(struct backend_state *state, struct catalog *out);

/* Does another processor have this event in libpfm4's tables? */
bool pfm_elsewhere(struct word text);
/* Is there a table of this name? Offers all of them where there is not. */
bool pfm_has_pmu(struct word name, struct near *near);
/* "pmu::EVENT", or with the first unit mask that completes it, of an event of the class by its
 * exact name; false: none. */
bool pfm_spelling(struct backend_state *state, const struct pmu *class, const char *event,
                  char name[SPELLING_MAX]);
/* The description, one line; then the lines "umask NAME text", "attr NAME type text". */
void pfm_describe(const char *spelling, struct buf *description, struct buf *attributes);
