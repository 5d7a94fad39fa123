/*
 * Snapshots: reading the counters of PMCs without the lock.
 */
#include "core/pmc/count.h"

#include "core/call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    COST_SLOW = 100,     /* system calls; more are a slow part */
    COST_NAME = 4,       /* system calls to read the name of a process */
    PASSES_MAX = 8,      /* then a count that changes each time is left out */
    SNAPSHOT_ROOM = 1024 /* bytes on the stack, enough for one PMC with few links */
};
#define NAMES_NS UINT64_C(1000000000) /* minimum time between two reads of a PMC's names */

bool tally_partial(const struct tally *tally)
{
    uint64_t lost =
        tally->covered_ns > tally->running_ns ? tally->covered_ns - tally->running_ns : 0;

    return lost > 1000000 && lost > tally->covered_ns / 1000;
}

uint64_t count_shown(const struct pmc *pmc, const struct tally *tally, unsigned i)
{
    return tally->value[pmc->settings.word[KEY_MULTIPLEX] ? pmc_values(pmc) + i : i];
}

void count_for_metrics(const struct pmc *pmc, const struct tally *tally, const uint64_t *last,
                       uint64_t now_ns, struct counted *out)
{
    const struct settings *settings = &pmc->settings;

    for (unsigned i = 0; i < pmc_events(pmc); i++) {
        uint64_t from = last ? last[i] : i < settings->n_counts ? settings->counts[i] : 0;

        out->events[i] = pmc_plan_event(&pmc->set->event[i], settings, pmc->counts_kernel);
        out->value[i] = (int64_t)(count_shown(pmc, tally, i) - from);
    }
    out->reading = (struct metric_reading){.events = out->events,
                                           .value = out->value,
                                           .n = pmc_events(pmc),
                                           .elapsed_ns = pmc_elapsed_ns(pmc, now_ns)};
}

unsigned count_cost(const struct pmc *pmc)
{
    unsigned cost = 0;

    for (unsigned i = 0; i < pmc->links->n && cost <= COST_SLOW; i++) {
        const struct link *link = pmc->links->link[i];

        if (link->counter && link->state != LINK_ENDED)
            cost += pmc->engine->backend->read_cost(link->counter);
    }
    return cost;
}

static int count_failed(const struct snapshot_item *item, struct err *err)
{
    const struct pmc *pmc = item->pmc;

    if (item->kept_changing)
        return err_set(err, P14, "the count of %s kept changing while it was read: read it again",
                       pmc->name);
    return err_set(err, P14,
                   "a counter of %s could not be read: read it again. If this repeats, detach its "
                   "targets and attach them again",
                   pmc->name);
}

/* ---- snapshots ---- */

/* Returns the bytes that a PMC needs in addition to its struct snapshot_item: tallies, PIDs and
 * names. */
static size_t item_bytes(const struct pmc *pmc)
{
    const size_t links = pmc->links->n;
    const size_t bytes = (links + 1) * TALLY_SIZE(pmc_values(pmc)) +
                         links * (sizeof(struct tally *) + sizeof(pid_t) + PROCESS_NAME);

    return (bytes + sizeof(uint64_t) - 1) & ~(sizeof(uint64_t) - 1);
}

static void item_clear(const struct snapshot *snapshot, struct snapshot_item *item)
{
    free(item->own_block);
    set_unref(item->set);
    links_unref(item->links, &snapshot->engine->deferred[WORK_LINK]);
    item->own_block = NULL;
    item->total = NULL;
    item->set = NULL;
    item->links = NULL;
}

/* Copies the present state of the PMC and takes references. block: item_bytes() zeroed bytes. */
static void item_begin(struct snapshot_item *item, char *block)
{
    struct pmc *pmc = item->pmc;
    const unsigned n = pmc_values(pmc), links = pmc->links->n;

    item->links = links_ref(pmc->links);
    item->set = set_ref(pmc->set);
    item->epoch = pmc->epoch;
    item->change_number = pmc->change_number;
    item->failed = item->needs_wait = item->was_read = item->kept_changing = false;
    item->total = (struct tally *)block;
    memcpy(item->total, pmc->base, TALLY_SIZE(n));
    item->link = (struct tally **)(block + (links + 1) * TALLY_SIZE(n));
    item->shown = (pid_t *)(item->link + links);
    item->name = (char(*)[PROCESS_NAME])(item->shown + links);
    for (unsigned i = 0; i < links; i++)
        item->link[i] = (struct tally *)(block + (i + 1) * TALLY_SIZE(n));
}

static void item_read(const struct snapshot *snapshot, struct snapshot_item *item)
{
    const struct engine *engine = snapshot->engine;
    struct reading reading;

    for (unsigned i = 0; i < item->links->n; i++) {
        const struct link *link = item->links->link[i];

        if (snapshot->pids && link->kind <= TARGET_THREAD)
            item->shown[i] =
                engine->host->pid_seen_by(engine->host_state, snapshot->tid, link_task(link));
        if (item->reads_names && link->proc)
            engine->host->process_name(link->proc->process, item->name[i]);
        if (!snapshot->counts || item->failed || !link_live(link))
            continue;
        int rc = engine->backend->read(link->counter, &reading, snapshot->slow);
        item->failed = rc != 0;
        item->needs_wait = rc == -EAGAIN;
        if (rc == 0)
            tally_set(item->link[i], &reading, set_values(engine, item->set));
    }
    item->was_read = true;
}

/*
 * Adds up the readings, and updates the states armed, running and lost. Needs the lock.
 *
 * A count is partial, i.e. a lower bound until reset, if its events were not always on the hardware
 * (tally_partial(), also with multiplex=on), if sampling was throttled, or if a link has `missed`:
 * its process or a descendant lost the events, its CPU went offline and online at once, or its
 * counter could not be read when it was replaced. pmc->missed: such a link has left. `raced`,
 * left_out, gap_ns and lost records do not make a count partial; they are shown separately.
 */
static void item_sum(struct snapshot_item *item)
{
    struct pmc *pmc = item->pmc;
    unsigned n = set_values(pmc->engine, item->set), live = 0, off = 0;
    bool ran = false; /* a present counter was enabled */

    item->partial = pmc->missed || pmc_was_throttled(pmc);
    for (unsigned i = 0; i < item->links->n; i++) {
        struct link *link = item->links->link[i];

        if (link_live(link) && item->link[i]->descendant_lost)
            link_lost_descendant(link);
        item->partial |= link->missed;
        if (link_live(link)) {
            off += item->link[i]->off_hardware;
            live++;
            ran |= item->link[i]->enabled_ns > 0;
            if (item->link[i]->covered_ns >= link->seen->covered_ns)
                memcpy(link->seen, item->link[i], TALLY_SIZE(n));
            tally_subtract(item->link[i], link->base, n);
        } else {
            memcpy(item->link[i], link->base, TALLY_SIZE(n));
        }
        tally_add(item->total, item->link[i], n);
    }
    item->partial |= tally_partial(item->total);
    item->off_hardware = live > 0 && off == live;
    if (pmc_released(pmc) || item->epoch != pmc->epoch ||
        item->change_number != pmc->change_number || pmc->busy)
        return;
    if (pmc->state == PMC_ARMED && ran)
        pmc_set_state(pmc, PMC_RUNNING);
    if (pmc->state == PMC_RUNNING && item->off_hardware)
        pmc_set_state(pmc, PMC_LOST);
    else if (pmc->state == PMC_LOST && !item->off_hardware)
        pmc_set_state(pmc, PMC_RUNNING);
    item->change_number = pmc->change_number;
}

/*
 * Prepares another pass over PMCs whose bases changed, or whose counters the kernel makes the
 * reader wait for. Only these are read again, so that a user who writes a count all the time does
 * not delay others. Returns true if there are any. last: marks them as failed instead and returns
 * false. Sets *failed on ENOMEM.
 */
static bool snapshot_repeat(struct snapshot *snapshot, bool last, bool *failed)
{
    bool again = false;

    for (unsigned i = 0; snapshot->counts && i < snapshot->n; i++) {
        struct snapshot_item *item = &snapshot->item[i];

        if ((item->epoch == item->pmc->epoch && !item->needs_wait) || pmc_released(item->pmc))
            continue;
        if (last) {
            item->failed = item->kept_changing = true;
            continue;
        }
        snapshot->slow |= item->needs_wait;
        item_clear(snapshot, item);
        item->own_block = calloc(1, item_bytes(item->pmc));
        if (item->own_block)
            item_begin(item, item->own_block);
        *failed |= !item->own_block;
        again = true;
    }
    return again;
}

static int snapshot_read(struct call *call, struct snapshot *snapshot)
{
    const struct host *host = snapshot->engine->host;
    unsigned passes = 0;
    bool failed = false;

    do {
        int rc = snapshot->slow ? slow_admit(call) : CALL_DONE;

        if (rc)
            return rc;
        lock_drop(call, snapshot->slow);
        snapshot->time_ns = host->now_ns(snapshot->engine->host_state);
        snapshot->tsc = host->tsc(snapshot->engine->host_state);
        for (unsigned i = 0; i < snapshot->n; i++)
            if (!snapshot->item[i].was_read)
                item_read(snapshot, &snapshot->item[i]);
        lock_retake(call);
        if (!snapshot_repeat(snapshot, ++passes == PASSES_MAX, &failed))
            break;
        if (slow_interrupted(call))
            return -EINTR;
    } while (!failed);
    return failed ? err_nomem(&call->err) : CALL_DONE;
}

int snapshot_take(struct call *call, struct pmc *const *pmcs, unsigned n, bool counts, bool pids,
                  int (*print)(struct call *call, struct snapshot *snapshot))
{
    uint64_t room[SNAPSHOT_ROOM / sizeof(uint64_t)];
    size_t bytes = n * sizeof(struct snapshot_item);
    unsigned cost = 0;

    for (unsigned i = 0; i < n; i++)
        bytes += item_bytes(pmcs[i]);
    struct snapshot_item *items = bytes <= sizeof room ? memset(room, 0, bytes) : calloc(1, bytes);
    if (!items)
        return err_nomem(&call->err);
    struct snapshot snapshot = {.engine = call->engine,
                                .tid = call->tid,
                                .counts = counts,
                                .pids = pids,
                                .is_of_one_pmc = call->pmc != NULL,
                                .item = items};
    for (char *block = (char *)(items + n); snapshot.n < n; snapshot.n++) {
        struct snapshot_item *item = &items[snapshot.n];

        item->pmc = pmc_ref(pmcs[snapshot.n]);
        item_begin(item, block);
        block += item_bytes(item->pmc);
        if (cost <= COST_SLOW)
            cost += counts ? count_cost(item->pmc) : 1;
        const uint64_t names_ns = item->pmc->names_ns;
        item->reads_names = counts && pids && (!names_ns || call->now_ns - names_ns >= NAMES_NS);
        for (unsigned i = 0; item->reads_names && i < item->links->n; i++)
            cost += item->links->link[i]->proc ? COST_NAME : 0;
    }
    snapshot.slow = cost > COST_SLOW;
    int rc = snapshot_read(call, &snapshot);
    for (unsigned i = 0; rc == CALL_DONE && i < n; i++) {
        struct snapshot_item *item = &items[i];

        if (counts && !item->failed)
            item_sum(item);
        item->is_valid =
            item->set && !item->failed && !pmc_released(item->pmc) && item->pmc->set == item->set;
    }
    if (rc == CALL_DONE && snapshot.is_of_one_pmc && pmc_released(items[0].pmc))
        rc = err_set(&call->err, P26, "the PMC was released");
    else if (rc == CALL_DONE && snapshot.is_of_one_pmc && items[0].failed)
        rc = count_failed(&items[0], &call->err);
    else if (rc == CALL_DONE)
        rc = print(call, &snapshot);
    for (unsigned i = 0; i < n; i++) {
        item_clear(&snapshot, &items[i]);
        pmc_unref(items[i].pmc);
    }
    if ((void *)items != room)
        free(items);
    return rc;
}
