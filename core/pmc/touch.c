/*
 * The set of objects that changed while the lock was held. Their records are written before it is
 * dropped (core/journal/keep.c). A set of ids, because the record of a freed object must be
 * deleted.
 */
#include "core/pmc/parts.h"

#include <stdlib.h>

enum {
    SLOTS_MIN = 64 /* a power of two */
};

/* Returns the slot of the object, or the empty slot for it. The table is never full. */
static uint32_t *slot_of(const struct touches *touches, enum journal_kind kind, uint64_t id)
{
    const size_t mask = touches->n_slots - 1;
    size_t at = (size_t)((id * 8 + kind) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;

    for (;; at = (at + 1) & mask) {
        const uint32_t used = touches->slots[at];

        if (!used || (touches->items[used - 1].kind == kind && touches->items[used - 1].id == id))
            return &touches->slots[at];
    }
}

/* Doubles the table. Returns false on ENOMEM without a change. */
static bool touches_grow(struct touches *touches)
{
    const size_t n = touches->n_slots ? 2 * touches->n_slots : SLOTS_MIN;
    struct touched *items = realloc(touches->items, n / 2 * sizeof *items);
    uint32_t *slots = items ? calloc(n, sizeof *slots) : NULL;

    if (items)
        touches->items = items;
    if (!slots)
        return false;
    free(touches->slots);
    touches->slots = slots;
    touches->n_slots = n;
    for (size_t i = 0; i < touches->n; i++)
        *slot_of(touches, items[i].kind, items[i].id) = (uint32_t)(i + 1);
    return true;
}

void engine_touch(struct engine *engine, enum journal_kind kind, uint64_t id)
{
    struct touches *touches = &engine->touched;
    uint32_t *slot;

    engine->touches += kind == JOURNAL_PMC || kind == JOURNAL_INSTANCE;
    if (!engine->journal || engine->touch_failed)
        return; /* a full snapshot follows */
    if (2 * touches->n == touches->n_slots && !touches_grow(touches)) {
        engine->touch_failed = true;
        return;
    }
    slot = slot_of(touches, kind, id);
    if (*slot)
        return;
    touches->items[touches->n++] = (struct touched){kind, id};
    *slot = (uint32_t)touches->n;
}

void engine_touched_clear(struct engine *engine)
{
    struct touches *touches = &engine->touched;

    /* In reverse order, because a later item never displaced an earlier one. */
    for (; touches->n; touches->n--)
        *slot_of(touches, touches->items[touches->n - 1].kind, touches->items[touches->n - 1].id) =
            0;
}
