/*
 * Which objects changed since the lock was taken: their records are put before it is dropped
 * (core/journal/keep.c).
 */
#include "core/pmc/parts.h"

#include <stdlib.h>

void engine_touch(struct engine *engine, enum journal_kind kind, uint64_t id)
{
    struct touched *touched;

    engine->touches += kind == JOURNAL_PMC || kind == JOURNAL_INSTANCE;
    for (size_t i = engine->n_touched; engine->journal && i-- > 0;)
        if (engine->touched[i].kind == kind && engine->touched[i].id == id)
            return;
    if (!engine->journal)
        return;
    touched = realloc(engine->touched, (engine->n_touched + 1) * sizeof *touched);
    engine->touch_failed |= !touched;
    if (!touched)
        return;
    engine->touched = touched;
    touched[engine->n_touched++] = (struct touched){kind, id};
}
