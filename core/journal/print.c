/*
 * An object as the text of its record: lines of name=value words. Descriptors are named by number,
 * and blocks by where they are: a later worker has the same. Nothing here waits or looks.
 */
#include "core/journal/state.h"

#include "core/journal/fields.h"
#include "core/pmc/pmc.h"
#include "core/read/reader_state.h"

#include <inttypes.h>
#include <stdlib.h>

static void line_end(struct buf *out)
{
    if (out->len && out->data[out->len - 1] != '\n')
        buf_char(out, '\n');
}

/* ---- PMCs ---- */

static void print_class(const struct engine *engine, unsigned class_index, struct buf *out)
{
    const char *name = engine->classes[class_index].name;

    buf_str(out, " class=");
    buf_word(out, name, strlen(name));
}

static void print_event(const struct engine *engine, const struct event *event, struct buf *out)
{
    saved_begin(&saved_event, out);
    saved_print(&saved_event, event, out);
    print_class(engine, event->class_index, out);
    buf_char(out, '\n');
}

static void print_claim(const struct engine *engine, const struct claim *claim, struct buf *out)
{
    saved_begin(&saved_claim, out);
    saved_print(&saved_claim, claim, out);
    print_class(engine, claim->class_index, out);
    if (cpus_count(&claim->cpus)) {
        buf_str(out, " cpus=");
        cpus_print(&claim->cpus, out);
    }
    buf_char(out, '\n');
    for (unsigned i = 0; i < claim->n; i++) {
        saved_begin(&saved_member, out);
        saved_print(&saved_member, &claim->member[i], out);
        buf_char(out, '\n');
    }
}

static void print_link(const struct engine *engine, const struct link *link, unsigned n,
                       struct buf *out)
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

static void print_settings(const struct pmc *pmc, struct buf *out)
{
    buf_str(out, "settings given=");
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

/* What the ids in a log mean: a line for each event of each set. */
static void print_sets(struct log_sets *sets, struct buf *out)
{
    const uint64_t last = log_sets_last(sets);

    for (uint64_t set = 1; set <= last; set++) {
        for (unsigned i = 0; i < log_sets_events(sets, set); i++) {
            saved_begin(&saved_sampled, out);
            buf_printf(out, " set=%" PRIu64, set);
            saved_print(&saved_sampled, log_sets_event(sets, set, i), out);
            buf_char(out, '\n');
        }
    }
}

static void print_recording(const struct pmc *pmc, struct buf *out)
{
    if (pmc->sets)
        print_sets(pmc->sets, out);
    if (!pmc->recording)
        return;
    buf_str(out, "counted");
    numbers_print("before", pmc->counted_before, pmc_events(pmc), out);
    buf_str(out, "\nrecording ");
    recording_print(pmc->recording, out);
    line_end(out);
}

static void print_pmc(const struct pmc *pmc, struct buf *out)
{
    const struct pmc_rest rest = {
        .instance = pmc->instance->id,
        .name = pmc->name,
        .owner = pmc->owner ? pmc->owner->id : 0,
        .events = pmc_events(pmc),
        .links = pmc->links->n,
        .log = pmc->log ? log_block(pmc->log) : 0,
        .sets_bytes = pmc->sets_bytes,
    };

    saved_begin(&saved_pmc, out);
    saved_print(&saved_pmc, pmc, out);
    saved_print(&saved_pmc_rest, &rest, out);
    buf_char(out, '\n');
    print_settings(pmc, out);
    for (unsigned i = 0; i < pmc_events(pmc); i++)
        print_event(pmc->engine, &pmc->set->event[i], out);
    saved_begin(&saved_tally, out);
    tally_print(pmc->base, pmc_events(pmc), out);
    print_recording(pmc, out);
    if (pmc->claim)
        print_claim(pmc->engine, pmc->claim, out);
    for (unsigned i = 0; i < pmc->links->n; i++)
        print_link(pmc->engine, pmc->links->link[i], pmc_events(pmc), out);
}

/* ---- what is not a PMC ---- */

static void print_engine(const struct engine *engine, struct buf *out)
{
    saved_begin(&saved_counts, out);
    saved_print(&saved_counts, engine, out);
    buf_printf(out, "%s\n", engine->has_catalog ? " catalog=1" : "");
    for (unsigned i = 0; i < TUNABLE_COUNT; i++) {
        buf_str(out, "tunable ");
        buf_str(out, tunable_row((enum tunable)i)->name);
        buf_char(out, ' ');
        tunable_print(&engine->tunables, (enum tunable)i, out);
        buf_char(out, '\n');
    }
    for (int cpu = cpus_next(&engine->possible, 0); cpu >= 0;
         cpu = cpus_next(&engine->possible, cpu + 1))
        for (unsigned class = 0; class < engine->n_classes; class ++)
            for (unsigned row = 0; row < engine->classes[class].rows; row++)
                if (rows_slot(engine->rows, (unsigned)cpu, class, row) == SLOT_DISABLED)
                    buf_printf(out, "disabled %d %s %u\n", cpu, engine->classes[class].name, row);
}

static void print_process(const struct engine *engine, const struct proc *proc,
                          struct buf *out)
{
    saved_begin(&saved_proc, out);
    saved_print(&saved_proc, proc, out);
    if (proc->guard)
        buf_printf(out, " guard=%d", engine->backend->guard_fd(proc->guard));
    buf_str(out, "\nheld ");
    engine->host->process_print(proc->process, out);
    line_end(out);
}

static void print_instance(const struct instance *instance, struct buf *out)
{
    saved_begin(&saved_instance, out);
    saved_print(&saved_instance, instance, out);
    buf_printf(out, " holder=%" PRIu64 "\n", instance->holder ? instance->holder->id : 0);
}

/* Of an instance and a user. */
static void print_error(struct engine *engine, uint64_t id, struct buf *out)
{
    const struct instance *instance = engine_instance(engine, id >> 32);

    for (size_t i = 0; instance && i < instance->n_errors; i++) {
        if (instance->errors[i].uid != (uint32_t)id)
            continue;
        saved_begin(&saved_error, out);
        saved_print(&saved_error, &instance->errors[i], out);
        buf_char(out, '\n');
    }
}

void object_print(struct engine *engine, enum journal_kind kind, uint64_t id, struct buf *out)
{
    const struct pmc *pmc;
    const struct proc *proc;
    const struct instance *instance;

    if (kind == JOURNAL_ENGINE)
        print_engine(engine, out);
    else if (kind == JOURNAL_PROCESS && (proc = ids_find(&engine->procs, id)))
        print_process(engine, proc, out);
    else if (kind == JOURNAL_INSTANCE && (instance = ids_find(&engine->instances, id)))
        print_instance(instance, out);
    else if (kind == JOURNAL_PMC && (pmc = ids_find(&engine->pmcs, id)))
        print_pmc(pmc, out);
    else if (kind == JOURNAL_ERROR)
        print_error(engine, id, out);
}

/* ---- open files ---- */

/* A PMC may be released after this is put, and leaves its log to its readers: they have the names
 * of its events. */
static void print_reader(const struct log_reader *reader, struct buf *out)
{
    struct reader_place place = {.form = (char *)(uintptr_t)reader->form->name};
    const bool ends = !ids_find(&reader->engine->pmcs, reader->pmc);

    if (reader->cursor && (!ends || (reader->facts.class && log_ready(reader->cursor)))) {
        place.log = log_block(reader->cursor->log);
        log_cursor_mark(reader->cursor, &place.mark);
    }
    saved_begin(&saved_reader, out);
    saved_print(&saved_reader, reader, out);
    saved_print(&saved_reader_place, &place, out);
    buf_char(out, '\n');
    if (reader->facts.sets)
        print_sets(reader->facts.sets, out);
}

void open_file_print(const struct open_file *open, struct buf *out)
{
    struct held held = {.proc = 0};

    out->failed |= !held_fill(&held, open->rights);
    saved_begin(&saved_open_file, out);
    saved_print(&saved_open_file, open, out);
    saved_print(&saved_held, &held, out);
    buf_char(out, '\n');
    free(held.rights);
    if (open->reader)
        print_reader(open->reader, out);
    if (open->series) {
        saved_begin(&saved_series, out);
        saved_print(&saved_series, open->series, out);
        buf_char(out, '\n');
    }
}
