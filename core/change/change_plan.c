/*
 * The second part of a change, with the lock: checks the command, and compares the desired value
 * with the PMC: which links stay, leave, end, are opened or reopened.
 */
#include "core/change/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the desired set ---- */

bool change_attaches(const struct change *change)
{
    for (unsigned i = 0; i < change->desired.targets.n; i++)
        if (!change->desired.targets.items[i].word.remove)
            return true;
    return false;
}

int desired_set_fill(struct change *change)
{
    struct desired *desired = &change->desired;
    const struct settings *settings = &desired->settings;
    /* a set that is opened uses all settings, not only those of this command */
    bool opens = desired->new_set || change->diff.reopen;

    if (desired->events)
        return 0;
    if (!desired->set)
        desired->set = set_ref(change->pmc->set);
    if (!desired->set)
        return 0;
    if ((opens ? settings->written_keys : desired->command_keys) & KEY_BIT(KEY_KERNEL))
        desired->kernel = settings->word[KEY_KERNEL];
    else if (opens)
        desired->kernel = change->requester.may_kernel;
    desired->events = calloc(desired->set->n, sizeof *desired->events);
    if (!desired->events)
        return err_nomem(&change->err);
    for (unsigned i = 0; i < desired->set->n; i++)
        desired->events[i] = pmc_plan_event(&desired->set->event[i], settings, desired->kernel);
    return 0;
}

/* ---- moves of a link ---- */

void plan_detach(struct move *move)
{
    move->next = NULL;
    move->reason = move->old->state == LINK_ATTACHED ? "command" : NULL;
}

/* Creates a link whose counter the change will open. Returns NULL on ENOMEM. */
static struct link *link_to_open(struct change *change, enum target_kind kind)
{
    struct link *link = link_new(change->engine, change->desired.set);

    if (!link)
        return NULL;
    link->kind = kind;
    link->pmc = change->pmc;
    link->id = engine_serial(change->engine);
    if (!ids_add(&change->engine->links, link->id, link)) {
        link_unref(link, &change->to_destroy);
        return NULL;
    }
    change->diff.n_opens++;
    return link;
}

struct move *plan_new_target(struct change *change, enum target_kind kind, bool opens)
{
    struct difference *diff = &change->diff;
    struct link *link = NULL;

    if (vec_room(&diff->moves, 1) == 0)
        link = opens ? link_to_open(change, kind) : link_new(change->engine, change->desired.set);
    if (!link)
        return NULL;
    if (!opens) {
        link->kind = kind;
        link->pmc = change->pmc;
        link->state = LINK_OFFLINE;
        link->facts.descriptors = 1; /* of the root where the path starts */
        diff->n_waits++;
    }
    diff->moves.items[diff->moves.n] =
        (struct move){.next = link, .opens = opens, .cgroup_fd = -1, .root_fd = -1};
    return &diff->moves.items[diff->moves.n++];
}

/* Copies the target of an old link, `missed` and gap_ns, but not its proc and descriptor. Returns
 * false on ENOMEM. */
static bool link_copy_target(struct link *link, const struct link *old)
{
    link->kind = old->kind;
    link->pid = old->pid;
    link->tid = old->tid;
    memcpy(link->name, old->name, sizeof link->name);
    link->cpu = old->cpu;
    link->gap_ns = old->gap_ns;
    link->missed = old->missed;
    link->cgroup_key = old->cgroup_key;
    link->shown_pid = old->shown_pid;
    link->shown_tid = old->shown_tid;
    return !old->cgroup || (link->cgroup = strdup(old->cgroup));
}

void plan_guard(struct change *change, struct move *move)
{
    struct proc *proc = move->next->proc;

    move->guards = change->engine->backend->guard && !proc->guarded;
    proc->guarded |= move->guards;
    if (move->guards)
        engine_touch(change->engine, JOURNAL_PROCESS, proc->id);
}

static int copy_cgroup_fd(struct change *change, struct link *link, const struct link *old)
{
    link->cgroup_fd = fcntl(old->cgroup_fd, F_DUPFD_CLOEXEC, 0);
    return link->cgroup_fd >= 0 ? 0 : err_shortage(&change->err, -EMFILE);
}

/* Replaces the link by a new link with these rights, which continues the count. */
static int plan_renew(struct change *change, struct move *move, struct rights *rights)
{
    const struct link *old = move->old;
    struct link *link = link_to_open(change, old->kind);

    if (!link)
        return err_nomem(&change->err);
    move->next = link;
    move->opens = true;
    link->rights = rights_ref(rights);
    if (!link_copy_target(link, old))
        return err_nomem(&change->err);
    if (move->cgroup_fd >= 0) {
        link->cgroup_fd = move->cgroup_fd;
        link->cgroup_key = change->engine->host->cgroup_key(link->cgroup_fd);
        move->cgroup_fd = -1;
    } else if (old->cgroup_fd >= 0) {
        int rc = copy_cgroup_fd(change, link, old);
        if (rc)
            return rc;
    }
    if (!old->proc)
        return 0;
    link_set_proc(link, old->proc);
    plan_guard(change, move);
    return proc_watch(old->proc, &change->err);
}

/* Replaces the link by one without a counter, which keeps the final count: ended, or offline until
 * its CPU or cgroup comes back. */
static int plan_close(struct change *change, struct move *move, enum link_state state)
{
    const struct link *old = move->old;
    struct link *link = link_new(change->engine, change->desired.set);

    if (!link)
        return err_nomem(&change->err);
    move->next = link;
    link->state = state;
    link->gone_since_ns = old->gone_since_ns;
    link->pmc = old->pmc;
    link->facts = old->facts;
    link->facts.descriptors = 0;
    return link_copy_target(link, old) ? 0 : err_nomem(&change->err);
}

/* Replaces the link by an offline link: its cgroup will be opened with these rights. */
static int plan_wait(struct change *change, struct move *move, struct rights *rights)
{
    int rc = plan_close(change, move, LINK_OFFLINE);
    struct link *link = move->next;

    if (rc)
        return rc;
    link->facts.descriptors = 1; /* of the root where the path starts */
    link->rights = rights_ref(rights);
    if (move->root_fd < 0)
        return copy_cgroup_fd(change, link, move->old);
    link->cgroup_fd = move->root_fd;
    move->root_fd = -1;
    return 0;
}

int plan_reopen(struct change *change)
{
    const struct requester *requester = &change->requester;
    struct rights *rights = requester->superuser ? NULL : requester->rights;
    int rc = 0;

    EACH_MOVE (move, change) {
        const struct link *link = move->old;

        if (rc || move->next != link || (link->state != LINK_ATTACHED && !change->desired.new_set))
            continue;
        if (link->state == LINK_ENDED) {
            plan_detach(move);
        } else if (link_waits(link)) {
            rc = plan_wait(change, move, rights);
        } else if (link->state == LINK_OFFLINE) {
            rc = plan_close(change, move, LINK_OFFLINE);
        } else {
            rc = plan_renew(change, move, rights);
            move->recheck = link->kind <= TARGET_THREAD;
        }
    }
    return rc;
}

/* ---- changes of the engine ---- */

/* Ends the link of a dead target. If it executed a privileged program before, counts are missing.
 */
static int plan_death(struct change *change, struct move *move)
{
    const struct link *link = move->old;
    const bool lost_events =
        link->kind <= TARGET_THREAD && link->proc && proc_lost_events(link->proc);
    int rc = plan_close(change, move, LINK_ENDED);

    if (rc)
        return rc;
    move->reason = lost_events ? "exec-privileged" : "exited";
    move->next->missed |= lost_events;
    move->next->loss = lost_events ? LOSS_TARGET : LOSS_NONE;
    return 0;
}

/*
 * Handles a link whose process, or a descendant of it, lost its events by executing a privileged
 * program. If the attacher's rights are still sufficient, the link is attached again, with missing
 * counts. If they are not, or if attaching again has failed once, the link ends. A link whose
 * thread has exited ends with the next change; if only the first thread has exited, nothing was
 * lost.
 */
static int plan_lost_events(struct change *change, struct move *move)
{
    struct link *link = move->old;
    const bool ends = move->verdict == VERDICT_REFUSED || (link->noted & NOTE_FAILED);

    if (link->n_losses != move->n_losses)
        return 0; /* changed since the check: decided next time */
    if (move->verdict == VERDICT_DEAD) {
        if (!link->proc->dead)
            proc_exited(link->proc); /* the host reports only exits of processes */
        return 0;
    }
    if (move->verdict == VERDICT_HEADLESS) {
        link->loss = LOSS_NONE;
        plan_guard(change, move); /* on another thread */
        return 0;
    }
    int rc = ends ? plan_close(change, move, LINK_ENDED) : plan_renew(change, move, link->rights);
    if (rc)
        return rc;
    move->reason = link->loss == LOSS_DESCENDANT ? NULL : "exec-privileged";
    move->next->missed = true;
    if (ends)
        move->next->loss = LOSS_TARGET;
    return 0;
}

/*
 * Handles a link whose CPU went offline or online (or both, with missing counts), or a cgroup link
 * after a CPU went online. A cgroup is reopened with the attacher's rights, if they still allow it.
 */
static int plan_moved(struct change *change, struct move *move)
{
    const struct link *link = move->old;
    const bool cpu = link->kind == TARGET_CPU;

    if (!cpu && link->rights && !access_system(change->pmc->instance, link->rights))
        return refuse_system(change);
    move->reason = cpu && link->state != LINK_OFFLINE ? "cpu-offline" : NULL;
    if (cpu && !cpus_has(&change->engine->online, link->cpu))
        return plan_close(change, move, LINK_OFFLINE);
    int rc = plan_renew(change, move, link->rights);
    if (rc == 0)
        move->next->missed |= move->reason != NULL;
    return rc;
}

/* Handles a link whose cgroup was created or removed, or both. An existing cgroup is attached if
 * the user that attached it before may still count cgroups; otherwise the link waits, offline. */
static int plan_cgroup_changed(struct change *change, struct move *move)
{
    struct link *link = move->old;
    const bool may = !link->rights || access_system(change->pmc->instance, link->rights);

    move->reason = link->state == LINK_OFFLINE ? NULL : "removed";
    if (move->cgroup_fd >= 0 && may)
        return plan_renew(change, move, link->rights);
    if (move->cgroup_fd >= 0)
        refuse_system(change); /* the reason for `status`; other targets are attached */
    return link->state == LINK_OFFLINE ? 0 : plan_wait(change, move, link->rights);
}

static int plan_engine_change(struct change *change)
{
    static const struct target_word all = {.word = {"all", 3}, .kind = TARGET_CPU, .all = true};
    const struct pmc *pmc = change->pmc;
    int rc = desired_set_fill(change);

    EACH_MOVE (move, change) {
        if (rc)
            return rc;
        if (move->verdict == VERDICT_CGROUP_CHANGED && pmc->settings.word[KEY_REATTACH])
            rc = plan_cgroup_changed(change, move);
        else if (link_dead(pmc, move->old))
            rc = plan_death(change, move);
        else if (move->verdict >= VERDICT_CHECK && link_lost_events(pmc, move->old))
            rc = plan_lost_events(change, move);
        else if (!pmc->cpus.refused && link_moved(pmc, move->old))
            rc = plan_moved(change, move);
    }
    if (rc || !pmc->cpus.all || pmc->cpus.refused)
        return rc;
    change->desired.wants_all = false;
    return plan_cpus(change, &all);
}

/* ---- the plan ---- */

static int plan_command(struct change *change)
{
    static int (*const steps[])(struct change *) = {check_command, plan_targets, check_system,
                                                    plan_lifetime, NULL};
    const enum verb verb = change->desired.verb;
    int rc = run_steps(change, steps);

    EACH_MOVE (move, change)
        if (rc == 0 && !change->desired.settings.word[KEY_REATTACH] && move->old &&
            move->next == move->old && link_waits(move->old))
            rc = plan_close(change, move, LINK_ENDED); /* reattach=off: stop waiting */
    EACH_MOVE (move, change)
        if ((verb == VERB_RESET || verb == VERB_RESTART) && move->old && move->next == move->old &&
            move->old->state == LINK_ENDED)
            plan_detach(move); /* a reset removes exited targets */
    return rc;
}

/* Decides whether links that the change opens start now; if targets are attached with autostart=on,
 * links that stay start too. For a verb, check_verb() has decided. */
static void plan_start(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    const bool started = state_table[pmc->state].started;
    struct difference *diff = &change->diff;

    if (change->cause == CAUSE_OWN)
        diff->start_opened = started;
    else if (change->desired.verb)
        return;
    else if (started)
        diff->start_opened = true;
    else if (change_attaches(change) && change->desired.settings.word[KEY_AUTOSTART] &&
             (change->desired.new_set || pmc->state == PMC_NEW || pmc->state == PMC_ALLOCATED ||
              pmc->state == PMC_EXITED))
        diff->start = diff->start_opened =
            diff->n_opens + diff->n_waits > 0; /* starts links that were attached earlier too */
}

static int alloc_for_swap(struct change *change)
{
    struct difference *diff = &change->diff;
    bool ok = true;

    EACH_MOVE (move, change)
        if (move->old && (move->next != move->old || (diff->read && link_live(move->old))))
            ok &= (move->old_counts = tally_new(pmc_values(change->pmc))) != NULL;
    diff->links = links_new((unsigned)diff->moves.n);
    diff->base =
        change->desired.new_set ? tally_new(set_values(change->engine, change->desired.set)) : NULL;
    return ok && diff->links && (diff->base || !change->desired.new_set) ? 0
                                                                         : err_nomem(&change->err);
}

int change_plan(struct change *change)
{
    struct difference *diff = &change->diff;
    struct pmc *pmc = change->pmc;

    if (change->cause == CAUSE_RELEASE) {
        /* the log may have readers: it gets the last records, except on ENOMEM */
        diff->read = diff->total && pmc->recording && !change->engine->forgetting;
        diff->stop = diff->read && alloc_for_swap(change) == 0;
        return 0;
    }
    if (pmc_released(pmc))
        return -ENODEV; /* change_decide() sets the sentence */
    change->cpus_serial = change->engine->cpus_serial;
    int rc = change->cause == CAUSE_OWN ? plan_engine_change(change) : plan_command(change);
    if (rc == 0)
        rc = quota_target_events(change);
    diff->read |= change->desired.sets_count;
    plan_start(change);
    if (rc == 0)
        rc = plan_log(change);
    if (rc == 0)
        rc = alloc_for_swap(change);
    if (rc == 0)
        rc = quota_links(change);
    EACH_MOVE (move, change) {
        if (move->opens) /* again by the engine: the target has executed a program */
            move->next->armed = change->desired.settings.word[KEY_START] && diff->start_opened &&
                                change->cause == CAUSE_COMMAND;
        if (rc || !move->old || !move->old->counter)
            continue;
        pmc->may_have_switched |= move->next == move->old
                                      ? diff->stop || diff->start
                                      : move->opens || change->cause == CAUSE_COMMAND;
    }
    if (pmc->may_have_switched) /* written before change_open() runs without the lock */
        pmc_touch(pmc);
    return rc;
}
