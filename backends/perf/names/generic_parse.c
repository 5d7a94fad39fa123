/*
 * From a generic name to what it means here: a number of the kernel's, or the first of a preset's
 * candidates that counts.
 */
#include "backends/perf/names/generic.h"
#include "backends/perf/names/pfm.h"
#include "backends/perf/names/spec_event.h"
#include "backends/perf/names/terms.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

/* Where there are several kinds of cores the name says which: PMU/NAME/. */
void generic_put(struct spec *spec, const struct generic *generic)
{
    bool software = generic->type == PERF_TYPE_SOFTWARE;

    spec->type = generic->type;
    spec->config[0] = generic->config;
    if (spec->pmu->extended)
        spec->config[0] |= (uint64_t)spec->pmu->type << 32;
    spec->split = generic->split;
    spec->generic = generic->name;
    spec->raw_name = generic->raw_names;
    if (software && generic->split == SPLIT_NEVER)
        snprintf(spec->unit, sizeof(spec->unit), "ns");
    if (spec->pmu->extended)
        snprintf(spec->resolved, sizeof(spec->resolved), "%s/%s/", spec->pmu->name, generic->name);
    else
        snprintf(spec->resolved, sizeof(spec->resolved), "%s", generic->name);
}

/* Parses one candidate and opens it; true when it counts here. */
static bool serves(struct backend_state *state, struct word candidate, struct spec *spec)
{
    const struct generic *generic = generic_find(candidate);
    struct event event = {.written = NULL};
    int rc;

    *spec = (struct spec){.state = state, .scale = 1};
    if (generic)
        rc = generic_use(spec, generic, (struct word){"", 0}, NULL);
    else
        rc = terms_parse_bare(spec, candidate, NULL);
    if (rc == -ENOENT)
        rc = pfm_parse(spec, candidate, NULL);
    return rc == 0 && spec_try(spec, &event) == 0;
}

static bool choose(struct backend_state *state, const struct generic *preset, struct spec *spec)
{
    struct scan scan;
    struct word candidate;

    scan_init(&scan, preset->candidates, strlen(preset->candidates));
    while (scan_word(&scan, &candidate))
        if (serves(state, candidate, spec))
            return true;
    return false;
}

static int preset_use(struct spec *spec, const struct generic *preset, struct word rest,
                      struct err *err)
{
    struct backend_state *state = spec->state;
    const char *why = state->pmus->no_core;

    if (!why[0] && choose(state, preset, spec))
        return spec_modifiers(spec, rest, (struct word){preset->name, strlen(preset->name)}, err);
    return err_set(err, P09, "%s (%s) cannot be counted here: %s", preset->name,
                   preset->description,
                   why[0] ? why : "no single event of this processor is known to serve it");
}

int generic_use(struct spec *spec, const struct generic *generic, struct word rest, struct err *err)
{
    struct word what = {generic->name, strlen(generic->name)};
    int rc;

    if (generic->candidates)
        return preset_use(spec, generic, rest, err);
    rc = generic_is_hardware(generic)
             ? spec_use_core(spec, what, err)
             : spec_use(spec, pmus_kind(spec->state->pmus, PMU_SOFTWARE), what, err);
    if (rc < 0)
        return rc;
    if (generic->never)
        return err_set(err, P09, "\"%s\" cannot be counted here: %s", generic->name,
                       generic->never);
    generic_put(spec, generic);
    return spec_modifiers(spec, rest, what, err);
}

static int unknown_name(struct word name, struct err *err)
{
    struct near near;

    near_init(&near, name);
    generic_near(&near);
    return err_set(err, CS01,
                   "no generic event \"" WORD_FMT
                   "\"%s; events/generic lists what this machine has",
                   WORD_ARG(name), near_text(&near));
}

int generic_parse(struct spec *spec, struct word text, struct err *err)
{
    const bool meant = spec_prefix(&text, "generic/");
    const bool slash = meant && memchr(text.p, '/', text.len);
    struct word mods, name = word_until(text, slash ? '/' : ':', &mods);
    const struct generic *generic = generic_find(name);
    if (generic)
        return generic_use(spec, generic, mods, err);
    if (generic_is_unserved(name))
        return err_set(err, P09,
                       "\"" WORD_FMT
                       "\" cannot be counted here: no single event of any processor is "
                       "known to serve this preset of PAPI's",
                       WORD_ARG(name));
    return meant ? unknown_name(name, err) : -ENOENT;
}

void generic_list(struct backend_state *state, struct catalog *out)
{
    const struct generic *generic;
    struct spec spec;

    for (unsigned i = 0; (generic = generic_at(i)); i++)
        if (serves(state, (struct word){generic->name, strlen(generic->name)}, &spec))
            catalog_add(out, "generic", generic->name);
}
