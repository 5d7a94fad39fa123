/*
 * Changes: the order of their parts, commands, the changes that the engine makes by itself, and
 * exits of targets that were not reported yet.
 */
#include "core/change/plan.h"

#include "core/engine.h"
#include "core/pmc/count.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct verb_row verb_table[VERBS] = {
    [VERB_START] =
        {"start",
         "start or continue counting. Attaches the writing process if there never was a target",
         "PMCSTART, PMIOSTART, cpc_enable"},
    [VERB_STOP] = {"stop", "stop counting and keep the value", "PMCSTOP, PMIOSTOP, cpc_disable"},
    [VERB_RESET] = {"reset",
                    "set the value back to the initial count and the times to 0. Not while running",
                    "PMIORESET"},
    [VERB_RESTART] = {"restart", "reset and start in one step", "cpc_set_restart"},
    [VERB_FLUSH] = {"flush", "make all records so far readable", "FLUSHLOG"},
    [VERB_CLOSE] = {"close", "write the last record and close the log", "CLOSELOG"},
    [VERB_DETACH] = {"detach", "detach from all targets", "PMCDETACH"},
};

/* ---- the parts in order ---- */

/* Sets the moves and, except for a release, the requester and a copy of the settings. Returns 0 or
 * E32; a release continues on ENOMEM, without moves. */
static int change_begin(struct change *change)
{
    const struct pmc *pmc = change->pmc;

    if (vec_room(&change->diff.moves, pmc->links->n + 1) ||
        !(change->diff.total = tally_new(pmc_values(pmc))))
        return change->cause == CAUSE_RELEASE ? 0 : err_nomem(&change->err);
    for (unsigned i = 0; i < pmc->links->n; i++) {
        struct link *link = pmc->links->link[i];

        change->diff.moves.items[change->diff.moves.n++] = (struct move){
            .old = link,
            .next = link,
            .cgroup_fd = -1,
            .root_fd = -1,
            /* a lost descendant needs no check here: admit() checks each one during the attach */
            .verdict = change->cause != CAUSE_OWN || !link_lost_events(pmc, link) ? VERDICT_NONE
                       : link->loss == LOSS_DESCENDANT                            ? VERDICT_RENEW
                                                                                  : VERDICT_CHECK,
            .n_losses = link->n_losses};
    }
    if (change->cause == CAUSE_RELEASE)
        return 0;
    if (change->cause == CAUSE_OWN) {
        change->checks_cgroups = pmc->reattach.due;
        change->pmc->reattach.due = false; /* a cgroup event from now on needs another change */
    }
    const struct tunables *tunables = &change->engine->tunables;
    const bool by_command = change->cause == CAUSE_COMMAND;
    struct rights *rights = by_command ? change->call->rights : NULL;
    change->requester = (struct requester){
        .rights = rights,
        .opener = by_command && change->call->open ? &change->call->open->opener : NULL,
        .may_kernel = access_kernel(pmc->instance, rights),
        .may_system = access_system(pmc->instance, rights),
        .may_observe_others =
            access_superuser(rights) || tunable_bool(tunables, TUNABLE_UNPRIVILEGED_PROC_DEBUG),
        .superuser = access_superuser(rights),
        .in_instance = !instance_is_root(pmc->instance),
    };
    change->desired.kernel = pmc->counts_kernel;
    change->desired.wants_all = pmc->cpus.all;
    change->attach_ns = tunable_u64(tunables, TUNABLE_ATTACH_MS) * 1000000;
    if (pmc->engine->limit_ns && change->attach_ns > pmc->engine->limit_ns)
        change->attach_ns = pmc->engine->limit_ns;
    snprintf(change->fds_limit_name, sizeof change->fds_limit_name, "%s",
             user_limit_shown(change->payer, USED_FDS));
    return settings_copy(&change->desired.settings, &pmc->settings) ? 0 : err_nomem(&change->err);
}

#define REATTACH_TRIES 10 /* after this many failures, wait for the next creation of the cgroup */

/* After a failed change of the engine: queues another one. Except on ENOMEM or while a cgroup is
 * retried, it marks CPUs as refused until a CPU changes, and links that lost their events as
 * failed, so that the next change ends them. */
static void note_failure(struct change *change)
{
    struct pmc *pmc = change->pmc;

    if (change->cause == CAUSE_COMMAND)
        return;
    if (change->checks_cgroups && (pmc->reattach.tries < REATTACH_TRIES || change->rc == -ENOMEM)) {
        pmc->reattach.due = true;
        pmc->reattach.tries++;
    } else if (change->rc != -ENOMEM) {
        pmc->cpus.refused = mode_table[pmc->mode_in_use].system &&
                            change->cpus_serial == change->engine->cpus_serial;
        EACH_MOVE (move, change)
            if (move->verdict >= VERDICT_CHECK && move->n_losses == move->old->n_losses)
                move->old->noted |= NOTE_FAILED;
    }
    pmc_touch(pmc);
    pmc_change_later(pmc, change->call->now_ns);
}

/* Ends the change and frees its members; change_close() has freed others without the lock. */
static void change_end(struct change *change)
{
    struct pmc *pmc = change->pmc;
    struct desired *desired = &change->desired;

    if (change->released_claim) {
        rows_release(change->engine->rows, change->released_claim);
        claim_free(change->released_claim);
    }
    if (pmc->may_have_switched) /* after a refusal */
        pmc_touch(pmc);
    pmc->may_have_switched = false;
    pmc->busy = NULL;
    pmc_wake(pmc);
    if (change->cause == CAUSE_RELEASE)
        pmc_unref(pmc); /* the tree's reference */
    else if (pmc_released(pmc))
        pmc_defer(pmc, WORK_CHANGE); /* released during the change: close it now */
    for (unsigned i = 0; i < desired->n_names; i++)
        free(desired->names[i]);
    free(desired->metrics);
    free(desired->targets.items);
    free(desired->events);
    set_unref(desired->set);
    settings_clear(&desired->settings);
    EACH_MOVE (move, change)
        free(move->old_counts);
    free(change->diff.moves.items);
    free(change->diff.links);
    free(change->diff.base);
    free(change->diff.total);
    free(change->recording.counted_before);
    buf_free(&change->recording.inventory);
    user_unref(change->payer);
    pmc_unref(change->pmc);
}

int run_steps(struct change *change, int (*const *step)(struct change *change))
{
    int rc = 0;

    for (; rc == 0 && *step; step++)
        rc = (*step)(change);
    return rc;
}

static bool any_link(const struct pmc *pmc, bool (*is)(const struct pmc *, const struct link *))
{
    for (unsigned i = 0; i < pmc->links->n; i++)
        if (is(pmc, pmc->links->link[i]))
            return true;
    return false;
}

/* Returns true for a cgroup of a PMC with reattach=on, unless it is watched. */
static bool cgroup_lacks_watch(const struct pmc *pmc, const struct link *link)
{
    return pmc->settings.word[KEY_REATTACH] && link->kind == TARGET_CGROUP &&
           link->state != LINK_ENDED && !link->watch;
}

/* Swaps or refuses, and queues another change if CPUs or cgroups have changed since the plan. */
static void change_decide(struct change *change)
{
    const struct err *err = &change->err;
    struct pmc *pmc = change->pmc;

    if (pmc_released(pmc) && change->cause != CAUSE_RELEASE)
        change->rc = err_set(&change->err, P26, "the PMC was released while the command waited");
    if (change->rc == 0)
        change_swap(change);
    change->call->committed |= change->rc == 0 && change->cause == CAUSE_COMMAND;
    if (change->rc) {
        note_failure(change);
        change_discard(change);
    }
    if (change->checks_cgroups) { /* for `status`: why an existing cgroup is not attached */
        free(pmc->attach_error);
        pmc->attach_error = NULL;
        if (err->id != ERR_NONE &&
            asprintf(&pmc->attach_error, "%s %s: %s", err_errno_name(err_table[err->id].code),
                     err_table[err->id].id, err->text) < 0)
            pmc->attach_error = NULL;
        pmc_touch(pmc);
    }
    change->call->err = change->rc ? change->err : change->note; /* stored with the answer at the next drop of the lock */
    pmc->cpus.stale |= change->engine->cpus_serial != change->cpus_serial;
    if (change->rc == 0 && change->cause == CAUSE_COMMAND && any_link(pmc, cgroup_lacks_watch))
        pmc_schedule_reattach(pmc); /* a change of the engine will watch the cgroup */
    if (pmc->cpus.stale || pmc->reattach.due)
        pmc_defer(pmc, WORK_CHANGE);
}

static void run_unlocked(struct change *change, bool slow, void (*part)(struct change *change))
{
    lock_drop(change->call, slow);
    part(change);
    lock_retake(change->call);
}

/* Runs a change of a PMC that is not busy. slow: gives up the serving slot. Returns 0, -errno, or
 * CALL_WAIT if a command finds no free slow slot. */
static int change_run(struct call *call, struct pmc *pmc, enum cause cause, bool slow)
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
    STAILQ_INIT(&change.to_destroy);
    pmc->busy = &change;
    change.rc = change_begin(&change);
    if (change.rc == 0 && cause != CAUSE_RELEASE)
        run_unlocked(&change, slow, change_find);
    quota_undo(&change);
    if (change.rc == 0)
        change.rc = change_plan(&change);
    if (change.rc == 0)
        run_unlocked(&change, slow, change_open);
    quota_undo(&change);
    change_decide(&change);
    run_unlocked(&change, slow, change_close);
    rc = change.rc;
    change_end(&change);
    return rc;
}

/* ---- commands ---- */

int change_check_held(struct call *call)
{
    const struct pmc *pmc = call->pmc;

    if (pmc->is_held && (!call->open || call->open->holds != pmc->id))
        return err_set(&call->err, P29,
                       "lifetime=open: another open file holds %s until it is closed", pmc->name);
    return 0;
}

int store_command(struct call *call)
{
    struct pmc *pmc = call->pmc;

    if (pmc->busy) {
        call->wait_for = pmc->id;
        return CALL_WAIT;
    }
    int rc = change_check_held(call);
    return rc ? rc
              : change_run(call, pmc, CAUSE_COMMAND,
                           pmc->links->n > 0 || strcmp(call->file, "count") != 0);
}

/* ---- changes of the engine ---- */

static bool cpus_differ(const struct pmc *pmc)
{
    return !pmc->cpus.refused && (any_link(pmc, link_moved) || (pmc->cpus.all && pmc->cpus.stale));
}

/* Returns true if the engine's next change of the PMC may be slow and has to give up the serving
 * slot: it opens counters, drains a recording, or closes or reads many counters. */
static bool change_takes_long(const struct pmc *pmc)
{
    return pmc->recording || pmc->links->n > COST_SMALL || count_cost(pmc) > COST_SMALL ||
           any_link(pmc, link_lost_events) || pmc->reattach.due || cpus_differ(pmc);
}

/* Gives up the serving slot if there are links, because closing a counter waits for the kernel. */
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
    if (pmc->busy || !(any_link(pmc, link_lost_events) || any_link(pmc, link_dead) ||
                       pmc->reattach.due || cpus_differ(pmc)))
        return false;
    change_run(call, pmc, CAUSE_OWN, change_takes_long(pmc));
    return true;
}

/*
 * ---- exits that were not reported yet ----
 *
 * Some exits of targets are not reported, so targets are checked without the lock before texts
 * about them are made. Then a change ends the links of dead ones.
 */

#define FEW_LINKS 50 /* up to this number, checking them does not give up the serving slot */

/* Returns true if the target may have exited without a report to the engine. */
static bool link_may_be_dead(const struct pmc *pmc, const struct link *link)
{
    if (link->state != LINK_ATTACHED || (link->noted & NOTE_GONE) || link->kind == TARGET_CPU)
        return false;
    if (link->kind == TARGET_CGROUP)
        return true;
    return link->proc && !link->proc->dead && !pmc->settings.word[KEY_DESCENDANTS];
}

/*
 * Returns true if a change of the engine is ending links: a text made now would show dead targets
 * as living, so the caller waits. False for commands, which may take long and have no effect before
 * their swap.
 */
static bool engine_change_ends_links(const struct pmc *pmc)
{
    if (!pmc->busy || pmc->busy->cause == CAUSE_COMMAND)
        return false;
    return pmc->reattach.due || any_link(pmc, link_dead);
}

struct checked {
    struct link *link; /* no reference: note_dead_targets() holds the vector */
    bool dead;
};

/* Checks targets that may be dead. Notes dead ones: NOTE_GONE, or with reattach=on reattach.due for
 * a cgroup. Drops the lock to check them, so the caller has a reference to the PMC. */
static int note_dead_targets(struct call *call, struct pmc *pmc)
{
    struct links *links = links_ref(pmc->links);
    struct checked *checked = calloc(links->n, sizeof *checked);
    unsigned n = 0;

    for (unsigned i = 0; checked && i < links->n; i++)
        if (link_may_be_dead(pmc, links->link[i]))
            checked[n++].link = links->link[i];
    lock_drop(call, links->n > FEW_LINKS);
    for (unsigned i = 0; i < n; i++)
        checked[i].dead = !link_target_alive(checked[i].link);
    lock_retake(call);
    for (unsigned i = 0; i < n; i++)
        if (checked[i].dead && checked[i].link->kind == TARGET_CGROUP &&
            pmc->settings.word[KEY_REATTACH]) {
            pmc->reattach.due = true;
        } else if (checked[i].dead) {
            checked[i].link->noted |= NOTE_GONE;
            pmc_touch(checked[i].link->pmc);
        }
    links_unref(links, &call->engine->deferred[WORK_LINK]);
    int rc = checked ? CALL_DONE : err_nomem(&call->err);
    free(checked);
    return rc;
}

int change_end_dead_links(struct call *call)
{
    struct pmc *pmc = call->pmc;

    if (!any_link(pmc, link_may_be_dead) && !any_link(pmc, link_dead))
        return CALL_DONE;
    call->wait_for = pmc->id;
    if (engine_change_ends_links(pmc))
        return CALL_WAIT;
    int rc = pmc->links->n > FEW_LINKS || change_takes_long(pmc) ? slow_admit(call) : CALL_DONE;
    if (rc)
        return rc;
    pmc_ref(pmc); /* it may be released without the lock */
    rc = note_dead_targets(call, pmc);
    if (rc == CALL_DONE) {
        if (!pmc->busy && !pmc_released(pmc) && (pmc->reattach.due || any_link(pmc, link_dead)))
            change_run(call, pmc, CAUSE_OWN, change_takes_long(pmc));
        call->err = (struct err){.id = ERR_NONE};
        if (pmc_released(pmc))
            rc = err_set(&call->err, P26, "the PMC was released");
        else if (engine_change_ends_links(pmc))
            rc = CALL_WAIT;
    }
    pmc_unref(pmc);
    return rc;
}
