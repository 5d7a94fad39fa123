/*
 * Changes: their memory, the order of their stages, and what the engine changes by itself.
 */
#include "core/change.h"

#include "core/access.h"
#include "core/count.h"
#include "core/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

struct change *change_new(struct pmc *pmc, enum cause cause)
{
    struct change *change = calloc(1, sizeof *change);

    if (!change)
        return NULL;
    change->engine = pmc->engine;
    change->cause = cause;
    change->file = "ctl";
    if (!settings_copy(&change->want, &pmc->settings)) {
        free(change);
        return NULL;
    }
    cpus_init(&change->named);
    cpus_init(&change->unnamed);
    buf_init(&change->inventory, NULL, 0);
    change->pmc = pmc_ref(pmc);
    snprintf(change->name, sizeof change->name, "%s", pmc->name);
    change->cpus_serial = pmc->engine->cpus_serial;
    change->effective = pmc->effective;
    change->kernel = pmc->kernel;
    change->wants_all = pmc->wants_all;
    return change;
}

/* With the lock; what needs none to be freed is freed by change_clean() before. */
void change_free(struct change *change)
{
    for (unsigned i = 0; i < change->n_names; i++)
        free(change->names[i]);
    free(change->names);
    free(change->metrics);
    for (unsigned i = 0; i < change->n_wanted; i++) {
        target_word_clear(&change->wanted[i].word);
        free(change->wanted[i].cgroup);
    }
    free(change->wanted);
    for (unsigned i = 0; i < change->n_replaced; i++)
        free(change->replaced[i].last);
    free(change->replaced);
    for (unsigned i = 0; i < change->n_kept; i++)
        free(change->kept[i].now);
    free(change->kept);
    free(change->watching);
    free(change->counted_before);
    buf_free(&change->inventory);
    free(change->verdicts);
    free(change->fresh);
    cpus_free(&change->named);
    cpus_free(&change->unnamed);
    free(change->plan);
    free(change->swap);
    free(change->links);
    free(change->base);
    set_unref(change->set);
    settings_clear(&change->want);
    pmc_unref(change->pmc);
    free(change);
}

/* ---- the stages ---- */

#define RELEASED "the PMC was released meanwhile"

int change_goes_on(struct change *change)
{
    const struct engine *engine = change->engine;

    if (change->interrupted && atomic_load(change->interrupted))
        return -EINTR; /* nobody is left to be told */
    if (atomic_load(&change->pmc->taken_off))
        return err_set(&change->err, P26, RELEASED);
    if (engine->host->now_ns(engine->host_state) < change->deadline_ns)
        return 0;
    return err_set(&change->err, P13,
                   "finding and attaching the targets took longer than attach_ms "
                   "(%llu): nothing was attached; write fewer at a time, or raise attach_ms",
                   (unsigned long long)change->attach_ns / 1000000);
}

static void change_run(struct work *work)
{
    struct change *change = (struct change *)work;

    switch (change->stage) {
    case STAGE_PARSE:
        change->rc = change_parse(change, change->text, change->len, &change->err);
        break;
    case STAGE_PREPARE:
        change_prepare(change);
        break;
    case STAGE_APPLY:
        if (change->cause == CAUSE_RELEASE)
            record_last_run(change);
        else
            change_apply(change);
        break;
    case STAGE_CLEAN:
        change_clean(change);
        break;
    }
}

static int next_stage(struct call *call, struct change *change, enum stage stage)
{
    change->stage = stage;
    call->work = &change->work;
    return CALL_WORK;
}

/*
 * Everything goes; but first, when somebody still reads its log, what was recorded up to now. A
 * later worker goes on with all of it.
 */
static enum stage release_begin(struct change *change)
{
    change->cause = CAUSE_RELEASE;
    if (change->pmc->recording && !change->engine->forgetting && plan_last(change))
        return STAGE_APPLY;
    change_release_now(change);
    return STAGE_CLEAN;
}

/* The PMC was released while the change was under way. */
static enum stage change_abandon(struct change *change)
{
    change->rc = err_set(&change->err, P26, RELEASED);
    change_undo(change);
    return release_begin(change);
}

static int clean_finish(struct call *call, struct change *change)
{
    struct pmc *pmc = change->pmc;
    int rc = change->rc;

    if (change->old_claim) {
        rows_release(change->engine->rows, change->old_claim);
        cpus_free(&change->old_claim->cpus);
        free(change->old_claim);
    }
    if (pmc_released(pmc) && change->cause != CAUSE_RELEASE) {
        change->old_claim = NULL; /* removed while this one was cleaning up */
        return next_stage(call, change, release_begin(change));
    }
    call->err = rc ? change->err : change->note;
    pmc->busy = NULL;
    pmc_wake(pmc);
    if (change->open && change->swap && rc == 0 && strcmp(change->file, "count") == 0) {
        free(change->open->swap);
        change->open->swap = change->swap;
        change->open->swapped = true;
        change->swap = NULL;
    }
    if (change->cause == CAUSE_RELEASE)
        pmc_unref(pmc); /* the tree's own reference */
    change_free(change);
    return rc;
}

/* What the engine tries by itself is not tried again at once. */
static void note_failure(struct change *change)
{
    struct pmc *pmc = change->pmc;

    if (change->cause == CAUSE_COMMAND)
        return;
    if (change->rc == -ENOMEM)
        pmc->later = true;
    else if (change->cause == CAUSE_CPUS)
        pmc->cpus_refused = change->cpus_serial;
    for (unsigned i = 0; change->rc != -ENOMEM && i < change->n_verdicts; i++)
        if (change->verdicts[i].drops == change->verdicts[i].link->drops)
            change->verdicts[i].link->asked = true;
    pmc_pend(pmc);
}

static int change_finish(struct call *call, struct work *work)
{
    struct change *change = (struct change *)work;

    if (change->stage == STAGE_CLEAN)
        return clean_finish(call, change);
    change_unbook_found(change); /* those that become targets are accounted as such */
    if (change->cause == CAUSE_RELEASE) {
        change_release_now(change);
        return next_stage(call, change, STAGE_CLEAN);
    }
    if (pmc_released(change->pmc))
        return next_stage(call, change, change_abandon(change));
    if (change->stage == STAGE_PARSE && change->rc == 0) {
        change->rc = change_words(change, &change->err);
        if (change->rc == 0)
            return next_stage(call, change, STAGE_PREPARE);
    }
    if (change->stage == STAGE_PREPARE && change->rc == 0) {
        change->rc = change_check(change);
        if (change->rc == 0)
            return next_stage(call, change, STAGE_APPLY);
    }
    if (change->rc) {
        note_failure(change);
        change_undo(change);
    } else {
        change_commit(change);
    }
    if (change->engine->cpus_serial != change->cpus_serial)
        pmc_pend(change->pmc); /* CPUs moved meanwhile */
    return next_stage(call, change, STAGE_CLEAN);
}

int change_begin(struct call *call, struct change *change, bool slow)
{
    change->work = (struct work){.run = change_run, .finish = change_finish, .slow = slow};
    change->stage = STAGE_PREPARE;
    change->rights = call->rights;
    change->uid = call->uid;
    change->tid = call->tid;
    change->open = call->open;
    change->append = call->append;
    change->interrupted = call->interrupted;
    change->attach_ns = tunable_u64(&call->engine->tunables, TUNABLE_ATTACH_MS) * 1000000;
    change->inside = change->pmc->share != NULL;
    if (!pmc_released(change->pmc)) {
        change->may_kernel = access_kernel(change->pmc->instance, call->rights);
        change->may_system = access_system(change->pmc->instance, call->rights);
    }
    change->may_foreign = access_foreign(change->engine, call->rights);
    change->superuser = access_superuser(call->rights);
    change->pmc->busy = change;
    call->work = &change->work;
    return CALL_WORK;
}

bool change_takes_long(const struct pmc *pmc)
{
    return pmc->links->n > COST_SMALL || count_cost(pmc) > COST_SMALL;
}

/* ---- what the engine does by itself ---- */

/* The links that lost their events, and what is to be asked about them without the lock. */
static bool verdicts_note(struct change *change)
{
    const struct pmc *pmc = change->pmc;

    change->verdicts = calloc(pmc->links->n + 1, sizeof *change->verdicts);
    for (unsigned i = 0; change->verdicts && i < pmc->links->n; i++) {
        struct link *link = pmc->links->link[i];

        if (link_dropped(pmc, link))
            change->verdicts[change->n_verdicts++] = (struct verdict){
                .link = link,
                .process = link->proc->process,
                .rights = link->rights,
                .drops = link->drops,
                .below = link->below,
            };
    }
    return change->verdicts != NULL;
}

/* NULL: no memory; then the PMC is looked at again in the next round. */
static struct work *own_change(struct pmc *pmc, enum cause cause, bool slow)
{
    struct change *change = change_new(pmc, cause);
    struct call call = {.engine = pmc->engine};

    if (change && (cause != CAUSE_DROPPED || verdicts_note(change))) {
        change_begin(&call, change, slow);
        return &change->work;
    }
    if (change)
        change_free(change);
    pmc->later = true;
    pmc_pend(pmc);
    return NULL;
}

static bool any_link(const struct pmc *pmc, bool (*is)(const struct pmc *, const struct link *))
{
    for (unsigned i = 0; i < pmc->links->n; i++)
        if (is(pmc, pmc->links->link[i]))
            return true;
    return false;
}

/* What recorded is drained to its end, which waits for the kernel. */
static struct work *deaths_change(struct pmc *pmc)
{
    return own_change(pmc, CAUSE_DEATHS, pmc->recording || change_takes_long(pmc));
}

struct work *change_deaths(struct pmc *pmc)
{
    if (pmc->busy || pmc_released(pmc) || !any_link(pmc, link_dead))
        return NULL;
    return deaths_change(pmc);
}

struct work *change_pending(struct pmc *pmc)
{
    if (pmc_released(pmc))
        return pmc->links ? change_release(pmc) : NULL;
    if (pmc->busy)
        return NULL;
    if (any_link(pmc, link_dropped)) /* a process of it executed a privileged program */
        return own_change(pmc, CAUSE_DROPPED, true);
    if (any_link(pmc, link_dead))
        return deaths_change(pmc);
    if (change_cpus_differ(pmc))
        return own_change(pmc, CAUSE_CPUS, true);
    return NULL;
}

struct work *change_release(struct pmc *pmc)
{
    if (pmc->busy)
        return NULL;
    bool slow = pmc->links->n > 0; /* closing a counter waits for the kernel */
    struct work *work = own_change(pmc, CAUSE_RELEASE, slow);
    struct change *change = pmc->busy;
    if (!work)
        return NULL;
    change->stage = release_begin(change);
    return work;
}
