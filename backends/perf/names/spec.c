/*
 * What the parsers of spellings share: the PMU of an event, modifiers.
 */
#include "backends/perf/names/spec.h"

#include <errno.h>
#include <string.h>

bool spec_prefix(struct word *text, const char *prefix)
{
    size_t len = strlen(prefix);

    if (text->len < len || !word_alike((struct word){text->p, len}, prefix, true))
        return false;
    *text = word_from(*text, len);
    return true;
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
    spec->split = pmu->capabilities & CAP_USER ? SPLIT_ALWAYS : SPLIT_NEVER;
    spec->sampling = pmu->capabilities & CAP_INTERRUPT;
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

/* What perf, libpfm4 and PAPI take as a part of an event. */
static const struct {
    const char *name, *instead;
} elsewhere[] = {
    {"period", "is the setting period=N"},
    {"freq", "is the setting freq=N"},
    {"call-graph", "is the setting callchain=on"},
    {"inherit", "is the setting descendants=on"},
    {"cpu", "is a target: cpuN"},
    {"pinned", "is always so, unless multiplex=on"},
    {"D", "is always so, unless multiplex=on"},
    {"W", "is multiplex=on here"},
    {"S", "is always so: samples hold their own event"},
    {"excl", "is not offered: other users of the counters would starve"},
    {"hw_smpl", "cannot be chosen"},
    {"mg", "cannot be chosen: guests are never counted"},
    {"G", "cannot be chosen: guests are never counted"},
    {"mh", "cannot be chosen: the host alone is always counted"},
    {"H", "cannot be chosen: the host alone is always counted"},
    {"h", "cannot be told apart: hypervisor mode is counted with the kernel's"},
};

int spec_part_elsewhere(struct word part, struct err *err)
{
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
        if (word_is(part, elsewhere[i].name))
            return err_set(err, CS03, "\"%s\" is no part of an event: it %s", elsewhere[i].name,
                           elsewhere[i].instead);
    return -ENOENT;
}

bool spec_is_modifier(struct word part)
{
    return strspn(part.p, "ukpP") >= part.len;
}

/* One modifier between two colons: letters of u, k and p. */
static int take_modifier(struct spec *spec, struct word part, struct word what, struct err *err)
{
    for (size_t i = 0; i < part.len; i++) {
        char letter = part.p[i];
        if (letter == 'u' || letter == 'U') {
            spec->user = SAID_ON;
        } else if (letter == 'k' || letter == 'K') {
            spec->kernel = SAID_ON;
        } else if (letter == 'p' && spec->precise < PRECISE_MAX) {
            spec->precise++;
        } else if (letter == 'P' && !spec->precise) {
            spec->precise = PRECISE_MOST;
        } else if (letter == 'p' || letter == 'P') {
            return err_set(err, CS03,
                           "modifier \"" WORD_FMT "\" of \"" WORD_FMT "\": precise "
                           "levels are p, pp, ppp, or P, the highest there is",
                           WORD_ARG(part), WORD_ARG(what));
        } else {
            int rc = part.len <= 3 ? spec_part_elsewhere((struct word){&letter, 1}, err) : -ENOENT;
            return rc != -ENOENT
                       ? rc
                       : err_set(err, CS03,
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
    if (rc == 0)
        spec_one_mode(spec);
    return rc;
}

void spec_one_mode(struct spec *spec)
{
    if (spec->user == SAID_ON && spec->kernel != SAID_ON)
        spec->kernel = SAID_OFF;
    if (spec->kernel == SAID_ON && spec->user != SAID_ON)
        spec->user = SAID_OFF;
}
