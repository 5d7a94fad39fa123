/*
 * Deferred work: effects for fs after the lock is dropped, background tasks of the engine, and
 * ticks.
 */
#include "core/engine.h"

#include "core/change/change.h"
#include "core/read/drain.h"
#include "core/show/poll.h"

#include <stdlib.h>
#include <string.h>

/* ---- effects ---- */

void engine_wake(struct engine *engine, uint64_t pmc_id)
{
    struct pmc *pmc = ids_find(&engine->pmcs, pmc_id);

    if (pmc)
        pmc_wake(pmc);
}

/* Announces a removed instance, after its PMCs. */
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

/* ---- tasks: free unused links and processes ---- */

static bool garbage_task(struct call *call)
{
    struct engine *engine = call->engine;
    struct link *dead = engine->dead;
    struct proc *procs = engine->dead_procs;

    if (!dead && !procs)
        return false;
    engine->dead = NULL;
    engine->dead_procs = NULL;
    slow_begin(call, true);
    links_destroy(engine, dead);
    procs_destroy(engine, procs);
    slow_end(call);
    return true;
}

/* ---- tasks: CPUs that went online or offline, before the PMCs on them ---- */

static bool news_are(const struct engine *engine)
{
    return engine->backend && engine->backend->cpu && cpus_count(&engine->news) > 0;
}

static bool news_task(struct call *call)
{
    struct engine *engine = call->engine;
    struct cpus moved = engine->news, went = engine->news_went;

    if (!news_are(engine))
        return false;
    cpus_init(&engine->news);
    cpus_init(&engine->news_went);
    for (int cpu = cpus_next(&moved, 0); cpu >= 0; cpu = cpus_next(&moved, cpu + 1)) {
        const bool off = cpus_has(&went, (unsigned)cpu),
                   on = cpus_has(&engine->online, (unsigned)cpu);

        slow_begin(call, true);
        if (off)
            engine->backend->cpu(engine->backend_state, (unsigned)cpu, false);
        if (on)
            engine->backend->cpu(engine->backend_state, (unsigned)cpu, true);
        slow_end(call);
    }
    cpus_free(&moved);
    cpus_free(&went);
    return true;
}

/* ---- tasks: pending PMCs ---- */

static struct pmc *pending_next(const struct engine *engine)
{
    struct pmc *pmc = LIST_FIRST(&engine->pending);

    while (pmc && (pmc->busy || pmc->later))
        pmc = LIST_NEXT(pmc, pends);
    return pmc;
}

/* Runs one pending PMC. PMCs that are busy, or were refused just now, stay on the list. */
static bool pending_task(struct call *call)
{
    struct pmc *pmc;
    bool any = false;

    while (!any && (pmc = pending_next(call->engine))) {
        LIST_REMOVE(pmc, pends);
        pmc->pending = false;
        any = change_pending(call, pmc);
        pmc_unref(pmc);
    }
    return any;
}

static void retry_tick(struct engine *engine, uint64_t now_ns)
{
    struct pmc *pmc;

    if (!engine->retry_ns || now_ns < engine->retry_ns)
        return;
    engine->retry_ns = 0;
    LIST_FOREACH (pmc, &engine->pending, pends)
        pmc->later = false;
}

/* ---- all tasks ---- */

bool engine_has_task(const struct engine *engine)
{
    return engine->dead || engine->dead_procs || poll_wanted(engine) || drain_wanted(engine) ||
           news_are(engine) || pending_next(engine);
}

bool engine_task(struct call *call)
{
    return garbage_task(call) || news_task(call) || drain_task(call) || poll_task(call) ||
           pending_task(call);
}

/* ---- ticks ---- */

uint64_t engine_deadline(const struct engine *engine)
{
    const uint64_t polls = poll_deadline(engine), drains = drain_deadline(engine);
    const uint64_t retry = engine->retry_ns ? engine->retry_ns : UINT64_MAX;
    const uint64_t first = polls < drains ? polls : drains;

    return first < retry ? first : retry;
}

void engine_tick(struct engine *engine, uint64_t now_ns)
{
    drain_tick(engine, now_ns);
    poll_tick(engine, now_ns);
    retry_tick(engine, now_ns);
}
