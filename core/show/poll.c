/*
 * poll: the levels of files, and snapshots for sleeping pollers. A tick requests snapshots at most
 * every notify_ms, and the pollers are notified when they are done. A poll of a PMC that is cheap
 * to read also takes a snapshot.
 */
#include "core/show/poll.h"

#include "core/engine.h"
#include "core/pmc/count.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

static uint64_t notify_ns(const struct engine *engine)
{
    return tunable_u64(&engine->tunables, TUNABLE_NOTIFY_MS) * 1000000;
}

/* ---- snapshots ---- */

static bool is_notified(const struct pmc *pmc)
{
    return settings_number(&pmc->settings, KEY_NOTIFY) != UINT64_MAX;
}

static int poll_update(struct call *call, struct snapshot *snapshot)
{
    (void)call;
    for (unsigned i = 0; i < snapshot->n; i++) {
        const struct snapshot_item *item = &snapshot->item[i];
        struct pmc *pmc = item->pmc;

        if (item->failed || !item->set || pmc_released(pmc) || pmc->set != item->set)
            continue;
        const uint64_t count = count_shown(pmc, item->total, 0);
        const bool moved = pmc->poll.count != count || pmc->poll.resets != pmc->resets;
        pmc->poll.count = count;
        pmc->poll.ns = snapshot->time_ns;
        pmc->poll.resets = pmc->resets;
        if ((moved && is_notified(pmc)) || pmc->poll.notify)
            pmc_wake(pmc);
        pmc->poll.notify = false;
    }
    return CALL_DONE;
}

/* Returns true if a snapshot is requested and none is running. */
bool poll_wanted(const struct engine *engine)
{
    return !STAILQ_EMPTY(&engine->deferred[WORK_SNAPSHOT]) && !engine->polling;
}

bool poll_task(struct call *call)
{
    struct engine *engine = call->engine;
    struct pmc **pmcs = poll_wanted(engine) ? calloc(engine->pmcs.n + 1, sizeof *pmcs) : NULL;
    struct pmc *pmc;
    unsigned n = 0;

    while (pmcs && (pmc = pmc_deferred(engine, WORK_SNAPSHOT))) {
        if (!pmc_released(pmc) && pmc->set)
            pmcs[n++] = pmc; /* the tree has a reference too */
        pmc_unref(pmc);
    }
    if (n) { /* on ENOMEM the next tick requests it again */
        engine->polling = true;
        snapshot_take(call, pmcs, n, true, false, poll_update);
        engine->polling = false;
    }
    free(pmcs);
    return n > 0;
}

/* ---- ticks ---- */

uint64_t poll_deadline(const struct engine *engine)
{
    return engine->n_polled ? engine->poll_due_ns : UINT64_MAX;
}

void poll_tick(struct engine *engine, uint64_t now_ns)
{
    uint64_t id = 0;

    if (now_ns < poll_deadline(engine))
        return;
    engine->poll_due_ns = now_ns + notify_ns(engine);
    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));) {
        /* armed, running and lost are detected by reading */
        bool finds_out = is_notified(pmc) || !state_table[pmc->state].settable;

        if (pmc->poll.pollers && pmc->set && !pmc->busy && finds_out)
            pmc_defer(pmc, WORK_SNAPSHOT);
    }
}

void engine_polled(struct engine *engine, uint64_t pmc_id, bool polled)
{
    struct pmc *pmc = ids_find(&engine->pmcs, pmc_id);

    if (!pmc || (pmc->poll.pollers != 0) == polled)
        return;
    pmc->poll.pollers = polled;
    engine->n_polled += polled ? 1 : (unsigned)-1;
    if (polled)
        engine->poll_due_ns = engine->host->now_ns(engine->host_state) + notify_ns(engine);
}

/* ---- levels ---- */

/* Notes the state at open, so that a change before the first read or poll is reported. */
void begin_state(struct call *call)
{
    call->open->has_seen = true;
    call->open->seen_change = call->pmc->change;
}

unsigned poll_state(struct call *call)
{
    struct open_file *open = call->open;
    unsigned level = EPOLLIN | EPOLLRDNORM;

    if (!open)
        return level;
    if (!open->has_seen) {
        open->has_seen = true;
        open->seen_change = call->pmc->change;
    }
    return open->seen_change != call->pmc->change ? level | EPOLLPRI : level;
}

/* After a reset the seen value becomes the initial value. */
static void seen_follow(struct open_file *open, const struct pmc *pmc)
{
    if (!open->has_seen) {
        open->has_seen = true;
        open->seen_count = pmc->poll.count;
    } else if (open->seen_resets != pmc->resets) {
        open->seen_count = pmc->settings.n_counts ? pmc->settings.counts[0] : 0;
    }
    open->seen_resets = pmc->resets;
}

/* Returns true if there was a snapshot since the last reset. */
static bool polled_known(const struct pmc *pmc)
{
    return pmc->poll.ns && pmc->poll.resets == pmc->resets;
}

unsigned poll_count(struct call *call)
{
    struct open_file *open = call->open;
    struct pmc *pmc = call->pmc;
    unsigned level = EPOLLIN | EPOLLRDNORM;
    uint64_t notify = settings_number(&pmc->settings, KEY_NOTIFY);
    bool costly = count_cost(pmc) > COST_SMALL;

    if (!open || !pmc->set || !is_notified(pmc))
        return level;
    bool fresh = polled_known(pmc) && call->now_ns - pmc->poll.ns < notify_ns(pmc->engine);
    if (costly && !fresh && !pmc->busy) {
        pmc->poll.notify = true;
        pmc_defer(pmc, WORK_SNAPSHOT);
    } else if (!costly && !pmc->busy &&
               snapshot_take(call, &call->pmc, 1, true, false, poll_update)) {
        return level; /* released, unreadable, or a snapshot is running */
    }
    pmc = call->pmc;
    open = call->open;
    if (!polled_known(pmc) || (costly && !fresh && !open->has_seen))
        return level;
    seen_follow(open, pmc);
    int64_t more = (int64_t)(pmc->poll.count - open->seen_count); /* estimates may fall */
    return more > 0 && (uint64_t)more >= notify ? level | EPOLLPRI : level;
}
