/*
 * Drains recordings: at each tick, and when the backend reports a filling buffer. A task of the
 * engine drains several PMCs of one user, and each user has at most one task at a time. So a user
 * with slow drains does not delay other users.
 */
#include "core/read/drain.h"

#include "core/call.h"
#include "core/pmc/pmc.h"

#define BATCH 64 /* maximum PMCs per task */

void drain_schedule(struct pmc *pmc)
{
    if (!pmc->drain.running && pmc->recording)
        pmc_defer(pmc, WORK_DRAIN);
}

uint64_t drain_deadline(const struct engine *engine)
{
    return LIST_EMPTY(&engine->recording_pmcs) ? UINT64_MAX : engine->drain_due_ns;
}

void drain_tick(struct engine *engine, uint64_t now_ns)
{
    struct pmc *pmc;

    if (LIST_EMPTY(&engine->recording_pmcs) || now_ns < engine->drain_due_ns)
        return;
    engine->drain_due_ns = now_ns + DRAIN_NS;
    LIST_FOREACH (pmc, &engine->recording_pmcs, drain.entry)
        drain_schedule(pmc);
}

static bool drain_must_wait(const struct pmc *pmc)
{
    return pmc->recording && pmc->user->draining;
}

bool drain_wanted(const struct engine *engine)
{
    struct work *work;

    STAILQ_FOREACH (work, &engine->deferred[WORK_DRAIN], entry)
        if (!drain_must_wait(work_pmc(work, WORK_DRAIN)))
            break;
    return work || (engine->sideband_due && !engine->draining_sideband);
}

bool drain_task(struct call *call)
{
    struct engine *engine = call->engine;
    struct work_queue *queue = &engine->deferred[WORK_DRAIN],
                      others = STAILQ_HEAD_INITIALIZER(others);
    struct drained {
        struct pmc *pmc;             /* a reference */
        struct recording *recording; /* a reference, until it is drained */
        struct drain_result result;
    } drained[BATCH];
    struct user *user = NULL; /* pays for the PMCs (a reference) */
    struct pmc *pmc;
    unsigned n = 0;

    if (engine->sideband_due && !engine->draining_sideband) {
        engine->sideband_due = false;
        engine->draining_sideband = true;
        lock_drop(call, true);
        engine->backend->drain_sideband(engine->backend_state);
        lock_retake(call);
        engine->draining_sideband = false;
        return true;
    }
    /* Take the PMCs of one user: the first user in the queue without a running drain. */
    while (n < BATCH && (pmc = pmc_deferred_take(engine, WORK_DRAIN))) {
        if (drain_must_wait(pmc) || (pmc->recording && user && pmc->user != user)) {
            work_add(&others, pmc_work(pmc, WORK_DRAIN), WORK_DRAIN);
        } else if (!pmc->recording) {
            pmc_unref(pmc);
        } else {
            if (!user)
                user = user_ref(pmc->user);
            pmc->drain.running = true;
            drained[n++] = (struct drained){.pmc = pmc, .recording = recording_ref(pmc->recording)};
        }
    }
    STAILQ_CONCAT(&others, queue);
    STAILQ_CONCAT(queue, &others);
    if (!n)
        return false;
    user->draining = true;
    lock_drop(call, true);
    for (unsigned i = 0; i < n; i++)
        recording_drain(drained[i].recording, false, &drained[i].result);
    /* without the engine's lock: freeing the recording of a released PMC makes system calls */
    for (unsigned i = 0; i < n; i++)
        recording_unref(drained[i].recording);
    lock_retake(call);
    for (unsigned i = 0; i < n; i++) {
        const bool any = drained[i].result.any;

        pmc = drained[i].pmc;
        pmc->drain.running = false;
        pmc_charge_recording(pmc);
        engine->totals.drains += any;
        if (pmc->instance)
            pmc->instance->totals.drains += any;
        if (any)
            pmc_wake(pmc);
        pmc_unref(pmc);
    }
    user->draining = false;
    user_unref(user);
    return true;
}
