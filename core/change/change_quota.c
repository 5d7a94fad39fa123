/*
 * How many descriptors a change may open. What it opens counts at once among those of pmcfs, and as
 * its owner's with the swap, which looks again: of commands that open together the last is refused.
 */
#include "core/change/plan.h"

#include <limits.h>
#include <stdio.h>

static unsigned long less(unsigned long from, unsigned long n)
{
    return from > n ? from - n : 0;
}

unsigned long fds_free(const struct engine *engine)
{
    return less(engine->fd_limit, engine->fds_used + FDS_KEPT);
}

static void quota_hold(struct change *change, unsigned n)
{
    change->fds += n;
    change->engine->fds_used += n;
}

void quota_spend(struct change *change, unsigned n)
{
    quota_hold(change, n);
    if (change->quota.left != ULONG_MAX)
        change->quota.left = less(change->quota.left, n);
}

void quota_release(struct change *change)
{
    change->engine->fds_used -= change->fds;
    change->fds = 0;
    if (change->log.bytes)
        user_add(change->payer, USED_BYTES, -(int64_t)change->log.bytes);
    change->log.bytes = 0;
}

/* The superuser's commands have no limit, on other users' PMCs either. */
void quota_find(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    struct quota *quota = &change->quota;
    struct buf name;

    *quota = (struct quota){.left = ULONG_MAX};
    if (change->cause != CAUSE_COMMAND || change->asker.superuser)
        return;
    quota->left = user_left(pmc->user, USED_FDS);
    for (unsigned i = 0; i < change->diff.n_fates; i++) {
        const struct fate *fate = &change->diff.fates[i];

        if (fate->kind != FATE_KEPT && fate->link->counter)
            quota->left += fate->link->facts.descriptors;
    }
    buf_init(&name, quota->name, sizeof quota->name);
    user_limit_print(pmc->user, USED_FDS, &name);
    buf_text(&name);
}

int quota_check(struct change *change)
{
    const struct difference *diff = &change->diff;
    unsigned long opened = change->log.made ? recording_fds(change->log.made) : 0;

    for (unsigned i = 0; i < diff->n_fresh; i++)
        opened += diff->fresh[i]->counter ? diff->fresh[i]->facts.descriptors : 0;
    if (!diff->n_fresh)
        return 0;
    quota_find(change);
    if (opened <= change->quota.left)
        return 0;
    return err_set(&change->err, P11, "needs %lu descriptors, quota has %lu left by now (%s)",
                   opened, change->quota.left, change->quota.name);
}

int quota_found(struct change *change, bool removes)
{
    const struct engine *engine = change->engine;
    /* giving some back is possible for longer */
    const unsigned long kept = removes ? FDS_KEPT / 2 : FDS_KEPT;

    quota_hold(change, 1);
    if (engine->fds_used + kept > engine->fd_limit)
        return err_set(&change->err, P10,
                       "needs %lu descriptor%s to hold the target%s, has %lu: pmcfs may have %lu "
                       "(RLIMIT_NOFILE, of which it keeps %lu for itself), and others use the rest",
                       change->fds, change->fds == 1 ? "" : "s", change->fds == 1 ? "" : "s",
                       less(engine->fd_limit, engine->fds_used - change->fds + kept),
                       engine->fd_limit, kept);
    if (change->fds <= engine->fd_limit / 4 || change->asker.superuser)
        return 0;
    return err_set(&change->err, P11,
                   "more than a quarter of the %lu descriptors that pmcfs may open "
                   "(RLIMIT_NOFILE): a user other than the superuser may hold no more",
                   engine->fd_limit);
}
