/*
 * What host and backend tell the engine: it is noted, and the PMCs it concerns are looked at.
 */
#include "core/change/change.h"
#include "core/engine.h"
#include "core/read/drain.h"

static void sink_exited(void *ctx, uint64_t tag)
{
    struct engine *engine = *(struct engine **)ctx;
    struct proc *proc = ids_find(&engine->procs, tag);

    if (!proc || proc->dead)
        return;
    proc->dead = true;
    proc_unindex(proc);
    engine_touch(proc->engine, JOURNAL_PROCESS, proc->id);
    for (struct link *link = proc->links; link; link = link->next_of_proc)
        pmc_pend(link->pmc);
    for (struct pmc *pmc = proc->owned; pmc; pmc = pmc->next_owned)
        if (!pmc_released(pmc))
            pmc_vanish(pmc);
    while (proc->held) /* the first process of a PID namespace is its last */
        instance_release(proc->held, true);
}

static void sink_gone(void *ctx, uint64_t tag)
{
    struct engine *engine = *(struct engine **)ctx;
    struct link *link = ids_find(&engine->links, tag);

    if (!link)
        return;
    link->gone = true;
    pmc_touch(link->pmc);
    pmc_pend(link->pmc);
}

static void sink_dropped(void *ctx, uint64_t tag)
{
    struct engine *engine = *(struct engine **)ctx;
    struct proc *proc = ids_find(&engine->procs, tag);

    if (!proc || proc->dead)
        return;
    proc->guarded = false; /* it tells once */
    engine_touch(proc->engine, JOURNAL_PROCESS, proc->id);
    for (struct link *link = proc->links; link; link = link->next_of_proc) {
        link->dropped = true;
        pmc_touch(link->pmc);
        link->asked = link->below = false;
        link->drops++;
        pmc_pend(link->pmc);
    }
}

/* A link that has not seen this serial yet is stale: see link_moved(). */
static void sink_cpu(void *ctx, unsigned cpu, bool online)
{
    struct engine *engine = *(struct engine **)ctx;
    uint64_t id = 0;

    engine->cpus_serial++;
    cpus_add(&engine->news, cpu);
    if (online) {
        engine->cpus_came = engine->cpus_serial;
        cpus_add(&engine->online, cpu);
    } else {
        if (cpu < engine->n_cpus)
            engine->cpus_went[cpu] = engine->cpus_serial;
        cpus_add(&engine->news_went, cpu);
        cpus_remove(&engine->online, cpu);
    }
    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));)
        if (mode_table[pmc->effective].system && pmc->links->n)
            pmc_pend(
                pmc); /* one that is attached at this moment looks at the serial when it commits */
}

static void sink_ready(void *ctx, uint64_t tag)
{
    struct engine *engine = *(struct engine **)ctx;
    struct pmc *pmc = ids_find(&engine->pmcs, tag);

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
                         .ready = sink_ready};
}
