/*
 * Which spelling is it, and what does it mean?
 */
#include "backends/perf/names/names.h"
#include "backends/perf/names/spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Asked in this order. */
static int (*const spellings[])(struct spec *spec, struct word *text, struct err *err) = {
    generic_parse,    /* cycles, page-faults, PERF_COUNT_HW_CPU_CYCLES, generic/tot_ins */
    breakpoint_parse, /* mem:0x1234:rw */
    terms_parse,      /* msr/tsc/ */
    raw_parse,        /* r01c2 */
    tracepoint_parse, /* sched:sched_switch */
    terms_parse_bare, /* the processor's own: the kernel's files first; tsc */
    pfm_parse,        /* INST_RETIRED:ANY_P */
    unknown_event,    /* says what is wrong */
};

static int parse_spelling(struct spec *spec, struct word text, struct err *err)
{
    struct word rest;
    int rc = -ENOENT;

    /* libpfm4's ways to write the kernel's own names and tracepoints, and numbers. */
    if (!spec_prefix(&text, "perf_raw::"))
        spec_prefix(&text, "perf::");
    for (size_t i = 0; rc == -ENOENT; i++) {
        rest = text;
        rc = spellings[i](spec, &rest, err);
    }
    return rc ? rc : spec_modifiers(spec, rest, text, err);
}

/* What the modifiers ask for must be something the event can tell. */
static int check_split(const struct spec *spec, struct word text, struct err *err)
{
    bool user = spec->event.user == SAID_ON, kernel = spec->event.kernel == SAID_ON;

    if (user == kernel)
        return 0;
    if (spec->split == SPLIT_KERNEL && user)
        return err_set(err, CS03,
                       "\"" WORD_FMT "\" happens in the kernel: counted in user mode alone it "
                       "would always read 0; write %s, which counts it whole",
                       WORD_ARG(text), spec->resolved);
    if (spec->split == SPLIT_NEVER)
        return err_set(err, CS03,
                       "\"" WORD_FMT "\" cannot tell user from kernel mode: it would count the "
                       "whole; write %s%s",
                       WORD_ARG(text), spec->resolved,
                       spec->event.sampling ? ", and to sample one mode user=off or kernel=off"
                                            : "");
    return 0;
}

/* Samples that stand where their event was: where the PMU has them, up to its highest level. */
static int check_precise(struct spec *spec, struct err *err)
{
    const unsigned most = spec->pmu->kind == PMU_CORE ? spec->pmu->precise : 0;
    uint64_t *precise = &spec->event.code[CODE_PRECISE];

    if (!*precise)
        return 0;
    if (!most)
        return err_set(err, P09,
                       "precise samples of \"%s\" are not to be had here: %s has none "
                       "(caps/max_precise)",
                       spec->resolved, spec->pmu->name);
    if (*precise == PRECISE_MOST)
        *precise = most < PRECISE_MAX ? most : PRECISE_MAX;
    if (*precise > most)
        return err_set(err, P09,
                       "precise samples of level %u of \"%s\" are not to be had here: %s has "
                       "levels up to %u (caps/max_precise)",
                       (unsigned)*precise, spec->resolved, spec->pmu->name, most);
    spec_say(spec, ",precise=%u", (unsigned)*precise);
    return 0;
}

static int check_form(struct word whole, struct word head, struct err *err)
{
    const struct word said = head.len > 0 && head.p[head.len - 1] == ':' ? head : whole;
    const char last = said.len > 0 ? said.p[said.len - 1] : 0;

    if (head.len == 0)
        return err_set(err, CS01, "an event without a name");
    if (whole.len >= SPELLING_MAX)
        return err_set(err, CS01, "an event's spelling has at most %d bytes", SPELLING_MAX - 1);
    if (word_part(whole, "*?[").len < whole.len)
        return err_set(err, CS01,
                       "\"" WORD_FMT "\" is a pattern, and patterns (globs) are not supported: "
                       "write each event by its name, as events/ lists them",
                       WORD_ARG(whole));
    if (last == ':' || last == ',')
        return err_set(err, CS03, "nothing stands behind the last '%c' of \"" WORD_FMT "\"", last,
                       WORD_ARG(said));
    return 0;
}

int spec_parse(struct backend_state *state, const char *text, struct spec *spec, struct err *err)
{
    struct word qualifiers, whole = {text, strlen(text)};
    struct word head = qualifiers_split(whole, &qualifiers), masks = qualifiers_masks(qualifiers);
    char name[2 * SPELLING_MAX];

    *spec = (struct spec){.state = state, .event.scale = 1};
    int rc = check_form(whole, head, err);
    if (rc < 0)
        return rc;
    int len = snprintf(name, sizeof(name), "%.*s%s%.*s", (int)head.len, head.p,
                       masks.len > 0 ? ":" : "", (int)masks.len, masks.p);
    for (int i = (int)head.len; i < len; i++)
        if (name[i] == '+')
            name[i] = ':';
    rc = parse_spelling(spec, (struct word){name, (size_t)len}, err);
    if (rc == 0)
        rc = qualifiers_apply(spec, qualifiers, err);
    if (rc == 0)
        rc = check_precise(spec, err);
    return rc < 0 ? rc : check_split(spec, head, err);
}

int perf_resolve(struct backend_state *state, const char *text, struct event *out, struct err *err)
{
    struct spec spec;
    int rc = spec_parse(state, text, &spec, err);

    *out = (struct event){.needs_kernel = spec.event.needs_kernel};
    if (rc < 0)
        return rc;
    spec_finish(&spec);
    *out = spec.event;
    out->written = strdup(text);
    out->resolved = strdup(spec.resolved);
    if (out->written && out->resolved)
        return 0;
    event_clear(out);
    return err_nomem(err);
}
