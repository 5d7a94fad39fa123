/*
 * Draining: PMCs that run and record are drained at each tick, and when their backend says that a
 * buffer fills; by works of the engine's own, several PMCs of one user each, one at a time for each
 * user: who makes his own slow makes nobody else's wait.
 */
#include "core/drain.h"

#include "core/pmc.h"

#include <stdlib.h>

#define BATCH 64 /* PMCs of one work */

void drain_ask(struct pmc *pmc)
{
    struct engine *engine = pmc->engine;

    if (pmc->drain_asked || pmc->draining || !pmc->recording)
        return;
    pmc->drain_asked = true;
    pmc->next_drain = engine->drains;
    engine->drains = pmc_ref(pmc);
}

uint64_t drain_deadline(const struct engine *engine)
{
    return engine->recorders ? engine->drain_due_ns : UINT64_MAX;
}

void drain_tick(struct engine *engine, uint64_t now_ns)
{
    if (!engine->recorders || now_ns < engine->drain_due_ns)
        return;
    engine->drain_due_ns = now_ns + DRAIN_NS;
    for (struct pmc *pmc = engine->recorders; pmc; pmc = pmc->next_recorder)
        drain_ask(pmc);
}

struct drain {
    struct work work;
    struct user *user; /* the payer of the PMCs (a reference) */
    unsigned n;
    struct drained {
        struct pmc *pmc;             /* a reference */
        struct recording *recording; /* the same, until it is drained */
        bool any;
    } item[BATCH];
};

/* A released PMC's reference may be the last: what that frees must not be freed with the lock. */
static void drain_run(struct work *work)
{
    struct drain *drain = (struct drain *)work;

    for (unsigned i = 0; i < drain->n; i++)
        recording_drain(drain->item[i].recording, false, &drain->item[i].any);
    for (unsigned i = 0; i < drain->n; i++)
        recording_unref(drain->item[i].recording);
}

static int drain_finish(struct call *call, struct work *work)
{
    struct drain *drain = (struct drain *)work;

    for (unsigned i = 0; i < drain->n; i++) {
        struct pmc *pmc = drain->item[i].pmc;

        pmc->draining = false;
        pmc_record_fds(pmc);
        call->engine->drained += drain->item[i].any;
        if (pmc->instance)
            pmc->instance->drained += drain->item[i].any;
        if (drain->item[i].any)
            pmc_wake(pmc);
        pmc_unref(pmc);
    }
    drain->user->draining = false;
    user_unref(call->engine, drain->user);
    free(drain);
    return CALL_DONE;
}

/* All are of one user, for whom no other work is under way: the first one says of which. */
static bool drain_takes(struct drain *drain, const struct pmc *pmc)
{
    if (drain->n)
        return pmc->user == drain->user;
    if (pmc->user->draining)
        return false;
    drain->user = user_ref(pmc->user);
    return drain->user->draining = true;
}

static void drain_add(struct drain *drain, struct pmc *pmc)
{
    pmc->draining = true;
    drain->item[drain->n++] =
        (struct drained){.pmc = pmc, .recording = recording_ref(pmc->recording)};
}

struct work *drain_work(struct engine *engine)
{
    struct drain *drain = engine->drains ? calloc(1, sizeof *drain) : NULL;

    if (!drain)
        return NULL; /* without memory the next tick asks again */
    for (struct pmc **at = &engine->drains, *pmc; (pmc = *at) && drain->n < BATCH;) {
        if (pmc->recording && !drain_takes(drain, pmc)) {
            at = &pmc->next_drain;
            continue;
        }
        *at = pmc->next_drain;
        pmc->drain_asked = false;
        if (pmc->recording)
            drain_add(drain, pmc);
        else
            pmc_unref(pmc);
    }
    if (!drain->n) {
        free(drain);
        return NULL;
    }
    drain->work = (struct work){drain_run, drain_finish, true};
    return &drain->work;
}
