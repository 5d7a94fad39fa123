/*
 * Parsing of event spellings. Each kind of spelling has a parser that fills a struct spec; spec.c
 * chooses the parser and applies modifiers and qualifiers.
 */
#pragma once

#include "backends/perf/probe/open.h"
#include "backends/perf/probe/pmu.h"
#include "backends/perf/state.h"

#include "core/base/event.h"

enum {
    SPELLING_MAX = 512,
    RESOLVED_MAX = 2 * SPELLING_MAX + 128, /* longer than any canonical form or part of it */
    PRECISE_MAX = 3,
    PRECISE_MOST = 4 /* modifier P: the highest level of the PMU */
};

/* Whether user mode and kernel mode can be counted separately. */
enum spec_split {
    SPLIT_ALWAYS,
    SPLIT_WITH_MODIFIER, /* only if the spelling has a modifier; both modes otherwise (page faults)
                          */
    SPLIT_KERNEL, /* no: the event happens in the kernel, and user mode would always read 0 */
    SPLIT_NEVER   /* no: the value is the same with every modifier (clocks, msr) */
};

struct spec {
    struct backend_state *state;
    struct pmu *pmu;
    enum spec_split split;
    const char *const *raw_names; /* kernel event files with the code of a generic event, or NULL */
    char resolved[RESOLVED_MAX];
    struct event event; /* its strings and rows are not set */
};

/* ---- parsers ----
 * A parser takes the part of *text that it understands and leaves the modifiers after it. It
 * returns 0, -ENOENT without a sentence if the spelling is of another kind, or another error with a
 * sentence.
 */

/* A generic name, also after "generic/". CS01, P09. */
int generic_parse(struct spec *spec, struct word *text, struct err *err);
/* A breakpoint: mem:0xADDRESS[/LENGTH][:rwx]. CS01 address, CS03 access, CS04 length, P09. */
int breakpoint_parse(struct spec *spec, struct word *text, struct err *err);
/* pmu/term=value,…/. X06 PMU, CS01 event, CS03 term, CS04 value, P09. */
int terms_parse(struct spec *spec, struct word *text, struct err *err);
/* A raw code, rNNN in hexadecimal. CS04, P09. */
int raw_parse(struct spec *spec, struct word *text, struct err *err);
/* SYSTEM:NAME, if tracefs has SYSTEM. CS01, P09. */
int tracepoint_parse(struct spec *spec, struct word *text, struct err *err);
/* The name of a kernel event file of a core PMU or of msr. CS03: it needs a value. */
int terms_parse_bare(struct spec *spec, struct word *text, struct err *err);
/* An event of this processor in libpfm4's tables, with its modifiers. CS03, CS04, P09. */
int pfm_parse(struct spec *spec, struct word *text, struct err *err);
/* Refuses every spelling: reports which part of it is wrong, with near misses. CS01, X06, P09. */
int unknown_event(struct spec *spec, struct word *text, struct err *err);

/* Refuses the names of values that perf measures itself, such as duration_time, and names the file
 * or program that has them. CS01, or -ENOENT for other names. */
int unknown_perf_own(struct word name, struct err *err);

/* ---- helpers of the parsers (spec.c) ---- */

/* Removes the prefix from *text and returns true if *text starts with it. Case is ignored, and '-',
 * '_' and '.' are equal. */
bool prefix_remove(struct word *text, const char *prefix);
/* Appends to the canonical form. */
void spec_append(struct spec *spec, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Refuses with P09: the event exists but cannot be counted here, for this reason. */
int spec_refuse(struct word what, const char *why, struct err *err);
/* Sets the PMU (NULL: the kernel does not have it) and the fields that depend on it. what: the
 * spelling, for the sentence. P09 if the PMU cannot count here. */
int spec_use(struct spec *spec, struct pmu *pmu, struct word what, struct err *err);
/* Sets the core PMU. P09 with the reason if there is none. */
int spec_use_core(struct spec *spec, struct word what, struct err *err);
/* Applies modifiers: "u", "k", "uk", "up", "ppp", "P", also separated by ':'. May be empty. what:
 * the event, for the sentence. CS03. */
int spec_modifiers(struct spec *spec, struct word text, struct word what, struct err *err);
/* Returns true if all letters of the part are u, k, p or P, or if it is empty. */
bool is_modifier(struct word part);
/* If only one of user and kernel mode was written, switches the other off. */
void spec_disable_other_mode(struct spec *spec);
/* Refuses, with CS03, a term or modifier of other tools that is a setting or target of pmcfs
 * (period, cpu) or that pmcfs does not offer (G). Returns -ENOENT for other words. */
int spec_refuse_setting(struct word part, struct err *err);
/* Resolves a spelling, without its rows and rights. Returns 0, or an error of perf_resolve(). Does
 * not check that the kernel can open the event, except for presets of PAPI and, on a hybrid
 * processor, generic hardware events. */
int spec_parse(struct backend_state *state, const char *text, struct spec *spec, struct err *err);
/* Sets the rights that the event needs, then opens it, disabled, on a thread of the daemon or on a
 * CPU of the PMU; for class `generic`, on each core PMU. Returns 0 or -errno. */
int spec_try(struct spec *spec);

/* ---- terms.c ---- */

/* Applies the terms of a kernel event file; unknown fields are skipped. Returns false if a field is
 * left open ("core=?"). */
bool terms_put_event(struct spec *spec, const struct pmu_event *event);

/* ---- qualifier.c: hwpmc's qualifiers such as ,usr ,edge ,cmask=N (the table there has all) */

/* Splits text at the first comma that does not separate terms between slashes. Returns the text
 * before it; *qualifiers: the text after it, or "". */
struct word qualifiers_split(struct word text, struct word *qualifiers);
/* Returns true and sets *level for "precise" (level 1) and "precise=LEVEL" with a valid level. */
bool qualifier_precise(struct word word, uint64_t *level);
/* Returns the unit mask names of the first qualifier that has names instead of a number, such as
 * umask=a+b, mask=a+b or rsp=a+b, or "". They belong to the event name. */
struct word qualifiers_masks(struct word text);
/* Applies all qualifiers except unit mask names to a parsed spec. CS03 unknown, CS04 value, E35 the
 * PMU lacks it or the event cannot have it. */
int qualifiers_apply(struct spec *spec, struct word text, struct err *err);

/* ---- generic.c: names that are the same on every host ---- */

struct generic {
    const char *name;
    const char *aliases[4]; /* this list and the next two end with NULL */
    uint32_t type;          /* PERF_TYPE_MAX: a PAPI preset, served by one of its candidates */
    uint64_t config;
    enum spec_split split;
    const char *why_zero;      /* why the event would always read 0 here, or NULL */
    const char *raw_names[3];  /* kernel event files with the processor's code of this event */
    const char *candidates[5]; /* spellings that may serve a preset, best first */
    const char *description;
};

/* Ends with a row without a name. */
extern const struct generic generics[];
/* Finds a generic event by name or alias ("PERF_COUNT_…" included), or returns NULL. */
const struct generic *generic_find(struct word name);
const struct generic *generic_by_code(uint32_t type, uint64_t config);
/* Finds the generic event whose code is in the kernel event file of this name, or returns NULL. */
const struct generic *generic_by_file(const char *file);
/* Returns true for a hardware event with a number of the kernel's, not for presets of PAPI. */
bool generic_is_hardware(const struct generic *generic);
/* Offers every name and alias. */
void generic_offer_names(struct near *near);
/* Replaces an event of class `generic` by that of the first core PMU that has it. Needed if a core
 * PMU lacks the event, and for qualifiers, whose bits differ. Other events are unchanged. */
void generic_narrow(struct spec *spec);
/* Puts the code into spec, whose PMU is already set. Does not write the canonical form. */
void generic_fill_event(struct spec *spec, const struct generic *generic);
/* Sets the PMU, the code and the canonical form. For a preset of PAPI replaces *spec by that of the
 * first candidate that can be opened. P09. */
int generic_use(struct spec *spec, const struct generic *generic, struct err *err);

/* ---- lists for events/: each adds the events that this host can count ---- */

void generic_add_all(struct backend_state *state, struct catalog *out);
void tracepoint_add_all(struct backend_state *state, struct catalog *out);
void pfm_add_all(struct backend_state *state, struct catalog *out);

/* ---- pfm.c: libpfm4's tables of processors' own events ---- */

/* Returns true if libpfm4 has this event for a PMU that this host does not have. */
bool pfm_other_processor_has(struct word text);
/* Returns true if libpfm4 has a PMU of this name. Offers the names of all PMUs. */
bool pfm_has_pmu(struct word name, struct near *near);
/* Finds an event of libpfm4 that can be opened on this PMU, and writes its spelling "pmu::EVENT",
 * with the first unit mask that completes it if it needs one. Returns false if there is none. */
bool pfm_spelling(struct backend_state *state, const struct pmu *class, const char *event,
                  char name[SPELLING_MAX]);
/* Appends the description (one line) and the lines "umask NAME text" and "attr NAME type text" of a
 * spelling from pfm_spelling(). */
void pfm_describe(const char *spelling, struct buf *description, struct buf *attributes);
