/*
 * Probing for foreign slots. A probe cannot distinguish pmcfs's counters from others', so the rows
 * of pmcfs are subtracted.
 */
#include "core/engine/foreign.h"

#include "core/slow.h"

/*
 * Returns the rows that PMCs may hold on this CPU, including those of process PMCs, whose tasks may
 * run there at any time.
 */
static uint64_t own_rows(const struct engine *engine, unsigned cpu, unsigned class_index)
{
    uint64_t own = 0, oldest;

    for (unsigned row = 0; row < engine->classes[class_index].rows && row < 64; row++)
        if (rows_disposition(engine->rows, class_index, row) != ROW_FREE &&
            rows_users(engine->rows, cpu, class_index, row, &oldest) > 0)
            own |= UINT64_C(1) << row;
    return own;
}

/* Probes one CPU. If PMCs changed during the probe, the result is dropped. */
static void slot_probe(struct call *call, unsigned cpu, unsigned class_index)
{
    const struct engine *engine = call->engine;
    const uint64_t own = own_rows(engine, cpu, class_index);
    uint64_t foreign;

    slow_begin(call, true);
    foreign = engine->backend->foreign(engine->backend_state, class_index, cpu, own);
    slow_end(call);
    if (own_rows(engine, cpu, class_index) == own)
        rows_set_foreign(engine->rows, cpu, class_index, foreign);
}

int foreign_probe(struct call *call)
{
    const struct engine *engine = call->engine;
    int rc = engine->backend->foreign ? slow_admit(call) : CALL_DONE;

    for (int cpu = cpus_next(&engine->online, 0); !rc && engine->backend->foreign && cpu >= 0;
         cpu = cpus_next(&engine->online, cpu + 1))
        for (unsigned i = 0; i < engine->n_classes; i++)
            if (engine->classes[i].rows)
                slot_probe(call, (unsigned)cpu, i);
    return rc;
}

unsigned foreign_slots(const struct engine *engine)
{
    unsigned n = 0;

    for (int cpu = cpus_next(&engine->possible, 0); cpu >= 0;
         cpu = cpus_next(&engine->possible, cpu + 1))
        for (unsigned i = 0; i < engine->n_classes; i++)
            for (unsigned row = 0; row < engine->classes[i].rows; row++)
                n += rows_slot(engine->rows, (unsigned)cpu, i, row) == SLOT_FOREIGN;
    return n;
}
