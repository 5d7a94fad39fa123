/*
 * pmu/term=value,…/mods. A term is an event file, a field of the format, or a whole config word.
 */
#include "backends/perf/names/terms.h"

#include "backends/perf/names/generic.h"

#include <ctype.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The terms of this form, while they are put together. */
struct terms {
    struct spec *spec;
    struct word all; /* what stands between the slashes */
    struct err *err;
};

/* Appends to the resolved form; false: too long. */
static bool __attribute__((format(printf, 2, 3)))
say_resolved(struct spec *spec, const char *format, ...)
{
    size_t used = strlen(spec->resolved);
    va_list args;

    va_start(args, format);
    int more = vsnprintf(spec->resolved + used, sizeof(spec->resolved) - used, format, args);
    va_end(args);
    return more >= 0 && used + (size_t)more < sizeof(spec->resolved);
}

/* The kernel's own text: fields that do not exist are passed over. False: one is left open
 * ("core=?"). */
static bool put_event(struct spec *spec, const struct pmu_event *event)
{
    struct word rest, all = {event->terms, strlen(event->terms)};

    for (; all.len > 0; all = rest) {
        struct word value, term = word_until(all, ',', &rest);
        const struct pmu_format *format = pmu_format_word(spec->pmu, word_until(term, '=', &value));
        uint64_t number = 1;
        if (word_is(value, "?"))
            return false;
        if (format && (value.len == 0 || word_u64(value, true, 0, UINT64_MAX, &number)))
            format_put(format, number, spec->config);
    }
    return true;
}

bool terms_put_event(struct spec *spec, const struct pmu_event *event)
{
    memset(spec->config, 0, sizeof(spec->config));
    return put_event(spec, event);
}

static int take_event(struct terms *terms, const struct pmu_event *event)
{
    struct spec *spec = terms->spec;

    if (!put_event(spec, event))
        return err_set(terms->err, CS03, "event \"%s\" of %s leaves a field open: write %s/%s/",
                       event->name, spec->pmu->name, spec->pmu->name, event->terms);
    memcpy(spec->unit, event->unit, sizeof(spec->unit));
    spec->scale = event->scale;
    if (!memchr(terms->all.p, ',', terms->all.len)) {
        const struct generic *generic = generic_by_file(event->name);
        spec->generic = generic && spec->pmu->kind == PMU_CORE ? generic->name : event->name;
    }
    say_resolved(spec, "%s", event->name);
    return 0;
}

static int unknown_term(struct terms *terms, struct word name, bool has_value)
{
    struct pmu *pmu = terms->spec->pmu;
    int rc = spec_part_elsewhere(name, terms->err);
    struct near near;

    if (rc != -ENOENT)
        return rc;
    near_init(&near, name);
    for (unsigned i = 0; i < pmu->formats.n; i++)
        near_offer(&near, pmu->formats.items[i].name);
    for (unsigned i = 0; !has_value && i < pmu->events.n; i++)
        near_offer(&near, pmu->events.items[i].name);
    if (!has_value && pmu->kind == PMU_CORE)
        generic_near(&near);
    return err_set(terms->err, has_value ? CS03 : CS01,
                   "%s has no %sterm \"" WORD_FMT "\"%s; the files of events/%s name what it has",
                   pmu->name, has_value ? "" : "event or ", WORD_ARG(name), near_text(&near),
                   pmu->name);
}

static int take_value(struct terms *terms, struct word name, struct word value, bool has_value,
                      const struct pmu_format *format)
{
    uint64_t number = 1;

    if (has_value && !word_u64(value, true, 0, UINT64_MAX, &number))
        return err_set(terms->err, CS04,
                       "\"" WORD_FMT "\" is no value for " WORD_FMT ": a number, "
                       "decimal or 0x…",
                       WORD_ARG(value), WORD_ARG(name));
    if (!format_put(format, number, terms->spec->config))
        return err_set(terms->err, CS04, WORD_FMT "=" WORD_FMT ": " WORD_FMT " has %u bits here",
                       WORD_ARG(name), WORD_ARG(value), WORD_ARG(name), format_bits(format));
    say_resolved(terms->spec, "%s=0x%llx", format->name, (unsigned long long)number);
    return 0;
}

/* perf's PMU/cycles/: the kernel's generic event on this PMU. It is a whole event: it stands alone.
 */
static int take_generic(struct terms *terms, const struct generic *generic)
{
    if (memchr(terms->all.p, ',', terms->all.len))
        return err_set(terms->err, CS03,
                       "%s is a generic event: no terms stand beside it between the slashes",
                       generic->name);
    generic_put(terms->spec, generic);
    snprintf(terms->spec->resolved, sizeof(terms->spec->resolved), "%s/%s", terms->spec->pmu->name,
             generic->name);
    return 0;
}

static const struct generic *find_generic(const struct pmu *pmu, struct word name)
{
    const struct generic *generic = pmu->kind == PMU_CORE ? generic_find(name) : NULL;

    return generic && generic_is_hardware(generic) ? generic : NULL;
}

/* What generic_put() writes on hybrid processors means the same when it is read: not the file. */
static bool is_canonical(const struct terms *terms, struct word name)
{
    const struct generic *generic = find_generic(terms->spec->pmu, name);

    return generic && terms->spec->pmu->extended && name.len == terms->all.len &&
           word_alike(name, generic->name, true);
}

static int take_term(struct terms *terms, struct word term)
{
    const struct pmu *pmu = terms->spec->pmu;
    struct word value, name = word_until(term, '=', &value);
    bool has_value = name.len < term.len;
    const struct pmu_event *event = has_value ? NULL : pmu_event(pmu, name);
    const struct pmu_format *format = pmu_format_word(pmu, name);

    if (event && !is_canonical(terms, name))
        return take_event(terms, event);
    if (format)
        return take_value(terms, name, value, has_value, format);
    if (!has_value && find_generic(pmu, name))
        return take_generic(terms, find_generic(pmu, name));
    return unknown_term(terms, name, has_value);
}

static int unknown_pmu(struct spec *spec, struct word name, struct word text, struct err *err)
{
    struct pmus *pmus = spec->state->pmus;
    struct word rest, head = word_until(name, ':', &rest);
    const struct generic *generic = generic_find(head);
    const enum pmu_kind known = pmu_kind_known(name);
    struct near near;

    if (pmus->no_core[0] && known == PMU_CORE)
        return spec_use_core(spec, text, err);
    near_init(&near, name);
    for (unsigned i = 0; i < pmus->n; i++)
        if (pmus->list[i].kind != PMU_REFUSED)
            near_offer(&near, pmus->list[i].name);
    near_offer(&near, "generic");
    if (near.n == 0 && known != PMU_UNKNOWN)
        return err_set(err, P09,
                       "\"" WORD_FMT
                       "\" cannot be counted here: this machine has no PMU \"" WORD_FMT
                       "\": other machines have it, or a kernel module that is not loaded",
                       WORD_ARG(text), WORD_ARG(name));
    if (generic)
        return err_set(err, CS01,
                       "\"" WORD_FMT "\" is an event and no PMU: behind it stands ':', as in %s:u",
                       WORD_ARG(head), generic->name);
    if (rest.len > 0)
        return err_set(err, CS03,
                       "filters of tracepoints are not supported: write \"" WORD_FMT "\" alone, "
                       "which counts it whenever it is hit",
                       WORD_ARG(name));
    return err_set(err, X06,
                   "no PMU \"" WORD_FMT "\" on this machine%s; info/classes lists them, and a "
                   "tracepoint is written GROUP:NAME",
                   WORD_ARG(name), near_text(&near));
}

static int take_terms(struct terms *terms)
{
    struct word rest, all = terms->all;
    int rc = 0;

    say_resolved(terms->spec, "%s/", terms->spec->pmu->name);
    for (bool first = true; rc == 0 && all.len > 0; all = rest, first = false) {
        struct word term = word_until(all, ',', &rest);
        if (!first)
            say_resolved(terms->spec, ",");
        if (term.len == 0)
            return err_set(terms->err, CS03, "an empty term in \"" WORD_FMT "\"",
                           WORD_ARG(terms->all));
        rc = take_term(terms, term);
    }
    if (rc == 0 && !say_resolved(terms->spec, "/"))
        return err_set(terms->err, CS03, "too many terms");
    return rc;
}

/* PMUs whose files in events/ lie in a directory of that name, but whose events have no slashes: an
 * example of these, or NULL. */
static const char *example_alone(const struct pmu *pmu)
{
    return pmu->kind == PMU_SOFTWARE     ? "page-faults"
           : pmu->kind == PMU_TRACEPOINT ? "sched:sched_switch"
           : pmu->kind == PMU_BREAKPOINT ? "mem:0x1234:rw"
                                         : NULL;
}

/* pmu/term, as the path of the event's file in events/ suggests it. */
static int unclosed(const struct pmu *pmu, struct word tail, struct word text, struct err *err)
{
    struct word mods, inside = word_until(tail, ':', &mods);

    return err_set(err, CS03, "no closing '/' in \"" WORD_FMT "\": write %s/" WORD_FMT "/" WORD_FMT,
                   WORD_ARG(text), pmu->name, inside.len ? WORD_ARG(inside) : "EVENT",
                   WORD_ARG(mods));
}

int terms_parse(struct spec *spec, struct word text, struct err *err)
{
    struct word tail, mods, pmu_name = word_until(text, '/', &tail);
    struct word inside = word_until(tail, '/', &mods);
    struct pmu *pmu = pmus_find(spec->state->pmus, pmu_name);
    struct terms terms = {.spec = spec, .all = inside, .err = err};

    if (pmu_name.len == text.len)
        return -ENOENT;
    if (!pmu)
        return unknown_pmu(spec, pmu_name, text, err);
    int rc = spec_use(spec, pmu, text, err);
    if (rc == 0 && example_alone(pmu))
        return err_set(err, CS01,
                       "events of %s are written by their names alone, without '/': " WORD_FMT,
                       pmu->name, inside.len > 0 ? WORD_ARG(inside) : example_alone(pmu));
    if (rc == 0 && inside.len == tail.len)
        return unclosed(pmu, tail, text, err);
    if (rc == 0)
        rc = take_terms(&terms);
    if (rc == 0 && mods.len > 0 && mods.p[0] == ':')
        mods = (struct word){mods.p + 1, mods.len - 1};
    return rc < 0 ? rc : spec_modifiers(spec, mods, text, err);
}

int terms_parse_bare(struct spec *spec, struct word text, struct err *err)
{
    struct pmus *pmus = spec->state->pmus;
    struct word mods, name = word_until(text, ':', &mods);
    char full[2 * SPELLING_MAX + 128];

    for (unsigned i = 0; i < pmus->n; i++) {
        struct pmu *pmu = &pmus->list[i];
        if ((pmu->kind != PMU_CORE && pmu->kind != PMU_MSR) || !pmu_is_here(pmu) ||
            !pmu_event(pmu, name))
            continue;
        int len = snprintf(full, sizeof(full), "%s/%.*s/%.*s", pmu->name, (int)name.len, name.p,
                           (int)mods.len, mods.p);
        return terms_parse(spec, (struct word){full, (size_t)len}, err);
    }
    return -ENOENT;
}

int raw_parse(struct spec *spec, struct word text, struct err *err)
{
    struct word mods, name = word_until(text, ':', &mods);
    char *end;

    if (name.len < 2 || tolower((unsigned char)name.p[0]) != 'r' ||
        !isxdigit((unsigned char)name.p[1]))
        return -ENOENT;
    unsigned long long number = strtoull(name.p + 1, &end, 16);
    if (end != name.p + name.len)
        return -ENOENT;
    if (name.len > 17)
        return err_set(err, CS04, "\"" WORD_FMT "\" has more than 16 digits", WORD_ARG(name));
    int rc = spec_use_core(spec, text, err);
    if (rc < 0)
        return rc;
    spec->type = spec->pmu->extended ? spec->pmu->type : PERF_TYPE_RAW;
    spec->config[0] = number;
    snprintf(spec->resolved, sizeof(spec->resolved), "r%llx", number);
    return spec_modifiers(spec, mods, text, err);
}
