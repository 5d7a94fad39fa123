/*
 * Generic names, the same on every machine: the kernel's own (software events, generalised hardware
 * and cache events), hwpmc's aliases of them, and PAPI's presets. Found without libpfm4.
 */
#pragma once

#include "backends/perf/names/spec.h"

#include "core/base/catalog.h"

struct generic {
    const char *name;
    const char *others; /* other names, separated by blanks */
    uint32_t type;      /* PERF_TYPE_MAX: a preset, which one of its candidates serves */
    uint64_t config;
    enum spec_split split;
    const char *never;      /* why it would always read 0 here, or NULL */
    const char *raw_names;  /* kernel event files with the processor's code for it */
    const char *candidates; /* of a preset: spellings to try, in this order */
    const char *description;
};

/* generic.c: the table. By any of its names, "PERF_COUNT_…" included. NULL: none. */
const struct generic *generic_find(struct word name);
const struct generic *generic_by_code(uint32_t type, uint64_t config);
/* By the kernel's event file that has the processor's code for it. NULL: none. */
const struct generic *generic_by_file(const char *file);
/* All of them, in order; NULL at the end. */
const struct generic *generic_at(unsigned index);
/* The processor's, by a number of the kernel's. */
bool generic_is_hardware(const struct generic *generic);
/* Is it a preset that no event is known to serve? */
bool generic_is_unserved(struct word name);
/* Offers every name and every other name. */
void generic_near(struct near *near);

/* generic_parse.c. What it means on spec->pmu, which is chosen already. */
void generic_put(struct spec *spec, const struct generic *generic);
/* rest: what follows the name, modifiers. P09, CS03. */
int generic_use(struct spec *spec, const struct generic *generic, struct word rest,
                struct err *err);
/* A name, also behind "generic/", with its modifiers; -ENOENT: it is none of these. CS01, P09. */
int generic_parse(struct spec *spec, struct word text, struct err *err);
/* events/generic: every name that this machine can count. */
void generic_list(struct backend_state *state, struct catalog *out);
