/*
 * Events from host and backend. They are noted, and a change of the affected PMCs is deferred.
 */
#include "core/change/change.h"
#include "core/engine.h"
#include "core/read/drain.h"

static void sink_exited(void *ctx, uint64_t tag)
{
    struct engine *engine = *(struct engine **)ctx;
    struct proc *proc = ids_find(&engine->procs, tag);
    struct link *link;
    struct pmc *pmc;

    if (!proc || proc->dead)
        return;
    proc->dead = true;
    proc_unindex(proc);
    engine_touch(proc->engine, JOURNAL_PROCESS, proc->id);
    LIST_FOREACH (link, &proc->links, of_proc)
        pmc_defer(link->pmc, WORK_CHANGE);
    LIST_FOREACH (pmc, &proc->owned, owned)
        if (!pmc_released(pmc))
            pmc_vanish(pmc);
    while (!LIST_EMPTY(&proc->held)) /* the PID namespace ends with its first process */
        instance_release(LIST_FIRST(&proc->held), true);
}

static void sink_gone(void *ctx, uint64_t tag)
{
    struct engine *engine = *(struct engine **)ctx;
    struct link *link = ids_find(&engine->links, tag);

    if (!link)
        return;
    link->gone = true;
    pmc_touch(link->pmc);
    pmc_defer(link->pmc, WORK_CHANGE);
}

static void sink_dropped(void *ctx, uint64_t tag)
{
    struct engine *engine = *(struct engine **)ctx;
    struct proc *proc = ids_find(&engine->procs, tag);
    struct link *link;

    if (!proc || proc->dead)
        return;
    proc->guarded = false; /* a guard fires once */
    engine_touch(proc->engine, JOURNAL_PROCESS, proc->id);
    LIST_FOREACH (link, &proc->links, of_proc) {
        link->dropped = true;
        pmc_touch(link->pmc);
        link->asked = link->below = false;
        link->drops++;
        pmc_defer(link->pmc, WORK_CHANGE);
    }
}

/* Also covers links that a running change has planned or opened. */
static void sink_cpu(void *ctx, unsigned cpu, bool online)
{
    struct engine *engine = *(struct engine **)ctx;
    uint64_t id = 0;

    engine->cpus_serial++;
    cpus_add(&engine->news, cpu);
    if (!online)
        cpus_add(&engine->news_went, cpu);
    if (online)
        cpus_add(&engine->online, cpu);
    else
        cpus_remove(&engine->online, cpu);
    for (struct link *link; (link = ids_next(&engine->links, id, &id));)
        link->moved |=
            link->kind == TARGET_CGROUP ? online : link->kind == TARGET_CPU && link->cpu == cpu;
    id = 0;
    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));) {
        if (!mode_table[pmc->effective].system || !pmc->links->n)
            continue;
        pmc->cpus_stale |= online;
        pmc->cpus_refused = false;
        pmc_touch(pmc);
        pmc_defer(pmc, WORK_CHANGE);
    }
}

static void sink_cgroup(void *ctx, uint64_t tag)
{
    struct engine *engine = *(struct engine **)ctx;
    struct pmc *pmc = ids_find(&engine->pmcs, tag);

    if (pmc)
        pmc_stir(pmc);
}

static void sink_ready(void *ctx, uint64_t tag)
{
    struct engine *engine = *(struct engine **)ctx;
    struct pmc *pmc = tag ? ids_find(&engine->pmcs, tag) : NULL;

    engine->follow_asked |= !tag;
    if (pmc)
        drain_ask(pmc);
}

struct sink engine_sink(struct engine **engine)
{
    return (struct sink){.ctx = engine,
                         .exited = sink_exited,
                         .gone = sink_gone,
                         .dropped = sink_dropped,
                         .cpu = sink_cpu,
                         .cgroup = sink_cgroup,
                         .ready = sink_ready};
}
