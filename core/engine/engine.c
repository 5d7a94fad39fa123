/*
 * Start and stop of the engine, access to its objects, and the catalog of events.
 */
#include "core/engine.h"

#include "core/change/change.h"
#include "core/pmc/metric.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* ---- start and stop ---- */

struct engine *engine_new(const struct tunables *tunables)
{
    struct engine *engine = calloc(1, sizeof *engine);

    if (!engine)
        return NULL;
    engine->tunables = *tunables;
    for (int kind = 0; kind < ENGINE_WORKS; kind++)
        STAILQ_INIT(&engine->deferred[kind]);
    engine->next_serial = 2; /* 0 is the root, 1 the node of its directory */
    engine->readers = (gid_t)-1;
    engine->next_instance = 1;
    engine->root = instance_new(engine, 0, NULL);
    if (!engine->root) {
        free(engine);
        return NULL;
    }
    return engine;
}

int engine_start(struct engine *engine, const struct host *host, struct host_state *host_state,
                 const struct backend *backend, struct backend_state *backend_state,
                 struct err *err)
{
    struct rlimit limit = {.rlim_cur = 1024};
    struct buf name = {0};

    engine->host = host;
    engine->host_state = host_state;
    engine->backend = backend;
    engine->backend_state = backend_state;
    engine->classes = backend->classes(backend_state, &engine->n_classes);
    if (backend->simulated_cpus) {
        backend->cpus(backend_state, &engine->possible, &engine->online);
    } else {
        host->cpus_possible(host_state, &engine->possible);
        host->cpus_online(host_state, &engine->online);
    }
    engine->rows = rows_new(engine->classes, engine->n_classes, &engine->possible);
    host->cpu_name(host_state, &name);
    engine->processor = strdup(buf_text(&name));
    buf_free(&name);
    if (!engine->rows || !engine->processor)
        return err_nomem(err);
    rows_set_strict(engine->rows, tunable_bool(&engine->tunables, TUNABLE_STRICT_ROWS));
    getrlimit(RLIMIT_NOFILE, &limit);
    engine->fd_limit = limit.rlim_cur;
    return 0;
}

void engine_free(struct engine *engine)
{
    struct gone_name gone;
    struct pmc *pmc;
    uint64_t id = 0;

    if (!engine)
        return;
    struct call call = {.engine = engine, .instance = engine->root};
    engine->unlock = NULL; /* no other thread uses the engine */
    while ((pmc = ids_next(&engine->pmcs, id, &id))) {
        pmc_remove_from_tree(pmc);
        change_release(&call, pmc);
    }
    for (struct instance *instance; (instance = ids_next(&engine->instances, 0, &id));)
        instance_release(instance, false); /* removes it, so that the next is again the first */
    changes_retry(engine);
    while (engine_task(&call))
        ;
    while (engine_next_wake(engine, &id) || engine_next_name(engine, &gone))
        ; /* ends the references of the queues; frees removed instances */
    engine_free_loaded_logs(engine);
    rights_sweep(engine); /* left by a load that failed */
    free(engine->touched.items);
    free(engine->touched.table);
    rows_free(engine->rows);
    ids_free(&engine->pmcs);
    ids_free(&engine->procs);
    ids_free(&engine->links);
    rights_free_unused(engine);
    ids_free(&engine->rights);
    ids_free(&engine->instances);
    cpus_free(&engine->possible);
    cpus_free(&engine->online);
    cpus_free(&engine->cpus_changed);
    cpus_free(&engine->cpus_offlined);
    free(engine->processor);
    catalog_free(&engine->catalog);
    instance_free(engine->root);
    users_free(engine);
    free(engine);
}

/* Drains the recordings. Notes for the journal: statistics, fired exec guards, and lost events of
 * descendants. To find these it reads the counters of PMCs with descendants=on, because a later
 * engine cannot detect them. */
void engine_prepare_reload(struct engine *engine)
{
    struct reading reading;
    uint64_t id = 0;
    struct drain_result drained;

    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));) {
        if (pmc->recording)
            recording_drain(pmc->recording, true, &drained);
        for (unsigned i = 0; pmc->settings.word[KEY_DESCENDANTS] && pmc->links && i < pmc->links->n;
             i++) {
            struct link *link = pmc->links->link[i];

            if (link_live(link) && engine->backend->read(link->counter, &reading, true) == 0 &&
                reading.descendant_lost)
                link_lost_descendant(link);
        }
    }
    id = 0;
    engine_touch(engine, JOURNAL_ENGINE, 0); /* statistics */
    while (ids_next(&engine->instances, id, &id))
        engine_touch(engine, JOURNAL_INSTANCE, id);
    id = 0;
    for (struct proc *proc; (proc = ids_next(&engine->procs, id, &id));) {
        if (proc->lost_before_reload || !proc_lost_events(proc))
            continue;
        proc->lost_before_reload = true; /* guards of exited processes are not loaded */
        engine_touch(engine, JOURNAL_PROCESS, id);
    }
}

void engine_forget(struct engine *engine)
{
    uint64_t id = 0;

    targets_destroy(engine, &engine->deferred[WORK_LINK]); /* not part of the saved state */
    engine->forgetting = true;
    engine->journal = NULL;
    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));)
        if (pmc->log)
            log_keep_blocks(pmc->log);
    engine_free(engine);
}

/* ---- objects ---- */

const char *engine_pmc_next(struct instance *instance, uint64_t after, uint64_t *id)
{
    const char *name = ids_next_name(&instance->pmcs, after, id);

    return name && !name[0] ? ((struct pmc *)ids_find(&instance->pmcs, *id))->name : name;
}

void engine_retune(struct engine *engine, const struct tunables *fresh)
{
    for (unsigned i = 0; i < TUNABLE_COUNT; i++)
        if (!tunable_row((enum tunable)i)->at_start)
            tunable_put(&engine->tunables, (enum tunable)i, &fresh->value[i]);
    engine_touch(engine, JOURNAL_ENGINE, 0);
    rows_set_strict(engine->rows, tunable_bool(&engine->tunables, TUNABLE_STRICT_ROWS));
}

/* ---- events/ ---- */

const struct catalog *engine_catalog(struct engine *engine)
{
    return engine->has_catalog ? &engine->catalog : NULL;
}

/*
 * Lookups and listings of events/ call this while the kernel holds the directory's lock, so it
 * takes no slow slot (slow_admit()) and waits for no other request. While one request checks the
 * catalog, others use the present one. Before the first catalog exists, each request lists the
 * events itself.
 */
int engine_catalog_load(struct call *call, bool refresh)
{
    struct engine *engine = call->engine;
    const struct backend *backend = engine->backend;
    uint64_t known = engine->has_catalog ? engine->catalog_mark : 0, mark;
    struct catalog catalog = {0};
    int rc = CALL_DONE;

    if (engine->has_catalog && (!refresh || !backend->catalog_mark || engine->loads_catalog))
        return CALL_DONE;
    engine->loads_catalog = true;
    lock_drop(call, true);
    mark = backend->catalog_mark ? backend->catalog_mark(engine->backend_state) : 1;
    if (mark != known)
        rc = catalog_fill(backend, engine->backend_state, &catalog, &call->err);
    lock_retake(call);
    engine->loads_catalog = false;
    if (rc || mark == known || (engine->has_catalog && engine->catalog_mark == mark)) {
        catalog_free(&catalog); /* unchanged, or another request has replaced it */
        return rc;
    }
    catalog_free(&engine->catalog);
    engine->catalog = catalog;
    engine->catalog_mark = mark;
    engine->has_catalog = true;
    engine_touch(engine, JOURNAL_ENGINE, 0);
    return CALL_DONE;
}
