/*
 * Changes: the order of their parts, and the changes that the engine makes by itself.
 */
#include "core/call.h"
#include "core/change/plan.h"
#include "core/pmc/count.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- creation and freeing ---- */

static void take_asker(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    struct rights *rights = change->cause == CAUSE_COMMAND ? change->call->rights : NULL;

    change->asker = (struct asker){
        .rights = rights,
        .opener = change->cause == CAUSE_COMMAND && change->call->open ? &change->call->open->opener
                                                                       : NULL,
        .may_kernel = access_kernel(pmc->instance, rights),
        .may_system = access_system(pmc->instance, rights),
        .may_foreign = access_superuser(rights) ||
                       tunable_bool(&change->engine->tunables, TUNABLE_UNPRIVILEGED_PROC_DEBUG),
        .superuser = access_superuser(rights),
        .inside = !instance_is_root(pmc->instance),
    };
}

/* Starts a change. On ENOMEM only a release continues. */
static int change_begin(struct change *change)
{
    const struct pmc *pmc = change->pmc;

    if (vec_room(&change->diff.moves, pmc->links->n + 1) ||
        !(change->diff.total = tally_new(pmc_events(pmc))))
        return change->cause == CAUSE_RELEASE ? 0 : err_nomem(&change->err);
    for (unsigned i = 0; i < pmc->links->n; i++) {
        struct link *link = pmc->links->link[i];

        change->diff.moves.items[change->diff.moves.n++] = (struct move){
            .old = link,
            .next = link,
            .cgroup_fd = -1,
            .root_fd = -1,
            .verdict = {.asked = change->cause == CAUSE_OWN && link_dropped(pmc, link),
                        .below = link->below,
                        .drops = link->drops}};
    }
    if (change->cause == CAUSE_RELEASE)
        return 0;
    if (change->cause == CAUSE_OWN) {
        change->stirred = pmc->stirred;
        change->pmc->stirred = false; /* what happens from here on is another event */
    }
    take_asker(change);
    change->desired.kernel = pmc->kernel;
    change->desired.wants_all = pmc->wants_all;
    change->attach_ns = tunable_u64(&change->engine->tunables, TUNABLE_ATTACH_MS) * 1000000;
    if (pmc->engine->limit_ns && change->attach_ns > pmc->engine->limit_ns)
        change->attach_ns = pmc->engine->limit_ns;
    snprintf(change->limit_name, sizeof change->limit_name, "%s",
             user_limit_shown(change->payer, USED_FDS));
    return settings_copy(&change->desired.settings, &pmc->settings) ? 0 : err_nomem(&change->err);
}

static void desired_clear(struct desired *desired)
{
    for (unsigned i = 0; i < desired->n_names; i++)
        free(desired->names[i]);
    free(desired->metrics);
    free(desired->targets.items);
    free(desired->events);
    set_unref(desired->set);
    settings_clear(&desired->settings);
}

/* Frees the change with the lock; change_close() has freed the rest without it. */
static void change_clear(struct change *change)
{
    desired_clear(&change->desired);
    EACH_MOVE (move, change)
        free(move->last);
    free(change->diff.moves.items);
    free(change->diff.links);
    free(change->diff.base);
    free(change->diff.total);
    free(change->log.counted_before);
    buf_free(&change->log.inventory);
    user_unref(change->payer);
    pmc_unref(change->pmc);
}

/* ---- the parts in order ---- */

#define STIR_TRIES 10 /* failed attempts to attach to a cgroup, until it is created again */

/* After a failed change of the engine: retries later, or not at all. */
static void note_failure(struct change *change)
{
    struct pmc *pmc = change->pmc;

    if (change->cause == CAUSE_COMMAND)
        return;
    if (change->stirred && (pmc->stir_tries < STIR_TRIES || change->rc == -ENOMEM)) {
        pmc->stirred = true;
        pmc->stir_tries++;
    } else if (change->rc != -ENOMEM) {
        pmc->cpus_refused =
            mode_table[pmc->effective].system && change->cpus_serial == change->engine->cpus_serial;
        EACH_MOVE (move, change)
            if (move->verdict.asked && move->verdict.drops == move->old->drops)
                move->old->asked = true;
    }
    pmc_touch(pmc);
    pmc_change_later(pmc, change->call->now_ns);
}

static void change_end(struct change *change)
{
    struct pmc *pmc = change->pmc;

    if (change->last_claim) {
        rows_release(change->engine->rows, change->last_claim);
        cpus_free(&change->last_claim->cpus);
        free(change->last_claim);
    }
    pmc->busy = NULL;
    pmc_wake(pmc);
    if (change->cause == CAUSE_RELEASE)
        pmc_unref(pmc); /* the tree's reference */
    else if (pmc_released(pmc))
        pmc_defer(pmc, WORK_CHANGE); /* released during the change: close it now */
    change_clear(change);
}

/* reattach: targets that are not watched yet. */
static bool lacks_watch(const struct pmc *pmc)
{
    for (unsigned i = 0; pmc->settings.word[KEY_REATTACH] && i < pmc->links->n; i++)
        if (pmc->links->link[i]->kind == TARGET_CGROUP && !pmc->links->link[i]->ended &&
            !pmc->links->link[i]->watch)
            return true;
    return false;
}

static void change_decide(struct change *change)
{
    if (pmc_released(change->pmc) && change->cause != CAUSE_RELEASE)
        change->rc = err_set(&change->err, P26, "the PMC was released while the command waited");
    if (change->rc == 0)
        change_swap(change);
    change->call->committed |= change->rc == 0 && change->cause == CAUSE_COMMAND;
    if (change->rc) {
        note_failure(change);
        change_refuse(change);
    }
    change->call->err = change->rc ? change->err : change->note; /* before the reply may be sent */
    change->pmc->cpus_stale |= change->engine->cpus_serial != change->cpus_serial;
    if (change->rc == 0 && change->cause == CAUSE_COMMAND && lacks_watch(change->pmc))
        pmc_stir(change->pmc);
    if (change->pmc->cpus_stale || change->pmc->stirred)
        pmc_defer(change->pmc, WORK_CHANGE);
}

static void unlocked(struct change *change, bool slow, void (*part)(struct change *change))
{
    slow_begin(change->call, slow);
    part(change);
    slow_end(change->call);
}

int change_run(struct call *call, struct pmc *pmc, enum cause cause, bool slow)
{
    struct change change = {
        .cause = cause,
        .call = call,
        .engine = pmc->engine,
        .file = call->file ? call->file : "",
        .cpus_serial = pmc->engine->cpus_serial,
    };
    int rc = slow && cause == CAUSE_COMMAND ? slow_admit(call) : CALL_DONE;

    if (rc)
        return rc;
    change.pmc = pmc_ref(pmc);
    change.payer = user_ref(pmc->user);
    snprintf(change.name, sizeof change.name, "%s", pmc->name);
    buf_init(&change.log.inventory, NULL, 0);
    STAILQ_INIT(&change.unused);
    pmc->busy = &change;
    change.rc = change_begin(&change);
    if (change.rc == 0 && cause != CAUSE_RELEASE)
        unlocked(&change, slow, change_find);
    quota_release(&change);
    if (change.rc == 0)
        change.rc = change_plan(&change);
    if (change.rc == 0)
        unlocked(&change, slow, change_open);
    quota_release(&change);
    change_decide(&change);
    unlocked(&change, slow, change_close);
    rc = change.rc;
    change_end(&change);
    return rc;
}

/* ---- changes of the engine ---- */

static bool any_link(const struct pmc *pmc, bool (*is)(const struct pmc *, const struct link *))
{
    for (unsigned i = 0; i < pmc->links->n; i++)
        if (is(pmc, pmc->links->link[i]))
            return true;
    return false;
}

static bool cpus_differ(const struct pmc *pmc)
{
    return !pmc->cpus_refused && (any_link(pmc, link_moved) || (pmc->wants_all && pmc->cpus_stale));
}

/* Returns true if counters must be opened, or a recording be drained to its end. */
bool change_takes_long(const struct pmc *pmc)
{
    return pmc->recording || pmc->links->n > COST_SMALL || count_cost(pmc) > COST_SMALL ||
           any_link(pmc, link_dropped) || pmc->stirred || cpus_differ(pmc);
}

bool change_deaths(struct call *call, struct pmc *pmc)
{
    if (pmc->busy || pmc_released(pmc) || !(pmc->stirred || any_link(pmc, link_dead)))
        return false;
    change_run(call, pmc, CAUSE_OWN, change_takes_long(pmc));
    return true;
}

/* Always a slow part, because closing a counter waits for the kernel. */
bool change_release(struct call *call, struct pmc *pmc)
{
    if (pmc->busy || !pmc->links)
        return false;
    change_run(call, pmc, CAUSE_RELEASE, pmc->links->n > 0);
    return true;
}

bool change_deferred(struct call *call, struct pmc *pmc)
{
    if (pmc_released(pmc))
        return change_release(call, pmc);
    if (pmc->busy || !(any_link(pmc, link_dropped) || any_link(pmc, link_dead) || pmc->stirred ||
                       cpus_differ(pmc)))
        return false;
    change_run(call, pmc, CAUSE_OWN, change_takes_long(pmc));
    return true;
}
