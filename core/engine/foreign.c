/*
 * What pmcfs itself holds on a CPU is counted off: a probe cannot tell it from what others hold.
 */
#include "core/engine/foreign.h"

#include "core/slow.h"

#include <stdlib.h>

struct probed {
    unsigned cpu, class_index;
    uint64_t own;     /* rows, when the probe began */
    uint64_t foreign; /* rows that the probe found taken */
};

struct probing {
    const struct engine *engine;
    unsigned n;
    struct probed slots[];
};

static void probing_run(struct probing *probing)
{
    const struct engine *engine = probing->engine;

    for (unsigned i = 0; i < probing->n; i++) {
        struct probed *at = &probing->slots[i];

        at->foreign = engine->backend->foreign(engine->backend_state, at->class_index, at->cpu,
                                               at->own);
    }
}

/*
 * Rows that pmcfs's own PMCs may hold on this CPU: those of processes too, for their tasks may run
 * there at any moment.
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

static struct probing *probing_new(const struct engine *engine)
{
    size_t n = (size_t)cpus_count(&engine->online) * engine->n_classes;
    struct probing *probing = calloc(1, sizeof *probing + n * sizeof probing->slots[0]);

    if (!probing)
        return NULL;
    probing->engine = engine;
    for (int cpu = cpus_next(&engine->online, 0); cpu >= 0 && engine->backend->foreign;
         cpu = cpus_next(&engine->online, cpu + 1))
        for (unsigned i = 0; i < engine->n_classes; i++)
            if (engine->classes[i].rows)
                probing->slots[probing->n++] = (struct probed){
                    .cpu = (unsigned)cpu,
                    .class_index = i,
                    .own = own_rows(engine, (unsigned)cpu, i),
                };
    return probing;
}

/* A result from while PMCs came or went means nothing: the slot stays as it was known. */
int foreign_probe(struct call *call)
{
    const struct engine *engine = call->engine;
    struct probing *probing;
    int rc = slow_admit(call);

    if (rc)
        return rc;
    probing = probing_new(engine);
    if (!probing)
        return err_nomem(&call->err);
    slow_begin(call, true);
    probing_run(probing);
    slow_end(call);
    for (unsigned i = 0; i < probing->n; i++) {
        const struct probed *at = &probing->slots[i];

        if (own_rows(engine, at->cpu, at->class_index) == at->own)
            rows_set_foreign(engine->rows, at->cpu, at->class_index, at->foreign);
    }
    free(probing);
    return CALL_DONE;
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
