/*
 * What the parsers of spellings share: the PMU of an event, modifiers.
 */
#include "backends/perf/names/spec.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool spec_prefix(struct word *text, const char *prefix)
{
    size_t len = strlen(prefix);

    if (text->len < len || !word_alike((struct word){text->p, len}, prefix, true))
        return false;
    *text = word_from(*text, len);
    return true;
}

void spec_say(struct spec *spec, const char *format, ...)
{
    size_t used = strlen(spec->resolved);
    va_list args;

    va_start(args, format);
    vsnprintf(spec->resolved + used, sizeof(spec->resolved) - used, format, args);
    va_end(args);
}

int spec_refuse(struct word what, const char *why, struct err *err)
{
    return err_set(err, P09, "\"" WORD_FMT "\" cannot be counted here: %s", WORD_ARG(what), why);
}

int spec_use(struct spec *spec, struct pmu *pmu, struct word what, struct err *err)
{
    if (!pmu || pmu->why[0])
        return spec_refuse(what, pmu ? pmu->why : "the kernel has no such PMU", err);
    spec->pmu = pmu;
    spec->split = pmu->kind == PMU_TRACEPOINT    ? SPLIT_KERNEL
                  : pmu->capabilities & CAP_USER ? SPLIT_ALWAYS
                                                 : SPLIT_NEVER;
    spec->event.class_index = pmu->class_index;
    spec->event.scope = !(pmu->flags & CODE_CPU_ONLY) ? EVENT_PROCESS | EVENT_CPU
                        : pmu->package                ? EVENT_CPU | EVENT_PACKAGE
                                                      : EVENT_CPU;
    spec->event.sampling = pmu->capabilities & CAP_INTERRUPT;
    spec->event.code[CODE_TYPE] = pmu->type;
    spec->event.code[CODE_FLAGS] = pmu->flags;
    return 0;
}

int spec_use_core(struct spec *spec, struct word what, struct err *err)
{
    struct pmu *core = pmus_core(spec->state->pmus);

    return core ? spec_use(spec, core, what, err)
                : spec_refuse(what, spec->state->pmus->no_core, err);
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

/* One letter of the modifier part. */
static int take_letter(struct event *event, const char *letter, struct word part, struct word what,
                       struct err *err)
{
    uint64_t *precise = &event->code[CODE_PRECISE];

    switch (*letter) {
    case 'u':
    case 'U':
        event->user = SAID_ON;
        return 0;
    case 'k':
    case 'K':
        event->kernel = SAID_ON;
        return 0;
    case 'P':
        *precise = PRECISE_MOST;
        return 0;
    case 'p':
        if ((*precise)++ < PRECISE_MAX)
            return 0;
        return err_set(err, CS03,
                       "modifier \"" WORD_FMT "\" of \"" WORD_FMT "\": precise "
                       "levels are p, pp, ppp, or P, the highest there is",
                       WORD_ARG(part), WORD_ARG(what));
    default:
        break;
    }
    int rc = part.len <= 3 ? spec_part_elsewhere((struct word){letter, 1}, err) : -ENOENT;
    return rc != -ENOENT ? rc
                         : err_set(err, CS03,
                                   "no modifier \"" WORD_FMT "\" behind \"" WORD_FMT "\": u (user "
                                   "mode), k (kernel mode), p, pp, ppp (precise samples)",
                                   WORD_ARG(part), WORD_ARG(what));
}

int spec_modifiers(struct spec *spec, struct word text, struct word what, struct err *err)
{
    struct word rest;
    int rc = 0;

    for (; rc == 0 && text.len > 0; text = rest) {
        struct word part = word_until(text, ':', &rest);
        for (size_t i = 0; rc == 0 && i < part.len; i++)
            rc = take_letter(&spec->event, &part.p[i], part, what, err);
    }
    if (rc == 0)
        spec_one_mode(spec);
    return rc;
}

void spec_one_mode(struct spec *spec)
{
    struct event *event = &spec->event;

    if (event->user == SAID_ON && event->kernel != SAID_ON)
        event->kernel = SAID_OFF;
    if (event->kernel == SAID_ON && event->user != SAID_ON)
        event->user = SAID_OFF;
}
