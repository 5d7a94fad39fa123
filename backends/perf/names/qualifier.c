/*
 * hwpmc's qualifiers, put into the fields of the PMU's own format. They win over what the event
 * says.
 */
#include "backends/perf/names/qualifier.h"

#include "backends/perf/names/terms.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    enum qualifier_field field;
    bool number;
    const char *formats[3]; /* what PMUs call it */
} fields[] = {
    {"edge", QUALIFIER_EDGE, false, {"edge"}},
    {"inv", QUALIFIER_INV, false, {"inv"}},
    {"any", QUALIFIER_ANY, false, {"any"}},
    {"anythread", QUALIFIER_ANY, false, {"any"}},
    {"cmask", QUALIFIER_CMASK, true, {"cmask", "threshold"}},
    {"count", QUALIFIER_CMASK, true, {"cmask", "threshold"}},
    {"threshold", QUALIFIER_CMASK, true, {"cmask", "threshold"}},
    {"umask", QUALIFIER_UMASK, true, {"umask", "unitmask"}},
    {"unitmask", QUALIFIER_UMASK, true, {"umask", "unitmask"}},
    {"mask", QUALIFIER_UMASK, true, {"umask", "unitmask"}},
    {"rsp", QUALIFIER_RSP, true, {"offcore_rsp"}},
};

#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

struct word qualifiers_split(struct word text, struct word *qualifiers)
{
    const char *slash = memchr(text.p, '/', text.len), *end = text.p + text.len, *from = text.p;

    /* Commas between two slashes separate terms. A single slash (generic/…, mem:…/4) opens nothing.
     */
    if (slash) {
        const char *second = memchr(slash + 1, '/', (size_t)(end - slash - 1));
        bool single =
            word_alike((struct word){text.p, (size_t)(slash - text.p)}, "generic", false) ||
            memchr(text.p, ':', (size_t)(slash - text.p));
        from = second ? second : single ? text.p : end;
    }
    const char *comma = memchr(from, ',', (size_t)(end - from));
    *qualifiers =
        comma ? (struct word){comma + 1, (size_t)(end - comma - 1)} : (struct word){end, 0};
    return (struct word){text.p, (size_t)((comma ? comma : end) - text.p)};
}

bool qualifier_is(struct word name)
{
    for (size_t i = 0; i < N_FIELDS; i++)
        if (word_alike(name, fields[i].name, false))
            return true;
    return word_alike(name, "usr", false) || word_alike(name, "os", false) ||
           word_alike(name, "precise", false);
}

static int take_field(struct qualifiers *out, size_t i, struct word value, bool has_value,
                      struct err *err)
{
    uint64_t number = 1;

    if ((fields[i].field == QUALIFIER_UMASK || fields[i].field == QUALIFIER_RSP) && value.len > 0 &&
        !word_u64(value, true, 0, UINT64_MAX, &number)) {
        out->umasks = value;
        return 0;
    }
    if (fields[i].number && !word_u64(value, true, 0, UINT64_MAX, &number))
        return err_set(err, CS04, "qualifier %s takes a number, not \"" WORD_FMT "\"",
                       fields[i].name, WORD_ARG(value));
    if (!fields[i].number && has_value && !word_u64(value, false, 0, 1, &number))
        return err_set(err, CS04, "qualifier %s takes no value, not \"" WORD_FMT "\"",
                       fields[i].name, WORD_ARG(value));
    out->has[fields[i].field] = true;
    out->value[fields[i].field] = number;
    return 0;
}

static int unknown(struct word name, struct err *err)
{
    struct near near;

    near_init(&near, name);
    near_offer(&near, "usr");
    near_offer(&near, "os");
    near_offer(&near, "precise");
    for (size_t i = 0; i < N_FIELDS; i++)
        near_offer(&near, fields[i].name);
    return err_set(err, CS03,
                   "no qualifier \"" WORD_FMT "\"%s; there are usr, os, edge, inv, any, cmask=N, "
                   "umask=N, precise",
                   WORD_ARG(name), near_text(&near));
}

bool qualifier_precise(struct word word, unsigned *level)
{
    struct word value, name = word_until(word, '=', &value);
    uint64_t number = 1;

    if (!word_alike(name, "precise", false) ||
        (name.len < word.len && !word_u64(value, false, 0, PRECISE_MAX, &number)))
        return false;
    *level = (unsigned)number;
    return true;
}

static int take_qualifier(struct qualifiers *out, struct word word, struct err *err)
{
    struct word value, name = word_until(word, '=', &value);
    bool has_value = name.len < word.len;

    if (word_alike(name, "usr", false) || word_alike(name, "os", false)) {
        if (has_value)
            return err_set(err, CS04, "qualifier " WORD_FMT " takes no value", WORD_ARG(name));
        *(name.len == 3 ? &out->usr : &out->os) = true;
        return 0;
    }
    if (qualifier_precise(word, &out->precise))
        return 0;
    if (word_alike(name, "precise", false))
        return err_set(err, CS04,
                       "qualifier precise takes a level from 0 to %d, not \"" WORD_FMT "\"",
                       PRECISE_MAX, WORD_ARG(value));
    for (size_t i = 0; i < N_FIELDS; i++)
        if (word_alike(name, fields[i].name, false))
            return take_field(out, i, value, has_value, err);
    return unknown(name, err);
}

int qualifiers_parse(struct word text, struct qualifiers *out, struct err *err)
{
    struct word rest;
    int rc = 0;

    memset(out, 0, sizeof(*out));
    for (; rc == 0 && text.len > 0; text = rest)
        rc = take_qualifier(out, word_until(text, ',', &rest), err);
    return rc;
}

/* A generic event's number cannot be qualified: take the processor's code from the kernel's own
 * file. */
static bool make_raw(struct spec *spec)
{
    struct scan scan;
    struct word name;

    if (spec->type != PERF_TYPE_HARDWARE && spec->type != PERF_TYPE_HW_CACHE)
        return true;
    scan_init(&scan, spec->raw_name ? spec->raw_name : "",
              spec->raw_name ? strlen(spec->raw_name) : 0);
    while (scan_word(&scan, &name)) {
        const struct pmu_event *event = pmu_event(spec->state->pmus, spec->pmu, name);
        if (event && terms_put_event(spec, event)) {
            spec->type = spec->pmu->type;
            return true;
        }
    }
    return false;
}

static int put_field(struct spec *spec, size_t i, uint64_t value, struct err *err)
{
    struct pmus *pmus = spec->state->pmus;
    const struct pmu_format *format = NULL;
    size_t used = strlen(spec->resolved);

    spec->generic = NULL; /* a part of it */
    for (size_t f = 0; !format && f < 3 && fields[i].formats[f]; f++)
        format = pmu_format(pmus, spec->pmu,
                            (struct word){fields[i].formats[f], strlen(fields[i].formats[f])});
    if (!format)
        return err_set(err, E35, "%s has no qualifier \"%s\"", spec->pmu->name, fields[i].name);
    if (!make_raw(spec))
        return err_set(err, E35,
                       "\"%s\" of %s: only the kernel knows the code of this generic event; "
                       "write the processor's own event",
                       fields[i].name, spec->resolved);
    if (!format_put(format, value, spec->config))
        return err_set(err, CS04, "%s=%llu: %s has %u bits here", fields[i].name,
                       (unsigned long long)value, format->name, format_bits(format));
    if (fields[i].number)
        snprintf(spec->resolved + used, sizeof(spec->resolved) - used, ",%s=0x%llx", fields[i].name,
                 (unsigned long long)value);
    else
        snprintf(spec->resolved + used, sizeof(spec->resolved) - used, ",%s=%u", fields[i].name,
                 value != 0);
    return 0;
}

int qualifiers_apply(struct spec *spec, const struct qualifiers *qualifiers, struct err *err)
{
    bool done[QUALIFIER_FIELDS] = {false};
    int rc = 0;

    if (qualifiers->precise)
        spec->precise = qualifiers->precise;
    if (qualifiers->usr || qualifiers->os) {
        /* Together with modifiers of the spelling they add up. */
        bool user = qualifiers->usr || spec->user == SAID_ON;
        bool kernel = qualifiers->os || spec->kernel == SAID_ON;
        spec->user = user ? SAID_ON : SAID_OFF;
        spec->kernel = kernel ? SAID_ON : SAID_OFF;
    }
    for (size_t i = 0; rc == 0 && i < N_FIELDS; i++) {
        if (!qualifiers->has[fields[i].field] || done[fields[i].field])
            continue;
        done[fields[i].field] = true;
        rc = put_field(spec, i, qualifiers->value[fields[i].field], err);
    }
    return rc;
}
