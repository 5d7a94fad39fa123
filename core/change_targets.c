/*
 * From the words of `target` to links that come and go: attached already, covered already, not
 * attached, a CPU that is not there.
 */
#include "core/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Does this link count what is wanted (or part of it)? */
static bool link_matches(const struct engine *engine, const struct link *link,
                         const struct wanted *wanted, bool overlaps)
{
    if (link->ended)
        return false;
    if (wanted->word.kind == TARGET_CGROUP) {
        if (link->kind != TARGET_CGROUP)
            return false;
        size_t a = strlen(link->cgroup), b = strlen(wanted->cgroup);
        bool inside =
            strncmp(link->cgroup, wanted->cgroup, a < b ? a : b) == 0 &&
            (a == b || a == 1 || b == 1 || (a < b ? wanted->cgroup[a] : link->cgroup[b]) == '/');
        return link->cgroup_key == engine->host->cgroup_key(wanted->cgroup_fd) ||
               (overlaps && inside);
    }
    if (link->kind == TARGET_CPU || link->kind == TARGET_CGROUP || !link->proc)
        return false;
    if (link->kind == wanted->word.kind && link->proc->tid == wanted->tid &&
        link->proc->key == engine->host->process_key(wanted->process))
        return true;
    if (!overlaps)
        return false;
    if (link->pid == wanted->pid)
        return link->kind != wanted->word.kind; /* the process and one of its threads */
    return link->pmc->settings.value[KEY_DESCENDANTS] && link->counter &&
           engine->backend->covers(link->counter, wanted->pid);
}

static struct link *find_link(struct change *change, const struct wanted *wanted, bool overlaps)
{
    for (unsigned i = 0; i < change->pmc->links->n; i++) {
        struct link *link = change->pmc->links->link[i];

        if (!plan_leaves(change, link) && link_matches(change->engine, link, wanted, overlaps))
            return link;
    }
    return NULL;
}

static const struct link *in_fresh(const struct change *change, const struct wanted *wanted)
{
    for (unsigned i = 0; i < change->n_fresh; i++)
        if (link_matches(change->engine, change->fresh[i], wanted, true))
            return change->fresh[i];
    return NULL;
}

static int refuse_attached(struct change *change, const struct wanted *wanted,
                           const struct link *link)
{
    bool exact = link_matches(change->engine, link, wanted, false);

    return err_set(
        &change->err, E10, "\"" WORD_FMT "\" is %s", WORD_ARG(wanted->word.word),
        exact ? "attached already"
              : "covered already by another target of this PMC: no thread is counted twice");
}

/* Events on one process, of all users together: each costs every fork and context switch of it. */
static int check_load(struct change *change, const struct proc *proc, const struct link *fresh)
{
    uint64_t limit = tunable_u64(&change->engine->tunables, TUNABLE_MAX_EVENTS_PER_PROCESS);
    uint64_t n = change->set->n;

    for (const struct link *link = proc->links; link; link = link->next_of_proc)
        n += link == fresh ? 0 : pmc_events(link->pmc);
    if (change->superuser || n <= limit)
        return 0;
    return err_set(&change->err, P11, "%llu events on one process: max_events_per_process is %llu",
                   (unsigned long long)n, (unsigned long long)limit);
}

static int want_process(struct change *change, struct wanted *wanted)
{
    bool taken;

    if (wanted->passed)
        return 0;
    const struct link *attached = find_link(change, wanted, true),
                      *fresh = in_fresh(change, wanted);
    if (fresh) /* written twice; or a process and one of its threads */
        return link_matches(change->engine, fresh, wanted, false)
                   ? 0
                   : refuse_attached(change, wanted, fresh);
    if (attached)
        return change->additive ? 0 : refuse_attached(change, wanted, attached);
    struct proc *proc = proc_get(change->engine, wanted->process, &taken);
    if (!proc)
        return plan_no_memory(change);
    struct link *link = plan_fresh(change, wanted->word.kind);
    if (taken)
        wanted->process = NULL;
    if (!link) {
        proc_ref(proc);
        proc = proc_unref(change->engine, proc);
        if (proc) {
            proc->next_dead = change->dead_procs;
            change->dead_procs = proc;
        }
        return plan_no_memory(change);
    }
    link_set_proc(link, proc);
    link->pid = wanted->pid;
    link->tid = wanted->tid;
    link->said = wanted->word.self ? 0 : (pid_t)wanted->word.number;
    if (!plan_watch(change, proc, link->kind == TARGET_PROCESS) ||
        (!change->superuser && !(link->rights = rights_copy(change->rights))))
        return plan_no_memory(change);
    return check_load(change, proc, link);
}

static int want_cgroup(struct change *change, struct wanted *wanted)
{
    const struct link *attached = find_link(change, wanted, true),
                      *fresh = in_fresh(change, wanted);

    if (fresh)
        return link_matches(change->engine, fresh, wanted, false)
                   ? 0
                   : refuse_attached(change, wanted, fresh);
    if (attached)
        return change->additive ? 0 : refuse_attached(change, wanted, attached);
    struct link *link = plan_fresh(change, TARGET_CGROUP);
    if (!link)
        return plan_no_memory(change);
    link->cgroup_fd = wanted->cgroup_fd;
    link->cgroup_key = change->engine->host->cgroup_key(wanted->cgroup_fd);
    link->cgroup = wanted->cgroup;
    wanted->cgroup_fd = -1;
    wanted->cgroup = NULL;
    if (!change->superuser && !(link->rights = rights_copy(change->rights)))
        return plan_no_memory(change);
    return 0;
}

static const struct class_info *set_class(const struct change *change)
{
    for (unsigned i = 0; i < change->set->n; i++) {
        const struct class_info *class =
            &change->engine->classes[change->set->event[i].class_index];

        if (class->hardware || cpus_count(&class->cpus) > 0)
            return class;
    }
    return NULL;
}

static struct link *cpu_link(const struct change *change, unsigned cpu)
{
    for (unsigned i = 0; i < change->pmc->links->n; i++) {
        struct link *link = change->pmc->links->link[i];

        if (link->kind == TARGET_CPU && link->cpu == cpu && !link->ended &&
            !plan_leaves(change, link))
            return link;
    }
    for (unsigned i = 0; i < change->n_fresh; i++)
        if (change->fresh[i]->kind == TARGET_CPU && change->fresh[i]->cpu == cpu)
            return change->fresh[i];
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
                       "\"" WORD_FMT "\": this machine cannot have a CPU %u; the "
                       "highest is %d (info/cpus)",
                       WORD_ARG(word->word), cpu, highest);
    if (!cpus_has(&engine->possible, cpu) || !cpus_has(&engine->online, cpu))
        return err_set(&change->err, E37, "\"" WORD_FMT "\": CPU %u is %s (info/cpus)",
                       WORD_ARG(word->word), cpu,
                       cpus_has(&engine->possible, cpu) ? "offline" : "absent");
    if (class && cpus_count(&class->cpus) > 0 && !cpus_has(&class->cpus, cpu)) {
        struct buf list;
        char room[128];

        buf_init(&list, room, sizeof room);
        cpus_print(&class->cpus, &list);
        int rc = err_set(&change->err, P30,
                         "\"" WORD_FMT "\": the events of class %s are counted on CPU "
                         "%s",
                         WORD_ARG(word->word), class->name, buf_text(&list));
        buf_free(&list);
        return rc;
    }
    return 0;
}

/* Is it meant by its name, and not only by `all`, as far as the change has come? */
static bool is_named(const struct change *change, const struct link *link)
{
    return cpus_has(&change->named, link->cpu) ||
           (!link->from_all && !cpus_has(&change->unnamed, link->cpu));
}

static int name_cpu(struct change *change, const struct link *link)
{
    cpus_remove(&change->unnamed, link->cpu);
    return is_named(change, link) || cpus_add(&change->named, link->cpu) ? 0
                                                                         : plan_no_memory(change);
}

/* It leaves, unless `all` means it too. */
static int unname_cpu(struct change *change, struct link *link)
{
    cpus_remove(&change->named, link->cpu);
    if (change->wants_all)
        return cpus_add(&change->unnamed, link->cpu) ? 0 : plan_no_memory(change);
    return plan_replace(change, link) ? 0 : plan_no_memory(change);
}

int plan_want_cpus(struct change *change, const struct target_word *word)
{
    const struct class_info *class = set_class(change);
    const struct cpus *list = word->all ? &change->engine->online : &word->cpus;
    int rc = 0;

    if (word->all && change->wants_all)
        return change->additive ? 0 : err_set(&change->err, E10, "\"all\" is attached already");
    for (int cpu = cpus_next(list, 0); rc == 0 && cpu >= 0; cpu = cpus_next(list, cpu + 1)) {
        struct link *link = cpu_link(change, (unsigned)cpu);

        if (word->all && class && cpus_count(&class->cpus) > 0 &&
            !cpus_has(&class->cpus, (unsigned)cpu))
            continue;
        if (link && !word->all && (change->additive || cpus_has(&change->unnamed, (unsigned)cpu))) {
            rc = name_cpu(change, link); /* it may even be offline now */
            continue;
        }
        if (!word->all)
            rc = check_cpu(change, word, (unsigned)cpu);
        if (rc == 0 && link && !word->all && link->counter)
            rc = err_set(&change->err, E10, "\"" WORD_FMT "\": CPU %d is attached already",
                         WORD_ARG(word->word), cpu);
        if (rc == 0 && link && !word->all && !link->counter)
            link->from_all = false; /* of this command */
        if (rc || link)
            continue;
        link = plan_fresh(change, TARGET_CPU);
        if (!link)
            return plan_no_memory(change);
        link->cpu = (unsigned)cpu;
        link->from_all = word->all;
    }
    change->wants_all |= word->all;
    return rc;
}

static int refuse_unattached(struct change *change, const struct wanted *wanted)
{
    for (unsigned i = 0; i < change->pmc->links->n; i++) {
        const struct link *link = change->pmc->links->link[i];

        if (wanted->process && link->ended && link->dropped && link->pid == wanted->pid)
            return err_set(
                &change->err, E45,
                "\"" WORD_FMT "\" has executed a privileged program (set-id, "
                "file capabilities, unreadable) and is not observed any more; its count stays",
                WORD_ARG(wanted->word.word));
    }
    if (wanted->exited)
        return err_set(&change->err, E45,
                       "\"" WORD_FMT "\" has exited and is not observed any more; "
                       "its count stays",
                       WORD_ARG(wanted->word.word));
    if (!wanted->process && !wanted_is_system(wanted))
        return err_set(&change->err, E44, "\"" WORD_FMT "\": there is no such process",
                       WORD_ARG(wanted->word.word));
    return err_set(&change->err, E28, "\"" WORD_FMT "\" is not attached (see target)",
                   WORD_ARG(wanted->word.word));
}

static int unwant_all(struct change *change, const struct wanted *wanted)
{
    int rc = change->wants_all ? 0 : refuse_unattached(change, wanted);

    for (unsigned i = 0; rc == 0 && i < change->pmc->links->n; i++) {
        struct link *link = change->pmc->links->link[i];

        if (link->kind == TARGET_CPU && !link->ended && !is_named(change, link) &&
            !plan_leaves(change, link) && !plan_replace(change, link))
            rc = plan_no_memory(change);
    }
    change->wants_all = false;
    return rc;
}

static int unwant_cpus(struct change *change, const struct wanted *wanted)
{
    const struct cpus *cpus = &wanted->word.cpus;
    int rc = 0;

    if (wanted->word.all)
        return unwant_all(change, wanted);
    for (int cpu = cpus_next(cpus, 0); rc == 0 && cpu >= 0; cpu = cpus_next(cpus, cpu + 1)) {
        struct link *link = cpu_link(change, (unsigned)cpu);

        rc = link && is_named(change, link) ? unname_cpu(change, link)
                                            : refuse_unattached(change, wanted);
    }
    return rc;
}

static int unwant(struct change *change, const struct wanted *wanted)
{
    struct link *link = NULL;

    if (wanted->word.kind == TARGET_CPU)
        return unwant_cpus(change, wanted);
    if (wanted->word.kind == TARGET_CGROUP || wanted->process)
        link = find_link(change, wanted, false);
    if (!link)
        return refuse_unattached(change, wanted);
    return plan_replace(change, link) ? 0 : plan_no_memory(change);
}

/* CPUs and cgroups in one PMC would count threads twice. */
static int check_mixture(struct change *change)
{
    bool cpu = false, cgroup = false;

    for (unsigned i = 0; i < change->n_fresh; i++) {
        cpu |= change->fresh[i]->kind == TARGET_CPU;
        cgroup |= change->fresh[i]->kind == TARGET_CGROUP;
    }
    for (unsigned i = 0; i < change->pmc->links->n; i++) {
        const struct link *link = change->pmc->links->link[i];

        if (link->ended || plan_leaves(change, link))
            continue;
        cpu |= link->kind == TARGET_CPU;
        cgroup |= link->kind == TARGET_CGROUP;
    }
    if (cpu && cgroup)
        return err_set(&change->err, P30,
                       "one PMC counts CPUs or cgroups, not both: a thread would be "
                       "counted twice");
    return 0;
}

int plan_targets(struct change *change)
{
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < change->n_wanted; i++)
        if (change->wanted[i].word.remove)
            rc = unwant(change, &change->wanted[i]);
    if (change->verb == VERB_DETACH) {
        for (unsigned i = 0; rc == 0 && i < change->pmc->links->n; i++)
            if (!change->pmc->links->link[i]->ended &&
                !plan_replace(change, change->pmc->links->link[i]))
                rc = plan_no_memory(change);
        change->wants_all = false;
    }
    if (rc == 0 && change->reopen && (change->new_set || pmc_live_links(change->pmc)))
        rc = plan_reopen(change);
    for (unsigned i = 0; rc == 0 && i < change->n_wanted; i++) {
        struct wanted *wanted = &change->wanted[i];

        if (wanted->word.remove)
            continue;
        if (wanted->word.kind == TARGET_CPU)
            rc = plan_want_cpus(change, &wanted->word);
        else if (wanted->word.kind == TARGET_CGROUP)
            rc = want_cgroup(change, wanted);
        else
            rc = want_process(change, wanted);
    }
    if (rc == 0)
        rc = plan_uncovered(change);
    return rc ? rc : check_mixture(change);
}

/* lifetime=owner: the writing process is watched. */
int plan_lifetime(struct change *change)
{
    bool taken;

    if (!change->writer)
        return 0;
    struct proc *proc = proc_get(change->engine, change->writer, &taken);
    if (!proc)
        return plan_no_memory(change);
    proc_ref(proc);
    if (taken)
        change->writer = NULL;
    change->owner = proc;
    return plan_watch(change, proc, false) ? 0 : plan_no_memory(change);
}
