/*
 * Turns words of `target` into moves of links. Refuses new targets that are already attached or
 * covered, CPUs that do not exist or are offline, and a detach of a target that is not attached.
 */
#include "core/change/plan.h"

#include <errno.h>
#include <string.h>

/* Returns true if the link's target is the wanted one. With `overlaps` also if one of the two is a
 * part of the other (thread of a process, descendant, cgroup below a cgroup). */
static bool link_matches(const struct engine *engine, const struct link *link,
                         const struct wanted *wanted, bool overlaps)
{
    if (link->state == LINK_ENDED)
        return false;
    if (wanted->word.kind == TARGET_CGROUP) {
        if (link->kind != TARGET_CGROUP)
            return false;
        size_t a = strlen(link->cgroup), b = strlen(wanted->cgroup);
        bool inside =
            strncmp(link->cgroup, wanted->cgroup, a < b ? a : b) == 0 &&
            (a == b || a == 1 || b == 1 || (a < b ? wanted->cgroup[a] : link->cgroup[b]) == '/');
        /* with reattach the name is the target, whether the cgroup exists or not */
        if (a == b && inside &&
            (link->state == LINK_OFFLINE || link->pmc->settings.word[KEY_REATTACH]))
            return true;
        return (!wanted->absent && link->cgroup_key == wanted->cgroup_key) || (overlaps && inside);
    }
    if (link->kind == TARGET_CPU || link->kind == TARGET_CGROUP || !link->proc)
        return false;
    if (link->kind == wanted->word.kind && link->proc->key.tid == wanted->tid &&
        link->proc->key.key == engine->host->process_key(wanted->process))
        return true;
    if (!overlaps)
        return false;
    if (link->pid == wanted->pid)
        return link->kind != wanted->word.kind; /* a process and one of its threads */
    return link->pmc->settings.word[KEY_DESCENDANTS] && link->counter &&
           engine->backend->covers(link->counter, wanted->pid);
}

/* Gives the requester's rights to a new link. */
static void link_set_rights(struct change *change, struct link *link)
{
    if (!change->requester.superuser)
        link->rights = rights_ref(change->requester.rights);
}

static int plan_process(struct change *change, struct wanted *wanted)
{
    struct move *move = plan_new_target(change, wanted->word.kind, true);
    struct link *link = move ? move->next : NULL;
    bool taken;
    struct proc *proc = link ? proc_get(change->engine, wanted->process, &taken) : NULL;

    if (!proc)
        return err_nomem(&change->err);
    if (taken)
        wanted->process = NULL;
    link_set_proc(link, proc);
    link->pid = wanted->pid;
    link->tid = wanted->tid;
    memcpy(link->name, wanted->name, sizeof link->name);
    move->written_number = wanted->word.self ? 0 : (pid_t)wanted->word.number;
    link_set_rights(change, link);
    plan_guard(change, move);
    return proc_watch(proc, &change->err);
}

static int plan_cgroup(struct change *change, struct wanted *wanted)
{
    struct move *move = plan_new_target(change, TARGET_CGROUP, !wanted->absent);

    if (!move)
        return err_nomem(&change->err);
    struct link *link = move->next;
    link->cgroup_fd = wanted->cgroup_fd;
    link->cgroup_key = wanted->cgroup_key;
    link->cgroup = wanted->cgroup;
    wanted->cgroup_fd = -1;
    wanted->cgroup = NULL;
    link_set_rights(change, link);
    return wanted->absent ? quota_charge_fds(change, link->facts.descriptors) : 0;
}

static const struct class_info *set_class(const struct change *change)
{
    for (unsigned i = 0; i < change->desired.set->n; i++) {
        const struct class_info *class =
            &change->engine->classes[change->desired.set->event[i].class_index];

        if (class->hardware || cpus_count(&class->cpus) > 0)
            return class;
    }
    return NULL;
}

/* Finds the move of a CPU whose link stays or is opened, or returns NULL. */
static struct move *cpu_move(const struct change *change, unsigned cpu)
{
    EACH_MOVE (move, change)
        if (move->next && move->next->kind == TARGET_CPU && move->next->cpu == cpu &&
            (move->opens || move->next == move->old))
            return move;
    return NULL;
}

static int check_cpu(struct change *change, const struct target_word *word, unsigned cpu)
{
    const struct engine *engine = change->engine;
    const struct class_info *class = set_class(change);
    int highest = -1;

    for (int c = cpus_next(&engine->possible, 0); c >= 0; c = cpus_next(&engine->possible, c + 1))
        highest = c;
    if ((int)cpu > highest)
        return err_set(&change->err, E21,
                       "\"" WORD_FMT
                       "\": CPU %u does not exist, and the highest number is %d (see info/cpus)",
                       WORD_ARG(word->word), cpu, highest);
    if (!cpus_has(&engine->possible, cpu) || !cpus_has(&engine->online, cpu))
        return err_set(&change->err, E37, "\"" WORD_FMT "\": CPU %u is %s (see info/cpus)",
                       WORD_ARG(word->word), cpu,
                       cpus_has(&engine->possible, cpu) ? "offline" : "absent");
    if (class && cpus_count(&class->cpus) > 0 && !cpus_has(&class->cpus, cpu)) {
        char room[128];
        struct buf list = buf_in(room, sizeof room);

        cpus_print(&class->cpus, &list);
        int rc =
            err_set(&change->err, P30,
                    "\"" WORD_FMT
                    "\": the events of class %s are counted only on CPU %s: write one of these",
                    WORD_ARG(word->word), class->name, buf_text(&list));
        buf_free(&list);
        return rc;
    }
    return 0;
}

static int plan_cpu(struct change *change, const struct target_word *word, unsigned cpu)
{
    struct move *move = cpu_move(change, cpu); /* also of an offline CPU */

    if (move && (move->opens || word->all || change->desired.accepts_attached))
        return 0;
    int rc = word->all ? 0 : check_cpu(change, word, cpu);
    if (rc)
        return rc;
    if (move)
        return err_set(&change->err, E10, "\"" WORD_FMT "\": CPU %u is already attached",
                       WORD_ARG(word->word), cpu);
    move = plan_new_target(change, TARGET_CPU, true);
    if (!move)
        return err_nomem(&change->err);
    move->next->cpu = cpu;
    return 0;
}

int plan_cpus(struct change *change, const struct target_word *word)
{
    const struct class_info *class = set_class(change);
    const struct cpus *list = word->all ? &change->engine->online : &word->cpus;
    int rc = 0;

    if (word->all && change->desired.wants_all)
        return change->desired.accepts_attached
                   ? 0
                   : err_set(&change->err, E10, "\"all\" is already attached");
    for (int cpu = cpus_next(list, 0); rc == 0 && cpu >= 0; cpu = cpus_next(list, cpu + 1))
        if (!word->all || !class || !cpus_count(&class->cpus) ||
            cpus_has(&class->cpus, (unsigned)cpu))
            rc = plan_cpu(change, word, (unsigned)cpu);
    change->desired.wants_all |= word->all;
    return rc;
}

/* Returns true if the target was attached before and its link has ended: the process has exited or,
 * if wanted->process is set, lost its events. */
static bool was_target(const struct change *change, const struct wanted *wanted)
{
    const struct target_word *word = &wanted->word;
    uint64_t number =
        wanted->process ? (uint64_t)(wanted->tid ? wanted->tid : wanted->pid) : word->number;

    for (unsigned i = 0; i < change->pmc->links->n; i++) {
        struct link *link = change->pmc->links->link[i];

        if (link->kind == word->kind && (uint64_t)(link->tid ? link->tid : link->pid) == number &&
            (wanted->process ? link->state == LINK_ENDED && link->loss
                             : link->state == LINK_ENDED || !link_target_alive(link)))
            return true;
    }
    return false;
}

static int refuse_unattached(struct change *change, const struct wanted *wanted)
{
    if (!wanted_is_system(wanted) && was_target(change, wanted))
        return err_set(&change->err, E45,
                       "\"" WORD_FMT
                       "\" has exited or executed a privileged program (set-id, file capabilities, "
                       "unreadable), so it is no longer counted. Its count is kept",
                       WORD_ARG(wanted->word.word));
    if (!wanted->process && !wanted_is_system(wanted))
        return err_set(&change->err, E44, "\"" WORD_FMT "\": the process does not exist",
                       WORD_ARG(wanted->word.word));
    return err_set(&change->err, E28,
                   "\"" WORD_FMT "\" is not attached: cat target lists the targets",
                   WORD_ARG(wanted->word.word));
}

static void plan_detach_all(struct change *change)
{
    EACH_MOVE (move, change)
        if (move->old->state != LINK_ENDED)
            plan_detach(move);
    change->desired.wants_all = false;
}

/* Detaches CPUs. A single CPU of `all` cannot be detached. */
static int plan_removed_cpus(struct change *change, const struct wanted *wanted)
{
    const struct cpus *cpus = &wanted->word.cpus;

    if (wanted->word.all) {
        if (!change->desired.wants_all)
            return refuse_unattached(change, wanted);
        plan_detach_all(change);
    }
    for (int cpu = cpus_next(cpus, 0); cpu >= 0; cpu = cpus_next(cpus, cpu + 1)) {
        struct move *move = change->desired.wants_all ? NULL : cpu_move(change, (unsigned)cpu);

        if (!move)
            return refuse_unattached(change, wanted);
        plan_detach(move);
    }
    return 0;
}

static int plan_removed_target(struct change *change, const struct wanted *wanted)
{
    if (wanted->word.kind == TARGET_CPU)
        return plan_removed_cpus(change, wanted);
    if (wanted->word.kind == TARGET_CGROUP || wanted->process)
        EACH_MOVE (move, change)
            if (move->next == move->old && link_matches(change->engine, move->old, wanted, false)) {
                plan_detach(move);
                return 0;
            }
    return refuse_unattached(change, wanted);
}

static int plan_added_target(struct change *change, struct wanted *wanted)
{
    if (wanted->skipped)
        return 0;
    if (wanted->word.kind == TARGET_CPU)
        return plan_cpus(change, &wanted->word);
    EACH_MOVE (move, change) {
        if (!move->next || !link_matches(change->engine, move->next, wanted, true))
            continue;
        bool exact = link_matches(change->engine, move->next, wanted, false);
        if (move->old ? change->desired.accepts_attached : exact)
            return 0;
        return err_set(&change->err, E10, "\"" WORD_FMT "\" is %s", WORD_ARG(wanted->word.word),
                       !exact ? "already counted through another target of this PMC, and no thread "
                                "is counted twice"
                       : wanted->word.kind == TARGET_PROCESS && !wanted->word.self
                           ? "already attached (the number of a thread selects its process; write "
                             "tid:TID for one thread)"
                           : "already attached");
    }
    return wanted->word.kind == TARGET_CGROUP ? plan_cgroup(change, wanted)
                                              : plan_process(change, wanted);
}

int plan_targets(struct change *change)
{
    struct desired *desired = &change->desired;
    unsigned kinds = 0;
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < desired->targets.n; i++)
        if (desired->targets.items[i].word.remove)
            rc = plan_removed_target(change, &desired->targets.items[i]);
    if (desired->verb == VERB_DETACH)
        plan_detach_all(change);
    if (rc == 0 && change->diff.reopen)
        rc = plan_reopen(change);
    for (unsigned i = 0; rc == 0 && i < desired->targets.n; i++)
        if (!desired->targets.items[i].word.remove)
            rc = plan_added_target(change, &desired->targets.items[i]);
    EACH_MOVE (move, change)
        if (move->next && move->next->state != LINK_ENDED)
            kinds |= 1u << move->next->kind;
    if (rc || !(kinds & 1u << TARGET_CPU) || !(kinds & 1u << TARGET_CGROUP))
        return rc;
    return err_set(&change->err, P30,
                   "one PMC counts CPUs or cgroups, but not both, because threads would count "
                   "twice: use two PMCs");
}

/* lifetime=owner: watches the writing process, and sets change.owner for the swap. */
int plan_lifetime(struct change *change)
{
    bool taken;

    if (!change->writer)
        return 0;
    struct proc *proc = proc_get(change->engine, change->writer, &taken);
    if (!proc)
        return err_nomem(&change->err);
    proc_ref(proc);
    if (taken)
        change->writer = NULL;
    change->owner = proc;
    return proc_watch(proc, &change->err);
}
