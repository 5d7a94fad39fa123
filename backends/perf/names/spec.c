/*
 * What the parsers of spellings share: the PMU of an event, modifiers.
 */
#include "backends/perf/names/spec.h"

#include <string.h>

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
    /* A mode that is not said while the other is, is off. */
    if (rc == 0 && spec->user != spec->kernel) {
        spec->user = spec->user == SAID_ON ? SAID_ON : SAID_OFF;
        spec->kernel = spec->kernel == SAID_ON ? SAID_ON : SAID_OFF;
    }
    return rc;
}
