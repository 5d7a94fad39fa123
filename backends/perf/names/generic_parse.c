/*
 * From a generic name to what it means here: a number of the kernel's, or the first of a preset's
 * candidates that counts.
 */
#include "backends/perf/names/sources.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

void generic_put(struct spec *spec, const struct generic *generic)
{
    struct event *event = &spec->event;

    event->code[CODE_TYPE] = generic->type;
    event->code[CODE_CONFIG] = generic->config;
    if (spec->pmu->extended)
        event->code[CODE_CONFIG] |= (uint64_t)spec->pmu->type << 32;
    spec->split = generic->split;
    spec->raw_names = generic->raw_names;
    snprintf(event->generic, sizeof(event->generic), "%s", generic->name);
    if (generic->split == SPLIT_NEVER)
        snprintf(event->unit, sizeof(event->unit), "ns");
}

/* Parses one candidate and opens it; true when it counts here. */
static bool serves(struct backend_state *state, const char *candidate, struct spec *spec)
{
    struct word text = word_of(candidate);
    const struct generic *generic = generic_find(text);

    *spec = (struct spec){.state = state, .event.scale = 1};
    int rc = generic ? generic_use(spec, generic, NULL) : terms_parse_bare(spec, &text, NULL);
    if (rc == -ENOENT)
        rc = pfm_parse(spec, &text, NULL);
    return rc == 0 && spec_try(spec) == 0;
}

static int preset_use(struct spec *spec, const struct generic *preset, struct err *err)
{
    struct backend_state *state = spec->state;
    const char *why = state->pmus->no_core;

    for (const char *const *name = preset->candidates; !why[0] && *name; name++)
        if (serves(state, *name, spec))
            return 0;
    return err_set(err, P09, "%s (%s) cannot be counted here: %s", preset->name,
                   preset->description,
                   why[0] ? why : "no single event of this processor is known to serve it");
}

int generic_use(struct spec *spec, const struct generic *generic, struct err *err)
{
    struct word what = word_of(generic->name);

    if (generic->type == PERF_TYPE_MAX)
        return preset_use(spec, generic, err);
    int rc = generic_is_hardware(generic)
                 ? spec_use_core(spec, what, err)
                 : spec_use(spec, pmus_kind(spec->state->pmus, PMU_SOFTWARE), what, err);
    if (rc == 0 && generic->never)
        rc = spec_refuse(what, generic->never, err);
    if (rc < 0)
        return rc;
    generic_put(spec, generic);
    /* Where there are several kinds of cores the name says which. */
    if (spec->pmu->extended)
        spec_say(spec, "%s/%s/", spec->pmu->name, generic->name);
    else
        spec_say(spec, "%s", generic->name);
    return 0;
}

int generic_parse(struct spec *spec, struct word *text, struct err *err)
{
    const bool meant = spec_prefix(text, "generic/");
    const bool slash = meant && memchr(text->p, '/', text->len);
    struct word name = word_until(*text, slash ? '/' : ':', text);
    const struct generic *generic = generic_find(name);
    struct near near;

    if (generic)
        return generic_use(spec, generic, err);
    if (generic_is_unserved(name))
        return spec_refuse(name,
                           "no single event of any processor is known to serve this preset of "
                           "PAPI's",
                           err);
    if (!meant)
        return -ENOENT;
    near_init(&near, name);
    generic_near(&near);
    return err_set(err, CS01,
                   "no generic event \"" WORD_FMT
                   "\"%s; events/generic lists what this machine has",
                   WORD_ARG(name), near_text(&near));
}

void generic_list(struct backend_state *state, struct catalog *out)
{
    struct spec spec;

    for (const struct generic *generic = generics; generic->name; generic++)
        if (serves(state, generic->name, &spec))
            catalog_add(out, "generic", generic->name);
}
