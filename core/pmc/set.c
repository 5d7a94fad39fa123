/*
 * Sets of events, shared by PMCs with equal sets.
 */
#include "core/pmc/pmc.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct set *set_new(unsigned n)
{
    struct set *set = calloc(1, sizeof *set + n * sizeof set->event[0]);

    if (set) {
        set->refs = 1;
        set->n = n;
    }
    return set;
}

struct set *set_ref(struct set *set)
{
    if (set)
        set->refs++;
    return set;
}

void set_unref(struct set *set)
{
    if (!set || --set->refs > 0)
        return;
    if (set->engine)
        HASH_DEL(set->engine->sets, set);
    for (unsigned i = 0; i < set->n; i++)
        event_clear(&set->event[i]);
    free(set);
}

/* Compares everything, because the meaning of a spelling may change. */
static bool set_same(const struct set *a, const struct set *b)
{
    const size_t facts = offsetof(struct event, class_index);
    bool same = a->n == b->n;

    for (unsigned i = 0; same && i < a->n; i++) {
        const struct event *x = &a->event[i], *y = &b->event[i];

        same = strcmp(x->written, y->written) == 0 && strcmp(x->resolved, y->resolved) == 0 &&
               memcmp((const char *)x + facts, (const char *)y + facts, sizeof *x - facts) == 0;
    }
    return same;
}

struct set *set_share(struct engine *engine, struct set *set)
{
    const char *written = set ? set->event[0].written : "";
    struct set *known;

    HASH_FIND_STR(engine->sets, written, known);
    if (!set || set->engine || (known && !set_same(known, set)))
        return set;
    if (known) {
        set_unref(set);
        return set_ref(known);
    }
    HASH_ADD_KEYPTR(hh, engine->sets, written, strlen(written), set);
    set->engine = hash_has(set) ? engine : NULL;
    return set;
}

void claim_members(struct claim *claim, const struct set *set, uint64_t row)
{
    for (unsigned i = 0; i < set->n; i++) {
        const struct event *event = &set->event[i];

        if (!event->rows)
            continue;
        claim->class_index = event->class_index;
        claim->member[claim->n++] =
            (struct claim_member){.fits = event->rows,
                                  .needed = event->rows_needed,
                                  .asked = row == UINT64_MAX ? ROW_ANY : (int)row};
    }
}
