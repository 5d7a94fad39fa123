/*
 * What the engine changes by itself: targets that ended or lost their events, CPUs that came or
 * went, the end of the PMC.
 */
#include "core/change/plan.h"
#include "core/pmc/access.h"

int plan_deaths(struct change *change)
{
    int rc = change_desire_set(change);

    for (unsigned i = 0; rc == 0 && i < change->diff.n_fates; i++) {
        struct fate *fate = &change->diff.fates[i];

        if (!link_dead(change->pmc, fate->link))
            continue;
        rc = plan_end(change, fate);
        if (rc == 0)
            fate->next->ended = true;
    }
    return rc;
}

/*
 * A process executed a privileged program and lost its events. Where the rights still suffice it
 * gets them back, with a gap; else, or when that has failed once, its count stands.
 */
static int plan_verdict(struct change *change, struct fate *fate)
{
    bool ends = fate->verdict.refused || fate->link->asked;
    int rc = ends ? plan_end(change, fate) : plan_renew(change, fate, true);

    if (rc)
        return rc;
    fate->next->missed = true; /* what it did, or does from here on, is not counted */
    fate->next->ended = fate->next->dropped = ends;
    return 0;
}

/* The ends of threads are not watched. */
static void thread_ended(struct proc *proc)
{
    struct link *link;

    if (proc->dead)
        return;
    proc->dead = true;
    proc_unindex(proc);
    engine_touch(proc->engine, JOURNAL_PROCESS, proc->id);
    LIST_FOREACH(link, &proc->links, of_proc)
    pmc_pend(link->pmc);
}

int plan_dropped(struct change *change)
{
    int rc = change_desire_set(change);

    for (unsigned i = 0; rc == 0 && i < change->diff.n_fates; i++) {
        struct fate *fate = &change->diff.fates[i];
        struct link *link = fate->link;

        if (!fate->verdict.asked || link->drops != fate->verdict.drops ||
            !link_dropped(change->pmc, link))
            continue; /* something happened since it was asked: the next look decides */
        if (fate->verdict.dead)
            thread_ended(link->proc);
        else if (fate->verdict.headless)
            link->dropped = false;
        else
            rc = plan_verdict(change, fate);
    }
    return rc;
}

bool cpus_differ(const struct pmc *pmc)
{
    if (pmc->cpus_refused)
        return false;
    for (unsigned i = 0; i < pmc->links->n; i++)
        if (link_moved(pmc, pmc->links->link[i]))
            return true;
    return pmc->wants_all && pmc->cpus_stale;
}

/*
 * Its CPU went, or came (or both: it missed something), or one came that its cgroup is not counted
 * on. The cgroup is opened anew in the name of its attacher, if that may still count cgroups.
 */
static int plan_moved(struct change *change, struct fate *fate)
{
    const struct link *link = fate->link;
    int rc;

    if (link->kind == TARGET_CGROUP && link->rights &&
        !access_system(change->pmc->instance, link->rights))
        return refuse_system(change);
    if (link->kind == TARGET_CGROUP || cpus_has(&change->engine->online, link->cpu)) {
        rc = plan_renew(change, fate, true);
        if (rc == 0)
            fate->next->missed |= link->kind == TARGET_CPU && !link->offline;
        return rc;
    }
    rc = plan_end(change, fate);
    if (rc == 0)
        fate->next->offline = true;
    return rc;
}

int plan_cpus(struct change *change)
{
    static const struct target_word all = {.word = {"all", 3}, .kind = TARGET_CPU, .all = true};
    const struct pmc *pmc = change->pmc;
    int rc = change_desire_set(change);

    for (unsigned i = 0; rc == 0 && i < change->diff.n_fates; i++)
        if (link_moved(pmc, change->diff.fates[i].link))
            rc = plan_moved(change, &change->diff.fates[i]);
    if (rc || !pmc->wants_all)
        return rc;
    change->desired.wants_all = false;
    return plan_want_cpus(change, &all);
}

/* When the log is still read, it is told what was recorded up to now. */
int plan_release(struct change *change)
{
    const struct pmc *pmc = change->pmc;

    change->diff.stop = change->diff.read = pmc->recording && !change->engine->forgetting;
    return 0;
}
