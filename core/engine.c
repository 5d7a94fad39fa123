/*
 * The engine's own life, the operations of the tree, and what is queued for after the lock.
 */
#include "core/engine.h"

#include "core/change.h"
#include "core/count.h"
#include "core/foreign.h"
#include "core/series.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* ---- queues ---- */

uint64_t engine_serial(struct engine *engine)
{
    return engine->next_serial++;
}

void engine_effect(struct engine *engine, enum effect_kind kind, uint64_t id, const char *name)
{
    struct queued_effect *queued;

    for (queued = engine->effects; queued && kind == EFFECT_WAKE; queued = queued->next)
        if (queued->effect.kind == kind && queued->effect.id == id)
            return;
    queued = calloc(1, sizeof *queued);
    if (!queued)
        return;
    queued->effect.kind = kind;
    queued->effect.id = id;
    if (name)
        strncpy(queued->effect.name, name, sizeof queued->effect.name - 1);
    *engine->effects_end = queued;
    engine->effects_end = &queued->next;
}

void engine_wake(struct engine *engine, uint64_t id)
{
    engine_effect(engine, EFFECT_WAKE, id, NULL);
}

bool engine_next_effect(struct engine *engine, struct effect *effect)
{
    struct queued_effect *queued = engine->effects;

    if (!queued)
        return false;
    *effect = queued->effect;
    engine->effects = queued->next;
    if (!engine->effects)
        engine->effects_end = &engine->effects;
    free(queued);
    return true;
}

/* Links whose last reader is gone. */
struct garbage {
    struct work work;
    struct engine *engine;
    struct link *dead;
};

static void garbage_run(struct work *work)
{
    struct garbage *garbage = (struct garbage *)work;

    links_destroy(garbage->engine, garbage->dead);
}

static int garbage_finish(struct call *call, struct work *work)
{
    (void)call;
    free(work);
    return CALL_DONE;
}

static struct work *garbage_work(struct engine *engine)
{
    struct garbage *garbage = engine->dead ? calloc(1, sizeof *garbage) : NULL;

    if (!garbage)
        return NULL;
    *garbage = (struct garbage){ { garbage_run, garbage_finish, true }, engine, engine->dead };
    engine->dead = NULL;
    return &garbage->work;
}

/* The backend is told of CPUs before the PMCs on them are looked at. */
struct news {
    struct work work;
    struct engine *engine;
    struct cpus cpus, online;
};

static void news_run(struct work *work)
{
    struct news *news = (struct news *)work;
    const struct engine *engine = news->engine;

    for (int cpu = cpus_next(&news->cpus, 0); cpu >= 0; cpu = cpus_next(&news->cpus, cpu + 1))
        engine->backend->cpu(engine->backend_state, (unsigned)cpu,
                             cpus_has(&news->online, (unsigned)cpu));
}

static int news_finish(struct call *call, struct work *work)
{
    struct news *news = (struct news *)work;

    (void)call;
    cpus_free(&news->cpus);
    cpus_free(&news->online);
    free(news);
    return CALL_DONE;
}

static struct work *news_work(struct engine *engine)
{
    bool any = engine->backend && engine->backend->cpu && cpus_count(&engine->news) > 0;
    struct news *news = any ? calloc(1, sizeof *news) : NULL;

    if (!news)
        return NULL;
    news->work = (struct work){ news_run, news_finish, true };
    news->engine = engine;
    news->cpus = engine->news;
    cpus_init(&engine->news);
    cpus_init(&news->online);
    cpus_copy(&news->online, &engine->online);
    return &news->work;
}

struct work *engine_next_work(struct engine *engine)
{
    struct work *work = garbage_work(engine);
    struct pmc *busy = NULL;

    if (!work)
        work = news_work(engine);
    while (!work && engine->pending) {
        struct pmc *pmc = engine->pending;

        engine->pending = pmc->next_pending;
        if (pmc->busy) { /* looked at again when what is under way has finished */
            pmc->next_pending = busy;
            busy = pmc;
            continue;
        }
        pmc->pending = false;
        work = change_pending(pmc);
        if (work && !pmc_released(pmc))
            pmc_pend(pmc); /* there may be more */
        pmc_unref(pmc);
    }
    while (busy) {
        struct pmc *pmc = busy;

        busy = pmc->next_pending;
        pmc->next_pending = engine->pending;
        engine->pending = pmc;
    }
    return work;
}

/* ---- what host and backend tell ---- */

static void sink_exited(void *ctx, uint64_t tag)
{
    struct engine *engine = ctx;
    struct proc *proc = ids_find(&engine->procs, tag);

    if (!proc || proc->dead)
        return;
    proc->dead = true;
    for (struct link *link = proc->links; link; link = link->next_of_proc)
        pmc_pend(link->pmc);
    for (struct pmc *pmc = proc->owned; pmc; pmc = pmc->next_owned) {
        if (pmc_released(pmc))
            continue;
        engine_effect(engine, EFFECT_REMOVED, pmc->instance->id, pmc->name);
        pmc_take_off(pmc);
        pmc_pend(pmc);
    }
}

static void sink_gone(void *ctx, uint64_t tag)
{
    struct engine *engine = ctx;
    struct link *link = ids_find(&engine->links, tag);

    if (!link)
        return;
    link->gone = true;
    pmc_pend(link->pmc);
}

static void sink_dropped(void *ctx, uint64_t tag)
{
    struct engine *engine = ctx;
    struct proc *proc = ids_find(&engine->procs, tag);

    if (!proc || proc->dead)
        return;
    proc->unguarded = true;
    for (struct link *link = proc->links; link; link = link->next_of_proc) {
        link->dropped = true;
        link->asked = false;
        pmc_pend(link->pmc);
    }
}

static void sink_cpu(void *ctx, unsigned cpu, bool online)
{
    struct engine *engine = ctx;
    uint64_t id = 0;

    cpus_add(&engine->news, cpu);
    if (online)
        cpus_add(&engine->online, cpu);
    else
        cpus_remove(&engine->online, cpu);
    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));) {
        if (!mode_table[pmc->effective].system || !pmc->links->n)
            continue;
        pmc->cpus_stale |= online;
        pmc->cpus_refused = false;
        for (unsigned i = 0; online && i < pmc->links->n; i++) /* per-CPU parts of a cgroup's counter */
            pmc->links->link[i]->stale |= pmc->links->link[i]->kind == TARGET_CGROUP;
        pmc_pend(pmc);
    }
}

struct sink engine_sink(struct engine *engine)
{
    return (struct sink){ .ctx = engine, .exited = sink_exited, .gone = sink_gone,
                          .dropped = sink_dropped, .cpu = sink_cpu };
}

/* ---- life ---- */

struct engine *engine_new(const struct tunables *tunables)
{
    struct engine *engine = calloc(1, sizeof *engine);

    if (!engine)
        return NULL;
    engine->tunables = *tunables;
    engine->effects_end = &engine->effects;
    engine->next_serial = 2; /* 0 is the root, 1 its directory's node */
    engine->readers = (gid_t)-1;
    ids_init(&engine->pmcs);
    ids_init(&engine->procs);
    ids_init(&engine->links);
    cpus_init(&engine->possible);
    cpus_init(&engine->online);
    cpus_init(&engine->news);
    catalog_init(&engine->catalog);
    engine->root = instance_new(engine, 0);
    if (!engine->root) {
        free(engine);
        return NULL;
    }
    return engine;
}

int engine_start(struct engine *engine, const struct host *host, struct host_state *host_state,
                 const struct backend *backend, struct backend_state *backend_state, struct err *err)
{
    struct rlimit limit = { .rlim_cur = 1024 };

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
    if (!engine->rows)
        return err_set(err, E32, "no memory");
    rows_set_strict(engine->rows, tunable_bool(&engine->tunables, TUNABLE_STRICT_ROWS));
    getrlimit(RLIMIT_NOFILE, &limit);
    engine->fd_limit = limit.rlim_cur;
    return 0;
}

/* Run a work to its end, where nobody else does (start and end of the program). */
static void work_complete(struct engine *engine, struct work *work)
{
    struct call call = { .engine = engine, .instance = engine->root };
    int rc = CALL_WORK;

    while (work && rc == CALL_WORK) {
        work->run(work);
        rc = work->finish(&call, work);
        work = call.work;
    }
}

void engine_probe(struct engine *engine)
{
    work_complete(engine, foreign_probe(engine));
}

void engine_free(struct engine *engine)
{
    struct effect effect;
    uint64_t id = 0;

    if (!engine)
        return;
    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));) {
        pmc_take_off(pmc);
        work_complete(engine, change_release(pmc));
    }
    for (struct work *work; (work = engine_next_work(engine));)
        work_complete(engine, work);
    while (engine_next_effect(engine, &effect))
        ;
    rows_free(engine->rows);
    ids_free(&engine->pmcs);
    ids_free(&engine->procs);
    ids_free(&engine->links);
    cpus_free(&engine->possible);
    cpus_free(&engine->online);
    cpus_free(&engine->news);
    catalog_free(&engine->catalog);
    instance_free(engine->root);
    free(engine);
}

void engine_forget(struct engine *engine)
{
    links_destroy(engine, engine->dead); /* not in the saved text */
    engine->dead = NULL;
    engine->forgetting = true;
    engine_free(engine);
}

/* ---- objects ---- */

struct instance *engine_root(struct engine *engine)
{
    return engine->root;
}

uint64_t instance_id(const struct instance *instance)
{
    return instance->id;
}

struct instance *engine_instance(struct engine *engine, uint64_t id)
{
    return id == 0 ? engine->root : NULL;
}

struct pmc *engine_pmc(struct engine *engine, uint64_t id)
{
    return ids_find(&engine->pmcs, id);
}

struct pmc *engine_pmc_named(struct instance *instance, const char *name)
{
    return instance_find(instance, name);
}

struct pmc *engine_pmc_next(struct instance *instance, uint64_t after)
{
    uint64_t id = after;
    struct pmc *pmc;

    while ((pmc = ids_next(&instance->engine->pmcs, id, &id)) && pmc->instance != instance)
        ;
    return pmc;
}

void engine_pmc_attr(const struct pmc *pmc, struct pmc_attr *attr)
{
    *attr = (struct pmc_attr){
        .id = pmc->id, .name = pmc->name, .instance = pmc->instance, .uid = pmc->uid, .gid = pmc->gid,
        .mode = pmc->mode, .created_ns = pmc->created_ns, .changed_ns = pmc->changed_ns,
    };
}

size_t engine_pmc_count(const struct engine *engine)
{
    return engine->pmcs.n;
}

void engine_reserve_names(struct engine *engine, bool (*reserved)(const char *name))
{
    engine->reserved = reserved;
}

const struct tunables *engine_tunables(const struct engine *engine)
{
    return &engine->tunables;
}

void engine_set_readers(struct engine *engine, gid_t gid)
{
    engine->readers = gid;
}

void engine_retune(struct engine *engine, const struct tunables *fresh)
{
    for (unsigned i = 0; i < TUNABLE_COUNT; i++)
        if (!tunable_row((enum tunable)i)->at_start)
            engine->tunables.value[i] = fresh->value[i];
    rows_set_strict(engine->rows, tunable_bool(&engine->tunables, TUNABLE_STRICT_ROWS));
}

const struct cpus *engine_cpus(const struct engine *engine)
{
    return &engine->possible;
}

void engine_stat_add(struct engine *engine, enum statistic which, int64_t n)
{
    engine->stats[which] += (uint64_t)n;
}

/* ---- the tree ---- */

/* May there be one more? The superuser is not held to the limit of each user. */
static int check_limits(struct call *call, bool superuser)
{
    const struct tunables *tunables = &call->engine->tunables;
    uint64_t all = tunable_u64(tunables, TUNABLE_MAX_PMCS);
    uint64_t each = tunable_u64(tunables, TUNABLE_MAX_PMCS_PER_USER);

    if (call->engine->pmcs.n >= all)
        return err_set(&call->err, P12, "there are %zu PMCs: max_pmcs is %llu", call->engine->pmcs.n,
                       (unsigned long long)all);
    if (!superuser && instance_count_of(call->instance, call->uid) >= each)
        return err_set(&call->err, P11, "uid %u has %llu PMCs: max_pmcs_per_user is %llu",
                       (unsigned)call->uid, (unsigned long long)each, (unsigned long long)each);
    return 0;
}

static int check_name(struct call *call, const char *name)
{
    if (!name_legal(name, &call->err))
        return -err_table[call->err.id].code;
    if (instance_find(call->instance, name))
        return err_set(&call->err, P23, "there is a PMC %s already", name);
    if (call->engine->reserved && call->engine->reserved(name))
        return err_set(&call->err, P23, "%s is a name of pmcfs itself", name);
    return 0;
}

int engine_mkdir(struct call *call, const char *name, mode_t mode, uint64_t *id)
{
    struct engine *engine = call->engine;
    mode_t mask = (mode_t)tunable_u64(&engine->tunables, TUNABLE_DIRMODE);
    int rc = check_name(call, name);

    if (rc == 0)
        rc = check_limits(call, call->rights && call->rights->superuser);
    if (rc)
        return rc;
    struct pmc *pmc = pmc_new(call->instance, name);
    if (!pmc)
        return err_set(&call->err, E32, "no memory");
    pmc->id = engine_serial(engine);
    if (!ids_add(&engine->pmcs, pmc->id, pmc)) {
        instance_remove(call->instance, pmc);
        pmc->instance = NULL;
        pmc_unref(pmc);
        return err_set(&call->err, E32, "no memory");
    }
    pmc->uid = call->uid;
    pmc->gid = call->gid;
    pmc->mode = mode & mask & 0777;
    pmc->created_ns = pmc->changed_ns = engine->host->realtime_ns(engine->host_state);
    pmc->made_ns = engine->host->now_ns(engine->host_state);
    *id = pmc->id;
    return CALL_DONE;
}

int engine_rmdir(struct call *call, const char *name)
{
    struct pmc *pmc = instance_find(call->instance, name);

    if (!pmc)
        return call->engine->reserved && call->engine->reserved(name)
                   ? err_set(&call->err, P25, "%s is part of pmcfs and cannot be removed", name)
                   : -ENOENT;
    pmc_take_off(pmc);
    call->work = change_release(pmc);
    if (!call->work)
        pmc_pend(pmc); /* busy: what is under way takes it down; no memory: later */
    return call->work ? CALL_WORK : CALL_DONE;
}

int engine_rename(struct call *call, const char *from, const char *to)
{
    struct pmc *pmc = instance_find(call->instance, from);

    if (!pmc)
        return call->engine->reserved && call->engine->reserved(from)
                   ? err_set(&call->err, P25, "%s is part of pmcfs and cannot be renamed", from)
                   : -ENOENT;
    int rc = check_name(call, to);
    if (rc)
        return rc;
    char *name = strdup(to), *before = pmc->name;
    if (!name)
        return err_set(&call->err, E32, "no memory");
    instance_remove(call->instance, pmc);
    pmc->name = name;
    instance_add(call->instance, pmc); /* there is room: one was just taken out */
    free(before);
    pmc->changed_ns = call->engine->host->realtime_ns(call->engine->host_state);
    return CALL_DONE;
}

int engine_chmod(struct call *call, mode_t mode)
{
    call->pmc->mode = mode & 0777;
    return CALL_DONE;
}

int engine_chown(struct call *call, uid_t uid, gid_t gid)
{
    if (uid != (uid_t)-1)
        call->pmc->uid = uid;
    if (gid != (gid_t)-1)
        call->pmc->gid = gid;
    if (call->pmc->claim)
        call->pmc->claim->uid = call->pmc->uid;
    return CALL_DONE;
}

/* ---- open files ---- */

void engine_release(struct engine *engine, struct open_file *open)
{
    struct pmc *pmc = open->holds ? ids_find(&engine->pmcs, open->holds) : NULL;

    open->holds = 0;
    if (!pmc)
        return;
    engine_effect(engine, EFFECT_REMOVED, pmc->instance->id, pmc->name);
    pmc_take_off(pmc);
    pmc_pend(pmc);
}

void open_file_clear(struct open_file *open)
{
    rights_free(open->rights);
    free(open->swap);
    free(open->series);
    *open = (struct open_file){ .cut = false };
}

void engine_finished(struct call *call, int rc, bool record)
{
    struct engine *engine = call->engine;
    uid_t uid = call->rights ? call->rights->uid : call->uid;
    struct buf line;
    char room[800];

    engine->operations++;
    if (rc < 0)
        engine->operations_failed++;
    if (call->err.id == ERR_NONE || !record)
        return;
    buf_init(&line, room, sizeof room);
    buf_str(&line, err_errno_name(err_table[call->err.id].code));
    buf_char(&line, ' ');
    buf_str(&line, err_table[call->err.id].id);
    buf_char(&line, ' ');
    buf_str(&line, call->file ? call->file : "tree");
    buf_str(&line, ": ");
    buf_str(&line, call->err.text);
    if (call->pmc)
        pmc_set_error(call->pmc, buf_text(&line));
    instance_set_error(call->instance, uid, call->now_ns, buf_text(&line));
    buf_free(&line);
}

/* ---- time ---- */

uint64_t engine_deadline(const struct engine *engine)
{
    return engine->n_polled ? engine->poll_due_ns : UINT64_MAX;
}

/* For who sleeps in poll: has the state changed, was more counted? */
static void look_for_pollers(struct engine *engine, struct pmc *pmc)
{
    struct total total;
    bool notify = pmc->settings.value[KEY_NOTIFY] != UINT64_MAX;
    uint64_t before = pmc->polled_count;

    if (!pmc->set || pmc->busy || (!notify && pmc->state != PMC_ARMED && pmc->state != PMC_RUNNING))
        return;
    count_now(pmc, &total); /* wakes by itself when the state changes */
    pmc->polled_count = count_shown(pmc, total.tally, 0);
    if (notify && pmc->polled_count != before)
        engine_wake(engine, pmc->id);
}

void engine_tick(struct engine *engine, uint64_t now_ns)
{
    uint64_t id = 0;

    if (!engine->n_polled || now_ns < engine->poll_due_ns)
        return;
    engine->poll_due_ns = now_ns + tunable_u64(&engine->tunables, TUNABLE_NOTIFY_MS) * 1000000;
    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));)
        if (pmc->pollers)
            look_for_pollers(engine, pmc);
}

void engine_polled(struct engine *engine, uint64_t pmc_id, bool polled)
{
    struct pmc *pmc = ids_find(&engine->pmcs, pmc_id);

    if (!pmc || (pmc->pollers != 0) == polled)
        return;
    pmc->pollers = polled;
    engine->n_polled += polled ? 1 : (unsigned)-1;
    if (polled)
        engine->poll_due_ns = engine->host->now_ns(engine->host_state) +
                              tunable_u64(&engine->tunables, TUNABLE_NOTIFY_MS) * 1000000;
}

/* ---- events/ ---- */

struct listing {
    struct work work;
    struct engine *engine;
    struct catalog catalog;
    struct err err;
    int rc;
};

static void listing_run(struct work *work)
{
    struct listing *listing = (struct listing *)work;

    listing->rc = listing->engine->backend->list(listing->engine->backend_state, &listing->catalog,
                                                 &listing->err);
    if (listing->rc == 0)
        listing->rc = catalog_finish(&listing->catalog);
}

static int listing_finish(struct call *call, struct work *work)
{
    struct listing *listing = (struct listing *)work;
    struct engine *engine = listing->engine;
    int rc = listing->rc;

    if (rc) {
        call->err = listing->err;
        catalog_free(&listing->catalog);
    } else if (engine->has_catalog) { /* somebody was faster */
        catalog_free(&listing->catalog);
    } else {
        engine->catalog = listing->catalog;
        engine->has_catalog = true;
    }
    free(listing);
    return rc;
}

const struct catalog *engine_catalog(struct engine *engine)
{
    return engine->has_catalog ? &engine->catalog : NULL;
}

int engine_catalog_load(struct call *call)
{
    struct listing *listing = call->engine->has_catalog ? NULL : calloc(1, sizeof *listing);

    if (call->engine->has_catalog)
        return CALL_DONE;
    if (!listing)
        return err_set(&call->err, E32, "no memory");
    listing->work = (struct work){ listing_run, listing_finish, true };
    listing->engine = call->engine;
    catalog_init(&listing->catalog);
    call->work = &listing->work;
    return CALL_WORK;
}
