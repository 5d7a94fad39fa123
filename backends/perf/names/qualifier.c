/*
 * hwpmc's qualifiers (,usr ,os ,cmask=N …). usr and os add modes to the modifiers, precise sets the
 * level of precise samples; the others set fields of the PMU's format and override the event's own
 * bits.
 */
#include "backends/perf/names/names.h"
#include "backends/perf/names/spec.h"

#include <linux/perf_event.h>
#include <string.h>

enum value_kind {
    FLAG, /* no value, or 0 or 1 */
    NUMBER,
    MASKS, /* a number, or names of unit masks joined by '+' */
    MODE,  /* no value */
    LEVEL  /* no value, or a level of precise samples */
};

static const struct qualifier {
    const char *name;
    enum value_kind value;
    const char *fields[2]; /* names in PMU formats; the first is used in the canonical form */
} table[] = {
    {"usr", MODE, {NULL}},
    {"os", MODE, {NULL}},
    {"edge", FLAG, {"edge"}},
    {"inv", FLAG, {"inv"}},
    {"any", FLAG, {"any"}},
    {"cmask", NUMBER, {"cmask", "threshold"}},
    {"umask", MASKS, {"umask", "unitmask"}},
    {"precise", LEVEL, {NULL}},
    {"anythread", FLAG, {"any"}},
    {"count", NUMBER, {"cmask", "threshold"}},
    {"threshold", NUMBER, {"cmask", "threshold"}},
    {"unitmask", MASKS, {"umask", "unitmask"}},
    {"mask", MASKS, {"umask", "unitmask"}},
    {"rsp", MASKS, {"rsp", "offcore_rsp"}},
};

#define N_TABLE (sizeof(table) / sizeof(table[0]))

static const struct qualifier *qualifier_find(struct word name)
{
    for (size_t i = 0; i < N_TABLE; i++)
        if (word_alike(name, table[i].name, false))
            return &table[i];
    return NULL;
}

bool perf_is_qualifier(struct word name)
{
    return qualifier_find(name);
}

struct word qualifiers_split(struct word text, struct word *qualifiers)
{
    const char *first = memchr(text.p, '/', text.len), *last = memrchr(text.p, '/', text.len);
    /* Commas between two slashes separate terms. A single slash (generic/…, mem:…/4) does not open
     * a list of terms. */
    struct word tail = first == last ? text : word_from(text, (size_t)(last - text.p));
    struct word before = word_until(tail, ',', qualifiers);

    return (struct word){text.p, (size_t)(before.p + before.len - text.p)};
}

/* Returns true if the value is a list of unit mask names, not a number. */
static bool value_names_masks(const struct qualifier *qualifier, struct word value)
{
    uint64_t number;

    return qualifier && qualifier->value == MASKS && value.len > 0 &&
           !word_u64(value, true, 0, UINT64_MAX, &number);
}

struct word qualifiers_masks(struct word text)
{
    struct word rest, value;

    for (; text.len > 0; text = rest) {
        struct word name = word_until(word_until(text, ',', &rest), '=', &value);
        if (value_names_masks(qualifier_find(name), value))
            return value;
    }
    return text;
}

bool qualifier_precise(struct word word, uint64_t *level)
{
    struct word value, name = word_until(word, '=', &value);
    uint64_t number = 1;

    if (!word_alike(name, "precise", false) ||
        (name.len < word.len && !word_u64(value, false, 0, PRECISE_MAX, &number)))
        return false;
    *level = number;
    return true;
}

/* Replaces the kernel's number of a generic event, which cannot be qualified, by the processor's
 * code from a kernel event file. Returns false if there is no such file; true for other events. */
static bool use_raw_code(struct spec *spec)
{
    uint64_t *type = &spec->event.code[CODE_TYPE];

    if (*type != PERF_TYPE_HARDWARE && *type != PERF_TYPE_HW_CACHE)
        return true;
    for (const char *const *name = spec->raw_names; name && *name; name++) {
        const struct pmu_event *event = pmu_event(spec->pmu, word_of(*name));
        if (!event)
            continue;
        memset(&spec->event.code[CODE_CONFIG], 0, CONFIG_WORDS * sizeof(uint64_t));
        if (terms_put_event(spec, event)) {
            *type = spec->pmu->type;
            return true;
        }
    }
    return false;
}

static int put_field(struct spec *spec, const struct qualifier *qualifier, uint64_t value,
                     struct err *err)
{
    generic_narrow(spec);
    const struct pmu_format *format = pmu_format(spec->pmu, word_of(qualifier->fields[0]));

    if (!format && qualifier->fields[1])
        format = pmu_format(spec->pmu, word_of(qualifier->fields[1]));
    spec->event.generic[0] = '\0'; /* counts only a part of the generic event */
    if (!format)
        return err_set(err, E35, "PMU %s of this processor has no qualifier \"%s\": leave it out",
                       spec->pmu->name, qualifier->name);
    if (!use_raw_code(spec))
        return err_set(err, E35,
                       "\"%s\" cannot be used with %s, a generic event whose code only the kernel "
                       "has: write the processor's own event",
                       qualifier->name, spec->resolved);
    if (!format_put(format, value, &spec->event.code[CODE_CONFIG]))
        return err_set(err, CS04,
                       "%s=%llu is too large: write a smaller number, because %s has %u bits on "
                       "this processor",
                       qualifier->name, (unsigned long long)value, format->name,
                       format_bits(format));
    spec_append(spec, qualifier->value == FLAG ? ",%s=%llu" : ",%s=0x%llx", qualifier->fields[0],
                (unsigned long long)value);
    return 0;
}

/* Reads the value after '=' of the qualifier `word`: a level to *level, other values to *number (1
 * if there is none). Returns false if the qualifier does not take the value. */
static bool value_scan(const struct qualifier *qualifier, struct word word, struct word value,
                       uint64_t *level, uint64_t *number)
{
    const bool alone = !memchr(word.p, '=', word.len);

    *number = 1;
    switch (qualifier->value) {
    case MODE:
        return alone;
    case FLAG:
        return alone || word_u64(value, false, 0, 1, number);
    case LEVEL:
        return qualifier_precise(word, level);
    default:
        return word_u64(value, true, 0, UINT64_MAX, number);
    }
}

int qualifiers_apply(struct spec *spec, struct word text, struct err *err)
{
    static const char *const values[] = {[FLAG] = "no value",
                                         [NUMBER] = "a number",
                                         [MASKS] = "a number",
                                         [MODE] = "no value",
                                         [LEVEL] = "a level from 0 to 3"};
    struct event *event = &spec->event;
    struct word rest, value;
    uint64_t number;
    int rc = 0;

    for (; rc == 0 && text.len > 0; text = rest) {
        const struct word word = word_until(text, ',', &rest), name = word_until(word, '=', &value);
        const struct qualifier *qualifier = qualifier_find(name);

        if (!qualifier) {
            struct near near = {.word = name};

            for (size_t i = 0; i < N_TABLE; i++)
                near_offer(&near, table[i].name);
            return err_set(err, CS03,
                           "no qualifier \"" WORD_FMT
                           "\"%s; write usr, os, edge, inv, any, cmask=N, umask=N or precise",
                           WORD_ARG(name), near_text(&near));
        }
        if (value_names_masks(qualifier, value))
            continue; /* see qualifiers_masks() */
        if (!value_scan(qualifier, word, value, &event->code[CODE_PRECISE], &number))
            return err_set(err, CS04, "qualifier %s takes %s, not \"" WORD_FMT "\"",
                           qualifier->name, values[qualifier->value], WORD_ARG(value));
        if (qualifier->value == MODE) { /* adds to the modifiers of the spelling */
            *(qualifier->name[0] == 'u' ? &event->user : &event->kernel) = MODIFIER_ON;
            spec_disable_other_mode(spec);
        }
        if (qualifier->fields[0])
            rc = put_field(spec, qualifier, number, err);
    }
    return rc;
}
