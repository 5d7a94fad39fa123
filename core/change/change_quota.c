/*
 * Quotas of a change. Descriptors count when they are opened: among pmcfs's, and those of counters
 * and recordings among the user's. After the swap they count as the PMC's.
 */
#include "core/change/plan.h"

#include <limits.h>

static unsigned long less(unsigned long from, unsigned long n)
{
    return from > n ? from - n : 0;
}

unsigned long fds_free(const struct engine *engine)
{
    return less(engine->fd_limit, engine->fds_used + FDS_KEPT);
}

unsigned long quota_left(const struct change *change)
{
    unsigned long left = user_left(change->payer, USED_FDS);

    if (change->cause != CAUSE_COMMAND || change->asker.superuser) /* also on other users' PMCs */
        return ULONG_MAX;
    EACH_MOVE (move, change)
        if (move->old && move->next != move->old && move->old->counter) /* closed after the swap */
            left += move->old->facts.descriptors;
    return left;
}

void quota_hold(struct change *change, unsigned n)
{
    change->fds += n;
    change->engine->fds_used += n;
}

int quota_spend(struct change *change, unsigned n)
{
    const unsigned long left = quota_left(change);

    quota_hold(change, n);
    change->spent += n;
    user_add(change->payer, USED_FDS, n);
    if (n <= left)
        return 0;
    return err_set(&change->err, P11,
                   "needs %u file descriptors, and the quota now has %lu left (%s): release PMCs "
                   "or detach targets",
                   n, left, change->limit_name);
}

void quota_release(struct change *change)
{
    change->engine->fds_used -= change->fds;
    user_add(change->payer, USED_FDS, -(int64_t)change->spent);
    user_add(change->payer, USED_BYTES, -(int64_t)change->bytes);
    change->fds = change->spent = 0;
    change->bytes = 0;
}

int quota_links(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    const unsigned events = change->desired.set ? change->desired.set->n : 0;
    unsigned n = 0;

    EACH_MOVE (move, change)
        n += move->next != NULL;
    const int64_t more = (int64_t)(links_bytes(n, events) - pmc->links_bytes);
    if (change->cause != CAUSE_COMMAND || change->asker.superuser || more <= 0)
        return 0;
    if (user_charge(change->payer, USED_BYTES, more)) {
        change->bytes += (uint64_t)more;
        return 0;
    }
    return err_set(&change->err, P11,
                   "the memory for %u targets (exited ones too) is more than %s leaves: write "
                   "\"reset\" to ctl to drop exited targets",
                   n, user_limit_shown(change->payer, USED_BYTES));
}

int quota_found(struct change *change, bool removes)
{
    const struct engine *engine = change->engine;
    /* commands that free descriptors may use some of the reserve */
    const unsigned long kept = removes ? FDS_KEPT / 2 : FDS_KEPT;

    quota_hold(change, 1);
    if (engine->fds_used + kept > engine->fd_limit)
        return err_set(&change->err, P10,
                       "needs %lu file descriptor%s to hold the target%s, and %lu are left of %lu: "
                       "raise LimitNOFILE= of pmcfs.service",
                       change->fds, change->fds == 1 ? "" : "s", change->fds == 1 ? "" : "s",
                       less(engine->fd_limit, engine->fds_used - change->fds + kept),
                       engine->fd_limit);
    if (change->fds <= engine->fd_limit / 4 || change->asker.superuser)
        return 0;
    return err_set(&change->err, P11,
                   "one user may hold a quarter of the %lu file descriptors of pmcfs, and this is "
                   "more: detach targets, or raise LimitNOFILE= of pmcfs.service",
                   engine->fd_limit);
}
