/*
 * Draining: PMCs that run and record are drained at each tick, and when their backend says that a
 * buffer fills; by works of the engine's own, several PMCs of one user each, one at a time for each
 * user: who makes his own slow makes nobody else's wait.
 */
#include "core/drain.h"

#include "core/pmc.h"

#include <stdlib.h>

#define BATCH      64       /* PMCs of one work */
#define FILES_NS   20000000 /* so long its files may take */
#define FILES_MOST 256      /* that one of them may hold more */

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
    const struct engine *engine;
    struct user *user;          /* whose they are (a reference); NULL: nobody's */
    unsigned long fds_promised; /* to all of them */
    unsigned n;
    struct drained {
        struct pmc *pmc;             /* a reference */
        struct recording *recording; /* the same, until it is drained */
        bool any;
    } item[BATCH];
};

/* After all rings, so that nobody's records wait for somebody else's files; not always the same
 * recording first. */
static void files_take(const struct drain *drain)
{
    const struct engine *engine = drain->engine;
    const uint64_t begin = engine->host->now_ns(engine->host_state);

    for (unsigned i = 0; i < drain->n; i++)
        recording_take_files(drain->item[(begin + i) % drain->n].recording, begin + FILES_NS);
}

/* A released PMC's reference may be the last: what that frees must not be freed with the lock. */
static void drain_run(struct work *work)
{
    struct drain *drain = (struct drain *)work;

    for (unsigned i = 0; i < drain->n; i++)
        recording_drain(drain->item[i].recording, false, &drain->item[i].any);
    files_take(drain);
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
    call->engine->fds_promised -= drain->fds_promised;
    if (drain->user)
        drain->user->draining = false;
    user_unref(call->engine, drain->user);
    free(drain);
    return CALL_DONE;
}

/* What a quota leaves of that. */
static unsigned long room_within(unsigned long room, uint64_t quota, unsigned long used)
{
    if (quota >= used + room)
        return room;
    return quota > used ? quota - used : 0;
}

/* A share of what is left to its owner, its instance, and to everybody: others may take theirs
 * meanwhile. */
static unsigned long files_room(const struct pmc *pmc)
{
    const struct engine *engine = pmc->engine;
    const unsigned long used = engine->fds_used + engine->fds_promised + FDS_KEPT;
    unsigned long room = engine->fd_limit > used ? engine->fd_limit - used : 0, share;
    const uint64_t quota = tunable_u64(&engine->tunables, TUNABLE_MAX_FDS_PER_USER);

    if (pmc->user)
        room = room_within(room, quota, pmc->user->fds);
    if (pmc->instance && pmc->instance->limit[LIMIT_FDS])
        room = room_within(room, pmc->instance->limit[LIMIT_FDS], pmc->share->fds);
    share = (room + BATCH - 1) / BATCH;
    return share < FILES_MOST ? share : FILES_MOST;
}

/* The first one says whose they are: somebody's for whom no other work is under way. */
static bool drain_takes(struct drain *drain, const struct pmc *pmc)
{
    if (drain->n)
        return pmc->user == drain->user;
    if (!pmc->user)
        return true;
    if (pmc->user->draining || !(drain->user = user_get(pmc->engine, pmc->user->uid)))
        return false;
    return drain->user->draining = true;
}

static void drain_add(struct drain *drain, struct pmc *pmc)
{
    const unsigned long room = files_room(pmc);

    recording_allow_files(pmc->recording, room);
    drain->fds_promised += room;
    pmc->engine->fds_promised += room;
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
    drain->engine = engine;
    drain->work = (struct work){drain_run, drain_finish, true};
    return &drain->work;
}
