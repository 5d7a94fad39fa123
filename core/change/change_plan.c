/*
 * The second part of a change, with the lock: what is desired is refused if it cannot be, and
 * compared with what is there. Each cause has its own way to say what it wants.
 */
#include "core/change/plan.h"

#include <errno.h>
#include <stdlib.h>

static int plan_command(struct change *change)
{
    static int (*const steps[])(struct change *) = {check_command, plan_targets, check_system,
                                                    plan_lifetime};
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < sizeof steps / sizeof steps[0]; i++)
        rc = steps[i](change);
    return rc;
}

/* A reset forgets targets that have ended. */
static int plan_forget(struct change *change)
{
    const enum verb verb = change->desired.verb;
    int rc = 0;

    for (unsigned i = 0; i < change->diff.n_fates && rc == 0; i++) {
        struct fate *fate = &change->diff.fates[i];

        if ((verb == VERB_RESET || verb == VERB_RESTART) && fate->link->ended &&
            fate->kind == FATE_KEPT)
            rc = plan_leave(change, fate);
    }
    return rc;
}

/* What is attached now, does it begin now? */
static void plan_start(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    const bool settable = state_table[pmc->state].settable;
    struct difference *diff = &change->diff;

    if (change->cause != CAUSE_COMMAND)
        diff->start_fresh = !settable;
    else if (change->desired.verb)
        return;
    else if (!settable)
        diff->start_fresh = true;
    else if (change_attaches(change) && change->desired.settings.word[KEY_AUTOSTART] &&
             (change->desired.new_set || pmc->state == PMC_NEW || pmc->state == PMC_ALLOCATED ||
              pmc->state == PMC_EXITED))
        diff->start = diff->start_fresh = diff->n_fresh > 0; /* those attached earlier, too */
}

/* The memory that the swap takes. */
static int plan_room_for_all(struct change *change)
{
    struct difference *diff = &change->diff;
    const struct set *set = change->desired.set;
    const unsigned n = pmc_events(change->pmc);

    for (unsigned i = 0; i < diff->n_fates; i++) {
        struct fate *fate = &diff->fates[i];

        if (diff->read && !fate->last && link_live(fate->link) && !(fate->last = tally_new(n)))
            return err_nomem(&change->err);
    }
    diff->links = links_new(diff->n_fates + diff->n_fresh);
    diff->total = tally_new(n);
    diff->base = change->desired.new_set ? tally_new(set->n) : NULL;
    return diff->links && diff->total && (diff->base || !change->desired.new_set)
               ? 0
               : err_nomem(&change->err);
}

int change_plan(struct change *change)
{
    static int (*const plans[])(struct change *) = {
        [CAUSE_COMMAND] = plan_command, [CAUSE_DEATHS] = plan_deaths,
        [CAUSE_DROPPED] = plan_dropped, [CAUSE_CPUS] = plan_cpus,
        [CAUSE_RELEASE] = plan_release,
    };
    struct difference *diff = &change->diff;
    int rc;

    if (pmc_released(change->pmc) && change->cause != CAUSE_RELEASE)
        return -ENODEV; /* the decision says so */
    change->cpus_serial = change->engine->cpus_serial;
    rc = plans[change->cause](change);
    if (rc == 0)
        rc = plan_forget(change);
    diff->read |= change->desired.put;
    plan_start(change);
    if (rc == 0 && change->cause != CAUSE_RELEASE)
        rc = plan_log(change);
    if (rc == 0)
        rc = plan_room_for_all(change);
    for (unsigned i = 0; i < diff->n_fresh; i++)
        diff->fresh[i]->armed = change->desired.settings.word[KEY_START] && diff->start_fresh;
    if (change->cause != CAUSE_RELEASE)
        return rc;
    diff->stop &= rc == 0; /* without memory the log is not told */
    return 0;
}
