/*
 * Journal records of the engine, of processes and instances, and of each user's last error.
 */
#include "core/journal/load.h"

#include "core/base/arena.h"
#include "core/pmc/metric.h"

#include <stdlib.h>
#include <string.h>

/* ---- the engine ---- */

static bool engine_end(struct loading *load, bool fine)
{
    struct engine *engine = load->engine;

    /* List the events again: the kernel may still use node ids below events/. */
    if (engine->has_catalog)
        engine->has_catalog =
            catalog_fill(engine->backend, engine->backend_state, &engine->catalog, NULL) == 0;
    if (engine->next_serial < engine->kept_serial)
        engine->next_serial = engine->kept_serial;
    return fine;
}

static bool tunables_io(struct io *io, void *member)
{
    struct tunables *tunables = member;
    struct word name = {.p = ""}, value = {.p = ""};
    char *pair;

    if (io->out) {
        for (enum tunable which = 0; which < TUNABLE_COUNT; which++) {
            buf_printf(io->out, "%s=", tunable_row(which)->name);
            tunable_print(tunables, which, io->out);
            buf_char(io->out, ' ');
        }
        return true;
    }
    while ((pair = strsep(&io->text, " "))) {
        const int which = word_split(word_of(pair), &name, &value) ? tunable_find(name) : -1;

        if (which >= 0 && value.len)
            tunable_set(tunables, (enum tunable)which, value, true, NULL);
    }
    return true;
}

/* Prints or loads the disabled slots, each as "CPU CLASS ROW". */
static bool disabled_io(struct io *io, void *object)
{
    struct engine *engine = object;
    struct word class;
    uint64_t cpu, row;

    if (io->out) {
        for (int c = cpus_next(&engine->possible, 0); c >= 0;
             c = cpus_next(&engine->possible, c + 1))
            for (unsigned i = 0; i < engine->n_classes; i++)
                for (unsigned r = 0; r < engine->classes[i].rows; r++)
                    if (rows_slot(engine->rows, (unsigned)c, i, r) == SLOT_DISABLED)
                        buf_printf(io->out, "%d %s %u ", c, engine->classes[i].name, r);
        return true;
    }
    struct scan scan = scan_of(word_of(io->text));
    while (scan_u64(&scan, CPUS_MAX - 1, &cpu)) {
        if (!scan_word(&scan, &class) || !scan_u64(&scan, UINT32_MAX, &row) ||
            !cpus_has(&engine->possible, (unsigned)cpu))
            return false;
        for (unsigned i = 0; i < engine->n_classes; i++)
            if (word_is(class, engine->classes[i].name) && row < engine->classes[i].rows)
                rows_set_disabled(engine->rows, (unsigned)cpu, i, (unsigned)row, true, NULL);
    }
    return true;
}

static const struct field engine_fields[] = {
    FLAG(struct engine, has_catalog),
    NAMED_SPAN("work.operations", struct engine, totals.operations, totals.released_logs.refused),
    FIELD(struct engine, next_instance),
    FIELD(struct engine, kept_serial),
    ARRAY(struct engine, stats),
    OTHER_OF(tunables, struct engine, tunables),
    OTHER(disabled),
};
static const struct part part_engine = PART_OF(engine, engine, engine_end);

static void engine_print(struct engine *engine, uint64_t id, struct buf *out)
{
    (void)id;
    part_print(&part_engine, engine, engine, out);
}

static const struct part *const engine_parts[] = {&part_engine, NULL};
const struct kind kind_engine = {engine_parts, engine_print, NULL};

/* ---- processes ---- */

static bool held_io(struct io *io, void *object)
{
    const struct host *host = io->engine->host;
    struct proc *proc = object;

    if (!io->out)
        return !proc->process &&
               host->process_adopt(io->engine->host_state, io->text, &proc->process) == 0;
    host->process_print(proc->process, io->out);
    return true;
}

static void *process_begin(struct loading *load)
{
    struct proc *proc = calloc(1, sizeof *proc);

    load->proc = proc;
    if (proc)
        *proc = (struct proc){.engine = load->engine, .id = load->id};
    return proc;
}

static bool process_end(struct loading *load, bool fine)
{
    struct engine *engine = load->engine;
    struct proc *proc = load->proc;

    if (!fine || !proc->process || !load_serial(engine, proc->id) ||
        !ids_add(&engine->procs, proc->id, proc)) {
        if (proc->process) /* the next worker uses its descriptor */
            engine->host->process_forget(proc->process);
        free(proc);
        return false;
    }
    if (proc->guard_fd)
        fd_keep(proc->guard_fd);
    if (!proc->dead && proc->guard_fd && engine->backend->guard_adopt &&
        engine->backend->guard_adopt(engine->backend_state, proc->guard_fd, proc->id,
                                     &proc->guard) != 0)
        return false;
    proc_add_loaded(proc);
    if (!proc->dead)
        engine->host->process_watch(proc->process, proc->id);
    return true;
}

static const struct field process_fields[] = {
    FLAG(struct proc, dead),
    FLAG(struct proc, guarded),
    NAMED("left", struct proc, lost_before_reload, 2),
    FIELD(struct proc, guard_fd),
    OTHER(held),
};
static const struct part part_process = PART(process, process_begin, process_end);

static void process_print(struct engine *engine, uint64_t id, struct buf *out)
{
    struct proc *proc = ids_find(&engine->procs, id);

    if (proc)
        part_print(&part_process, engine, proc, out);
}

static const struct part *const process_parts[] = {&part_process, NULL};
const struct kind kind_process = {process_parts, process_print, NULL};

/* ---- instances ---- */

static bool named_end(struct loading *load, bool fine)
{
    struct engine *engine = load->engine;
    const char *name = load->named->name;
    struct proc *holder = ids_find(&engine->procs, load->named->owner);

    if (!fine || load->id == 0 || load->id > INSTANCE_ID_MAX || !name ||
        name_check(name, NULL) != 0 || instance_by_name(engine, name) ||
        !(load->instance = instance_new(engine, load->id, name)))
        return false;
    if (holder)
        instance_set_holder(load->instance, holder);
    if (engine->next_instance <= load->id)
        engine->next_instance = load->id + 1;
    return true;
}

static const struct field named_fields[] = {
    TEXT(struct named, name),
    FIELD(struct named, owner),
};
static const struct part part_named = PART_OF(named, named, named_end);

static bool instance_end(struct loading *load, bool fine)
{
    struct instance *instance = load->instance;

    for (unsigned i = 0; i < LIMITS; i++)
        fine = fine && instance->limit[i] <= limit_table[i].max;
    for (unsigned i = 0; fine && i < RESOURCES; i++)
        instance_set_limit(instance, (enum limit)i, instance->limit[i]);
    return fine;
}

static const struct field instance_fields[] = {
    FIELD(struct instance, uid),
    FIELD(struct instance, gid),
    FIELD(struct instance, mode),
    FIELD(struct instance, changed_ns),
    ARRAY(struct instance, limit),
    NAMED_SPAN("work.operations", struct instance, totals.operations, totals.released_logs.refused),
};
static const struct part part_instance = PART_OF(instance, instance, instance_end);

static void instance_print(struct engine *engine, uint64_t id, struct buf *out)
{
    struct instance *instance = ids_find(&engine->instances, id);

    if (!instance)
        return;
    struct named named = {.name = instance->name,
                          .owner = instance->holder ? instance->holder->id : 0};
    part_print(&part_named, engine, &named, out);
    part_print(&part_instance, engine, instance, out);
}

static const struct part *const instance_parts[] = {&part_named, &part_instance, NULL};
const struct kind kind_instance = {instance_parts, instance_print, NULL};

/* ---- last errors: the id combines instance and user ---- */

static bool error_end(struct loading *load, bool fine)
{
    struct instance *instance = engine_instance(load->engine, load->id >> 32);

    if (fine && load->error->line && instance)
        instance_set_error(instance, (uint32_t)load->id, load->error->when, load->error->line);
    return fine;
}

static const struct field error_fields[] = {
    FIELD(struct last_error, when),
    TEXT(struct last_error, line),
};
static const struct part part_error = PART_OF(error, error, error_end);

static void error_print(struct engine *engine, uint64_t id, struct buf *out)
{
    const struct instance *instance = engine_instance(engine, id >> 32);

    for (size_t i = 0; instance && i < instance->n_errors; i++)
        if (instance->errors[i].uid == (uint32_t)id)
            part_print(&part_error, engine, &instance->errors[i], out);
}

static const struct part *const error_parts[] = {&part_error, NULL};
const struct kind kind_error = {error_parts, error_print, NULL};
