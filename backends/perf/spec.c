/*
 * Which spelling is it; and from what it means to the struct event that the engine keeps.
 */
#include "backends/perf/spec.h"

#include "backends/perf/breakpoint.h"
#include "backends/perf/catalog.h"
#include "backends/perf/code.h"
#include "backends/perf/generic.h"
#include "backends/perf/needs.h"
#include "backends/perf/papi.h"
#include "backends/perf/pfm.h"
#include "backends/perf/probe.h"
#include "backends/perf/qualifier.h"
#include "backends/perf/terms.h"
#include "backends/perf/tracepoint.h"
#include "backends/perf/why.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word word_until(struct word text, char c, struct word *rest)
{
    const char *at = text.len > 0 ? memchr(text.p, c, text.len) : NULL;
    size_t len = at ? (size_t)(at - text.p) : text.len;

    *rest = at ? (struct word){at + 1, text.len - len - 1} : (struct word){text.p + len, 0};
    return (struct word){text.p, len};
}

struct word word_from(struct word text, size_t at)
{
    at = at < text.len ? at : text.len;
    return (struct word){text.p + at, text.len - at};
}

struct word word_part(struct word text, const char *ends)
{
    size_t len = 0;

    while (len < text.len && !strchr(ends, text.p[len]))
        len++;
    return (struct word){text.p, len};
}

int spec_use(struct spec *spec, struct pmu *pmu, struct word what, struct err *err)
{
    if (!pmu)
        return err_set(err, P09,
                       "\"" WORD_FMT "\" cannot be counted here: the kernel has no such PMU",
                       WORD_ARG(what));
    if (pmu->why[0])
        return err_set(err, P09, "\"" WORD_FMT "\" cannot be counted here: %s", WORD_ARG(what),
                       pmu->why);
    spec->pmu = pmu;
    spec->type = pmu->type;
    spec->split = pmu->kind == PMU_CORE || pmu->kind == PMU_SOFTWARE || pmu->kind == PMU_BREAKPOINT
                      ? SPLIT_ALWAYS
                      : SPLIT_NEVER;
    spec->sampling = pmu->kind == PMU_CORE
                         ? pmu->interrupt
                         : pmu->kind == PMU_TRACEPOINT || pmu->kind == PMU_BREAKPOINT;
    return 0;
}

int spec_use_core(struct spec *spec, struct word what, struct err *err)
{
    struct pmu *core = pmus_core(spec->state->pmus);

    if (!core)
        return err_set(err, P09, "\"" WORD_FMT "\" cannot be counted here: %s", WORD_ARG(what),
                       spec->state->pmus->no_core);
    return spec_use(spec, core, what, err);
}

bool spec_is_modifier(struct word part)
{
    return strspn(part.p, "ukpP") >= part.len;
}

/* One modifier between two colons: letters of u, k and p. */
static int take_modifier(struct spec *spec, struct word part, struct word what, struct err *err)
{
    static const struct {
        char letter;
        const char *why;
    } others[] = {
        {'h', "hypervisor mode is counted with the kernel's"},
        {'G', "guests are never counted"},
        {'H', "the host alone is always counted"},
        {'D', "hardware events are always pinned, unless multiplex=on"},
        {'S', "samples hold their own event"},
        {'W', "weak groups are multiplex=on here"},
    };

    for (size_t i = 0; i < part.len; i++) {
        char letter = part.p[i];
        if (letter == 'u' || letter == 'U') {
            spec->user = SAID_ON;
        } else if (letter == 'k' || letter == 'K') {
            spec->kernel = SAID_ON;
        } else if (letter == 'p' && spec->precise < PRECISE_MAX) {
            spec->precise++;
        } else if (letter == 'p' || (letter == 'P' && spec->precise)) {
            return err_set(err, CS03,
                           "modifier \"" WORD_FMT "\" of \"" WORD_FMT "\": precise "
                           "levels are p, pp, ppp, or P, the highest there is",
                           WORD_ARG(part), WORD_ARG(what));
        } else if (letter == 'P') {
            spec->precise = PRECISE_MOST;
        } else {
            for (size_t o = 0; o < sizeof(others) / sizeof(others[0]); o++)
                if (letter == others[o].letter && part.len <= 3)
                    return err_set(err, CS03, "modifier \"%c\" of \"" WORD_FMT "\": %s", letter,
                                   WORD_ARG(what), others[o].why);
            return err_set(err, CS03,
                           "no modifier \"" WORD_FMT "\" behind \"" WORD_FMT "\": u (user "
                           "mode), k (kernel mode), p, pp, ppp (precise samples)",
                           WORD_ARG(part), WORD_ARG(what));
        }
    }
    return 0;
}

int spec_modifiers(struct spec *spec, struct word text, struct word what, struct err *err)
{
    struct word rest;
    int rc = 0;

    for (; rc == 0 && text.len > 0; text = rest)
        rc = take_modifier(spec, word_until(text, ':', &rest), what, err);
    /* What is not said while the other is, is off. */
    if (rc == 0 && spec->user != spec->kernel) {
        spec->user = spec->user == SAID_ON ? SAID_ON : SAID_OFF;
        spec->kernel = spec->kernel == SAID_ON ? SAID_ON : SAID_OFF;
    }
    return rc;
}

/* hwpmc's name of msr/tsc/. */
static int parse_tsc(struct spec *spec, struct word text, struct err *err)
{
    struct word mods;

    if (!word_alike(word_until(text, ':', &mods), "tsc", false))
        return -ENOENT;
    int rc = terms_parse(spec, (struct word){"msr/tsc/", 8}, err);
    return rc < 0 ? rc : spec_modifiers(spec, mods, text, err);
}

static int parse_generic(struct spec *spec, struct word text, struct err *err)
{
    struct word mods;
    const struct generic *generic = generic_find(word_until(text, ':', &mods));

    return generic ? generic_parse(spec, generic, mods, err) : -ENOENT;
}

/* Asked in this order; -ENOENT: it is another's, and nothing was said. */
static int (*const spellings[])(struct spec *spec, struct word text, struct err *err) = {
    papi_parse,                  /* PAPI_tot_ins, generic/instructions */
    breakpoint_parse,            /* mem:0x1234:rw */
    terms_parse,                 /* msr/tsc/ */
    parse_tsc,        raw_parse, /* r01c2 */
    parse_generic,               /* cycles, page-faults, perf::PERF_COUNT_HW_CPU_CYCLES */
    tracepoint_parse,            /* sched:sched_switch */
    terms_parse_bare, /* the processor's own: the kernel's files first, which are cheap */
    pfm_parse,        papi_parse_bare, catalog_unknown,
};

/* Takes the prefix off the text. */
static bool take_prefix(struct word *text, const char *prefix)
{
    size_t len = strlen(prefix);

    if (text->len <= len || !word_alike((struct word){text->p, len}, prefix, false))
        return false;
    *text = word_from(*text, len);
    return true;
}

static int parse_spelling(struct spec *spec, struct word text, struct err *err)
{
    struct word raw = text;
    int rc = -ENOENT;

    /* libpfm4's ways to write the kernel's own names and tracepoints, and numbers. */
    if (take_prefix(&raw, "perf_raw::"))
        rc = raw_parse(spec, raw, err);
    take_prefix(&text, "perf::");
    for (size_t i = 0; rc == -ENOENT && i < sizeof(spellings) / sizeof(spellings[0]); i++)
        rc = spellings[i](spec, text, err);
    return rc;
}

/* What the modifiers ask for must be something the event can tell. */
static int check_split(const struct spec *spec, struct word text, struct err *err)
{
    bool user = spec->user == SAID_ON, kernel = spec->kernel == SAID_ON;

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
                       spec->sampling ? ", and to sample one mode user=off or kernel=off" : "");
    return 0;
}

/* Samples that stand where their event was: where the PMU has them, up to its highest level. */
static int check_precise(struct spec *spec, bool qualified, struct err *err)
{
    const unsigned most = spec->pmu->kind == PMU_CORE ? spec->pmu->precise : 0;
    const size_t used = strlen(spec->resolved);

    if (!spec->precise)
        return 0;
    if (!most)
        return err_set(err, P09, "precise samples of \"%s\" are not to be had here: %s has none%s",
                       spec->resolved, spec->pmu->name,
                       spec->pmu->kind == PMU_CORE ? " (caps/max_precise)" : "");
    if (spec->precise == PRECISE_MOST)
        spec->precise = most < PRECISE_MAX ? most : PRECISE_MAX;
    if (spec->precise > most)
        return err_set(err, P09,
                       "precise samples of level %u of \"%s\" are not to be had here: %s has "
                       "levels up to %u (caps/max_precise)",
                       spec->precise, spec->resolved, spec->pmu->name, most);
    if (qualified) /* behind which no modifier stands */
        snprintf(spec->resolved + used, sizeof(spec->resolved) - used, ",precise=%u",
                 spec->precise);
    else
        snprintf(spec->resolved + used, sizeof(spec->resolved) - used, ":%.*s", (int)spec->precise,
                 "ppp");
    return 0;
}

int spec_parse(struct backend_state *state, const char *text, struct spec *spec, struct err *err)
{
    struct word qualifier_text, whole = {text, strlen(text)};
    struct word head = qualifiers_split(whole, &qualifier_text);
    struct qualifiers qualifiers;
    char name[2 * SPELLING_MAX];

    *spec = (struct spec){.state = state, .scale = 1};
    if (whole.len == 0 || head.len == 0)
        return err_set(err, CS01, "an event without a name");
    if (whole.len >= SPELLING_MAX)
        return err_set(err, CS01, "an event's spelling has at most %d bytes", SPELLING_MAX - 1);
    if (strpbrk(text, "*?["))
        return err_set(err, CS01,
                       "\"" WORD_FMT "\" is a pattern, and patterns (globs) are not supported: "
                       "write each event by its name, as events/ lists them",
                       WORD_ARG(whole));
    if (head.p[head.len - 1] == ':')
        return err_set(err, CS03, "nothing stands behind the last ':' of \"" WORD_FMT "\"",
                       WORD_ARG(head));
    if (whole.p[whole.len - 1] == ',')
        return err_set(err, CS03, "nothing stands behind the last ',' of \"" WORD_FMT "\"",
                       WORD_ARG(whole));
    int rc = qualifiers_parse(qualifier_text, &qualifiers, err);
    if (rc < 0)
        return rc;
    int len = snprintf(name, sizeof(name), "%.*s%s%.*s", (int)head.len, head.p,
                       qualifiers.umasks.len > 0 ? ":" : "", (int)qualifiers.umasks.len,
                       qualifiers.umasks.len > 0 ? qualifiers.umasks.p : "");
    for (int i = (int)head.len; i < len; i++)
        if (name[i] == '+')
            name[i] = ':';
    rc = parse_spelling(spec, (struct word){name, (size_t)len}, err);
    if (rc == 0)
        rc = qualifiers_apply(spec, &qualifiers, err);
    const bool fields = rc == 0 && strchr(spec->resolved, ',') && !strchr(spec->resolved, '/');
    if (rc == 0)
        rc = check_precise(spec, fields, err);
    return rc < 0 ? rc : check_split(spec, head, err);
}

static uint64_t flags_of(const struct pmu *pmu)
{
    switch (pmu->kind) {
    case PMU_CORE:
        return CODE_HARDWARE | CODE_EXCLUDE_GUEST;
    case PMU_UNCORE:
        return CODE_HARDWARE | CODE_NO_EXCLUDE | CODE_CPU_ONLY;
    case PMU_FREE:
        return CODE_NO_EXCLUDE | CODE_CPU_ONLY;
    case PMU_MSR:
    case PMU_OTHER:
        return CODE_NO_EXCLUDE;
    default:
        return 0;
    }
}

static void fill_event(const struct spec *spec, struct event *event)
{
    const struct pmu *pmu = spec->pmu;
    bool one_mode = spec->user != spec->kernel;

    event->class_index = pmu->class_index;
    event->scope = pmu->kind != PMU_UNCORE && pmu->kind != PMU_FREE ? EVENT_PROCESS | EVENT_CPU
                   : pmu->package                                   ? EVENT_CPU | EVENT_PACKAGE
                                                                    : EVENT_CPU;
    event->sampling = spec->sampling;
    event->whole = spec->split != SPLIT_ALWAYS && !(spec->split == SPLIT_ASKED && one_mode);
    event->needs_kernel = spec->needs_kernel || needs_kernel(spec);
    event->needs_superuser = needs_superuser(spec);
    event->user = spec->user;
    event->kernel = spec->kernel;
    snprintf(event->generic, sizeof(event->generic), "%s", spec->generic ? spec->generic : "");
    memcpy(event->unit, spec->unit, sizeof(event->unit));
    event->scale = spec->scale;
    event->code[CODE_TYPE] = spec->type;
    event->code[CODE_CONFIG] = spec->config[0];
    event->code[CODE_CONFIG1] = spec->config[1];
    event->code[CODE_CONFIG2] = spec->config[2];
    event->code[CODE_CONFIG3] = spec->config[3];
    event->code[CODE_BP_TYPE] = spec->bp_type;
    event->code[CODE_FLAGS] = flags_of(pmu);
    event->code[CODE_PRECISE] = spec->precise;
}

static void attr_of(const struct event *event, struct perf_event_attr *attr)
{
    bool kernel = event->whole || event->needs_kernel || event->kernel == SAID_ON;

    code_to_attr(event, event->user != SAID_OFF, kernel, attr);
}

static struct pmu *pmu_of(const struct backend_state *state, const struct event *event)
{
    struct pmu *pmu = state->pmus->list;

    while (pmu->class_index != event->class_index)
        pmu++;
    return pmu;
}

/* 0 or -errno of opening it, disabled, on this thread or its CPU. Drops exclude_guest if refused.
 */
static int event_try(const struct pmu *pmu, struct event *event)
{
    bool on_cpu = event->code[CODE_FLAGS] & CODE_CPU_ONLY;
    int cpu = on_cpu ? cpus_next(&pmu->cpus, 0) : -1;
    struct perf_event_attr attr;

    attr_of(event, &attr);
    int rc = probe_open(&attr, cpu);
    if ((rc == -EINVAL || rc == -EOPNOTSUPP) && attr.exclude_guest) {
        attr.exclude_guest = 0;
        if (probe_open(&attr, cpu) == 0) {
            event->code[CODE_FLAGS] &= ~(uint64_t)CODE_EXCLUDE_GUEST;
            return 0;
        }
    }
    return rc == -ENOSPC ? 0
                         : rc; /* breakpoints in use by others now: that is for the attach to say */
}

int spec_try(const struct spec *spec, struct event *event)
{
    fill_event(spec, event);
    return event_try(spec->pmu, event);
}

static int say_refused(const struct pmu *pmu, const struct event *event, int rc, struct err *err)
{
    struct perf_event_attr attr;
    struct err said;

    if (rc == -ENOENT && pmu->kind == PMU_CORE)
        return err_set(err, P09,
                       "\"%s\" cannot be counted here: %s of this processor does not have it",
                       event->resolved, pmu->name);
    attr_of(event, &attr);
    why_refused(&said, &(struct why){.code = -rc, .attr = &attr, .event = event->resolved});
    /* What pmcfs itself may not do is, for who asks, not to be had on this machine. */
    return err_set(err, said.id == P14 ? P09 : said.id, "%s", said.text);
}

static void find_rows(struct pmu *pmu, struct event *event)
{
    struct perf_event_attr attr;

    if (pmu->kind != PMU_CORE)
        return;
    code_to_attr(event, true, false, &attr);
    probe_rows(pmu, &attr, &event->rows, &event->rows_needed);
}

int spec_verify(struct backend_state *state, struct event *event, struct err *err)
{
    struct pmu *pmu = pmu_of(state, event);
    int rc = event_try(pmu, event);

#ifndef PERF_ATTR_SIZE_VER8
    if (event->code[CODE_CONFIG3])
        return err_set(err, P09, "\"%s\" needs config3, which this build does not know",
                       event->resolved);
#endif
    if (!pmu_stays(state->pmus, pmu))
        return err_set(err, P09,
                       "\"%s\" cannot be counted here: the driver of %s was unloaded, or loaded "
                       "anew since pmcfs was mounted; mount it again",
                       event->resolved, pmu->name);
    if (rc < 0)
        return say_refused(pmu, event, rc, err);
    find_rows(pmu, event);
    return 0;
}

int spec_resolve(struct backend_state *state, const char *text, struct event *out, struct err *err)
{
    struct event event = {.written = NULL};
    struct spec spec;
    int rc = spec_parse(state, text, &spec, err);

    *out = (struct event){.needs_kernel = spec.needs_kernel};
    if (rc < 0)
        return rc;
    fill_event(&spec, &event);
    event.written = strdup(text);
    event.resolved = strdup(spec.resolved);
    if (!event.written || !event.resolved) {
        event_clear(&event);
        return err_nomem(err);
    }
    *out = event;
    return 0;
}
