/*
 * Events from host and backend, which are noted and defer a change of the affected PMCs; deferred
 * work: wakes and names for fs, background tasks of the engine, and ticks; and dropping the lock.
 */
#include "core/engine.h"

#include "core/change/change.h"
#include "core/read/drain.h"
#include "core/show/series.h"

#include <string.h>

/* ---- parts without the lock; unit tests have no functions of fs and keep it ---- */

int slow_admit(struct call *call)
{
    const struct unlock_ops *unlock = call->engine->unlock;

    return unlock ? unlock->admit(call) : 0;
}

void lock_drop(struct call *call, bool gives_up_slot)
{
    if (call->engine->unlock)
        call->engine->unlock->leave(call, gives_up_slot);
}

void lock_retake(struct call *call)
{
    if (call->engine->unlock)
        call->engine->unlock->take(call);
}

bool slow_interrupted(struct call *call)
{
    return call->engine->unlock && call->engine->unlock->interrupted(call);
}

/* ---- events from host and backend ----
 * ctx points to the pointer to the present engine (engine_sink()).
 */

static void sink_process_exited(void *ctx, uint64_t tag)
{
    struct engine *engine = *(struct engine **)ctx;
    struct proc *proc = ids_find(&engine->procs, tag);
    struct pmc *pmc;

    if (!proc || proc->dead)
        return;
    proc_exited(proc);
    LIST_FOREACH (pmc, &proc->owned, owned)
        if (!pmc_released(pmc))
            pmc_vanish(pmc);
    while (!LIST_EMPTY(&proc->held)) /* the PID namespace ends with its first process */
        instance_release(LIST_FIRST(&proc->held), true);
}

static void sink_counter_gone(void *ctx, uint64_t tag)
{
    struct engine *engine = *(struct engine **)ctx;
    struct link *link = ids_find(&engine->links, tag);

    if (!link)
        return;
    link->noted |= NOTE_GONE;
    pmc_touch(link->pmc);
    pmc_defer(link->pmc, WORK_CHANGE);
}

static void sink_guard_fired(void *ctx, uint64_t tag)
{
    struct engine *engine = *(struct engine **)ctx;
    struct proc *proc = ids_find(&engine->procs, tag);
    struct link *link;

    if (!proc || proc->dead)
        return;
    proc->guarded = false; /* a guard fires once */
    engine_touch(proc->engine, JOURNAL_PROCESS, proc->id);
    LIST_FOREACH (link, &proc->links, of_proc) {
        link->loss = LOSS_TARGET;
        pmc_touch(link->pmc);
        link->noted &= ~(unsigned)NOTE_FAILED;
        link->n_losses++;
        pmc_defer(link->pmc, WORK_CHANGE);
    }
}

/* Notes that a CPU went online or offline, also in links that a running change has planned or
 * opened. */
static void sink_cpu_changed(void *ctx, unsigned cpu, bool online)
{
    struct engine *engine = *(struct engine **)ctx;
    uint64_t id = 0;

    engine->cpus_serial++;
    cpus_add(&engine->cpus_changed, cpu);
    if (!online)
        cpus_add(&engine->cpus_offlined, cpu);
    if (online)
        cpus_add(&engine->online, cpu);
    else
        cpus_remove(&engine->online, cpu);
    for (struct link *link; (link = ids_next(&engine->links, id, &id));)
        if (link->kind == TARGET_CGROUP ? online : link->kind == TARGET_CPU && link->cpu == cpu)
            link->noted |= NOTE_MOVED;
    id = 0;
    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));) {
        if (!mode_table[pmc->mode_in_use].system || !pmc->links->n)
            continue;
        pmc->cpus.stale |= online;
        pmc->cpus.refused = false;
        pmc_touch(pmc);
        pmc_defer(pmc, WORK_CHANGE);
    }
}

static void sink_cgroup_changed(void *ctx, uint64_t tag)
{
    struct pmc *pmc = ids_find(&(*(struct engine **)ctx)->pmcs, tag);

    if (pmc)
        pmc_schedule_reattach(pmc);
}

static void sink_drain_due(void *ctx, uint64_t tag)
{
    struct engine *engine = *(struct engine **)ctx;
    struct pmc *pmc = tag ? ids_find(&engine->pmcs, tag) : NULL;

    engine->sideband_due |= !tag;
    if (pmc)
        drain_schedule(pmc);
}

struct sink engine_sink(struct engine **engine)
{
    return (struct sink){.ctx = engine,
                         .process_exited = sink_process_exited,
                         .counter_gone = sink_counter_gone,
                         .guard_fired = sink_guard_fired,
                         .cpu_changed = sink_cpu_changed,
                         .cgroup_changed = sink_cgroup_changed,
                         .drain_due = sink_drain_due};
}

/* ---- wakes and names ---- */

bool engine_next_wake(struct engine *engine, uint64_t *pmc_id)
{
    struct pmc *pmc = pmc_deferred_take(engine, WORK_WAKE);

    if (!pmc)
        return false;
    *pmc_id = pmc->id;
    pmc_unref(pmc);
    return true;
}

bool engine_next_name(struct engine *engine, struct gone_name *gone)
{
    struct pmc *pmc = pmc_deferred_take(engine, WORK_NAME);
    struct work *work = pmc ? NULL : work_take(&engine->deferred[WORK_INSTANCE], NULL);

    if (pmc) {
        *gone = (struct gone_name){.instance = pmc->vanished_from};
        strncpy(gone->name, pmc->name, sizeof gone->name - 1);
        pmc_unref(pmc);
    } else if (work) {
        struct instance *instance = WORK_OBJECT(work, instance, work_name);

        *gone = (struct gone_name){.is_instance = true, .vanished = instance->vanished};
        strncpy(gone->name, instance->name, sizeof gone->name - 1);
        instance_free(instance);
    }
    return pmc || work;
}

bool engine_has_name(const struct engine *engine)
{
    return !STAILQ_EMPTY(&engine->deferred[WORK_NAME]) ||
           !STAILQ_EMPTY(&engine->deferred[WORK_INSTANCE]);
}

/* ---- tasks: free unused links and processes ---- */

static bool unused_task(struct call *call)
{
    struct engine *engine = call->engine;
    struct work_queue unused = STAILQ_HEAD_INITIALIZER(unused);

    if (STAILQ_EMPTY(&engine->deferred[WORK_LINK]))
        return false;
    STAILQ_CONCAT(&unused, &engine->deferred[WORK_LINK]);
    lock_drop(call, true);
    targets_destroy(engine, &unused);
    lock_retake(call);
    return true;
}

/* ---- tasks: CPUs that went online or offline, before the PMCs on them ---- */

static bool has_cpu_changes(const struct engine *engine)
{
    return engine->backend && engine->backend->cpu_changed && cpus_count(&engine->cpus_changed) > 0;
}

static bool cpu_changes_task(struct call *call)
{
    struct engine *engine = call->engine;
    struct cpus changed = engine->cpus_changed, offlined = engine->cpus_offlined;

    if (!has_cpu_changes(engine))
        return false;
    engine->cpus_changed = engine->cpus_offlined = (struct cpus){0};
    for (int cpu = cpus_next(&changed, 0); cpu >= 0; cpu = cpus_next(&changed, cpu + 1)) {
        const bool went_offline = cpus_has(&offlined, (unsigned)cpu),
                   is_online = cpus_has(&engine->online, (unsigned)cpu);

        lock_drop(call, true);
        if (went_offline)
            engine->backend->cpu_changed(engine->backend_state, (unsigned)cpu, false);
        if (is_online)
            engine->backend->cpu_changed(engine->backend_state, (unsigned)cpu, true);
        lock_retake(call);
    }
    cpus_free(&changed);
    cpus_free(&offlined);
    return true;
}

/* ---- tasks: changes ---- */

/* Returns the first queued work of a change that can run, or NULL. PMCs that are busy or wait for a
 * retry stay queued. */
static struct work *change_next(const struct engine *engine)
{
    struct work *work;

    STAILQ_FOREACH (work, &engine->deferred[WORK_CHANGE], entry) {
        const struct pmc *pmc = work_pmc(work, WORK_CHANGE);

        if (!pmc->busy && !pmc->waits_for_retry)
            break;
    }
    return work;
}

static bool change_task(struct call *call)
{
    struct engine *engine = call->engine;
    struct work *work;
    bool any = false;

    while (!any && (work = change_next(engine))) {
        struct pmc *pmc = work_pmc(work, WORK_CHANGE);

        STAILQ_REMOVE(&engine->deferred[WORK_CHANGE], work, work, entry);
        work->kind = WORK_NONE;
        any = change_deferred(call, pmc);
        pmc_unref(pmc);
    }
    return any;
}

void changes_retry(struct engine *engine)
{
    struct work *work;

    engine->retry_ns = 0;
    STAILQ_FOREACH (work, &engine->deferred[WORK_CHANGE], entry)
        work_pmc(work, WORK_CHANGE)->waits_for_retry = false;
}

/* ---- all tasks ---- */

bool engine_has_task(const struct engine *engine)
{
    return !STAILQ_EMPTY(&engine->deferred[WORK_LINK]) || poll_wanted(engine) ||
           drain_wanted(engine) || has_cpu_changes(engine) || change_next(engine);
}

bool engine_task(struct call *call)
{
    return unused_task(call) || cpu_changes_task(call) || drain_task(call) || poll_task(call) ||
           change_task(call);
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
    if (engine->retry_ns && engine->retry_ns <= now_ns)
        changes_retry(engine);
}
