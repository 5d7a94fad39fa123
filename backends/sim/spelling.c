/*
 * Taking an event's spelling apart: class, name, modifiers (:u, /u), qualifiers (,usr,cmask=2).
 */
#include "backends/sim/spelling.h"

#include <string.h>

static const char *find(struct word word, char c)
{
    return word.len == 0 ? NULL : memchr(word.p, c, word.len);
}

static struct word word_between(const char *p, const char *end)
{
    return (struct word){.p = p, .len = (size_t)(end - p)};
}

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

static int modifiers_parse(struct spelling *spelling, struct word text, struct err *err)
{
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.p[i];
        const bool user = c == 'u' || c == 'U', kernel = c == 'k' || c == 'K';

        if (c == ':')
            continue;
        if (c == 'p' || c == 'P')
            return err_set(err, P09, "\"" WORD_FMT "\": the simulated PMU has no precise samples",
                           WORD_ARG(text));
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
    const bool has_value = find(word, '=') != NULL;
    bool on = true;
    uint64_t n = 0;

    if (kind == CMASK) {
        if (!has_value || !word_u64(value, true, 0, 255, &n))
            return err_set(err, CS04, "\"" WORD_FMT "\": it takes a number 0-255", WORD_ARG(word));
        spelling->cmask = (unsigned)n;
        spelling->qualified = true;
        return 0;
    }
    if (has_value && !word_bool(value, &on))
        return err_set(err, CS04, "\"" WORD_FMT "\": this qualifier is 1 or 0", WORD_ARG(word));
    if (kind == USR || kind == OS) {
        if (on)
            said_set(spelling, kind == USR, kind == OS);
        return 0;
    }
    spelling->qualified = true;
    if (kind == EDGE)
        spelling->edge = on;
    else
        spelling->invert = on;
    return 0;
}

static int qualifier_parse(struct spelling *spelling, struct word word, struct err *err)
{
    struct word key = word, value = {word.p + word.len, 0};
    struct near near;

    word_split(word, &key, &value);
    if (word_alike(key, "precise", false))
        return err_set(err, P09, "\"" WORD_FMT "\": the simulated PMU has no precise samples",
                       WORD_ARG(word));
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

/* CLASS/NAME,…/u or CLASS/NAME, CLASS::NAME:u or NAME:u; *tail is what follows the first comma. */
static struct word spelling_split(struct spelling *spelling, struct word text, struct word *tail)
{
    const char *end = text.p + text.len, *slash = find(text, '/');
    const char *colons = memmem(text.p, text.len, "::", 2), *last;
    struct word inside, behind;

    if (slash == NULL) {
        inside = word_until(text, ',', &text);
        *tail = text;
        if (colons != NULL && colons < inside.p + inside.len) {
            spelling->class_name = word_between(inside.p, colons);
            inside = word_between(colons + 2, inside.p + inside.len);
        }
        spelling->name = word_until(inside, ':', &inside);
        return inside;
    }
    spelling->class_name = word_between(text.p, slash);
    last = memrchr(slash, '/', (size_t)(end - slash));
    if (last == slash) {
        inside = word_between(slash + 1, end);
        behind = word_until(inside, ',', &inside);
        *tail = inside;
        spelling->name = word_until(behind, ':', &behind);
        return behind;
    }
    inside = word_between(slash + 1, last);
    behind = word_between(last + 1, end);
    spelling->name = word_until(inside, ',', &inside);
    /* qualifiers are inside the slashes or behind them */
    if (inside.len == 0 && find(behind, ',') != NULL) {
        const struct word modifiers = word_until(behind, ',', &behind);

        *tail = behind;
        return modifiers;
    }
    *tail = inside;
    return behind;
}

int spelling_parse(struct spelling *spelling, const char *text, struct err *err)
{
    struct word tail, modifiers;
    int rc;

    *spelling = (struct spelling){.user = SAID_NOTHING, .kernel = SAID_NOTHING};
    modifiers = spelling_split(spelling, (struct word){text, strlen(text)}, &tail);
    if (spelling->name.len == 0)
        return err_set(err, CS01, "\"%s\" names no event", text);
    if (strchr(",:", text[strlen(text) - 1]) != NULL)
        return err_set(err, CS03, "nothing stands behind the last '%c' of \"%s\"",
                       text[strlen(text) - 1], text);
    rc = modifiers_parse(spelling, modifiers, err);
    while (rc == 0 && tail.len > 0)
        rc = qualifier_parse(spelling, word_until(tail, ',', &tail), err);
    return rc;
}
