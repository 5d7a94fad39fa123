/*
 * Taking an event's spelling apart: class, name, modifiers (:u, /u), qualifiers (,usr,cmask=2).
 */
#include "backends/sim/spelling.h"

#include <string.h>

static void said_set(struct spelling *spelling, bool user, bool kernel)
{
    /* the first to be said turns the other off */
    if (spelling->user == SAID_NOTHING)
        spelling->user = spelling->kernel = SAID_OFF;
    if (user)
        spelling->user = SAID_ON;
    if (kernel)
        spelling->kernel = SAID_ON;
}

static int precise_refuse(struct word word, struct err *err)
{
    return err_set(err, P09, "\"" WORD_FMT "\": the simulated PMU has no precise samples",
                   WORD_ARG(word));
}

static int modifiers_parse(struct spelling *spelling, struct word text, struct err *err)
{
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.p[i];
        const bool user = c == 'u' || c == 'U', kernel = c == 'k' || c == 'K';

        if (c == 'p' || c == 'P')
            return precise_refuse(text, err);
        if (!user && !kernel)
            return err_set(err, CS03,
                           "no modifier \"%c\" in \"" WORD_FMT "\": the simulated PMU "
                           "has u (user mode) and k (kernel mode)",
                           c, WORD_ARG(text));
        said_set(spelling, user, kernel);
    }
    return 0;
}

/* ---- qualifiers ---- */

enum qualifier {
    USR,
    OS,
    EDGE,
    INV,
    CMASK
};

static const struct {
    const char *name;
    enum qualifier kind;
} qualifiers[] = {{"usr", USR}, {"os", OS},       {"edge", EDGE},
                  {"inv", INV}, {"cmask", CMASK}, {"count", CMASK}};

bool spelling_has_qualifier(struct word name)
{
    for (size_t i = 0; i < sizeof qualifiers / sizeof qualifiers[0]; i++)
        if (word_alike(name, qualifiers[i].name, true))
            return true;
    return false;
}

static int qualifier_apply(struct spelling *spelling, enum qualifier kind, struct word word,
                           struct word value, struct err *err)
{
    bool on = true;
    uint64_t n = 0;

    if (kind == CMASK ? !word_u64(value, true, 0, 255, &n)
                      : value.p != NULL && !word_bool(value, &on))
        return err_set(err, CS04, "\"" WORD_FMT "\": %s", WORD_ARG(word),
                       kind == CMASK ? "it takes a number 0-255" : "this qualifier is 1 or 0");
    spelling->qualified |= kind != USR && kind != OS;
    if (kind == CMASK)
        spelling->cmask = (unsigned)n;
    else if (kind == EDGE)
        spelling->edge = on;
    else if (kind == INV)
        spelling->invert = on;
    else if (on)
        said_set(spelling, kind == USR, kind == OS);
    return 0;
}

static int qualifier_parse(struct spelling *spelling, struct word word, struct err *err)
{
    struct word key = word, value = {NULL, 0};
    struct near near;

    word_split(word, &key, &value);
    if (word_alike(key, "precise", false))
        return precise_refuse(word, err);
    near_init(&near, key);
    for (size_t i = 0; i < sizeof qualifiers / sizeof qualifiers[0]; i++) {
        if (word_alike(key, qualifiers[i].name, true))
            return qualifier_apply(spelling, qualifiers[i].kind, word, value, err);
        near_offer(&near, qualifiers[i].name);
    }
    return err_set(err, CS03,
                   "no qualifier \"" WORD_FMT "\"%s: the simulated PMU has usr, os, "
                   "edge, inv and cmask=N",
                   WORD_ARG(key), near_text(&near));
}

/* ---- the whole ---- */

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
    struct word rest, part;
    int rc = 0;

    *spelling = (struct spelling){.user = SAID_NOTHING, .kernel = SAID_NOTHING};
    rest = class_split(spelling, (struct word){text, strlen(text)});
    spelling->name = word_part(rest, ":/,");
    if (spelling->name.len == 0)
        return err_set(err, CS01, "\"%s\" names no event", text);
    if (strchr(",:", text[strlen(text) - 1]) != NULL)
        return err_set(err, CS03, "nothing stands behind the last '%c' of \"%s\"",
                       text[strlen(text) - 1], text);
    rest = word_from(rest, spelling->name.len);
    while (rc == 0 && rest.len > 0) {
        const char mark = rest.p[0];

        part = word_part(word_from(rest, 1), ":/,");
        rest = word_from(rest, 1 + part.len);
        if (mark != ',')
            rc = modifiers_parse(spelling, part, err);
        else
            rc = qualifier_parse(spelling, part, err);
    }
    return rc;
}
