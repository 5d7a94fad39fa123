/*
 * The whole state as text: one record a line. Descriptors are named by number; whoever loads the
 * text has the same table.
 */
#include "core/engine.h"

#include "core/fields.h"
#include "core/instance_save.h"
#include "core/pmc.h"

#include <inttypes.h>
#include <stdlib.h>

static void line_begin(struct buf *out, const char *name)
{
    buf_str(out, name);
    buf_char(out, ' ');
}

static void line_end(struct buf *out)
{
    if (out->len && out->data[out->len - 1] != '\n')
        buf_char(out, '\n');
}

static void save_event(struct buf *out, const struct event *event)
{
    saved_begin(&saved_event, out);
    saved_print(&saved_event, event, out);
    buf_char(out, '\n');
}

static void save_claim(struct buf *out, const struct claim *claim)
{
    saved_begin(&saved_claim, out);
    saved_print(&saved_claim, claim, out);
    buf_char(out, ' ');
    if (cpus_count(&claim->cpus))
        cpus_print(&claim->cpus, out);
    else
        buf_char(out, '-');
    for (unsigned i = 0; i < claim->n; i++)
        saved_print(&saved_member, &claim->member[i], out);
    buf_char(out, '\n');
}

static void save_link(struct engine *engine, struct buf *out, const struct link *link, unsigned n)
{
    struct held held = {.proc = link->proc ? link->proc->id : 0};

    out->failed |= !held_fill(&held, link->rights);
    saved_begin(&saved_link, out);
    saved_print(&saved_link, link, out);
    saved_print(&saved_held, &held, out);
    free(held.rights);
    tally_print(link->base, n, out);
    if (!link->counter)
        return;
    buf_str(out, "counter ");
    engine->backend->print(link->counter, out);
    line_end(out);
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

/* The log stands before its recording; but that may put what it still had into the log. */
static void save_log(struct buf *out, const struct pmc *pmc)
{
    struct buf recording;

    buf_init(&recording, NULL, 0);
    if (pmc->recording)
        recording_print(pmc->recording, &recording);
    if (pmc->sets) {
        line_begin(out, "sets");
        buf_printf(out, "%" PRIu64 " ", pmc->sets_bytes);
        log_sets_print(pmc->sets, out);
        line_end(out);
    }
    if (pmc->log) {
        line_begin(out, "log");
        log_print(pmc->log, out);
        line_end(out);
    }
    if (pmc->recording) {
        line_begin(out, "counted");
        for (unsigned i = 0; i < pmc_events(pmc); i++)
            buf_printf(out, "%" PRIu64 " ", pmc->counted_before[i]);
        buf_char(out, '\n');
        line_begin(out, "recording");
        buf_add(out, recording.data, recording.len);
        line_end(out);
    }
    out->failed |= recording.failed;
    buf_free(&recording);
}

static void save_pmc(struct engine *engine, struct buf *out, const struct pmc *pmc)
{
    struct pmc_rest rest = {pmc->owner ? pmc->owner->id : 0, pmc_events(pmc), pmc->links->n};

    saved_begin(&saved_pmc, out);
    buf_printf(out, " %" PRIu64 " ", pmc->instance->id);
    buf_str(out, pmc->name); /* made of nothing that would have to be escaped */
    saved_print(&saved_pmc, pmc, out);
    saved_print(&saved_pmc_rest, &rest, out);
    buf_char(out, '\n');
    save_settings(out, pmc);
    for (unsigned i = 0; i < pmc_events(pmc); i++)
        save_event(out, &pmc->set->event[i]);
    saved_begin(&saved_tally, out);
    tally_print(pmc->base, pmc_events(pmc), out);
    save_log(out, pmc);
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
        proc->left = proc_left(proc); /* what the guard's ring holds ends with this process */
        saved_begin(&saved_proc, out);
        saved_print(&saved_proc, proc, out);
        buf_printf(out, " %d ", proc->guard ? engine->backend->guard_fd(proc->guard) : 0);
        engine->host->process_print(proc->process, out);
        if (out->len && out->data[out->len - 1] != '\n')
            buf_char(out, '\n');
    }
}

static void save_errors(const struct instance *instance, struct buf *out)
{
    for (size_t i = 0; i < instance->n_errors; i++) {
        saved_begin(&saved_error, out);
        buf_printf(out, " %" PRIu64, instance->id);
        saved_print(&saved_error, &instance->errors[i], out);
        buf_char(out, '\n');
    }
}

void engine_save(struct engine *engine, struct buf *out)
{
    uint64_t id = 0;

    buf_printf(out, "pmcfs-state 2\nserial %" PRIu64 "\n", engine->next_serial);
    save_tunables(engine, out);
    saved_begin(&saved_counts, out);
    saved_print(&saved_counts, engine, out);
    buf_char(out, '\n');
    if (engine->has_catalog)
        buf_str(out, "catalog\n");
    save_rows(engine, out);
    save_processes(engine, out);
    instances_print(engine, out);
    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));)
        save_pmc(engine, out, pmc);
    save_errors(engine->root, out);
    id = 0;
    for (struct instance *one; (one = ids_next(&engine->instances, id, &id));)
        save_errors(one, out);
}
