/*
 * What a spelling of an event means before it becomes a struct event. Each spelling has
 * a parser that fills a struct spec; resolve.h chooses it, spec_event.h makes the event of it.
 */
#pragma once

#include "backends/perf/probe/pmu.h"
#include "backends/perf/state.h"

enum {
    SPELLING_MAX = 512,
    RESOLVED_MAX = 1024,
    PRECISE_MAX = 3,
    PRECISE_MOST = 4 /* the highest level there is */
};

enum spec_split { /* can user and kernel mode be told apart? */
    SPLIT_ALWAYS,
    SPLIT_ASKED,  /* counted whole unless the spelling asks for one (faults) */
    SPLIT_KERNEL, /* happens in the kernel: user mode alone would read 0 */
    SPLIT_NEVER   /* the value is the same whatever is asked (clocks, msr) */
};

struct spec {
    struct backend_state *state;
    struct pmu *pmu;
    uint32_t type;
    uint64_t config[CONFIG_WORDS];
    uint32_t bp_type;
    enum spec_split split;
    bool needs_kernel; /* said by its spelling; spec_fill() has what follows from its PMU */
    bool sampling;
    enum event_said user, kernel;
    unsigned precise; /* the level of precise samples that is asked for; PRECISE_MOST; 0: none */
    char unit[16];
    double scale;
    char resolved[RESOLVED_MAX]; /* without qualifiers and privilege */
    const char *generic;         /* the kernel's name of it that all machines share, or NULL */
    const char *raw_name; /* a kernel event file with the code of a generic event; may be NULL */
};

/* For the parsers. */

/* Takes the prefix off the text, if it begins with one alike. */
bool spec_prefix(struct word *text, const char *prefix);

/* Sets the pmu and what follows from it; P09 with the reason when nothing of it can be counted. */
int spec_use(struct spec *spec, struct pmu *pmu, struct word what, struct err *err);
/* The core PMU, or P09 saying why there is none. */
int spec_use_core(struct spec *spec, struct word what, struct err *err);
/* Modifiers behind the name: "u", "k", "uk", "up", "ppp", "P", also separated by ':'. Empty is
 * fine. */
int spec_modifiers(struct spec *spec, struct word text, struct word what, struct err *err);
/* A mode that is not said while the other is, is off. */
void spec_one_mode(struct spec *spec);
/* CS03 for what is a setting or a target here (period, cpu, G); -ENOENT: it is none of these. */
int spec_part_elsewhere(struct word part, struct err *err);
/* Is it letters that spec_modifiers() takes? */
bool spec_is_modifier(struct word part);
