/*
 * hwpmc's qualifiers, put into the fields of the PMU's own format. They win over what the event
 * says.
 */
#include "backends/perf/names/qualifier.h"

#include "backends/perf/names/terms.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

enum takes {
    FLAG, /* nothing, or 0 or 1 */
    NUMBER,
    MASKS, /* a number, or names of unit masks with '+' between them */
    MODE,  /* nothing */
    LEVEL
};

static const struct qualifier {
    const char *name, *resolved; /* what it is called behind the resolved form */
    enum takes takes;
    const char *formats[2]; /* what PMUs call it */
} table[] = {
    {"usr", NULL, MODE, {NULL}},
    {"os", NULL, MODE, {NULL}},
    {"edge", "edge", FLAG, {"edge"}},
    {"inv", "inv", FLAG, {"inv"}},
    {"any", "any", FLAG, {"any"}},
    {"cmask", "cmask", NUMBER, {"cmask", "threshold"}},
    {"umask", "umask", MASKS, {"umask", "unitmask"}},
    {"precise", NULL, LEVEL, {NULL}},
    {"anythread", "any", FLAG, {"any"}},
    {"count", "cmask", NUMBER, {"cmask", "threshold"}},
    {"threshold", "cmask", NUMBER, {"cmask", "threshold"}},
    {"unitmask", "umask", MASKS, {"umask", "unitmask"}},
    {"mask", "umask", MASKS, {"umask", "unitmask"}},
    {"rsp", "rsp", MASKS, {"offcore_rsp"}},
};

#define N_TABLE (sizeof(table) / sizeof(table[0]))

static const struct qualifier *qualifier_find(struct word name)
{
    for (size_t i = 0; i < N_TABLE; i++)
        if (word_alike(name, table[i].name, false))
            return &table[i];
    return NULL;
}

bool qualifier_is(struct word name)
{
    return qualifier_find(name);
}

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

/* Are these names of unit masks? */
static bool are_masks(const struct qualifier *qualifier, struct word value)
{
    uint64_t number;

    return qualifier && qualifier->takes == MASKS && value.len > 0 &&
           !word_u64(value, true, 0, UINT64_MAX, &number);
}

struct word qualifiers_masks(struct word text)
{
    struct word rest, value;

    for (; text.len > 0; text = rest) {
        struct word name = word_until(word_until(text, ',', &rest), '=', &value);
        if (are_masks(qualifier_find(name), value))
            return value;
    }
    return text;
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
        const struct pmu_event *event = pmu_event(spec->pmu, name);
        if (event && terms_put_event(spec, event)) {
            spec->type = spec->pmu->type;
            return true;
        }
    }
    return false;
}

static int put_field(struct spec *spec, const struct qualifier *qualifier, uint64_t value,
                     struct err *err)
{
    const struct pmu_format *format = pmu_format(spec->pmu, qualifier->formats[0]);
    size_t used = strlen(spec->resolved);

    if (!format && qualifier->formats[1])
        format = pmu_format(spec->pmu, qualifier->formats[1]);
    spec->generic = NULL; /* a part of it */
    if (!format)
        return err_set(err, E35, "%s has no qualifier \"%s\"", spec->pmu->name, qualifier->name);
    if (!make_raw(spec))
        return err_set(err, E35,
                       "\"%s\" of %s: only the kernel knows the code of this generic event; "
                       "write the processor's own event",
                       qualifier->name, spec->resolved);
    if (!format_put(format, value, spec->config))
        return err_set(err, CS04, "%s=%llu: %s has %u bits here", qualifier->name,
                       (unsigned long long)value, format->name, format_bits(format));
    snprintf(spec->resolved + used, sizeof(spec->resolved) - used,
             qualifier->takes == FLAG ? ",%s=%llu" : ",%s=0x%llx", qualifier->resolved,
             (unsigned long long)value);
    return 0;
}

static int unknown(struct word name, struct err *err)
{
    struct near near;

    near_init(&near, name);
    for (size_t i = 0; i < N_TABLE; i++)
        near_offer(&near, table[i].name);
    return err_set(err, CS03,
                   "no qualifier \"" WORD_FMT "\"%s; there are usr, os, edge, inv, any, cmask=N, "
                   "umask=N, precise",
                   WORD_ARG(name), near_text(&near));
}

/* What stands behind its '=' is nothing that it takes: a word of the sentence, or NULL. */
static const char *value_scan(const struct qualifier *qualifier, struct word word,
                              struct word value, unsigned *level, uint64_t *number)
{
    const bool has_value = memchr(word.p, '=', word.len);

    *number = 1;
    switch (qualifier->takes) {
    case MODE:
        return has_value ? "no value" : NULL;
    case FLAG:
        return has_value && !word_u64(value, false, 0, 1, number) ? "no value" : NULL;
    case LEVEL:
        return qualifier_precise(word, level) ? NULL : "a level from 0 to 3";
    default:
        return word_u64(value, true, 0, UINT64_MAX, number) ? NULL : "a number";
    }
}

static int apply(struct spec *spec, struct word word, struct err *err)
{
    struct word value, name = word_until(word, '=', &value);
    const struct qualifier *qualifier = qualifier_find(name);
    uint64_t number;

    if (!qualifier)
        return unknown(name, err);
    if (are_masks(qualifier, value))
        return 0;
    const char *takes = value_scan(qualifier, word, value, &spec->precise, &number);
    if (takes)
        return err_set(err, CS04, "qualifier %s takes %s, not \"" WORD_FMT "\"", qualifier->name,
                       takes, WORD_ARG(value));
    if (qualifier->takes == MODE) { /* together with modifiers of the spelling they add up */
        *(qualifier->name[0] == 'u' ? &spec->user : &spec->kernel) = SAID_ON;
        spec_one_mode(spec);
    }
    return qualifier->formats[0] ? put_field(spec, qualifier, number, err) : 0;
}

int qualifiers_apply(struct spec *spec, struct word text, struct err *err)
{
    struct word rest;
    int rc = 0;

    for (; rc == 0 && text.len > 0; text = rest)
        rc = apply(spec, word_until(text, ',', &rest), err);
    return rc;
}
