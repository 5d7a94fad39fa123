/*
 * Changes: their life, the order of their parts, and when the engine makes one by itself.
 */
#include "core/change/plan.h"
#include "core/pmc/access.h"
#include "core/pmc/count.h"
#include "core/slow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

struct change *change_new(struct pmc *pmc, enum cause cause)
{
    const unsigned n = pmc->links->n;
    struct change *change = calloc(1, sizeof *change);
    struct fate *fates = calloc(n + 1, sizeof *fates);

    if (!change || !fates || !settings_copy(&change->desired.settings, &pmc->settings)) {
        free(fates);
        free(change);
        return NULL;
    }
    for (unsigned i = 0; i < n; i++)
        fates[i].link = pmc->links->link[i];
    change->diff.fates = fates;
    change->diff.n_fates = n;
    change->engine = pmc->engine;
    change->cause = cause;
    buf_init(&change->log.inventory, NULL, 0);
    change->pmc = pmc_ref(pmc);
    change->payer = user_ref(pmc->user);
    snprintf(change->name, sizeof change->name, "%s", pmc->name);
    change->desired.kernel = pmc->kernel;
    change->desired.wants_all = pmc->wants_all;
    return change;
}

static void desired_clear(struct desired *desired)
{
    for (unsigned i = 0; i < desired->n_names; i++)
        free(desired->names[i]);
    free(desired->metrics);
    free(desired->targets);
    free(desired->events);
    set_unref(desired->set);
    settings_clear(&desired->settings);
}

/* With the lock; what needs none to be freed is freed by change_close() before. */
void change_free(struct change *change)
{
    desired_clear(&change->desired);
    for (unsigned i = 0; i < change->diff.n_fates; i++)
        free(change->diff.fates[i].last);
    free(change->diff.fates);
    free(change->diff.fresh);
    free(change->diff.links);
    free(change->diff.base);
    free(change->diff.total);
    free(change->log.counted_before);
    buf_free(&change->log.inventory);
    free(change->replaced_count);
    user_unref(change->payer);
    pmc_unref(change->pmc);
    free(change);
}

/* ---- from beginning to end ---- */

/* A change that the engine tries by itself is not tried again at once. */
static void note_failure(struct change *change)
{
    struct pmc *pmc = change->pmc;

    if (change->cause == CAUSE_COMMAND)
        return;
    if (change->rc == -ENOMEM)
        pmc->later = true;
    else if (change->cause == CAUSE_CPUS)
        pmc->cpus_refused = change->cpus_serial == change->engine->cpus_serial;
    for (unsigned i = 0; change->rc != -ENOMEM && i < change->diff.n_fates; i++) {
        const struct fate *fate = &change->diff.fates[i];

        if (fate->verdict.asked && fate->verdict.drops == fate->link->drops)
            fate->link->asked = true;
    }
    pmc_touch(pmc);
    pmc_pend(pmc);
}

static int change_end(struct call *call, struct change *change)
{
    struct pmc *pmc = change->pmc;
    const int rc = change->rc;

    if (change->last_claim) {
        rows_release(change->engine->rows, change->last_claim);
        cpus_free(&change->last_claim->cpus);
        free(change->last_claim);
    }
    call->err = rc ? change->err : change->note;
    pmc->busy = NULL;
    pmc_wake(pmc);
    if (pmc_released(pmc) && change->cause != CAUSE_RELEASE)
        pmc_pend(pmc); /* meanwhile: it is closed now */
    if (change->asker.open && change->replaced_count && !rc && !strcmp(change->file, "count")) {
        free(change->asker.open->swap);
        change->asker.open->swap = change->replaced_count;
        change->asker.open->swapped = true;
        change->replaced_count = NULL;
    }
    if (change->cause == CAUSE_RELEASE)
        pmc_unref(pmc); /* the tree's own reference */
    change_free(change);
    return rc;
}

static void change_decide(struct call *call, struct change *change)
{
    if (pmc_released(change->pmc) && change->cause != CAUSE_RELEASE)
        change->rc = err_set(&change->err, P26, "the PMC was released meanwhile");
    if (change->rc == 0)
        change_swap(change);
    call->committed |= change->rc == 0 && change->cause == CAUSE_COMMAND;
    if (change->rc) {
        note_failure(change);
        change_refuse(change);
    }
    change->pmc->cpus_stale |= change->engine->cpus_serial != change->cpus_serial;
    if (change->pmc->cpus_stale)
        pmc_pend(change->pmc);
}

static void take_asker(struct change *change, const struct call *call)
{
    struct pmc *pmc = change->pmc;
    bool released = pmc_released(pmc), command = change->cause == CAUSE_COMMAND;
    struct rights *rights = command ? call->rights : NULL;

    change->asker = (struct asker){
        .rights = rights,
        .may_kernel = !released && access_kernel(pmc->instance, rights),
        .may_system = !released && access_system(pmc->instance, rights),
        .may_foreign = access_foreign(change->engine, rights),
        .superuser = access_superuser(rights),
        .inside = !released && !instance_is_root(pmc->instance),
    };
    if (!command)
        return;
    change->asker.uid = call->uid;
    change->asker.tid = call->tid;
    change->asker.open = call->open;
    change->asker.opener = call->open ? &call->open->opener : NULL;
    change->asker.append = call->append;
    change->asker.interrupted = call->interrupted;
}

static void unlocked(struct call *call, struct change *change, bool slow,
                     void (*part)(struct change *change))
{
    slow_begin(call, slow);
    part(change);
    slow_end(call);
}

int change_run(struct call *call, struct change *change, bool slow)
{
    int rc = slow && change->cause == CAUSE_COMMAND ? slow_admit(call) : CALL_DONE;
    struct buf limit;

    if (rc) {
        change_free(change);
        return rc;
    }
    take_asker(change, call);
    change->file = call->file ? call->file : "";
    change->attach_ns = tunable_u64(&call->engine->tunables, TUNABLE_ATTACH_MS) * 1000000;
    change->cpus_serial = change->engine->cpus_serial;
    buf_init(&limit, change->limit_name, sizeof change->limit_name);
    user_limit_print(change->payer, USED_FDS, &limit);
    buf_text(&limit);
    change->pmc->busy = change;
    unlocked(call, change, slow, change_find);
    quota_release(change);
    if (change->rc == 0)
        change->rc = change_plan(change);
    if (change->rc == 0) {
        unlocked(call, change, slow, change_open);
        quota_release(change);
    }
    change_decide(call, change);
    unlocked(call, change, slow, change_close);
    return change_end(call, change);
}

/* A recording is drained to its end, which waits for the kernel. */
bool change_takes_long(const struct pmc *pmc)
{
    return pmc->recording || pmc->links->n > COST_SMALL || count_cost(pmc) > COST_SMALL;
}

bool change_is_command(const struct change *change)
{
    return change->cause == CAUSE_COMMAND;
}

/* ---- what the engine does by itself ---- */

/* False: no memory; then the PMC is looked at again in the next round. */
static bool own_change(struct call *call, struct pmc *pmc, enum cause cause, bool slow)
{
    struct change *change = change_new(pmc, cause);

    if (!change) {
        pmc->later = true;
        pmc_pend(pmc);
        return false;
    }
    for (unsigned i = 0; cause == CAUSE_DROPPED && i < change->diff.n_fates; i++) {
        struct fate *fate = &change->diff.fates[i];

        fate->verdict = (struct verdict){.asked = link_dropped(pmc, fate->link),
                                         .below = fate->link->below,
                                         .drops = fate->link->drops};
    }
    change_run(call, change, slow);
    return true;
}

static bool any_link(const struct pmc *pmc, bool (*is)(const struct pmc *, const struct link *))
{
    for (unsigned i = 0; i < pmc->links->n; i++)
        if (is(pmc, pmc->links->link[i]))
            return true;
    return false;
}

bool change_deaths(struct call *call, struct pmc *pmc)
{
    if (pmc->busy || pmc_released(pmc) || !any_link(pmc, link_dead))
        return false;
    return own_change(call, pmc, CAUSE_DEATHS, change_takes_long(pmc));
}

bool change_pending(struct call *call, struct pmc *pmc)
{
    if (pmc_released(pmc))
        return pmc->links && change_release(call, pmc);
    if (pmc->busy)
        return false;
    if (any_link(pmc, link_dropped)) /* a process of it executed a privileged program */
        return own_change(call, pmc, CAUSE_DROPPED, true);
    if (any_link(pmc, link_dead))
        return change_deaths(call, pmc);
    return cpus_differ(pmc) && own_change(call, pmc, CAUSE_CPUS, true);
}

/* Closing a counter waits for the kernel. */
bool change_release(struct call *call, struct pmc *pmc)
{
    return !pmc->busy && own_change(call, pmc, CAUSE_RELEASE, pmc->links->n > 0);
}
