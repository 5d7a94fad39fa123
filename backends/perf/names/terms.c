/*
 * Spellings of the kernel's interfaces: pmu/term=value,…/mods, where a term is an event file, a
 * field of the format or a config word; the bare name of an event file; raw numbers (rNNN); and
 * breakpoints (mem:0xADDRESS).
 */
#include "backends/perf/names/spec.h"

#include <ctype.h>
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool terms_put_event(struct spec *spec, const struct pmu_event *event)
{
    struct word rest, all = word_of(event->terms);

    for (; all.len > 0; all = rest) {
        struct word value, term = word_until(all, ',', &rest);
        const struct pmu_format *format = pmu_format(spec->pmu, word_until(term, '=', &value));
        uint64_t number = 1;
        if (word_is(value, "?"))
            return false;
        if (format && (value.len == 0 || word_u64(value, true, 0, UINT64_MAX, &number)))
            format_put(format, number, &spec->event.code[CODE_CONFIG]);
    }
    return true;
}

static int take_event(struct spec *spec, const struct pmu_event *event, bool alone, struct err *err)
{
    const struct generic *generic =
        spec->pmu->kind == PMU_CORE ? generic_by_file(event->name) : NULL;

    if (!terms_put_event(spec, event))
        return err_set(err, CS03, "event \"%s\" of %s needs a value: write %s/%s/", event->name,
                       spec->pmu->name, spec->pmu->name, event->terms);
    memcpy(spec->event.unit, event->unit, sizeof(event->unit));
    spec->event.scale = event->scale;
    if (alone)
        snprintf(spec->event.generic, sizeof(spec->event.generic), "%s",
                 generic ? generic->name : event->name);
    spec_append(spec, "%s", event->name);
    return 0;
}

static int unknown_term(struct spec *spec, struct word name, bool has_value, struct err *err)
{
    struct pmu *pmu = spec->pmu;
    int rc = spec_refuse_setting(name, err);
    struct near near = {.word = name};

    if (rc != -ENOENT)
        return rc;
    for (unsigned i = 0; i < pmu->formats.n; i++)
        near_offer(&near, pmu->formats.items[i].name);
    for (unsigned i = 0; !has_value && i < pmu->events.n; i++)
        near_offer(&near, pmu->events.items[i].name);
    if (!has_value && pmu->kind == PMU_CORE)
        generic_offer_names(&near);
    return err_set(err, has_value ? CS03 : CS01,
                   "%s has no %sterm \"" WORD_FMT "\"%s; see the files of events/%s", pmu->name,
                   has_value ? "" : "event or ", WORD_ARG(name), near_text(&near), pmu->name);
}

/* Puts the value of a term into the config field of its format; without a value, 1. */
static int put_field_value(struct spec *spec, struct word name, struct word value, bool has_value,
                           const struct pmu_format *format, struct err *err)
{
    uint64_t number = 1;

    if (has_value && !word_u64(value, true, 0, UINT64_MAX, &number))
        return err_set(err, CS04,
                       "\"" WORD_FMT "\" is not a valid value for " WORD_FMT
                       ": write a decimal number or 0x…",
                       WORD_ARG(value), WORD_ARG(name));
    if (!format_put(format, number, &spec->event.code[CODE_CONFIG]))
        return err_set(err, CS04,
                       WORD_FMT "=" WORD_FMT
                                " is too large: write a smaller number, because " WORD_FMT
                                " has %u bits on this processor",
                       WORD_ARG(name), WORD_ARG(value), WORD_ARG(name), format_bits(format));
    spec_append(spec, "%s=0x%llx", format->name, (unsigned long long)number);
    return 0;
}

static int take_term(struct spec *spec, struct word term, bool alone, struct err *err)
{
    const struct pmu *pmu = spec->pmu;
    struct word value, name = word_until(term, '=', &value);
    const bool has_value = name.len < term.len, named = !has_value && pmu->kind == PMU_CORE;
    const struct pmu_event *event = has_value ? NULL : pmu_event(pmu, name);
    const struct pmu_format *format = pmu_format(pmu, name);
    const struct generic *generic = named ? generic_find(name) : NULL;

    if (generic && !generic_is_hardware(generic))
        generic = NULL;
    /* On hybrid processors generic_narrow() prints PMU/cycles/: read it back as the generic event,
     * not as the event file of the same name. */
    const bool canonical =
        generic && alone && pmu->extended && word_alike(name, generic->name, true);
    if (event && !canonical)
        return take_event(spec, event, alone, err);
    if (format)
        return put_field_value(spec, name, value, has_value, format, err);
    if (!generic)
        return unknown_term(spec, name, has_value, err);
    /* perf's PMU/cycles/: the generic event on this PMU, which takes no other terms. */
    if (!alone)
        return err_set(err, CS03,
                       "%s is a generic event: leave out the other terms between the slashes",
                       generic->name);
    generic_fill_event(spec, generic);
    spec_append(spec, "%s", generic->name);
    return 0;
}

/* Parses all terms between the slashes. */
static int take_terms(struct spec *spec, struct word all, struct err *err)
{
    struct word term, rest = all;
    int rc = 0;

    spec_append(spec, "%s/", spec->pmu->name);
    while (rc == 0 && rest.len > 0) {
        if (rest.p > all.p)
            spec_append(spec, ",");
        term = word_until(rest, ',', &rest);
        rc = term.len == 0
                 ? err_set(err, CS03, "a comma too many in \"" WORD_FMT "\"", WORD_ARG(all))
                 : take_term(spec, term, term.len == all.len, err);
    }
    spec_append(spec, "/");
    return rc;
}

static int unknown_pmu(struct pmus *pmus, struct word name, struct word text, struct err *err)
{
    struct word value, terms, rest, head = word_until(name, ':', &rest);
    const struct generic *generic = generic_find(head);
    const enum pmu_kind known = pmu_kind_of_name(name);
    struct near near = {.word = name};

    word_until(text, '/', &terms);
    terms = word_part(terms, "/");
    while (terms.len > 0) {
        const struct word term = word_until(terms, ',', &terms);
        int rc = spec_refuse_setting(word_until(term, '=', &value), err);

        if (rc != -ENOENT)
            return rc;
    }
    if (word_is(name, "tool") || word_alike(word_part(name, "_"), "hwmon", false)) {
        int rc = unknown_perf_own(word_part(word_from(text, name.len + 1), "/"), err);

        if (rc != -ENOENT)
            return rc;
    }
    if (pmus->why_no_core[0] && known == PMU_CORE)
        return spec_refuse(text, pmus->why_no_core, err);
    for (unsigned i = 0; i < pmus->n; i++)
        if (pmus->list[i].kind != PMU_REFUSED)
            near_offer(&near, pmus->list[i].name);
    near_offer(&near, "generic");
    if (near.n == 0 && known != PMU_UNKNOWN)
        return err_set(err, P09,
                       "\"" WORD_FMT "\" cannot be counted here: this host has no PMU \"" WORD_FMT
                       "\" (it belongs to other hosts, or its kernel module is not loaded)",
                       WORD_ARG(text), WORD_ARG(name));
    if (generic)
        return err_set(err, CS01,
                       "\"" WORD_FMT "\" is an event, not a PMU: write ':' after it, as in %s:u",
                       WORD_ARG(head), generic->name);
    if (rest.len > 0)
        return err_set(err, CS03,
                       "filters are not part of an event: write \"" WORD_FMT
                       "\" here and filter=EXPRESSION to config",
                       WORD_ARG(name));
    return err_set(err, X06,
                   "no PMU \"" WORD_FMT
                   "\" on this host%s: see info/classes (tracepoints are written GROUP:NAME)",
                   WORD_ARG(name), near_text(&near));
}

/* Returns an example event of a PMU whose events are written without slashes, or NULL. */
static const char *example_alone(const struct pmu *pmu)
{
    return pmu->kind == PMU_SOFTWARE     ? "page-faults"
           : pmu->kind == PMU_TRACEPOINT ? "sched:sched_switch"
           : pmu->kind == PMU_BREAKPOINT ? "mem:0x1234:rw"
                                         : NULL;
}

int terms_parse(struct spec *spec, struct word *text, struct err *err)
{
    struct word tail, mods, whole = *text, pmu_name = word_until(whole, '/', &tail);
    struct word inside = word_until(tail, '/', &mods);
    struct pmu *pmu = pmus_find(spec->state->pmus, pmu_name);

    if (pmu_name.len == whole.len)
        return -ENOENT;
    if (!pmu)
        return unknown_pmu(spec->state->pmus, pmu_name, whole, err);
    int rc = spec_use(spec, pmu, whole, err);
    if (rc == 0 && example_alone(pmu))
        return err_set(err, CS01, "events of %s are written without '/': " WORD_FMT, pmu->name,
                       inside.len > 0 ? WORD_ARG(inside) : example_alone(pmu));
    if (rc == 0 && inside.len == tail.len) { /* a path below events/ looks like this */
        inside = word_until(tail, ':', &mods);
        return err_set(
            err, CS03, "no closing '/' in \"" WORD_FMT "\": write %s/" WORD_FMT "/" WORD_FMT,
            WORD_ARG(whole), pmu->name, inside.len ? WORD_ARG(inside) : "EVENT", WORD_ARG(mods));
    }
    *text = mods;
    return rc ? rc : take_terms(spec, inside, err);
}

int terms_parse_bare(struct spec *spec, struct word *text, struct err *err)
{
    struct pmus *pmus = spec->state->pmus;
    struct word mods, name = word_until(*text, ':', &mods);

    for (struct pmu *pmu = pmus->list; pmu < pmus->list + pmus->n; pmu++) {
        if ((pmu->kind != PMU_CORE && pmu->kind != PMU_MSR) || !pmu_is_here(pmu) ||
            !pmu_event(pmu, name))
            continue;
        spec_use(spec, pmu, name, err);
        *text = mods;
        return take_terms(spec, name, err);
    }
    return -ENOENT;
}

int raw_parse(struct spec *spec, struct word *text, struct err *err)
{
    struct word mods, name = word_until(*text, ':', &mods);
    char *end;

    if (name.len < 2 || tolower((unsigned char)name.p[0]) != 'r' ||
        !isxdigit((unsigned char)name.p[1]))
        return -ENOENT;
    unsigned long long number = strtoull(name.p + 1, &end, 16);
    if (end != name.p + name.len)
        return -ENOENT;
    if (name.len > 17)
        return err_set(err, CS04,
                       "\"" WORD_FMT "\" has more than 16 digits: a raw code has 64 bits",
                       WORD_ARG(name));
    int rc = spec_use_core(spec, *text, err);
    if (rc < 0)
        return rc;
    spec->event.code[CODE_TYPE] = spec->pmu->extended ? spec->pmu->type : PERF_TYPE_RAW;
    spec->event.code[CODE_CONFIG] = number;
    spec_append(spec, "r%llx", number);
    *text = mods;
    return 0;
}

static const struct access {
    const char *name;
    uint32_t type;
} accesses[] = {
    {"rw", HW_BREAKPOINT_RW}, {"r", HW_BREAKPOINT_R}, {"w", HW_BREAKPOINT_W},
    {"wr", HW_BREAKPOINT_RW}, {"x", HW_BREAKPOINT_X},
};

/* Removes the access from *text. Returns rw if there is none, NULL if it is not valid. */
static const struct access *access_scan(struct word *text)
{
    struct word rest, written = word_until(*text, ':', &rest);

    for (size_t i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++)
        if (word_alike(written, accesses[i].name, false)) {
            *text = rest;
            return &accesses[i];
        }
    return word_part(written, "rwxRWX").len == 0 && written.len > 0 ? NULL : &accesses[0];
}

int breakpoint_parse(struct spec *spec, struct word *text, struct err *err)
{
    struct word whole = *text, rest, mods, length, form = word_until(whole, ':', &rest);
    struct word place = word_until(rest, ':', &mods), address = word_until(place, '/', &length);
    uint64_t *code = spec->event.code, *bytes = &code[CODE_CONFIG2];
    const struct access *access = access_scan(&mods);

    if (!word_alike(form, "mem", false))
        return -ENOENT;
    if (!word_u64(address, true, 0, UINT64_MAX, &code[CODE_CONFIG1]))
        return err_set(err, CS01,
                       "\"" WORD_FMT
                       "\" is not a valid address: write mem:0xADDRESS[/LENGTH][:rwx]",
                       WORD_ARG(address));
    if (!access)
        return err_set(err, CS03,
                       "\"" WORD_FMT
                       "\" is not a valid access of a breakpoint: write r, w, rw or x",
                       WORD_ARG(word_part(mods, ":")));
    const bool execute = access->type == HW_BREAKPOINT_X, has_length = address.len < place.len;
    *bytes = execute ? sizeof(long) : 4;
    if (has_length && (!word_u64(length, false, 1, 8, bytes) || (*bytes & (*bytes - 1)) != 0))
        return err_set(err, CS04,
                       "\"" WORD_FMT "\" is not a valid length of a breakpoint: write 1, 2, 4 or 8",
                       WORD_ARG(length));
    if (execute && *bytes != sizeof(long))
        return err_set(err, CS04,
                       "a breakpoint on execution has length %zu, not " WORD_FMT
                       ": leave out the length",
                       sizeof(long), WORD_ARG(length));
    int rc = spec_use(spec, pmus_first_of(spec->state->pmus, PMU_BREAKPOINT), whole, err);
    if (rc < 0)
        return rc;
    code[CODE_BP_TYPE] = access->type;
    /* Only the superuser may watch addresses that may be the kernel's. */
    spec->event.needs_kernel = code[CODE_CONFIG1] > USER_END - *bytes;
    spec->event.needs_superuser = spec->event.needs_kernel;
    spec_append(spec, "mem:0x%llx/%llu:%s", (unsigned long long)code[CODE_CONFIG1],
                (unsigned long long)*bytes, access->type == HW_BREAKPOINT_RW ? "rw" : access->name);
    *text = mods;
    return 0;
}
