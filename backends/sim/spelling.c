/*
 * Taking an event's spelling apart: class, name, modifiers (:u, /u), qualifiers (,usr,cmask=2).
 */
#include "backends/sim/spelling.h"

#include <string.h>

static int precise_refuse(struct word word, struct err *err)
{
    return err_set(err, P09, "\"" WORD_FMT "\": the simulated PMU has no precise samples",
                   WORD_ARG(word));
}

static int modifiers_parse(struct spelling *spelling, struct word text, struct err *err)
{
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.p[i] | 0x20;

        if (c == 'p')
            return precise_refuse(text, err);
        if (c != 'u' && c != 'k')
            return err_set(err, CS03,
                           "no modifier \"%c\" in \"" WORD_FMT "\": the simulated PMU "
                           "has u (user mode) and k (kernel mode)",
                           text.p[i], WORD_ARG(text));
        spelling->value[c == 'u' ? USR : OS] = 1;
    }
    return 0;
}

static const struct {
    const char *name;
    enum qualifier kind;
} qualifiers[] = {{"usr", USR}, {"os", OS},       {"edge", EDGE},
                  {"inv", INV}, {"cmask", CMASK}, {"count", CMASK}};

#define N_QUALIFIERS (sizeof qualifiers / sizeof qualifiers[0])

static size_t qualifier_find(struct word name)
{
    size_t i = 0;

    while (i < N_QUALIFIERS && !word_alike(name, qualifiers[i].name, true))
        i++;
    return i;
}

bool spelling_has_qualifier(struct word name)
{
    return qualifier_find(name) < N_QUALIFIERS;
}

bool spelling_is_part(const struct spelling *spelling)
{
    return spelling->value[EDGE] || spelling->value[INV] || spelling->value[CMASK];
}

static int qualifier_unknown(struct word key, struct err *err)
{
    struct near near;

    near_init(&near, key);
    for (size_t i = 0; i < N_QUALIFIERS; i++)
        near_offer(&near, qualifiers[i].name);
    return err_set(err, CS03,
                   "no qualifier \"" WORD_FMT "\"%s: the simulated PMU has usr, os, "
                   "edge, inv and cmask=N",
                   WORD_ARG(key), near_text(&near));
}

static int qualifier_parse(struct spelling *spelling, struct word word, struct err *err)
{
    struct word value, key = word_until(word, '=', &value);
    const size_t i = qualifier_find(key);
    bool on = true;
    uint64_t n = 0;

    if (word_alike(key, "precise", false))
        return precise_refuse(word, err);
    if (i == N_QUALIFIERS)
        return qualifier_unknown(key, err);
    if (qualifiers[i].kind == CMASK ? !word_u64(value, true, 0, 255, &n)
                                    : key.len < word.len && !word_bool(value, &on))
        return err_set(err, CS04, "\"" WORD_FMT "\": %s", WORD_ARG(word),
                       qualifiers[i].kind == CMASK ? "it takes a number 0-255"
                                                   : "this qualifier is 1 or 0");
    spelling->value[qualifiers[i].kind] = qualifiers[i].kind == CMASK ? (unsigned)n : on;
    return 0;
}

/* Takes CLASS:: or CLASS/ off the front. */
static struct word class_split(struct spelling *spelling, struct word text)
{
    const struct word class_name = word_part(text, ":/,");
    const struct word behind = word_from(text, class_name.len);

    if (behind.len == 0 || behind.p[0] == ',' ||
        (behind.p[0] == ':' && (behind.len < 2 || behind.p[1] != ':')))
        return text;
    spelling->class_name = class_name;
    return word_from(behind, behind.p[0] == '/' ? 1 : 2);
}

/* What follows the name: qualifiers behind commas, modifiers behind colons and the last slash. */
int spelling_parse(struct spelling *spelling, const char *text, struct err *err)
{
    int rc = 0;

    *spelling = (struct spelling){.name = {NULL, 0}};
    struct word rest = class_split(spelling, word_of(text));
    spelling->name = word_part(rest, ":/,");
    if (spelling->name.len == 0)
        return err_set(err, CS01, "\"%s\" names no event", text);
    if (strchr(",:", text[strlen(text) - 1]) != NULL)
        return err_set(err, CS03, "nothing stands behind the last '%c' of \"%s\"",
                       text[strlen(text) - 1], text);
    rest = word_from(rest, spelling->name.len);
    while (rc == 0 && rest.len > 0) {
        const struct word part = word_part(word_from(rest, 1), ":/,");

        rc = rest.p[0] == ',' ? qualifier_parse(spelling, part, err)
                              : modifiers_parse(spelling, part, err);
        rest = word_from(rest, 1 + part.len);
    }
    return rc;
}
