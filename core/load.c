/*
 * The saved state read again into a fresh engine. Whatever the text says, nothing crashes: a line
 * that does not fit is named and refused.
 */
#include "core/engine.h"

#include "core/instance_save.h"
#include "core/load_state.h"
#include "core/metric.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool load_id_sound(uint64_t id)
{
    return id > 1 && id < UINT64_C(1) << 52;
}

static bool load_version(struct loading *load)
{
    uint64_t version;

    return scan_u64(&load->line, 2, &version) && version == 2;
}

static bool load_serial(struct loading *load)
{
    return scan_u64(&load->line, UINT64_MAX, &load->engine->next_serial);
}

static bool load_tunable(struct loading *load)
{
    struct word name, value;

    if (!scan_word(&load->line, &name) || !scan_word(&load->line, &value))
        return true; /* an empty text */
    int which = tunable_find(name);
    if (which >= 0)
        tunable_set(&load->engine->tunables, (enum tunable)which, value, true, NULL);
    return true;
}

static bool load_counts(struct loading *load)
{
    return saved_scan(&saved_counts, load->engine, &load->line);
}

/* Names below events/ may be known to the kernel by their numbers. */
static bool load_catalog(struct loading *load)
{
    struct engine *engine = load->engine;

    engine->has_catalog =
        events_list_all(engine->backend, engine->backend_state, &engine->catalog, NULL) == 0;
    return true;
}

static bool load_disabled(struct loading *load)
{
    struct engine *engine = load->engine;
    uint64_t cpu, class, row;

    return scan_u64(&load->line, CPUS_MAX - 1, &cpu) && scan_u64(&load->line, UINT32_MAX, &class) &&
           scan_u64(&load->line, UINT32_MAX, &row) && cpus_has(&engine->possible, (unsigned)cpu) &&
           class < engine->n_classes && row < engine->classes[class].rows &&
           rows_disable(engine->rows, (unsigned)cpu, (unsigned)class, (unsigned)row, NULL) == 0;
}

/* ---- processes ---- */

static bool process_adopt(struct loading *load, struct proc *proc, uint64_t *guard)
{
    struct engine *engine = load->engine;

    return saved_scan(&saved_proc, proc, &load->line) && scan_u64(&load->line, INT32_MAX, guard) &&
           load_id_sound(proc->id) && !ids_find(&engine->procs, proc->id) &&
           engine->host->process_adopt(engine->host_state, line_rest(&load->line),
                                       &proc->process) == 0 &&
           ids_add(&engine->procs, proc->id, proc);
}

static bool load_process(struct loading *load)
{
    struct engine *engine = load->engine;
    struct proc *proc = calloc(1, sizeof *proc);
    uint64_t guard = 0;

    if (!proc)
        return false;
    proc->engine = engine;
    if (!process_adopt(load, proc, &guard)) {
        if (proc->process)
            engine->host->process_free(proc->process);
        free(proc);
        return false;
    }
    if (!proc->dead && guard && engine->backend->guard_adopt &&
        engine->backend->guard_adopt(engine->backend_state, (int)guard, proc->id, &proc->guard) !=
            0)
        close((int)guard);
    proc_adopted(proc);
    if (!proc->dead)
        engine->host->process_watch(proc->process, proc->id);
    return true;
}

static bool load_error(struct loading *load)
{
    struct last_error error = {.line = NULL};
    struct instance *instance = NULL;
    uint64_t id;
    bool fine = scan_u64(&load->line, INSTANCE_ID_MAX, &id) &&
                (instance = engine_instance(load->engine, id)) &&
                saved_scan(&saved_error, &error, &load->line);

    if (fine && error.line)
        instance_set_error(instance, error.uid, error.when, error.line);
    free(error.line);
    return fine;
}

static bool load_instance(struct loading *load)
{
    return instance_scan(load->engine, &load->line);
}

/* ---- the whole ---- */

static const struct {
    const char *name;
    bool (*load)(struct loading *load);
} lines[] = {
    {"pmcfs-state", load_version}, {"serial", load_serial},     {"tunable", load_tunable},
    {"counts", load_counts},       {"catalog", load_catalog},   {"disabled", load_disabled},
    {"process", load_process},     {"instance", load_instance}, {"pmc", load_pmc},
    {"error", load_error},
};

/* Between PMCs; or one of the PMC whose records follow. */
static bool load_line(struct loading *load, const char *line, size_t len)
{
    struct word name;

    scan_init(&load->line, line, len);
    if (!scan_word(&load->line, &name))
        return true;
    for (unsigned i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (word_is(name, lines[i].name))
            return load_pmc_complete(load) && lines[i].load(load);
    return load_pmc_line(load, name);
}

static void serial_above(struct engine *engine, struct ids *ids)
{
    uint64_t id = 0;

    while (ids_next(ids, id, &id))
        if (engine->next_serial <= id)
            engine->next_serial = id + 1;
}

/* ---- what moved meanwhile ---- */

static void inventory_add(void *arg, pid_t pid)
{
    struct pmc *pmc = arg;
    struct buf known; /* to the log */

    buf_init(&known, NULL, 0);
    recording_inventory(pmc->recording, pid, 0, &known);
    buf_free(&known);
}

/* What its recording knew of the processes that it records is found in the system again. */
static void recording_begin(struct engine *engine, struct pmc *pmc)
{
    if (!pmc->recording || pmc->state != PMC_RUNNING)
        return;
    if (mode_table[pmc->effective].system) {
        inventory_add(pmc, 0);
        return;
    }
    for (unsigned i = 0; i < pmc->links->n; i++)
        if (link_live(pmc->links->link[i]) && engine->backend->processes)
            engine->backend->processes(pmc->links->link[i]->counter, inventory_add, pmc);
}

/* Whatever was read: serials are new, and no process is held for nobody. */
static void engine_settle(struct engine *engine)
{
    uint64_t id = 0;

    serial_above(engine, &engine->procs);
    serial_above(engine, &engine->pmcs);
    serial_above(engine, &engine->links);
    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));)
        recording_begin(engine, pmc);
    id = 0;
    for (struct proc *proc; (proc = ids_next(&engine->procs, id, &id));) {
        if (proc->refs)
            continue;
        proc_ref(proc);
        proc_destroy(engine, proc_unref(engine, proc));
    }
}

int engine_load(struct engine *engine, const char *text, size_t len, struct err *err)
{
    struct loading load = {.engine = engine};
    const char *end = text + len;
    unsigned n = 0;

    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t size = (size_t)((stop ? stop : end) - text);
        char *line = strndup(text, size);
        bool fine = line && load_line(&load, line, strlen(line));

        n++;
        if (!fine) {
            err_set(err, P14, "line %u of the saved state cannot be read: %.200s", n,
                    line ? line : "");
            free(line);
            engine_settle(engine);
            return -EINVAL;
        }
        free(line);
        text += size + 1;
    }
    engine_settle(engine);
    if (load_pmc_complete(&load))
        return 0;
    err_set(err, P14, "the saved state ends in the middle of a PMC");
    return -EINVAL;
}
