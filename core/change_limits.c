/*
 * How many descriptors a change may open. At least one for each event on each target is booked when it
 * is planned, what was really opened when its counters are attached: changes under way see each other.
 */
#include "core/plan.h"

#include <limits.h>

#define FDS_KEPT 64 /* descriptors left for the daemon itself */

static unsigned long less(unsigned long from, unsigned long n)
{
    return from > n ? from - n : 0;
}

static void book(struct change *change, unsigned long n)
{
    unsigned long more = n - change->booked; /* wraps when it is less */

    change->engine->fds_used += more;
    if (change->user)
        change->user->fds += more;
    change->booked = n;
}

void change_unbook(struct change *change)
{
    book(change, 0);
    user_unref(change->engine, change->user);
    change->user = NULL;
}

/* Without the lock. The limit of each user holds for all his changes together, whoever was first. */
int change_book_opened(struct change *change)
{
    unsigned long opened = 0;

    for (unsigned i = 0; i < change->n_fresh; i++)
        opened += change->fresh[i]->counter ? change->fresh[i]->facts.descriptors : 0;
    for (unsigned i = 0; i < change->n_watching; i++)
        opened += change->watching[i].made != NULL;
    book(change, opened);
    if (!change->n_fresh || !change->user || change->user->fds <= change->fds_limit)
        return 0;
    return err_set(&change->err, P11, "uid %u would have %lu descriptors, with what others of his commands "
                   "open at this moment: max_fds_per_user allows %lu here", (unsigned)change->user->uid,
                   (unsigned long)change->user->fds, change->fds_limit);
}

/* Those of the owner's, for a command of somebody else than the superuser; what leaves does not count. */
static void limit_user(struct change *change)
{
    unsigned long leaving = 0;

    if (change->cause != CAUSE_COMMAND || change->superuser || !change->user)
        return;
    for (unsigned i = 0; i < change->n_replaced; i++)
        if (change->replaced[i].link->counter)
            leaving += change->replaced[i].link->facts.descriptors;
    change->fds_limit =
        tunable_u64(&change->engine->tunables, TUNABLE_MAX_FDS_PER_USER) + leaving;
    change->fds_quota = less(change->fds_limit, change->user->fds);
}

void plan_limits(struct change *change)
{
    struct engine *engine = change->engine;
    unsigned long least = change->set ? change->n_fresh * change->set->n : 0;

    change->fds_free = less(engine->fd_limit, engine->fds_used + FDS_KEPT);
    change->fds_limit = change->fds_quota = ULONG_MAX;
    if (!change->n_fresh)
        return;
    if ((change->user = change->pmc->user))
        change->user->refs++;
    limit_user(change);
    if (least > change->fds_quota) /* it will be refused: nobody else for it */
        least = change->fds_quota;
    book(change, least);
}
