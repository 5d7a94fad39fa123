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
#include <string.h>

enum {
    NAMES_BYTES = 160
};

/* The terms of this form, while they are put together. */
struct terms {
    struct spec *spec;
    struct word all; /* what stands between the slashes */
    struct err *err;
};

static bool say_resolved(struct spec *spec, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends to the resolved form; false: too long. */
static bool say_resolved(struct spec *spec, const char *format, ...)
{
    size_t used = strlen(spec->resolved);
    va_list args;

    va_start(args, format);
    int more = vsnprintf(spec->resolved + used, sizeof(spec->resolved) - used, format, args);
    va_end(args);
    return more >= 0 && used + (size_t)more < sizeof(spec->resolved);
}

/* Was this field given by the writer, for an event file that leaves it open ("core=?")? */
static bool is_given(struct word all, struct word field)
{
    struct word rest, value;

    while (all.len > 0) {
        struct word term = word_until(all, ',', &rest);
        struct word name = word_until(term, '=', &value);
        if (name.len == field.len && memcmp(name.p, field.p, name.len) == 0 && value.len > 0)
            return true;
        all = rest;
    }
    return false;
}

/* The kernel's own text: fields that do not exist are passed over. False: one is open and not
 * given. */
static bool put_event(struct spec *spec, const struct pmu_event *event, struct word given,
                      struct word *open)
{
    struct word rest, all = {event->terms, strlen(event->terms)};

    for (; all.len > 0; all = rest) {
        struct word value, term = word_until(all, ',', &rest);
        struct word name = word_until(term, '=', &value);
        const struct pmu_format *format = pmu_format(spec->state->pmus, spec->pmu, name);
        uint64_t number = 1;
        if (word_is(value, "?")) {
            *open = name;
            if (!is_given(given, name))
                return false;
        } else if (format && (value.len == 0 || word_u64(value, true, 0, UINT64_MAX, &number))) {
            format_put(format, number, spec->config);
        }
    }
    return true;
}

bool terms_put_event(struct spec *spec, const struct pmu_event *event)
{
    struct word open;

    memset(spec->config, 0, sizeof(spec->config));
    return put_event(spec, event, (struct word){"", 0}, &open);
}

static int take_event(struct terms *terms, const struct pmu_event *event)
{
    struct spec *spec = terms->spec;
    struct word open;

    if (!put_event(spec, event, terms->all, &open))
        return err_set(terms->err, CS03, "event \"%s\" of %s needs " WORD_FMT "=NUMBER",
                       event->name, spec->pmu->name, WORD_ARG(open));
    memcpy(spec->unit, event->unit, sizeof(spec->unit));
    spec->scale = event->scale;
    if (!memchr(terms->all.p, ',', terms->all.len)) {
        const struct generic *generic = generic_by_file(event->name);
        spec->generic = generic && spec->pmu->kind == PMU_CORE ? generic->name : event->name;
    }
    say_resolved(spec, "%s", event->name);
    return 0;
}

/* The first few of them, for a sentence. */
static const char *term_names(const struct pmu *pmu, char text[NAMES_BYTES])
{
    size_t used = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < pmu->formats.n; i++) {
        const char *name = pmu->formats.items[i].name;
        if (used + strlen(name) + 8 > NAMES_BYTES)
            return strcat(text, " …");
        used += (size_t)snprintf(text + used, NAMES_BYTES - used, "%s%s", i ? ", " : "", name);
    }
    return text;
}

static int unknown_term(struct terms *terms, struct word name, bool has_value)
{
    struct pmu *pmu = terms->spec->pmu;
    char names[NAMES_BYTES];
    struct near near;

    near_init(&near, name);
    for (unsigned i = 0; i < pmu->formats.n; i++)
        near_offer(&near, pmu->formats.items[i].name);
    for (unsigned i = 0; !has_value && i < pmu->events.n; i++)
        near_offer(&near, pmu->events.items[i].name);
    if (!has_value && pmu->kind == PMU_CORE)
        generic_near(&near);
    if (has_value && pmu->formats.n == 0)
        return err_set(terms->err, CS03, "%s has no term \"" WORD_FMT "\": it has only config=N",
                       pmu->name, WORD_ARG(name));
    if (has_value)
        return err_set(terms->err, CS03, "%s has no term \"" WORD_FMT "\"%s; its terms: %s",
                       pmu->name, WORD_ARG(name), near_text(&near), term_names(pmu, names));
    return err_set(terms->err, CS01, "%s has no event or term \"" WORD_FMT "\"%s", pmu->name,
                   WORD_ARG(name), near_text(&near));
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

/* config=…, config1=…: the whole word. */
static const struct pmu_format whole_words[] = {
    {.name = (char *)"config", .word = 0, .n = 1, .range = {{0, 63}}},
    {.name = (char *)"config1", .word = 1, .n = 1, .range = {{0, 63}}},
    {.name = (char *)"config2", .word = 2, .n = 1, .range = {{0, 63}}},
    {.name = (char *)"config3", .word = 3, .n = 1, .range = {{0, 63}}},
};

/* Terms that perf takes and that are settings of a PMC here. */
static const struct {
    const char *name, *instead;
} settings[] = {
    {"period", "period=N"},
    {"freq", "freq=N"},
    {"call-graph", "callchain=on"},
    {"inherit", "descendants=on"},
};

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
    struct spec *spec = terms->spec;
    struct word value, name = word_until(term, '=', &value);
    bool has_value = name.len < term.len;
    const struct pmu_event *event =
        has_value ? NULL : pmu_event(spec->state->pmus, spec->pmu, name);
    const struct pmu_format *format = pmu_format(spec->state->pmus, spec->pmu, name);

    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        if (!format && word_alike(name, settings[i].name, false))
            return err_set(terms->err, CS03,
                           "\"" WORD_FMT "\" is no part of the event: it is the setting "
                           "%s",
                           WORD_ARG(name), settings[i].instead);
    for (size_t i = 0; has_value && !format && i < CONFIG_WORDS; i++)
        if (word_alike(name, whole_words[i].name, false))
            format = &whole_words[i];
    if (event && !is_canonical(terms, name))
        return take_event(terms, event);
    if (!format && !has_value && find_generic(spec->pmu, name))
        return take_generic(terms, find_generic(spec->pmu, name));
    if (!format)
        return unknown_term(terms, name, has_value);
    return take_value(terms, name, value, has_value, format);
}

/* The core PMUs' names on any machine. */
static bool is_core_name(struct word name)
{
    return word_alike(name, "cpu", false) || word_alike(name, "cpum_cf", false) ||
           (name.len > 4 && word_alike((struct word){name.p, 4}, "cpu_", false)) ||
           (name.len > 6 && word_alike((struct word){name.p, 6}, "armv8_", false));
}

static int unknown_pmu(struct spec *spec, struct word name, struct word text, struct err *err)
{
    struct pmus *pmus = spec->state->pmus;
    struct word rest, head = word_until(name, ':', &rest);
    struct near near;

    if (pmus->no_core[0] && is_core_name(name))
        return spec_use_core(spec, text, err);
    near_init(&near, name);
    for (unsigned i = 0; i < pmus->n; i++)
        if (pmus->list[i].kind != PMU_REFUSED)
            near_offer(&near, pmus->list[i].name);
    near_offer(&near, "generic");
    if (near.n == 0 && pmu_is_known(name))
        return err_set(err, P09,
                       "\"" WORD_FMT
                       "\" cannot be counted here: this machine has no PMU \"" WORD_FMT
                       "\": other machines have it, or a kernel module that is not loaded",
                       WORD_ARG(text), WORD_ARG(name));
    if (generic_find(head))
        return err_set(err, CS01,
                       "\"" WORD_FMT "\" is an event and no PMU: behind it stands ':', as in %s:u",
                       WORD_ARG(head), generic_find(head)->name);
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

/* Their files in events/ lie in a directory of that name, but slashes are not for them. */
static bool is_named_alone(const struct pmu *pmu)
{
    return pmu->kind == PMU_SOFTWARE || pmu->kind == PMU_TRACEPOINT || pmu->kind == PMU_BREAKPOINT;
}

static struct word named_alone_example(const struct pmu *pmu)
{
    const char *example = pmu->kind == PMU_SOFTWARE     ? "page-faults"
                          : pmu->kind == PMU_TRACEPOINT ? "sched:sched_switch"
                                                        : "mem:0x1234:rw";

    return (struct word){example, strlen(example)};
}

/* pmu/term, as the path of the event's file in events/ suggests it. */
static int unclosed(const struct pmu *pmu, struct word tail, struct word text, struct err *err)
{
    struct word mods, inside = word_until(tail, ':', &mods);

    if (inside.len == 0)
        return err_set(err, CS03, "no closing '/' in \"" WORD_FMT "\": %s/term=value,…/",
                       WORD_ARG(text), pmu->name);
    return err_set(err, CS03, "no closing '/' in \"" WORD_FMT "\": write %s/" WORD_FMT "/" WORD_FMT,
                   WORD_ARG(text), pmu->name, WORD_ARG(inside), WORD_ARG(mods));
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
    if (rc == 0 && is_named_alone(pmu))
        return err_set(err, CS01,
                       "events of %s are written by their names alone, without '/': " WORD_FMT,
                       pmu->name, WORD_ARG(inside.len > 0 ? inside : named_alone_example(pmu)));
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

    for (unsigned i = 0; i < pmus->n; i++) {
        struct pmu *pmu = &pmus->list[i];
        if (pmu->kind != PMU_CORE || pmu->why[0] || !pmu_event(pmus, pmu, name))
            continue;
        struct terms terms = {.spec = spec, .all = name, .err = err};
        int rc = spec_use(spec, pmu, text, err);
        if (rc == 0)
            rc = take_terms(&terms);
        return rc < 0 ? rc : spec_modifiers(spec, mods, text, err);
    }
    return -ENOENT;
}

static bool raw_is(struct word name)
{
    if (name.len < 2 || (name.p[0] != 'r' && name.p[0] != 'R'))
        return false;
    for (size_t i = 1; i < name.len; i++)
        if (!isxdigit((unsigned char)name.p[i]))
            return false;
    return true;
}

int raw_parse(struct spec *spec, struct word text, struct err *err)
{
    struct word mods, name = word_until(text, ':', &mods);
    uint64_t number = 0;

    if (!raw_is(name))
        return -ENOENT;
    if (name.len > 17)
        return err_set(err, CS04, "\"" WORD_FMT "\" has more than 16 digits", WORD_ARG(name));
    for (size_t i = 1; i < name.len; i++) {
        unsigned char c = (unsigned char)name.p[i];
        number = number << 4 | (unsigned)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
    }
    int rc = spec_use_core(spec, text, err);
    if (rc < 0)
        return rc;
    spec->type = spec->pmu->extended ? spec->pmu->type : PERF_TYPE_RAW;
    spec->config[0] = number;
    snprintf(spec->resolved, sizeof(spec->resolved), "r%llx", (unsigned long long)number);
    return spec_modifiers(spec, mods, text, err);
}
