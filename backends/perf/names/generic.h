/*
 * The kernel's own names: software events, generalised hardware and cache events. The same on every
 * machine, found without libpfm4. hwpmc's aliases are among their other names.
 */
#pragma once

#include "backends/perf/names/spec.h"

struct generic {
    const char *name;
    const char *others; /* other names, separated by blanks */
    uint32_t type;
    uint64_t config;
    enum spec_split split;
    const char *never;     /* why it would always read 0 here, or NULL */
    bool hidden;           /* never counts anything by itself: not listed */
    const char *raw_names; /* kernel event files with the processor's code for it */
    const char *description;
};

/* By any of its names, "PERF_COUNT_…" included. NULL: none. */
const struct generic *generic_find(struct word name);
const struct generic *generic_by_code(uint32_t type, uint64_t config);
/* By the kernel's event file that has the processor's code for it. NULL: none. */
const struct generic *generic_by_file(const char *file);
/* All of them, in order; NULL at the end. */
const struct generic *generic_at(unsigned index);
/* The processor's, not the kernel's own. */
bool generic_is_hardware(const struct generic *generic);
/* Offers every name and every other name. */
void generic_near(struct near *near);
/* rest: what follows the name, modifiers. P09, CS03. */
int generic_parse(struct spec *spec, const struct generic *generic, struct word rest,
                  struct err *err);
/* A name with its modifiers; -ENOENT: it is none of these. */
int generic_parse_text(struct spec *spec, struct word text, struct err *err);
/* What it means on spec->pmu, which is chosen already. */
void generic_put(struct spec *spec, const struct generic *generic);
