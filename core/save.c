/*
 * The whole state as text: one record a line. Descriptors are named by number; whoever loads the
 * text has the same table.
 */
#include "core/engine.h"

#include "core/fields.h"
#include "core/pmc.h"

#include <inttypes.h>
#include <stdlib.h>

static void save_event(struct buf *out, const struct event *event)
{
    record_begin(&record_event, out);
    record_print(&record_event, event, out);
    buf_char(out, '\n');
}

static void save_claim(struct buf *out, const struct claim *claim)
{
    record_begin(&record_claim, out);
    record_print(&record_claim, claim, out);
    buf_char(out, ' ');
    if (cpus_count(&claim->cpus))
        cpus_print(&claim->cpus, out);
    else
        buf_char(out, '-');
    for (unsigned i = 0; i < claim->n; i++)
        record_print(&record_member, &claim->member[i], out);
    buf_char(out, '\n');
}

static void save_link(struct engine *engine, struct buf *out, const struct link *link, unsigned n)
{
    struct held held = {.proc = link->proc ? link->proc->id : 0};

    out->failed |= !held_fill(&held, link->rights);
    record_begin(&record_link, out);
    record_print(&record_link, link, out);
    record_print(&record_held, &held, out);
    free(held.rights);
    tally_print(link->base, n, out);
    if (!link->counter)
        return;
    buf_str(out, "counter ");
    engine->backend->print(link->counter, out);
    if (out->len && out->data[out->len - 1] != '\n')
        buf_char(out, '\n');
}

static void save_settings(struct buf *out, const struct pmc *pmc)
{
    buf_str(out, "settings ");
    buf_u64(out, pmc->settings.given);
    for (unsigned key = 0; key < KEYS; key++) {
        if (key == KEY_EVENT || key == KEY_TARGET)
            continue;
        buf_char(out, ' ');
        buf_str(out, key_table[key].name);
        buf_char(out, '=');
        settings_print(&pmc->settings, (enum key)key, 0, out);
    }
    buf_char(out, '\n');
}

static void save_pmc(struct engine *engine, struct buf *out, const struct pmc *pmc)
{
    struct pmc_rest rest = {pmc->owner ? pmc->owner->id : 0, pmc_events(pmc), pmc->links->n};

    record_begin(&record_pmc, out);
    buf_char(out, ' ');
    buf_str(out, pmc->name); /* made of nothing that would have to be escaped */
    record_print(&record_pmc, pmc, out);
    record_print(&record_pmc_rest, &rest, out);
    buf_char(out, '\n');
    save_settings(out, pmc);
    for (unsigned i = 0; i < pmc_events(pmc); i++)
        save_event(out, &pmc->set->event[i]);
    record_begin(&record_tally, out);
    tally_print(pmc->base, pmc_events(pmc), out);
    if (pmc->claim)
        save_claim(out, pmc->claim);
    for (unsigned i = 0; i < pmc->links->n; i++)
        save_link(engine, out, pmc->links->link[i], pmc_events(pmc));
}

static void save_tunables(const struct engine *engine, struct buf *out)
{
    for (unsigned i = 0; i < TUNABLE_COUNT; i++) {
        buf_str(out, "tunable ");
        buf_str(out, tunable_row((enum tunable)i)->name);
        buf_char(out, ' ');
        tunable_print(&engine->tunables, (enum tunable)i, out);
        buf_char(out, '\n');
    }
}

static void save_rows(const struct engine *engine, struct buf *out)
{
    for (int cpu = cpus_next(&engine->possible, 0); cpu >= 0;
         cpu = cpus_next(&engine->possible, cpu + 1))
        for (unsigned class = 0; class < engine->n_classes; class ++)
            for (unsigned row = 0; row < engine->classes[class].rows; row++)
                if (rows_slot(engine->rows, (unsigned)cpu, class, row) == SLOT_DISABLED)
                    buf_printf(out, "disabled %d %u %u\n", cpu, class, row);
}

static void save_processes(struct engine *engine, struct buf *out)
{
    uint64_t id = 0;

    for (struct proc *proc; (proc = ids_next(&engine->procs, id, &id));) {
        record_begin(&record_proc, out);
        record_print(&record_proc, proc, out);
        buf_printf(out, " %d ", proc->guard ? engine->backend->guard_fd(proc->guard) : 0);
        engine->host->process_print(proc->process, out);
        if (out->len && out->data[out->len - 1] != '\n')
            buf_char(out, '\n');
    }
}

static void save_errors(const struct engine *engine, struct buf *out)
{
    for (size_t i = 0; i < engine->root->n_errors; i++) {
        record_begin(&record_error, out);
        record_print(&record_error, &engine->root->errors[i], out);
        buf_char(out, '\n');
    }
}

void engine_save(struct engine *engine, struct buf *out)
{
    uint64_t id = 0;

    buf_printf(out, "pmcfs-state 1\nserial %" PRIu64 "\n", engine->next_serial);
    save_tunables(engine, out);
    record_begin(&record_counts, out);
    record_print(&record_counts, engine, out);
    buf_char(out, '\n');
    if (engine->has_catalog)
        buf_str(out, "catalog\n");
    save_rows(engine, out);
    save_processes(engine, out);
    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));)
        save_pmc(engine, out, pmc);
    save_errors(engine, out);
}
