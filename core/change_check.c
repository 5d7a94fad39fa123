/*
 * Stage two of a change, with the lock: what can be refused, in hwpmc's order: settings, event,
 * mode, rights, verb, targets, rows. The parts that look at settings, plan links and rows have
 * files of their own.
 */
#include "core/plan.h"

#include "core/access.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- mode and events ---- */

static bool asks_system(const struct change *change)
{
    for (unsigned i = 0; i < change->n_wanted; i++)
        if (!change->wanted[i].word.remove && wanted_is_system(&change->wanted[i]))
            return true;
    for (unsigned i = 0; change->set && i < change->set->n; i++)
        if (!(change->set->event[i].scope & EVENT_PROCESS))
            return true;
    return false;
}

static bool asks_process(const struct change *change)
{
    for (unsigned i = 0; i < change->n_wanted; i++)
        if (!change->wanted[i].word.remove && !wanted_is_system(&change->wanted[i]))
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
        bool asked = change->new_set || asks_process(change) || takes_mode_back(change);
        system = asks_system(change) || ((attached || !asked) && mode_table[pmc->effective].system);
        if (attached && !change->new_set)
            system = mode_table[pmc->effective].system;
        sampling = change->want.value[KEY_PERIOD] != UINT64_MAX ||
                   change->want.value[KEY_FREQ] != UINT64_MAX;
        change->effective = system ? (sampling ? SYSTEM_SAMPLING : SYSTEM_COUNTING)
                                   : (sampling ? PROCESS_SAMPLING : PROCESS_COUNTING);
        change->want.mode = change->effective;
    }
    if (attached && mode_table[change->effective].system != mode_table[pmc->effective].system)
        return err_set(&change->err, P17,
                       "%s is attached in mode %s: write \"detach\" to ctl before the "
                       "scope is changed",
                       pmc->name, mode_table[pmc->effective].name);
    if (pmc->set && change->effective != pmc->effective)
        change->new_set = true; /* a new mode starts afresh from the initial count */
    return 0;
}

/* A process where CPUs are counted, or the other way round. */
static int refuse_scope(const struct change *change, const struct mode_row *mode, struct err *err)
{
    const char *or_auto = change->want.given & GIVEN(KEY_MODE) && !pmc_live_links(change->pmc)
                              ? "; or write mode=auto to config, and the mode follows its targets"
                              : "";

    for (unsigned i = 0; i < change->n_wanted; i++) {
        const struct wanted *wanted = &change->wanted[i];

        if (wanted_is_system(wanted) == mode->system)
            continue;
        if (mode->system)
            return err_set(err, E26,
                           "\"" WORD_FMT "\" is a process, but %s counts in mode %s: "
                           "its targets are CPUs (cpu0, all) or a cgroup%s",
                           WORD_ARG(wanted->word.word), change->pmc->name, mode->name, or_auto);
        return err_set(err, E22,
                       "\"" WORD_FMT "\" is no process, but %s counts in mode %s: its "
                       "targets are PIDs%s",
                       WORD_ARG(wanted->word.word), change->pmc->name, mode->name, or_auto);
    }
    return 0;
}

/* hwpmc says so before it looks whether the process exists. */
int change_words(struct change *change, struct err *err)
{
    const struct pmc *pmc = change->pmc;

    if (strcmp(change->file, "target") != 0)
        return 0; /* the order of config is that of change_check() */
    if (change->want.given & GIVEN(KEY_MODE))
        return refuse_scope(change, &mode_table[change->want.mode], err);
    return pmc_live_links(pmc) && !change->n_names
               ? refuse_scope(change, &mode_table[pmc->effective], err)
               : 0;
}

static int check_scope(struct change *change)
{
    const struct mode_row *mode = &mode_table[change->effective];

    for (unsigned i = 0; change->set && i < change->set->n; i++) {
        const struct event *event = &change->set->event[i];
        bool fits = mode->system ? (event->scope & (EVENT_CPU | EVENT_PACKAGE)) != 0
                                 : (event->scope & EVENT_PROCESS) != 0;
        if (!fits)
            return err_set(&change->err, P30,
                           "\"%s\" cannot be counted in mode %s: its counters belong "
                           "to %s",
                           event->written, mode->name,
                           mode->system ? "a process" : "a CPU or package, not to a process");
    }
    return refuse_scope(change, mode, &change->err);
}

/* System scope, of targets that are attached now or opened anew. */
static int check_system(struct change *change)
{
    const bool samples = change->effective == SYSTEM_SAMPLING;
    bool opens = false;

    if (!mode_table[change->effective].system || (samples ? change->superuser : change->may_system))
        return 0;
    for (unsigned i = 0; i < change->n_wanted; i++)
        opens |= !change->wanted[i].word.remove;
    for (unsigned i = 0; change->reopen && i < change->pmc->links->n; i++)
        opens |= !change->pmc->links->link[i]->ended;
    if (!opens)
        return 0;
    if (samples && change->inside)
        return err_set(&change->err, X07,
                       "mode system-sampling sees what everybody does: it is not to be had in an "
                       "instance, for CPUs or for cgroups");
    if (samples)
        return err_set(&change->err, X07,
                       "mode system-sampling sees what everybody does: it needs CAP_PERFMON, "
                       "whatever unprivileged_syspmcs says, for CPUs and for cgroups");
    return change_refuse_system(change);
}

static bool attaches(const struct change *change)
{
    for (unsigned i = 0; i < change->n_wanted; i++)
        if (!change->wanted[i].word.remove)
            return true;
    return false;
}

static const char *needs_kernel(const struct change *change)
{
    return change->inside ? "the administrator of this instance does not allow (kernel_mode is 0)"
                          : "needs CAP_PERFMON (or the tunable unprivileged_kernel)";
}

int change_refuse_kernel(struct change *change, const char *event, const char *instead)
{
    return err_set(&change->err, P18, "\"%s\" counts kernel mode, which %s%s", event,
                   needs_kernel(change), instead);
}

/* Asked for neither mode. Of what is counted whole, too: it would count everything instead. */
static bool counts_nothing(const struct change *change, const struct plan_event *plan)
{
    const struct event *event = plan->event;

    if (!event->whole)
        return !plan->user && !plan->kernel;
    return event->user == SAID_NOTHING && event->kernel == SAID_NOTHING &&
           !change->want.value[KEY_USER] && !change->kernel;
}

/* What the system asks for beyond the right to kernel mode. */
static int check_beside(struct change *change, const struct event *event)
{
    if (event->needs_superuser && !change->superuser)
        return err_set(&change->err, X07, "\"%s\" tells more than what its target does: %s",
                       event->written,
                       change->inside ? "it is not to be had in an instance"
                                      : "it needs CAP_PERFMON, whatever the tunables say");
    if (event->scope & EVENT_PROCESS || change->may_system)
        return 0;
    return err_set(&change->err, X07, "\"%s\" is counted for whole CPUs alone, which %s",
                   event->written,
                   change->inside ? "the administrator of this instance does not allow "
                                    "(system_scope is 0)"
                                  : "needs CAP_PERFMON (or the tunable unprivileged_syspmcs)");
}

static int check_event_rights(struct change *change, const struct plan_event *plan)
{
    /* What is counted whole is counted for everybody, unless its spelling asks for kernel mode. */
    bool kernel = plan->event->whole ? plan->event->kernel == SAID_ON : plan->kernel;

    if (counts_nothing(change, plan))
        return err_set(&change->err, P07, "user=off and kernel=off%s: \"%s\" would count nothing",
                       change->may_kernel ? ""
                                          : ", as without CAP_PERFMON or the tunable "
                                            "unprivileged_kernel",
                       plan->event->written);
    if (change->may_kernel || (!kernel && !plan->event->needs_kernel))
        return check_beside(change, plan->event);
    return change_refuse_kernel(change, plan->event->written,
                                plan->event->needs_kernel ? ""
                                : plan->event->whole      ? ": write it without :k or os"
                                                          : ": write it with :u, or kernel=off");
}

/* Of a PMC that its owner was given, kernel=on may stay as it is. */
static int check_kernel_on(struct change *change)
{
    bool asks = change->given & GIVEN(KEY_KERNEL) && change->want.value[KEY_KERNEL] &&
                !settings_same(&change->want, &change->pmc->settings, KEY_KERNEL);

    return !asks || change->may_kernel
               ? 0
               : err_set(&change->err, P18, "kernel=on: kernel mode, which %s",
                         needs_kernel(change));
}

int change_rights(struct change *change)
{
    int rc = check_kernel_on(change);

    for (unsigned i = 0; !rc && i < change->set->n; i++)
        rc = check_event_rights(change, &change->plan[i]);
    return rc;
}

static int check_rights(struct change *change)
{
    bool counts = change->new_set || change->reopen || attaches(change);

    return counts && change->set ? change_rights(change) : check_kernel_on(change);
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
        return err_set(&change->err, E23,
                       "%s counts in system scope: write CPUs to target first (cpu0, "
                       "cpu0-3, all)",
                       pmc->name);
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

static void stop_now(struct change *change)
{
    change->stop = !state_table[change->pmc->state].open;
    change->reopen |= change->pmc->state == PMC_ARMED; /* the kernel knows no other way to disarm */
    change->read |= change->stop && change->pmc->recording; /* what steps and exits do not say */
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
        stop_now(change);
        return 0;
    case VERB_RESET:
        if (!state_table[pmc->state].open)
            return err_set(&change->err, E06,
                           "%s is %s: stop it before it is reset, or write restart", pmc->name,
                           state_table[pmc->state].name);
        change->read = true;
        return 0;
    case VERB_FLUSH:
        if (!pmc->settings.value[KEY_LOG])
            return err_set(&change->err, E15, "%s keeps no log (log=off)", pmc->name);
        change->drain = true;
        return 0;
    case VERB_CLOSE:
        if (!pmc->settings.value[KEY_LOG])
            return err_set(&change->err, E14, "%s keeps no log that could be ended (log=off)",
                           pmc->name);
        change->want.value[KEY_LOG] = false;
        change->drain = true;
        if (recorded_for(pmc->effective, &pmc->settings))
            stop_now(change); /* it needs one */
        return 0;
    case VERB_NONE:
    case VERB_DETACH:
    case VERBS:
        break;
    }
    return 0;
}

/* ---- all of it ---- */

static void decide_start(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    bool on = change->want.value[KEY_AUTOSTART];

    if (change->verb || change->cause != CAUSE_COMMAND)
        return;
    if (!state_table[pmc->state].open)
        change->start_fresh = true;
    else if (attaches(change) && on &&
             (change->new_set || pmc->state == PMC_NEW || pmc->state == PMC_ALLOCATED ||
              pmc->state == PMC_EXITED))
        change->start_fresh = change->n_fresh > 0;
    if (change->start_fresh && state_table[pmc->state].open)
        change->start = true; /* those attached earlier without a start, too */
}

static int check_command(struct change *change)
{
    static int (*const steps[])(struct change *) = {
        check_open,   check_set_needed, change_effective, check_places, check_sampling, check_scope,
        check_rights, check_verb,       plan_targets,     check_system, plan_lifetime,  plan_rows,
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

    change->cpus_serial = change->engine->cpus_serial;
    if (change->cause == CAUSE_DEATHS)
        rc = plan_deaths(change);
    else if (change->cause == CAUSE_DROPPED)
        rc = check_set_needed(change) ? -ENOMEM : plan_dropped(change);
    else if (change->cause == CAUSE_CPUS)
        rc = check_set_needed(change) ? -ENOMEM : plan_cpus(change);
    else
        rc = check_command(change);
    if (change->put)
        change->read = true;
    if (rc == 0)
        rc = plan_kept(change);
    if (rc)
        return rc;
    decide_start(change);
    rc = plan_log(change);
    if (rc)
        return rc;
    change->n_fresh_planned = change->n_fresh;
    for (unsigned i = 0; i < change->n_fresh; i++)
        change->fresh[i]->armed =
            change->want.value[KEY_START] && change->start_fresh && !change->fresh[i]->again;
    change->links = links_new(change->pmc->links->n + change->n_fresh + change->n_replaced);
    change->base = change->new_set ? tally_new(change->set->n) : NULL;
    if (!change->links || (change->new_set && !change->base))
        return plan_no_memory(change);
    change->max_covered =
        (unsigned)tunable_u64(&change->engine->tunables, TUNABLE_MAX_COVERED_PER_PMC);
    plan_limits(change);
    return rc;
}
