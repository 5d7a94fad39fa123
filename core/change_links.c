/*
 * Which links a change takes away, renews, adds and keeps; also those that the engine changes by
 * itself when targets die or CPUs come and go.
 */
#include "core/plan.h"

#include "core/access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

void *plan_room(void *array, unsigned n, size_t size)
{
    return n & (n - 1) ? array : realloc(array, (n ? 2 * (size_t)n : 1) * size);
}

struct replaced *plan_replace(struct change *change, struct link *link)
{
    struct replaced *grown = plan_room(change->replaced, change->n_replaced, sizeof *grown);

    if (!grown)
        return NULL;
    change->replaced = grown;
    grown += change->n_replaced;
    *grown = (struct replaced){.link = link, .last = tally_new(pmc_events(change->pmc))};
    if (!grown->last)
        return NULL;
    change->n_replaced++;
    return grown;
}

bool plan_leaves(const struct change *change, const struct link *link)
{
    for (unsigned i = 0; i < change->n_replaced; i++)
        if (change->replaced[i].link == link)
            return true;
    return false;
}

struct link *plan_fresh(struct change *change, enum target_kind kind)
{
    struct link **grown = plan_room(change->fresh, change->n_fresh, sizeof *grown);
    struct link *link = grown ? link_new(change->set->n) : NULL;

    if (grown)
        change->fresh = grown;
    if (!link)
        return NULL;
    link->kind = kind;
    link->pmc = change->pmc;
    link->cpus_serial = change->cpus_serial;
    link->id = engine_serial(change->engine);
    if (!ids_add(&change->engine->links, link->id, link)) {
        free(link->base);
        free(link);
        return NULL;
    }
    change->fresh[change->n_fresh++] = link;
    return link;
}

int plan_no_memory(struct change *change)
{
    return err_set(&change->err, E32, "no memory");
}

/* What a link has of the one whose place it takes. False: no memory. */
static bool link_like(struct link *link, const struct link *old)
{
    link->kind = old->kind;
    link->pid = old->pid;
    link->tid = old->tid;
    link->cpu = old->cpu;
    link->from_all = old->from_all;
    link->attached_ns = old->attached_ns;
    link->gap_ns = old->gap_ns;
    link->missed = old->missed;
    link->cgroup_key = old->cgroup_key;
    link->shown_pid = old->shown_pid;
    link->shown_tid = old->shown_tid;
    return !old->cgroup || (link->cgroup = strdup(old->cgroup));
}

struct link *plan_successor(struct change *change, const struct link *old, bool same_rights)
{
    struct link *link = plan_fresh(change, old->kind);

    if (!link || !link_like(link, old))
        return NULL;
    link->renews = true;
    if (old->cgroup_fd >= 0 && (link->cgroup_fd = fcntl(old->cgroup_fd, F_DUPFD_CLOEXEC, 0)) < 0)
        return NULL;
    if (old->proc) {
        link_set_proc(link, old->proc);
        if (!plan_watch(change, old->proc, old->kind == TARGET_PROCESS))
            return NULL;
    }
    const struct rights *rights = same_rights         ? old->rights
                                  : change->superuser ? NULL
                                                      : change->rights;
    return !rights || (link->rights = rights_copy(rights)) ? link : NULL;
}

/* The end of a link: a link without a counter takes its place. */
struct link *plan_remains(const struct link *old, unsigned n)
{
    struct link *link = link_new(n);

    if (!link)
        return NULL;
    link->gone_since_ns = old->gone_since_ns;
    link->pmc = old->pmc;
    link->facts = old->facts;
    link->facts.descriptors = 0;
    if (link_like(link, old))
        return link;
    free(link->base);
    free(link);
    return NULL;
}

bool plan_watch(struct change *change, struct proc *proc, bool guards)
{
    bool guard = guards && !proc->guarded && change->engine->backend->guard;
    struct watching *grown;

    if (proc->watched && !guard)
        return true;
    grown = plan_room(change->watching, change->n_watching, sizeof *grown);
    if (!grown)
        return false;
    change->watching = grown;
    grown[change->n_watching++] =
        (struct watching){.proc = proc, .watch = !proc->watched, .guard = guard};
    proc->watched = true;
    proc->guarded |= guard;
    return true;
}

int plan_reopen(struct change *change)
{
    struct pmc *pmc = change->pmc;

    for (unsigned i = 0; i < pmc->links->n; i++) {
        struct link *link = pmc->links->link[i];
        struct replaced *replaced = plan_leaves(change, link) ? NULL : plan_replace(change, link);

        if (!replaced) {
            if (plan_leaves(change, link))
                continue;
            return plan_no_memory(change);
        }
        replaced->dropped = change->new_set;
        if ((link->ended || link->offline) && !change->new_set) { /* stays as it is */
            free(replaced->last);
            change->n_replaced--;
            continue;
        }
        if (link->offline && !link->ended) { /* opened when its CPU comes back */
            if (!(replaced->ended = plan_remains(link, change->set->n)))
                return plan_no_memory(change);
            replaced->ended->offline = true;
            continue;
        }
        struct link *fresh = link->ended ? NULL : plan_successor(change, link, false);
        if (!link->ended && !fresh)
            return plan_no_memory(change);
        if (fresh)
            fresh->recheck = fresh->kind <= TARGET_THREAD;
        replaced->renewed = fresh != NULL;
    }
    return 0;
}

/*
 * A process that was a target of its own is left out where it descends from another target. When it
 * is taken back those are opened anew; but one that waits for its exec begins with that, and is
 * left.
 */
int plan_uncovered(struct change *change)
{
    const struct links *links = change->pmc->links;
    unsigned n = change->n_replaced;
    bool uncovers = false;

    for (unsigned i = 0; i < n; i++)
        uncovers |= change->replaced[i].link->proc != NULL;
    if (!uncovers || change->reopen || !change->want.value[KEY_DESCENDANTS])
        return 0;
    for (unsigned i = 0; i < links->n; i++) {
        struct link *link = links->link[i];
        bool waits = link->armed && link_seen(link)->enabled_ns == 0;

        if (link->kind != TARGET_PROCESS || !link_live(link) || waits ||
            plan_leaves(change, link) || !link_target_alive(link))
            continue;
        struct replaced *replaced = plan_replace(change, link);
        if (!replaced || !(replaced->successor = plan_successor(change, link, true)))
            return plan_no_memory(change);
        replaced->successor->again = change->again = true;
    }
    return 0;
}

int plan_kept(struct change *change)
{
    struct pmc *pmc = change->pmc;

    change->kept = calloc(pmc->links->n + 1, sizeof *change->kept);
    if (!change->kept)
        return plan_no_memory(change);
    for (unsigned i = 0; i < pmc->links->n; i++) {
        struct link *link = pmc->links->link[i];

        if (plan_leaves(change, link))
            continue;
        struct kept *kept = &change->kept[change->n_kept++];
        kept->link = link;
        if (change->read && link_live(link) && !(kept->now = tally_new(pmc_events(pmc))))
            return plan_no_memory(change);
    }
    return 0;
}

bool plan_last(struct change *change)
{
    for (unsigned i = 0; i < change->n_replaced; i++)
        free(change->replaced[i].last);
    for (unsigned i = 0; i < change->n_kept; i++)
        free(change->kept[i].now);
    free(change->kept);
    change->kept = NULL;
    change->n_replaced = change->n_kept = 0;
    change->start = change->start_fresh = change->new_set = false;
    change->read = change->stop = true;
    return plan_kept(change) == 0;
}

/* ---- what the engine does by itself ---- */

int plan_deaths(struct change *change)
{
    struct pmc *pmc = change->pmc;

    for (unsigned i = 0; i < pmc->links->n; i++) {
        struct link *link = pmc->links->link[i];
        struct replaced *replaced;

        if (!link_dead(pmc, link))
            continue;
        if (!(replaced = plan_replace(change, link)))
            return plan_no_memory(change);
        replaced->ended = plan_remains(link, pmc_events(pmc));
        if (!replaced->ended)
            return plan_no_memory(change);
        replaced->ended->ended = true;
    }
    return 0;
}

/*
 * A process executed a privileged program and lost its events. Who may still observe it gets it
 * back, with a gap; else, or when that has failed once, its count stands.
 */
static int plan_again(struct change *change, struct link *link, bool refused)
{
    struct replaced *replaced = plan_replace(change, link);

    if (!replaced)
        return plan_no_memory(change);
    if (refused) {
        if (!(replaced->ended = plan_remains(link, pmc_events(change->pmc))))
            return plan_no_memory(change);
        replaced->ended->ended = replaced->ended->dropped = true;
        replaced->ended->missed = true; /* what it does from here on is not counted */
        return 0;
    }
    if (!(replaced->successor = plan_successor(change, link, true)))
        return plan_no_memory(change);
    replaced->successor->missed = true;
    return 0;
}

int plan_dropped(struct change *change)
{
    struct pmc *pmc = change->pmc;
    int rc = 0;

    change->start_fresh = !state_table[pmc->state].open;
    for (unsigned i = 0; rc == 0 && i < change->n_verdicts; i++) {
        const struct verdict *verdict = &change->verdicts[i];
        struct link *link = verdict->link;

        if (link->drops != verdict->drops || !link_dropped(pmc, link))
            continue; /* something happened since it was asked: the next look decides */
        if (verdict->headless)
            link->dropped = false;
        else
            rc = plan_again(change, link, verdict->refused || link->asked);
    }
    return rc;
}

bool change_cpus_differ(const struct pmc *pmc)
{
    const struct engine *engine = pmc->engine;

    if (pmc->cpus_refused == engine->cpus_serial)
        return false;
    for (unsigned i = 0; i < pmc->links->n; i++)
        if (link_moved(pmc, pmc->links->link[i]))
            return true;
    return pmc->wants_all && (pmc->cpus_stale || engine->cpus_came > pmc->cpus_serial);
}

/*
 * Its CPU went, or came (or both: it missed something), or one came that its cgroup is not counted
 * on. The cgroup is opened anew in the name of its attacher, if that may still count cgroups.
 */
static int plan_moved(struct change *change, struct link *link)
{
    struct replaced *replaced;

    if (link->kind == TARGET_CGROUP && link->rights &&
        !access_system(change->pmc->instance, link->rights))
        return change_refuse_system(change);
    if (!(replaced = plan_replace(change, link)))
        return plan_no_memory(change);
    if (link->kind == TARGET_CGROUP || cpus_has(&change->engine->online, link->cpu)) {
        if (!(replaced->successor = plan_successor(change, link, true)))
            return plan_no_memory(change);
        replaced->successor->missed |= link->kind == TARGET_CPU && !link->offline;
        return 0;
    }
    if (!(replaced->ended = plan_remains(link, pmc_events(change->pmc))))
        return plan_no_memory(change);
    replaced->ended->offline = true;
    return 0;
}

int plan_cpus(struct change *change)
{
    static const struct target_word all = {.word = {"all", 3}, .kind = TARGET_CPU, .all = true};
    struct pmc *pmc = change->pmc;
    int rc = 0;

    change->start_fresh = !state_table[pmc->state].open;
    for (unsigned i = 0; rc == 0 && i < pmc->links->n; i++)
        if (link_moved(pmc, pmc->links->link[i]))
            rc = plan_moved(change, pmc->links->link[i]);
    if (rc == 0 && pmc->wants_all) {
        change->wants_all = false;
        rc = plan_want_cpus(change, &all);
    }
    return rc;
}
