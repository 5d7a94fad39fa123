/*
 * The fate of each link in a change, and the fresh ones.
 */
#include "core/change/plan.h"
#include "core/pmc/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

int plan_leave(struct change *change, struct fate *fate)
{
    fate->kind = FATE_LEAVES;
    if (!fate->last)
        fate->last = tally_new(pmc_events(change->pmc));
    return fate->last ? 0 : err_nomem(&change->err);
}

struct link *plan_fresh(struct change *change, enum target_kind kind)
{
    struct difference *diff = &change->diff;
    struct link **grown = plan_room(diff->fresh, diff->n_fresh, sizeof *grown);
    struct link *link = grown ? link_new(change->desired.set->n) : NULL;

    if (grown)
        diff->fresh = grown;
    if (!link)
        return NULL;
    link->kind = kind;
    link->pmc = change->pmc;
    link->id = engine_serial(change->engine);
    if (!ids_add(&change->engine->links, link->id, link)) {
        link_unref(link, &change->dead);
        return NULL;
    }
    diff->fresh[diff->n_fresh++] = link;
    return link;
}

/* A link takes the place of another one on the same target. False: no memory. */
static bool link_like(struct link *link, const struct link *old)
{
    link->kind = old->kind;
    link->pid = old->pid;
    link->tid = old->tid;
    link->cpu = old->cpu;
    link->gap_ns = old->gap_ns;
    link->missed = old->missed;
    link->cgroup_key = old->cgroup_key;
    link->shown_pid = old->shown_pid;
    link->shown_tid = old->shown_tid;
    return !old->cgroup || (link->cgroup = strdup(old->cgroup));
}

int plan_renew(struct change *change, struct fate *fate, bool same_rights)
{
    const struct link *old = fate->link;
    struct link *link = plan_fresh(change, old->kind);
    struct rights *rights = same_rights               ? old->rights
                            : change->asker.superuser ? NULL
                                                      : change->asker.rights;

    if (!link || plan_leave(change, fate) || !link_like(link, old))
        return err_nomem(&change->err);
    fate->kind = FATE_RENEWED;
    fate->next = link;
    link->renews = true;
    link->rights = rights_ref(rights);
    if (old->cgroup_fd >= 0 && (link->cgroup_fd = fcntl(old->cgroup_fd, F_DUPFD_CLOEXEC, 0)) < 0)
        return err_set(&change->err, P14, "no descriptor: %s", err_errno_name(-errno));
    if (!old->proc)
        return 0;
    link_set_proc(link, old->proc);
    plan_guard(change, link);
    return proc_watch(old->proc, &change->err);
}

/* Its count stands: a link without a counter takes its place. */
int plan_end(struct change *change, struct fate *fate)
{
    const struct link *old = fate->link;
    struct link *link = link_new(change->desired.set ? change->desired.set->n : 0);

    if (!link || plan_leave(change, fate) || !link_like(link, old)) {
        if (link)
            link_unref(link, &change->dead);
        return err_nomem(&change->err);
    }
    link->gone_since_ns = old->gone_since_ns;
    link->pmc = old->pmc;
    link->facts = old->facts;
    link->facts.descriptors = 0;
    fate->kind = FATE_ENDS;
    fate->next = link;
    return 0;
}

void plan_guard(const struct change *change, struct link *link)
{
    link->guards =
        link->kind == TARGET_PROCESS && change->engine->backend->guard && !link->proc->guarded;
    link->proc->guarded |= link->guards;
    if (link->guards)
        engine_touch(change->engine, JOURNAL_PROCESS, link->proc->id);
}

int plan_reopen(struct change *change)
{
    const bool new_set = change->desired.new_set;
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < change->diff.n_fates; i++) {
        struct fate *fate = &change->diff.fates[i];
        struct link *link = fate->link;

        if (fate->kind != FATE_KEPT || ((link->ended || link->offline) && !new_set))
            continue;
        if (link->ended) {
            rc = plan_leave(change, fate);
        } else if (link->offline) { /* opened when its CPU comes back */
            rc = plan_end(change, fate);
            if (rc == 0)
                fate->next->offline = true;
        } else {
            rc = plan_renew(change, fate, false);
            if (rc == 0)
                fate->next->recheck = link->kind <= TARGET_THREAD;
        }
    }
    return rc;
}
