/*
 * What is queued for after the lock: whom to wake, which names are gone, and the engine's own
 * works.
 */
#include "core/engine.h"

#include "core/change.h"
#include "core/drain.h"
#include "core/poll.h"

#include <stdlib.h>
#include <string.h>

/* ---- effects ---- */

void engine_wake(struct engine *engine, uint64_t pmc_id)
{
    struct pmc *pmc = ids_find(&engine->pmcs, pmc_id);

    if (pmc)
        pmc_wake(pmc);
}

/* After those of its PMCs. */
static bool next_removed(struct engine *engine, struct effect *effect)
{
    struct instance *instance = engine->removed;

    if (!instance)
        return false;
    engine->removed = instance->next_removed;
    *effect = (struct effect){.kind = EFFECT_INSTANCE, .id = instance->vanished};
    strncpy(effect->name, instance->name, sizeof effect->name - 1);
    instance_free(instance);
    return true;
}

bool engine_next_effect(struct engine *engine, struct effect *effect)
{
    struct pmc *pmc = engine->told;

    if (!pmc)
        return next_removed(engine, effect);
    if (pmc->vanished) {
        *effect = (struct effect){.kind = EFFECT_REMOVED, .id = pmc->vanished_from};
        strncpy(effect->name, pmc->name, sizeof effect->name - 1);
        pmc->vanished = false;
    } else {
        *effect = (struct effect){.kind = EFFECT_WAKE, .id = pmc->id};
        pmc->wake = false;
    }
    if (pmc->vanished || pmc->wake)
        return true;
    engine->told = pmc->next_told;
    if (!engine->told)
        engine->told_end = &engine->told;
    pmc->told = false;
    pmc_unref(pmc);
    return true;
}

/* ---- garbage: links whose last reader is gone, processes nobody holds ---- */

struct garbage {
    struct work work;
    struct engine *engine;
    struct link *dead;
    struct proc *procs;
};

static void garbage_run(struct work *work)
{
    struct garbage *garbage = (struct garbage *)work;

    links_destroy(garbage->engine, garbage->dead);
    procs_destroy(garbage->engine, garbage->procs);
}

static int garbage_finish(struct call *call, struct work *work)
{
    (void)call;
    free(work);
    return CALL_DONE;
}

static struct work *garbage_work(struct engine *engine)
{
    bool any = engine->dead || engine->dead_procs;
    struct garbage *garbage = any ? calloc(1, sizeof *garbage) : NULL;

    if (!garbage)
        return NULL;
    *garbage = (struct garbage){
        {garbage_run, garbage_finish, true}, engine, engine->dead, engine->dead_procs};
    engine->dead = NULL;
    engine->dead_procs = NULL;
    return &garbage->work;
}

/* ---- news: the backend is told of CPUs, by a work that begins before those of the PMCs on them
 * ---- */

struct news {
    struct work work;
    struct engine *engine;
    struct cpus cpus, went, online;
};

static void news_run(struct work *work)
{
    struct news *news = (struct news *)work;
    const struct engine *engine = news->engine;

    for (int next = cpus_next(&news->cpus, 0); next >= 0; next = cpus_next(&news->cpus, next + 1)) {
        unsigned cpu = (unsigned)next;

        if (cpus_has(&news->went, cpu))
            engine->backend->cpu(engine->backend_state, cpu, false);
        if (cpus_has(&news->online, cpu))
            engine->backend->cpu(engine->backend_state, cpu, true);
    }
}

static int news_finish(struct call *call, struct work *work)
{
    struct news *news = (struct news *)work;

    (void)call;
    cpus_free(&news->cpus);
    cpus_free(&news->went);
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
    cpus_init(&news->online);
    if (!cpus_copy(&news->online, &engine->online)) {
        free(news);
        return NULL;
    }
    news->work = (struct work){news_run, news_finish, true};
    news->engine = engine;
    news->cpus = engine->news;
    news->went = engine->news_went;
    cpus_init(&engine->news);
    cpus_init(&engine->news_went);
    return &news->work;
}

/* ---- all works ---- */

/*
 * Those that wait (a change is under way, memory has ended, there may be more) stay on the list.
 * When there is nothing else the round is over: what failed for want of memory is tried in the
 * next.
 */
struct work *engine_next_work(struct engine *engine)
{
    struct work *work = garbage_work(engine);
    struct pmc *stay = NULL;

    if (!work)
        work = news_work(engine);
    if (!work)
        work = drain_work(engine);
    if (!work)
        work = poll_work(engine);
    while (!work && engine->pending) {
        struct pmc *pmc = engine->pending;

        engine->pending = pmc->next_pending;
        if (!pmc->busy && !pmc->later)
            work = change_pending(pmc);
        if (pmc->busy || pmc->later) {
            pmc->next_pending = stay;
            stay = pmc;
            continue;
        }
        pmc->pending = false;
        pmc_unref(pmc);
    }
    while (stay) {
        struct pmc *pmc = stay;

        stay = pmc->next_pending;
        pmc->later = pmc->later && work;
        pmc->next_pending = engine->pending;
        engine->pending = pmc;
    }
    return work;
}
