/*
 * Questions about a desired value, and the set that belongs to it.
 */
#include "core/change/plan.h"

#include <stdlib.h>

bool change_attaches(const struct change *change)
{
    for (unsigned i = 0; i < change->desired.n_targets; i++)
        if (!change->desired.targets[i].word.remove)
            return true;
    return false;
}

int change_desire_set(struct change *change)
{
    struct desired *desired = &change->desired;
    const struct settings *settings = &desired->settings;
    /* for a set that is opened, what was written once holds, not only what was written now */
    bool opens = desired->new_set || change->diff.reopen;

    if (desired->events)
        return 0;
    if (!desired->set)
        desired->set = set_ref(change->pmc->set);
    if (!desired->set)
        return 0;
    if ((opens ? settings->given : desired->given) & GIVEN(KEY_KERNEL))
        desired->kernel = settings->word[KEY_KERNEL];
    else if (opens)
        desired->kernel = change->asker.may_kernel;
    desired->events = calloc(desired->set->n, sizeof *desired->events);
    if (!desired->events)
        return err_nomem(&change->err);
    for (unsigned i = 0; i < desired->set->n; i++)
        desired->events[i] = pmc_plan_event(&desired->set->event[i], settings, desired->kernel);
    return 0;
}
