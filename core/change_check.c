/*
 * Stage two of a change, with the lock: the order of checks (as in hwpmc: settings, event, mode,
 * rights, rows, targets), and the plan of which links come, stay and go.
 */
#include "core/change.h"

#include "core/access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define FDS_KEPT 64 /* descriptors left for the daemon itself */

/* ---- settings ---- */

static int check_open(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    const struct state_row *state = &state_table[pmc->state];

    if (state->open)
        return 0;
    if (change->put && strcmp(change->file, "count") == 0)
        return err_set(&change->err, E06, "%s is %s: stop it before its count is written", pmc->name,
                       state->name);
    for (unsigned key = 0; key < KEYS; key++) {
        bool changes = key == KEY_EVENT ? change->new_set
                     : key != KEY_TARGET && !settings_same(&change->want, &pmc->settings, key);

        if (!(change->given & GIVEN(key)) || !changes)
            continue;
        return err_set(&change->err, key == KEY_COUNT ? E07 : P06,
                       "%s is %s: write \"stop\" to ctl before %s is changed", pmc->name, state->name,
                       key_table[key].name);
    }
    return 0;
}

static bool key_standard(const struct settings *settings, enum key key)
{
    struct settings standard;

    settings_init(&standard);
    return settings_same(settings, &standard, key);
}

static int check_places(struct change *change)
{
    const struct mode_row *mode = &mode_table[change->effective];
    const struct settings *want = &change->want;

    for (unsigned key = 0; key < KEYS; key++) {
        bool misplaced = (key_table[key].place == PLACE_SAMPLING && !mode->sampling) ||
                         (key_table[key].place == PLACE_PROCESS && mode->system);
        struct buf value;
        char room[64];

        if (!misplaced || key_standard(want, key))
            continue;
        buf_init(&value, room, sizeof room);
        settings_print(want, key, 0, &value);
        int rc = err_set(&change->err, key_table[key].place == PLACE_PROCESS ? X05 : P07,
                         "%s=%s has no place in mode %s", key_table[key].name, buf_text(&value),
                         mode->name);
        buf_free(&value);
        return rc;
    }
    if (want->value[KEY_PERIOD] != UINT64_MAX && want->value[KEY_FREQ] != UINT64_MAX)
        return err_set(&change->err, P07, "period and freq exclude each other: take one back with "
                       "\"period=off\" or \"freq=off\"");
    if (change->set && want->n_counts > change->set->n)
        return err_set(&change->err, P02, "count: %u values for %u event%s", want->n_counts,
                       change->set->n, change->set->n == 1 ? "" : "s");
    return 0;
}

static int check_available(struct change *change)
{
    const struct settings *want = &change->want;

    if (mode_table[change->effective].sampling)
        return err_set(&change->err, P09, "sampling is not part of this version: mode %s is refused%s; "
                       "counting modes work", mode_table[change->effective].name,
                       want->given & GIVEN(KEY_MODE) ? "" : " (period or freq ask for it)");
    if (want->value[KEY_LOG_CSW] || want->value[KEY_LOG_EXIT])
        return err_set(&change->err, P09, "%s=on needs the log, which is not part of this version",
                       want->value[KEY_LOG_CSW] ? "log-csw" : "log-exit");
    return 0;
}

/* ---- mode and events ---- */

static bool word_system(const struct wanted *wanted)
{
    return wanted->word.kind == TARGET_CPU || wanted->word.kind == TARGET_CGROUP;
}

static bool asks_system(const struct change *change)
{
    for (unsigned i = 0; i < change->n_wanted; i++)
        if (!change->wanted[i].word.remove && word_system(&change->wanted[i]))
            return true;
    for (unsigned i = 0; change->set && i < change->set->n; i++)
        if (!(change->set->event[i].scope & EVENT_PROCESS))
            return true;
    return false;
}

static bool asks_process(const struct change *change)
{
    for (unsigned i = 0; i < change->n_wanted; i++)
        if (!change->wanted[i].word.remove && !word_system(&change->wanted[i]))
            return true;
    return false;
}

int change_effective(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    bool attached = pmc_live_links(pmc) > 0;
    bool system, sampling;

    if (change->want.given & GIVEN(KEY_MODE)) {
        change->effective = change->want.mode;
    } else {
        /* Without targets, too, it stays what it is until something else is asked for. */
        bool asked = change->new_set || asks_process(change);
        system = asks_system(change) ||
                 ((attached || !asked) && mode_table[pmc->effective].system);
        if (attached && !change->new_set)
            system = mode_table[pmc->effective].system;
        sampling = change->want.value[KEY_PERIOD] != UINT64_MAX ||
                   change->want.value[KEY_FREQ] != UINT64_MAX;
        change->effective = system ? (sampling ? SYSTEM_SAMPLING : SYSTEM_COUNTING)
                                   : (sampling ? PROCESS_SAMPLING : PROCESS_COUNTING);
        change->want.mode = change->effective;
    }
    if (attached && mode_table[change->effective].system != mode_table[pmc->effective].system)
        return err_set(&change->err, P17, "%s is attached in mode %s: write \"detach\" to ctl before the "
                       "scope is changed", pmc->name, mode_table[pmc->effective].name);
    if (pmc->set && change->effective != pmc->effective)
        change->new_set = true; /* a new mode starts afresh from the initial count */
    return 0;
}

static int check_scope(struct change *change)
{
    const struct mode_row *mode = &mode_table[change->effective];

    for (unsigned i = 0; change->set && i < change->set->n; i++) {
        const struct event *event = &change->set->event[i];
        bool fits = mode->system ? (event->scope & (EVENT_CPU | EVENT_PACKAGE)) != 0
                                 : (event->scope & EVENT_PROCESS) != 0;
        if (!fits)
            return err_set(&change->err, P30, "\"%s\" cannot be counted in mode %s: its counters belong "
                           "to %s", event->written, mode->name,
                           mode->system ? "a process" : "a CPU or package, not to a process");
    }
    for (unsigned i = 0; i < change->n_wanted; i++) {
        const struct wanted *wanted = &change->wanted[i];

        if (word_system(wanted) == mode->system)
            continue;
        if (mode->system)
            return err_set(&change->err, E26, "\"" WORD_FMT "\" is a process, but %s counts in mode %s: "
                           "its targets are CPUs (cpu0, all) or a cgroup",
                           WORD_ARG(wanted->word.word), change->pmc->name, mode->name);
        return err_set(&change->err, E22, "\"" WORD_FMT "\" is no process, but %s counts in mode %s: its "
                       "targets are PIDs", WORD_ARG(wanted->word.word), change->pmc->name, mode->name);
    }
    return 0;
}

/* System scope: for CPUs that are attached now or opened anew. A cgroup was checked when it was opened. */
static int check_system(struct change *change)
{
    bool cpus = false;

    for (unsigned i = 0; i < change->n_wanted; i++)
        cpus |= change->wanted[i].word.kind == TARGET_CPU && !change->wanted[i].word.remove;
    for (unsigned i = 0; change->reopen && i < change->pmc->links->n; i++)
        cpus |= change->pmc->links->link[i]->kind == TARGET_CPU && !change->pmc->links->link[i]->ended;
    if (!cpus || change->may_system)
        return 0;
    return err_set(&change->err, X07, "system scope needs CAP_PERFMON, or the tunable "
                   "unprivileged_syspmcs=1");
}

/* Kernel mode, and system scope, with the rights of who opened the file. */
static int check_rights(struct change *change)
{
    bool counts = change->new_set || change->reopen || change->n_wanted;

    for (unsigned i = 0; counts && change->set && i < change->set->n; i++) {
        const struct plan_event *plan = &change->plan[i];
        bool kernel = plan->kernel && !plan->event->whole;

        if (!plan->user && !plan->kernel)
            return err_set(&change->err, P07, "user=off and kernel=off: \"%s\" would count nothing",
                           plan->event->written);
        if (change->may_kernel || (!kernel && !plan->event->needs_kernel))
            continue;
        return err_set(&change->err, P18, "\"%s\" counts kernel mode, which needs CAP_PERFMON (or the "
                       "tunable unprivileged_kernel)%s", plan->event->written,
                       kernel ? ": write it with :u, or kernel=off" : "");
    }
    return check_system(change);
}

static int check_set_needed(struct change *change)
{
    const struct pmc *pmc = change->pmc;

    if (!change->set && pmc->set)
        change->set = set_ref(pmc->set);
    if (!change->set && (change->verb || change->put || change->n_wanted))
        return err_set(&change->err, P08, "%s has no event yet: write one to event", pmc->name);
    if (!change->set || change->plan)
        return 0;
    if (change->reopen && !(change->want.given & GIVEN(KEY_KERNEL)))
        change->kernel = change->may_kernel;
    else if (change->given & GIVEN(KEY_KERNEL))
        change->kernel = change->want.value[KEY_KERNEL];
    change->plan = calloc(change->set->n, sizeof *change->plan);
    if (!change->plan)
        return err_set(&change->err, E32, "no memory");
    for (unsigned i = 0; i < change->set->n; i++)
        change->plan[i] = pmc_plan_event(&change->set->event[i], &change->want, change->kernel);
    return 0;
}

/* A changed setting that shapes the counters opens those that are attached anew. */
static void find_reopen(struct change *change)
{
    change->reopen = change->new_set;
    for (unsigned key = 0; key < KEYS; key++)
        if (key_table[key].opens && key != KEY_EVENT && key != KEY_MODE &&
            !settings_same(&change->want, &change->pmc->settings, key))
            change->reopen = true;
}

/* ---- verbs ---- */

static bool all_offline(const struct pmc *pmc)
{
    unsigned cpus = 0, offline = 0;

    for (unsigned i = 0; i < pmc->links->n; i++) {
        const struct link *link = pmc->links->link[i];

        cpus += link->kind == TARGET_CPU && !link->ended;
        offline += link->offline;
    }
    return cpus > 0 && cpus == offline;
}

static int check_start(struct change *change)
{
    struct pmc *pmc = change->pmc;

    if (pmc_live_links(pmc) == 0 && change->n_wanted == 0) {
        if (pmc->had_target)
            return err_set(&change->err, E43, "%s has lost all its targets: attach another one",
                           pmc->name);
        return err_set(&change->err, E23, "%s counts in system scope: write CPUs to target first (cpu0, "
                       "cpu0-3, all)", pmc->name);
    }
    if (all_offline(pmc))
        return err_set(&change->err, E38, "every CPU of %s is offline", pmc->name);
    bool runs = pmc->state == PMC_RUNNING || pmc->state == PMC_ARMED;
    for (unsigned i = 0; !runs && change->want.value[KEY_START] && i < pmc->links->n; i++)
        change->reopen |= link_live(pmc->links->link[i]) && !pmc->links->link[i]->armed;
    if (!runs || change->verb == VERB_RESTART)
        change->start = change->start_fresh = true;
    change->read = change->verb == VERB_RESTART;
    return 0;
}

static int check_verb(struct change *change)
{
    struct pmc *pmc = change->pmc;

    switch (change->verb) {
    case VERB_START:
    case VERB_RESTART:
        return check_start(change);
    case VERB_STOP:
        if (pmc->state == PMC_ALLOCATED || !pmc->first_start_ns)
            return err_set(&change->err, X02, "%s was never started", pmc->name);
        if (all_offline(pmc))
            return err_set(&change->err, E38, "every CPU of %s is offline", pmc->name);
        change->stop = !state_table[pmc->state].open;
        change->reopen |= pmc->state == PMC_ARMED; /* the kernel knows no other way to disarm */
        return 0;
    case VERB_RESET:
        if (!state_table[pmc->state].open)
            return err_set(&change->err, E06, "%s is %s: stop it before it is reset, or write restart",
                           pmc->name, state_table[pmc->state].name);
        change->read = true;
        return 0;
    case VERB_FLUSH:
    case VERB_CLOSE:
        return err_set(&change->err, E15, "%s keeps no log", pmc->name);
    case VERB_NONE:
    case VERB_DETACH:
    case VERBS:
        break;
    }
    return 0;
}

/* ---- links ---- */

static struct replaced *add_replaced(struct change *change, struct link *link)
{
    struct replaced *grown = realloc(change->replaced, (change->n_replaced + 1) * sizeof *grown);

    if (!grown)
        return NULL;
    change->replaced = grown;
    grown += change->n_replaced;
    *grown = (struct replaced){ .link = link, .last = tally_new(pmc_events(change->pmc)) };
    if (!grown->last)
        return NULL;
    change->n_replaced++;
    return grown;
}

static bool is_replaced(const struct change *change, const struct link *link)
{
    for (unsigned i = 0; i < change->n_replaced; i++)
        if (change->replaced[i].link == link)
            return true;
    return false;
}

static struct link *add_fresh(struct change *change, enum target_kind kind)
{
    struct link **grown = realloc(change->fresh, (change->n_fresh + 1) * sizeof *grown);
    struct link *link = grown ? link_new(change->set->n) : NULL;

    if (grown)
        change->fresh = grown;
    if (!link)
        return NULL;
    link->kind = kind;
    link->pmc = change->pmc;
    link->id = engine_serial(change->engine);
    if (!ids_add(&change->engine->links, link->id, link)) {
        free(link->base);
        free(link);
        return NULL;
    }
    change->fresh[change->n_fresh++] = link;
    return link;
}

static int no_memory(struct change *change)
{
    return err_set(&change->err, E32, "no memory");
}

/* A fresh link on what `old` is on. */
static struct link *add_successor(struct change *change, const struct link *old)
{
    struct link *link = add_fresh(change, old->kind);

    if (!link)
        return NULL;
    link->pid = old->pid;
    link->tid = old->tid;
    link->cpu = old->cpu;
    link->from_all = old->from_all;
    link->attached_ns = old->attached_ns;
    link->gap_ns = old->gap_ns;
    link->cgroup_key = old->cgroup_key;
    if (old->cgroup && !(link->cgroup = strdup(old->cgroup)))
        return NULL;
    if (old->cgroup_fd >= 0 && (link->cgroup_fd = fcntl(old->cgroup_fd, F_DUPFD_CLOEXEC, 0)) < 0)
        return NULL;
    if (old->proc)
        link_set_proc(link, old->proc);
    return link;
}

/* The end of a link: a link without a counter takes its place. */
static struct link *link_remains(const struct link *old, unsigned n)
{
    struct link *link = link_new(n);

    if (!link)
        return NULL;
    link->kind = old->kind;
    link->pid = old->pid;
    link->tid = old->tid;
    link->cpu = old->cpu;
    link->from_all = old->from_all;
    link->attached_ns = old->attached_ns;
    link->gap_ns = old->gap_ns;
    link->gone_since_ns = old->gone_since_ns;
    link->pmc = old->pmc;
    link->facts = old->facts;
    link->facts.descriptors = 0;
    link->cgroup_key = old->cgroup_key;
    if (!old->cgroup || (link->cgroup = strdup(old->cgroup)))
        return link;
    free(link->base);
    free(link);
    return NULL;
}

static int plan_reopen(struct change *change)
{
    struct pmc *pmc = change->pmc;

    for (unsigned i = 0; i < pmc->links->n; i++) {
        struct link *link = pmc->links->link[i];
        struct replaced *replaced = is_replaced(change, link) ? NULL : add_replaced(change, link);

        if (!replaced) {
            if (is_replaced(change, link))
                continue;
            return no_memory(change);
        }
        replaced->dropped = change->new_set;
        if ((link->ended || link->offline) && !change->new_set) { /* stays as it is */
            free(replaced->last);
            change->n_replaced--;
            continue;
        }
        if (link->offline && !link->ended) { /* opened when its CPU comes back */
            if (!(replaced->ended = link_remains(link, change->set->n)))
                return no_memory(change);
            replaced->ended->offline = true;
            continue;
        }
        struct link *fresh = link->ended ? NULL : add_successor(change, link);
        if (!link->ended && !fresh)
            return no_memory(change);
        if (fresh)
            fresh->recheck = fresh->kind != TARGET_CPU;
    }
    return 0;
}

static int plan_kept(struct change *change)
{
    struct pmc *pmc = change->pmc;

    change->kept = calloc(pmc->links->n + 1, sizeof *change->kept);
    if (!change->kept)
        return no_memory(change);
    for (unsigned i = 0; i < pmc->links->n; i++) {
        struct link *link = pmc->links->link[i];

        if (is_replaced(change, link))
            continue;
        struct kept *kept = &change->kept[change->n_kept++];
        kept->link = link;
        if (change->read && link_live(link) && !(kept->now = tally_new(pmc_events(pmc))))
            return no_memory(change);
    }
    return 0;
}

/* ---- targets ---- */

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
        bool inside = strncmp(link->cgroup, wanted->cgroup, a < b ? a : b) == 0 &&
                      (a == b || a == 1 || b == 1 || (a < b ? wanted->cgroup[a] : link->cgroup[b]) == '/');
        return link->cgroup_key == engine->host->cgroup_key(wanted->cgroup_fd) || (overlaps && inside);
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

        if (!is_replaced(change, link) && link_matches(change->engine, link, wanted, overlaps))
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

static int refuse_attached(struct change *change, const struct wanted *wanted, const struct link *link)
{
    bool exact = link_matches(change->engine, link, wanted, false);

    return err_set(&change->err, E10, "\"" WORD_FMT "\" is %s", WORD_ARG(wanted->word.word),
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
    const struct link *attached = find_link(change, wanted, true), *fresh = in_fresh(change, wanted);
    if (fresh) /* written twice; or a process and one of its threads */
        return link_matches(change->engine, fresh, wanted, false)
                   ? 0 : refuse_attached(change, wanted, fresh);
    if (attached)
        return change->additive ? 0 : refuse_attached(change, wanted, attached);
    struct proc *proc = proc_get(change->engine, wanted->process, &taken);
    if (!proc)
        return no_memory(change);
    struct link *link = add_fresh(change, wanted->word.kind);
    if (taken)
        wanted->process = NULL;
    if (!link) {
        proc_ref(proc);
        struct process *process = proc_unref(change->engine, proc);
        if (taken)
            wanted->process = process;
        return no_memory(change);
    }
    link_set_proc(link, proc);
    link->watch = !proc->watched;
    proc->watched = true;
    link->pid = wanted->pid;
    link->tid = wanted->tid;
    return check_load(change, proc, link);
}

static int want_cgroup(struct change *change, struct wanted *wanted)
{
    const struct link *attached = find_link(change, wanted, true), *fresh = in_fresh(change, wanted);

    if (fresh)
        return link_matches(change->engine, fresh, wanted, false)
                   ? 0 : refuse_attached(change, wanted, fresh);
    if (attached)
        return change->additive ? 0 : refuse_attached(change, wanted, attached);
    struct link *link = add_fresh(change, TARGET_CGROUP);
    if (!link)
        return no_memory(change);
    link->cgroup_fd = wanted->cgroup_fd;
    link->cgroup_key = change->engine->host->cgroup_key(wanted->cgroup_fd);
    link->cgroup = wanted->cgroup;
    wanted->cgroup_fd = -1;
    wanted->cgroup = NULL;
    return 0;
}

static const struct class_info *set_class(const struct change *change)
{
    for (unsigned i = 0; i < change->set->n; i++) {
        const struct class_info *class = &change->engine->classes[change->set->event[i].class_index];

        if (class->hardware || cpus_count(&class->cpus) > 0)
            return class;
    }
    return NULL;
}

static struct link *cpu_link(const struct change *change, unsigned cpu)
{
    for (unsigned i = 0; i < change->pmc->links->n; i++) {
        struct link *link = change->pmc->links->link[i];

        if (link->kind == TARGET_CPU && link->cpu == cpu && !link->ended && !is_replaced(change, link))
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
        return err_set(&change->err, E21, "\"" WORD_FMT "\": this machine cannot have a CPU %u; the "
                       "highest is %d (info/cpus)", WORD_ARG(word->word), cpu, highest);
    if (!cpus_has(&engine->possible, cpu) || !cpus_has(&engine->online, cpu))
        return err_set(&change->err, E37, "\"" WORD_FMT "\": CPU %u is %s (info/cpus)",
                       WORD_ARG(word->word), cpu,
                       cpus_has(&engine->possible, cpu) ? "offline" : "absent");
    if (class && cpus_count(&class->cpus) > 0 && !cpus_has(&class->cpus, cpu)) {
        struct buf list;
        char room[128];

        buf_init(&list, room, sizeof room);
        cpus_print(&class->cpus, &list);
        int rc = err_set(&change->err, P30, "\"" WORD_FMT "\": the events of class %s are counted on CPU "
                         "%s", WORD_ARG(word->word), class->name, buf_text(&list));
        buf_free(&list);
        return rc;
    }
    return 0;
}

static int want_cpus(struct change *change, const struct target_word *word)
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
        if (!word->all)
            rc = check_cpu(change, word, (unsigned)cpu);
        if (rc == 0 && link && !word->all && !change->additive && link->counter)
            rc = err_set(&change->err, E10, "\"" WORD_FMT "\": CPU %d is attached already",
                         WORD_ARG(word->word), cpu);
        if (rc || link)
            continue;
        link = add_fresh(change, TARGET_CPU);
        if (!link)
            return no_memory(change);
        link->cpu = (unsigned)cpu;
        link->from_all = word->all;
    }
    change->wants_all |= word->all;
    return rc;
}

static int refuse_unattached(struct change *change, const struct wanted *wanted)
{
    for (unsigned i = 0; !wanted->process && i < change->pmc->links->n; i++) {
        const struct link *link = change->pmc->links->link[i];

        if ((link->ended || link_dead(change->pmc, link)) && link->kind == wanted->word.kind &&
            (uint64_t)(link->tid ? link->tid : link->pid) == wanted->word.number)
            return err_set(&change->err, E45, "\"" WORD_FMT "\" has exited and is not observed any more; "
                           "its count stays", WORD_ARG(wanted->word.word));
    }
    if (!wanted->process && !word_system(wanted))
        return err_set(&change->err, E44, "\"" WORD_FMT "\": there is no such process",
                       WORD_ARG(wanted->word.word));
    return err_set(&change->err, E28, "\"" WORD_FMT "\" is not attached (see target)",
                   WORD_ARG(wanted->word.word));
}

static int unwant_cpus(struct change *change, const struct wanted *wanted)
{
    const struct target_word *word = &wanted->word;
    bool found = word->all && change->wants_all;

    for (unsigned i = 0; i < change->pmc->links->n; i++) {
        struct link *link = change->pmc->links->link[i];
        bool meant = word->all ? link->from_all
                               : cpus_has(&word->cpus, link->cpu) && !link->from_all;

        if (link->kind != TARGET_CPU || link->ended || !meant || is_replaced(change, link))
            continue;
        if (!add_replaced(change, link))
            return no_memory(change);
        found = true;
    }
    for (int cpu = cpus_next(&word->cpus, 0); cpu >= 0; cpu = cpus_next(&word->cpus, cpu + 1)) {
        bool was = false;

        for (unsigned i = 0; i < change->n_replaced; i++)
            was |= change->replaced[i].link->kind == TARGET_CPU &&
                   change->replaced[i].link->cpu == (unsigned)cpu;
        found &= was;
    }
    if (!found)
        return refuse_unattached(change, wanted);
    if (word->all)
        change->wants_all = false;
    return 0;
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
    return add_replaced(change, link) ? 0 : no_memory(change);
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

        if (link->ended || is_replaced(change, link))
            continue;
        cpu |= link->kind == TARGET_CPU;
        cgroup |= link->kind == TARGET_CGROUP;
    }
    if (cpu && cgroup)
        return err_set(&change->err, P30, "one PMC counts CPUs or cgroups, not both: a thread would be "
                       "counted twice");
    return 0;
}

static int check_targets(struct change *change)
{
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < change->n_wanted; i++)
        if (change->wanted[i].word.remove)
            rc = unwant(change, &change->wanted[i]);
    if (change->verb == VERB_DETACH) {
        for (unsigned i = 0; rc == 0 && i < change->pmc->links->n; i++)
            if (!change->pmc->links->link[i]->ended && !add_replaced(change, change->pmc->links->link[i]))
                rc = no_memory(change);
        change->wants_all = false;
    }
    if (rc == 0 && change->reopen && (change->new_set || pmc_live_links(change->pmc)))
        rc = plan_reopen(change);
    for (unsigned i = 0; rc == 0 && i < change->n_wanted; i++) {
        struct wanted *wanted = &change->wanted[i];

        if (wanted->word.remove)
            continue;
        if (wanted->word.kind == TARGET_CPU)
            rc = want_cpus(change, &wanted->word);
        else if (wanted->word.kind == TARGET_CGROUP)
            rc = want_cgroup(change, wanted);
        else
            rc = want_process(change, wanted);
    }
    return rc ? rc : check_mixture(change);
}

/* lifetime=owner: the writing process is watched. */
static int check_lifetime(struct change *change)
{
    bool taken;

    if (!change->writer)
        return 0;
    struct proc *proc = proc_get(change->engine, change->writer, &taken);
    if (!proc)
        return no_memory(change);
    proc_ref(proc);
    if (taken)
        change->writer = NULL;
    change->owner = proc;
    change->watch_owner = !proc->watched;
    proc->watched = true;
    return 0;
}

/* ---- rows ---- */

/* The CPUs of all links afterwards. `all` and cgroups keep slots for the CPUs that are to come. */
static bool claim_cpus(const struct change *change, struct claim *claim)
{
    const struct class_info *class = &change->engine->classes[claim->class_index];
    bool ok = true, whole_machine = false;

    for (unsigned i = 0; i < change->n_fresh; i++) {
        if (change->fresh[i]->kind == TARGET_CPU)
            ok &= cpus_add(&claim->cpus, change->fresh[i]->cpu);
        whole_machine |= change->fresh[i]->kind == TARGET_CGROUP;
    }
    for (unsigned i = 0; i < change->n_replaced; i++)
        if (change->replaced[i].ended && change->replaced[i].ended->offline)
            ok &= cpus_add(&claim->cpus, change->replaced[i].ended->cpu);
    for (unsigned i = 0; i < change->pmc->links->n; i++) {
        const struct link *link = change->pmc->links->link[i];

        if (link->ended || is_replaced(change, link))
            continue;
        if (link->kind == TARGET_CPU)
            ok &= cpus_add(&claim->cpus, link->cpu);
        whole_machine |= link->kind == TARGET_CGROUP;
    }
    if (whole_machine)
        ok &= cpus_copy(&claim->cpus, &change->engine->possible);
    else if (claim->system && change->wants_all)
        ok &= cpus_add_all(&claim->cpus, cpus_count(&class->cpus) ? &class->cpus
                                                                   : &change->engine->possible);
    return ok;
}

/* The claim that the set will need, unreserved; NULL: it needs no rows (yet). */
static int make_claim(struct change *change, struct claim **out)
{
    bool system = mode_table[change->effective].system;
    struct claim *claim;
    unsigned n = 0;

    *out = NULL;
    for (unsigned i = 0; change->set && i < change->set->n; i++)
        n += change->set->event[i].rows != 0;
    if (n == 0 || change->want.value[KEY_MULTIPLEX])
        return 0;
    claim = calloc(1, sizeof *claim);
    if (!claim)
        return no_memory(change);
    claim->pmc = change->pmc->id;
    claim->instance = change->pmc->instance->id;
    claim->uid = change->pmc->uid;
    claim->system = system;
    cpus_init(&claim->cpus);
    for (unsigned i = 0; i < change->set->n; i++) {
        const struct event *event = &change->set->event[i];

        if (!event->rows)
            continue;
        uint64_t row = change->want.value[KEY_ROW];
        claim->class_index = event->class_index;
        claim->member[claim->n++] = (struct claim_member){
            .fits = event->rows, .needed = event->rows_needed,
            .asked = row == UINT64_MAX ? ROW_ANY : (int)row,
        };
    }
    if (!claim_cpus(change, claim)) {
        cpus_free(&claim->cpus);
        free(claim);
        return no_memory(change);
    }
    if (system && cpus_count(&claim->cpus) == 0) {
        cpus_free(&claim->cpus);
        free(claim);
        return 0;
    }
    *out = claim;
    return 0;
}

/* Do a and b cover, or are they about to cover, one process? */
static bool covers_link(struct engine *engine, const struct pmc *pmc, const struct link *link,
                        const struct link *other)
{
    if (link->ended || other->ended || link->kind > TARGET_THREAD || other->kind > TARGET_THREAD)
        return false;
    if (link->pid == other->pid)
        return link->kind == TARGET_PROCESS || other->kind == TARGET_PROCESS || link->tid == other->tid;
    return pmc->settings.value[KEY_DESCENDANTS] && link->counter &&
           engine->backend->covers(link->counter, other->pid);
}

struct view {
    const struct pmc *pmc;
    struct link *const *link[2];
    unsigned n[2];
};

static struct view view_of(const struct change *change, uint64_t id)
{
    const struct pmc *pmc = ids_find(&change->engine->pmcs, id);
    struct view view = { .pmc = pmc };

    if (!pmc)
        return view;
    view.link[0] = pmc->links->link;
    view.n[0] = pmc->links->n;
    if (pmc == change->pmc) {
        view.link[1] = change->fresh;
        view.n[1] = change->n_fresh;
    }
    return view;
}

static bool conflict(void *ctx, uint64_t a, uint64_t b)
{
    const struct change *change = ctx;
    struct view va = view_of(change, a), vb = view_of(change, b);

    for (unsigned x = 0; x < 4; x++) {
        unsigned s = x / 2, t = x % 2;

        for (unsigned i = 0; i < va.n[s]; i++)
            for (unsigned j = 0; j < vb.n[t]; j++)
                if (covers_link(change->engine, va.pmc, va.link[s][i], vb.link[t][j]) ||
                    covers_link(change->engine, vb.pmc, vb.link[t][j], va.link[s][i]))
                    return true;
    }
    return false;
}

static bool claim_alike(const struct claim *a, const struct claim *b)
{
    if (!a || !b)
        return a == b;
    if (a->system != b->system || a->n != b->n || !cpus_equal(&a->cpus, &b->cpus))
        return false;
    for (unsigned i = 0; i < a->n; i++)
        if (a->member[i].fits != b->member[i].fits || a->member[i].needed != b->member[i].needed ||
            a->member[i].asked != b->member[i].asked)
            return false;
    return true;
}

static void claim_free(struct claim *claim)
{
    if (claim)
        cpus_free(&claim->cpus);
    free(claim);
}

/* The PMC's claim as it was; true if its rows are held again (or were never let go). */
static bool rows_hold(struct change *change)
{
    struct claim *claim = change->pmc->claim;

    if (claim->pmc)
        return true;
    memcpy(claim->member, change->before->member, sizeof claim->member);
    claim->n = change->before->n;
    claim->pmc = change->before->pmc;
    if (rows_retake(change->engine->rows, claim))
        return true;
    claim->pmc = 0;
    return false;
}

void change_rows_back(struct change *change)
{
    struct pmc *pmc = change->pmc;

    if (!change->before)
        return;
    if (!rows_hold(change)) {
        claim_free(pmc->claim); /* taken meanwhile: it counts on without a row */
        pmc->claim = NULL;
    }
    free(change->before);
    change->before = NULL;
}

/*
 * Rows of the old claim are free for the new one. Afterwards they are held too, as far as both can be, so
 * that nobody takes them while the change may still fail; else change_rows_back() takes them again.
 */
static bool rows_aside(struct change *change)
{
    struct claim *claim = change->pmc->claim;

    if (!claim)
        return true;
    change->before = malloc(sizeof *claim);
    if (!change->before)
        return false;
    *change->before = *claim;
    rows_release(change->engine->rows, claim);
    return true;
}

static int check_rows(struct change *change)
{
    struct engine *engine = change->engine;
    struct pmc *pmc = change->pmc;
    struct claim *claim;
    int rc = make_claim(change, &claim);

    if (rc)
        return rc;
    if (claim_alike(claim, pmc->claim) && !change->new_set) {
        claim_free(claim);
        claim = pmc->claim;
    } else {
        rc = rows_aside(change) ? 0 : no_memory(change);
        if (rc == 0 && claim)
            rc = rows_reserve(engine->rows, claim, change->set->event[0].written, &change->err);
        if (rc) {
            change_rows_back(change);
            claim_free(claim);
            return rc;
        }
        change->claim = claim;
        change->new_claim = true;
    }
    if (claim && !claim->system && change->n_fresh)
        rc = rows_arrange(engine->rows, claim, conflict, change, &change->err);
    if (rc == 0 && change->new_claim && change->before)
        rows_hold(change);
    return rc;
}

/* ---- what the engine does by itself ---- */

static int plan_deaths(struct change *change)
{
    struct pmc *pmc = change->pmc;

    for (unsigned i = 0; i < pmc->links->n; i++) {
        struct link *link = pmc->links->link[i];
        struct replaced *replaced = link_dead(pmc, link) ? add_replaced(change, link) : NULL;

        if (!replaced)
            continue;
        replaced->ended = link_remains(link, pmc_events(pmc));
        if (!replaced->ended)
            return no_memory(change);
        replaced->ended->ended = true;
    }
    return 0;
}

bool change_cpus_differ(const struct pmc *pmc)
{
    if (pmc->cpus_refused)
        return false;
    for (unsigned i = 0; i < pmc->links->n; i++) {
        const struct link *link = pmc->links->link[i];

        if (link->kind == TARGET_CPU && !link->ended &&
            link->offline == cpus_has(&pmc->engine->online, link->cpu))
            return true;
        if (link->kind == TARGET_CGROUP && link->stale)
            return true;
    }
    return pmc->wants_all && pmc->cpus_stale;
}

static int plan_cpus(struct change *change)
{
    static const struct target_word all = { .word = { "all", 3 }, .kind = TARGET_CPU, .all = true };
    struct pmc *pmc = change->pmc;
    struct engine *engine = change->engine;
    int rc = 0;

    change->start_fresh = !state_table[pmc->state].open;
    for (unsigned i = 0; i < pmc->links->n; i++) {
        struct link *link = pmc->links->link[i];
        bool online = link->kind != TARGET_CPU || cpus_has(&engine->online, link->cpu);
        bool moved = link->kind == TARGET_CPU ? link->offline == online : link->stale;
        struct replaced *replaced;

        if (link->ended || link->kind < TARGET_CPU || !moved)
            continue;
        if (!(replaced = add_replaced(change, link)))
            return no_memory(change);
        if (online) {
            replaced->successor = add_successor(change, link);
        } else {
            replaced->ended = link_remains(link, pmc_events(pmc));
            if (replaced->ended)
                replaced->ended->offline = true;
        }
        if (!replaced->successor && !replaced->ended)
            return no_memory(change);
    }
    if (pmc->wants_all) {
        change->wants_all = false;
        rc = want_cpus(change, &all);
    }
    return rc;
}

/* ---- all of it ---- */

/* Of the descriptors that are left, the owner may use what max_fds_per_user leaves. */
static void limit_descriptors(struct change *change)
{
    uint64_t limit = tunable_u64(&change->engine->tunables, TUNABLE_MAX_FDS_PER_USER), used = 0, id = 0;

    for (struct pmc *pmc; (pmc = ids_next(&change->engine->pmcs, id, &id));)
        for (unsigned i = 0; pmc->uid == change->pmc->uid && i < pmc->links->n; i++)
            used += pmc->links->link[i]->counter ? pmc->links->link[i]->facts.descriptors : 0;
    uint64_t left = limit > used ? limit - used : 1;
    if (change->fds_free > left)
        change->fds_free = left;
}

static void decide_start(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    bool on = change->want.value[KEY_AUTOSTART];

    if (change->verb || change->cause != CAUSE_COMMAND)
        return;
    if (!state_table[pmc->state].open)
        change->start_fresh = true;
    else if (change->n_wanted && on &&
             (change->new_set || pmc->state == PMC_NEW || pmc->state == PMC_ALLOCATED ||
              pmc->state == PMC_EXITED))
        change->start_fresh = change->n_fresh > 0;
    if (change->start_fresh && state_table[pmc->state].open)
        change->start = true; /* those attached earlier without a start, too */
}

static int check_command(struct change *change)
{
    static int (*const steps[])(struct change *) = {
        check_open, check_set_needed, change_effective, check_places, check_available, check_scope,
        check_rights, check_verb, check_targets, check_lifetime, check_rows,
    };
    int rc = 0;

    find_reopen(change);
    if (change->pmc->set && !change->new_set && (change->given & GIVEN(KEY_COUNT)) &&
        !settings_same(&change->want, &change->pmc->settings, KEY_COUNT))
        change->put = true; /* an initial value acts at once, as the value of `count` does */
    for (unsigned i = 0; rc == 0 && i < sizeof steps / sizeof steps[0]; i++)
        rc = steps[i](change);
    return rc;
}

int change_check(struct change *change)
{
    int rc;

    if (change->cause == CAUSE_DEATHS)
        rc = plan_deaths(change);
    else if (change->cause == CAUSE_CPUS)
        rc = check_set_needed(change) ? -EINVAL : plan_cpus(change);
    else
        rc = check_command(change);
    if (change->put)
        change->read = true;
    if (rc == 0)
        rc = plan_kept(change);
    if (rc)
        return rc;
    decide_start(change);
    for (unsigned i = 0; i < change->n_fresh; i++)
        change->fresh[i]->armed = change->want.value[KEY_START] && change->start_fresh;
    change->links = links_new(change->pmc->links->n + change->n_fresh + change->n_replaced);
    change->base = change->new_set ? tally_new(change->set->n) : NULL;
    if (!change->links || (change->new_set && !change->base))
        return no_memory(change);
    change->attach_ns = tunable_u64(&change->engine->tunables, TUNABLE_ATTACH_MS) * 1000000;
    change->max_covered =
        (unsigned)tunable_u64(&change->engine->tunables, TUNABLE_MAX_COVERED_PER_PMC);
    change->fds_free = 1; /* 0 would mean: no limit */
    if (change->engine->fds_used + FDS_KEPT + 1 < change->engine->fd_limit)
        change->fds_free = change->engine->fd_limit - change->engine->fds_used - FDS_KEPT;
    if (change->n_fresh && !change->superuser)
        limit_descriptors(change);
    return rc;
}
