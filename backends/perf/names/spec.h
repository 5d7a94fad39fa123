/*
 * What a spelling of an event means, while it is read. Each spelling has a parser that fills the
 * event of a struct spec; resolve.c chooses it and applies modifiers and qualifiers, spec_event.c
 * adds the rights that it needs, and asks the kernel.
 */
#pragma once

#include "backends/perf/probe/code.h"
#include "backends/perf/probe/pmu.h"
#include "backends/perf/state.h"

enum {
    SPELLING_MAX = 512,
    RESOLVED_MAX = 2 * SPELLING_MAX + 128, /* no part of a spelling gets longer than that */
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
    enum spec_split split;
    /* Kernel event files with the code of a generic event; may be NULL. */
    const char *const *raw_names;
    char resolved[RESOLVED_MAX];
    struct event event; /* without its strings and rows */
};

/*
 * The parsers: each takes from *text what it understands and leaves the modifiers that stand
 * behind it. -ENOENT with nothing said: it is another's.
 */

/* A generic name, also behind "generic/". CS01, P09. */
int generic_parse(struct spec *spec, struct word *text, struct err *err);
/* mem:0xADDRESS[/LENGTH][:rwx]: accesses to a place in memory. CS01 (no address), CS03, CS04. */
int breakpoint_parse(struct spec *spec, struct word *text, struct err *err);
/* pmu/term=value,…/. X06 PMU, CS01 event, CS03 term, CS04 value, P09. */
int terms_parse(struct spec *spec, struct word *text, struct err *err);
/* rNNN. CS04. */
int raw_parse(struct spec *spec, struct word *text, struct err *err);
/* SYSTEM:NAME with a SYSTEM that tracefs has. CS01, P09. */
int tracepoint_parse(struct spec *spec, struct word *text, struct err *err);
/* The kernel's event file of this name on a core PMU, or msr (tsc). */
int terms_parse_bare(struct spec *spec, struct word *text, struct err *err);
/* An event of the processor's in libpfm4's tables, modifiers included. CS03, CS04, P09. */
int pfm_parse(struct spec *spec, struct word *text, struct err *err);
/* Refuses all: says which part of it is wrong, with near misses. CS01, X06, P09. */
int unknown_event(struct spec *spec, struct word *text, struct err *err);

/* For the parsers. */

/* Takes the prefix off the text, if it begins with one alike. */
bool spec_prefix(struct word *text, const char *prefix);
/* Appends to the resolved form. */
void spec_say(struct spec *spec, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* P09: it is known, and cannot be counted here for that reason. */
int spec_refuse(struct word what, const char *why, struct err *err);
/* Sets the PMU and what follows from it. P09 when nothing of it can be counted. */
int spec_use(struct spec *spec, struct pmu *pmu, struct word what, struct err *err);
/* The core PMU, or P09 saying why there is none. */
int spec_use_core(struct spec *spec, struct word what, struct err *err);
/* Modifiers: "u", "k", "uk", "up", "ppp", "P", also separated by ':'. Empty is fine. */
int spec_modifiers(struct spec *spec, struct word text, struct word what, struct err *err);
/* Is it letters that spec_modifiers() takes? */
bool spec_is_modifier(struct word part);
/* A mode that is not said while the other is, is off. */
void spec_one_mode(struct spec *spec);
/* CS03 for what is a setting or a target here (period, cpu, G); -ENOENT: it is none of these. */
int spec_part_elsewhere(struct word part, struct err *err);
/* Puts the code of a kernel event file, replacing what was there. False: it leaves a field open. */
bool terms_put_event(struct spec *spec, const struct pmu_event *event);

/* qualifier.c: hwpmc's behind a spelling: ,usr ,os ,edge ,inv ,any ,cmask=N ,umask=N ,rsp=N
 * ,precise. */

/* Splits text at the first comma that is no separator of terms. */
struct word qualifiers_split(struct word text, struct word *qualifiers);
/* "precise" or "precise=LEVEL"; false: something else, or no such level. */
bool qualifier_precise(struct word word, uint64_t *level);
/* The unit masks of umask=a+b, rsp=a+b, which belong to the name; empty: none. */
struct word qualifiers_masks(struct word text);
/* Onto a parsed spec, all but those. CS03 unknown or out of place, CS04 value, E35 the class lacks
 * it. */
int qualifiers_apply(struct spec *spec, struct word text, struct err *err);

/* resolve.c: a spelling without its rows. 0 means that it is one of this machine. */
int spec_parse(struct backend_state *state, const char *text, struct spec *spec, struct err *err);
/* spec_event.c: the rights that follow from what it counts. */
void spec_finish(struct spec *spec);
/* The same, and 0 or -errno of opening it, disabled, on this thread or its CPU. */
int spec_try(struct spec *spec);
