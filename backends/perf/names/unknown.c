/*
 * A name that no source of names has: what was meant, and which names are like it.
 */
#include "backends/perf/names/unknown.h"

#include "backends/perf/names/generic.h"
#include "backends/perf/names/papi.h"
#include "backends/perf/names/pfm.h"
#include "backends/perf/names/tracepoint.h"
#include "backends/perf/probe/tracefs.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

enum {
    NEAR_LEAST = 3 /* what is like a shorter word was hardly meant */
};

/* Shapes that say what was meant, though it is wrong. */
static int unknown_shape(struct word text, struct word head, struct err *err)
{
    if (text.len > 6 && word_is((struct word){text.p, 6}, "event="))
        return err_set(err, CS01,
                       "event= belongs into config; here stands the event alone: " WORD_FMT,
                       WORD_ARG(((struct word){text.p + 6, text.len - 6})));
    if (word_alike(head, "mem", false))
        return err_set(err, CS01, "\"" WORD_FMT "\" has no address: mem:0xADDRESS[/LENGTH][:rwx]",
                       WORD_ARG(text));
    if (head.len > 1 && head.p[0] == 'r' && isdigit((unsigned char)head.p[1]))
        return err_set(err, CS01,
                       "no event \"" WORD_FMT
                       "\" on this machine; a raw number is r and at most 16 "
                       "hexadecimal digits",
                       WORD_ARG(text));
    return -ENOENT;
}

/* An event that libpfm4 has under another PMU, or its PMU's name misspelt: "pmu::event". */
static int unknown_elsewhere(struct spec *spec, struct word text, struct word head, bool has_pmu,
                             struct err *err)
{
    struct near near;

    if (pfm_elsewhere(text)) {
        if (spec->state->pmus->no_core[0])
            return spec_use_core(spec, text, err);
        return err_set(err, CS01,
                       "\"" WORD_FMT "\" is an event of other processors, not of this one",
                       WORD_ARG(text));
    }
    near_init(&near, head);
    if (!has_pmu || pfm_has_pmu(head, &near))
        return -ENOENT;
    return err_set(err, X06, "no PMU \"" WORD_FMT "\" in libpfm4's tables%s", WORD_ARG(head),
                   near_text(&near));
}

/* Every name that could stand before ':' or alone. */
static void near_events(struct spec *spec, struct near *near)
{
    struct pmus *pmus = spec->state->pmus;
    char full[SPELLING_MAX];

    generic_near(near);
    for (unsigned i = 0; i < pmus->n; i++) {
        struct pmu *pmu = &pmus->list[i];
        if (!pmu_is_here(pmu))
            continue;
        pmu_load(pmus, pmu);
        for (unsigned e = 0; e < pmu->events.n; e++) {
            if (pmu->kind == PMU_CORE)
                snprintf(full, sizeof(full), "%s", pmu->events.items[e].name);
            else
                snprintf(full, sizeof(full), "%s/%s/", pmu->name, pmu->events.items[e].name);
            near_offer(near, full);
        }
    }
    pfm_near(near);
    papi_near(near);
}

static int say_unknown(struct spec *spec, struct word name, struct near *near, struct err *err)
{
    const char *no_core = spec->state->pmus->no_core;

    return err_set(
        err, CS01, "no event \"" WORD_FMT "\" on this machine%s%s", WORD_ARG(name), near_text(near),
        near->n == 0 && no_core[0]
            ? "; it has no hardware counters, so no processor's own name is known (info/backend)"
            : "");
}

/*
 * GROUP:NAME, which is no event. To be told that it is no tracepoint is for users that may count
 * them; a misspelt event of the processor is told to everybody.
 */
static int unknown_tracepoint(struct spec *spec, struct word text, struct near *near,
                              struct err *err)
{
    struct word rest, mods, group = word_until(text, ':', &rest),
                            name = word_until(rest, ':', &mods);
    bool found;
    const char *where = tracefs_where(spec->state, &found);

    spec->needs_kernel = near->n == 0 || near->best[0].distance > group.len / 3;
    near->word = text;
    tracepoint_near(spec->state, near);
    near->word = group;
    if (near->n == 0)
        tracepoint_near_systems(spec->state, near);
    if (near->n == 0 && !found)
        return err_set(err, P09,
                       "\"" WORD_FMT "\" is no event of the processor; a tracepoint cannot be "
                       "looked up, for %s",
                       WORD_ARG(text), where);
    return err_set(err, CS01,
                   "no tracepoint \"" WORD_FMT "\" in group \"" WORD_FMT
                   "\" is defined, and no event \"" WORD_FMT "\" on this machine%s",
                   WORD_ARG(name), WORD_ARG(group), WORD_ARG(group), near_text(near));
}

int unknown_event(struct spec *spec, struct word text, struct err *err)
{
    struct word rest, behind, head = word_until(text, ':', &rest);
    bool has_pmu = rest.len > 1 && rest.p[0] == ':';
    struct word name =
        has_pmu ? word_until((struct word){rest.p + 1, rest.len - 1}, ':', &behind) : head;
    struct near near;
    int rc = unknown_shape(text, head, err);

    if (rc == -ENOENT)
        rc = unknown_elsewhere(spec, text, head, has_pmu, err);
    if (rc != -ENOENT)
        return rc;
    near_init(&near, name);
    if (name.len >= NEAR_LEAST)
        near_events(spec, &near);
    if (!has_pmu && !spec_is_modifier(word_until(rest, ':', &behind)))
        return unknown_tracepoint(spec, text, &near, err);
    near.word = text;
    if (text.len >= NEAR_LEAST && !has_pmu)
        tracepoint_near(spec->state, &near);
    near.word = name;
    return say_unknown(spec, name, &near, err);
}
