/*
 * How many descriptors a change may open. At least one for each event on each target is booked when
 * it is planned, what was really opened when its counters are attached: changes under way see each
 * other.
 */
#include "core/plan.h"

#include <limits.h>

#define FDS_WATCH 2 /* at most, to watch one target: for its end, and for losing its events */

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
    if (change->share)
        change->share->fds += more;
    change->booked = n;
}

void change_unbook(struct change *change)
{
    book(change, 0);
    if (change->user)
        change->user->links -= change->booked_links;
    change->booked_links = 0;
    user_unref(change->engine, change->user);
    user_unref(change->engine, change->share);
    change->user = change->share = NULL;
}

const char *change_quota_name(const struct change *change)
{
    return change->fds_whose == QUOTA_SHARE ? "this instance's max_fds" : "max_fds_per_user";
}

/* What a user holds in all. What watches a process that several of his PMCs count is taken for
 * several. */
static unsigned long held_by(const struct user *user)
{
    return user->fds + FDS_WATCH * user->links;
}

static int say_half(struct change *change)
{
    return err_set(
        &change->err, P11,
        "that would be more than half of the %lu descriptors that pmcfs may "
        "open (RLIMIT_NOFILE), those that watch the targets included: it is what one user may "
        "hold who is not the superuser",
        change->engine->fd_limit);
}

/* Without the lock. The limit of each user, and of the instance, holds for all changes together,
 * whoever was first. */
int change_book_opened(struct change *change)
{
    unsigned long opened = 0;

    for (unsigned i = 0; i < change->n_fresh; i++)
        opened += change->fresh[i]->counter ? change->fresh[i]->facts.descriptors : 0;
    for (unsigned i = 0; i < change->n_watching; i++)
        opened += change->watching[i].made != NULL;
    opened += change->recording ? recording_fds(change->recording) : 0;
    book(change, opened);
    if (!change->n_fresh || !change->user)
        return 0;
    if (change->share && change->share->fds > change->share_limit)
        return err_set(&change->err, P11,
                       "this instance would have %lu descriptors, with what others of its "
                       "commands open at this moment: its max_fds allows %lu here",
                       (unsigned long)change->share->fds, change->share_limit);
    if (held_by(change->user) > change->fds_half)
        return say_half(change);
    if (change->user->fds <= change->fds_limit)
        return 0;
    return err_set(&change->err, P11,
                   "uid %u would have %lu descriptors, with what others of his commands "
                   "open at this moment: max_fds_per_user allows %lu here",
                   (unsigned)change->user->uid, (unsigned long)change->user->fds,
                   change->fds_limit);
}

/* The instance's own. */
static void limit_share(struct change *change, unsigned long leaving)
{
    uint64_t limit = change->pmc->instance->limit[LIMIT_FDS];
    unsigned long left;

    if (!change->share || !limit)
        return;
    change->share_limit = limit + leaving;
    left = less(change->share_limit, change->share->fds);
    if (left < change->fds_quota) {
        change->fds_quota = left;
        change->fds_whose = QUOTA_SHARE;
    }
}

/* Those of the owner's, for a command of somebody else than the superuser; what leaves does not
 * count. */
static void limit_user(struct change *change)
{
    unsigned long leaving = 0, links = 0, left;

    if (change->cause != CAUSE_COMMAND || change->superuser || !change->user)
        return;
    for (unsigned i = 0; i < change->n_replaced; i++)
        if (change->replaced[i].link->counter) {
            leaving += change->replaced[i].link->facts.descriptors;
            links++;
        }
    change->fds_limit = tunable_u64(&change->engine->tunables, TUNABLE_MAX_FDS_PER_USER) + leaving;
    change->fds_quota = less(change->fds_limit, change->user->fds);
    change->fds_half = change->engine->fd_limit / 2 + leaving + FDS_WATCH * links;
    left = less(change->fds_half, held_by(change->user));
    if (left < change->fds_quota) {
        change->fds_quota = left;
        change->fds_whose = QUOTA_HALF;
    }
    limit_share(change, leaving);
}

void plan_limits(struct change *change)
{
    struct engine *engine = change->engine;
    unsigned long least = change->set ? change->n_fresh * change->set->n : 0;

    change->fds_free = less(engine->fd_limit, engine->fds_used + FDS_KEPT);
    change->fds_limit = change->fds_half = change->fds_quota = change->share_limit = ULONG_MAX;
    if (!change->n_fresh)
        return;
    if ((change->user = change->pmc->user)) {
        change->user->refs++;
        change->user->links += change->booked_links = change->n_fresh;
    }
    change->share = user_ref(change->pmc->share);
    limit_user(change);
    if (least > change->fds_quota) /* it will be refused: nobody else for it */
        least = change->fds_quota;
    book(change, least);
}

/* ---- processes that are looked at before anything of it is planned ---- */

int change_book_found(struct change *change, bool removes)
{
    struct engine *engine = change->engine;
    unsigned long kept =
        removes ? FDS_KEPT / 2 : FDS_KEPT; /* nobody is kept from giving some back */

    change->found++;
    if (++engine->fds_used + kept > engine->fd_limit)
        return err_set(&change->err, P10,
                       "needs %lu descriptor%s to hold the target%s, has %lu: pmcfs may have %lu "
                       "(RLIMIT_NOFILE, of which it keeps %lu for itself), and others use the rest",
                       change->found, change->found == 1 ? "" : "s", change->found == 1 ? "" : "s",
                       less(engine->fd_limit, engine->fds_used - change->found + kept),
                       engine->fd_limit, kept);
    return change->found <= engine->fd_limit / 2 || change->superuser ? 0 : say_half(change);
}

void change_unbook_found(struct change *change)
{
    change->engine->fds_used -= change->found;
    change->found = 0;
}
