/*
 * Checks of a command, in hwpmc's order: settings, mode, scope, rights, verb.
 */
#include "core/change/plan.h"

#include <string.h>

/* ---- settings ---- */

/* Returns true for a write to the file `count`, not for count= in config. */
static bool writes_count_file(const struct change *change)
{
    return change->desired.sets_count && strcmp(change->file, "count") == 0;
}

/* Refuses settings that cannot change in this state. */
static int check_settable(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    const struct state_row *state = &state_table[pmc->state];

    if (!state->started || (pmc->state == PMC_WAITING && !writes_count_file(change)))
        return 0; /* a waiting PMC has no counters */
    if (writes_count_file(change))
        return err_set(&change->err, E06,
                       "%s is %s: write \"stop\" to ctl before you write its count", pmc->name,
                       state->name);
    for (unsigned key = 0; key < KEYS; key++) {
        const bool differs =
            key == KEY_EVENT ? change->desired.new_set
                             : key != KEY_TARGET && !settings_same(&change->desired.settings,
                                                                   &pmc->settings, (enum key)key);

        if (!(change->desired.command_keys & KEY_BIT(key)) || !differs)
            continue;
        if (key == KEY_LOG)
            return err_set(&change->err, P06,
                           "%s is %s: before you change log, write \"close\" to ctl (ends the log, "
                           "and stops the PMC if it needs a log) or \"stop\"",
                           pmc->name, state->name);
        return err_set(&change->err, key == KEY_COUNT ? E07 : P06,
                       "%s is %s: write \"stop\" to ctl before %s is changed", pmc->name,
                       state->name, key_table[key].name);
    }
    return 0;
}

/* Checks the number of initial values. Values of an earlier set stay, except surplus ones. */
static int check_counts(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    const struct desired *desired = &change->desired;
    struct settings *settings = &change->desired.settings;
    const bool given = desired->command_keys & KEY_BIT(KEY_COUNT);
    const unsigned n = settings->n_counts, events = desired->set ? desired->set->n : n;

    if (n == events)
        return 0;
    if (given && !writes_count_file(change) && !desired->new_set &&
        settings_same(settings, &pmc->settings, KEY_COUNT))
        return 0; /* the present value is written again */
    if (given || (!pmc->set && !settings_standard(settings, KEY_COUNT)))
        return err_set(&change->err, P02, "count: %u value%s%s for %u event%s: write %u number%s%s",
                       n, n == 1 ? "" : "s", given ? "" : ", written before,", events,
                       events == 1 ? "" : "s", events, events == 1 ? "" : "s, separated by commas",
                       given ? "" : ", in one command to config with event=");
    if (n > events)
        settings->n_counts = events;
    return 0;
}

/* Refuses settings that this mode or these targets cannot have (key_table[].modes), period with
 * freq, and a wrong number of counts. */
static int check_applicable(struct change *change)
{
    const struct settings *settings = &change->desired.settings;
    const struct mode_row *mode = &mode_table[settings->mode];
    const bool processes =
        !mode->system && (pmc_links_left(change->pmc) || change_attaches(change));

    for (unsigned key = 0; key < KEYS; key++) {
        bool misplaced = (key_table[key].modes == MODES_SAMPLING && !mode->sampling) ||
                         (key_table[key].modes == MODES_PROCESS && mode->system) ||
                         (key_table[key].modes == MODES_CPUS && processes);
        char room[64];
        struct buf value = buf_in(room, sizeof room);

        if (!misplaced || settings_standard(settings, key))
            continue;
        settings_print(settings, key, 0, &value);
        const enum err_id id = key_table[key].modes == MODES_PROCESS ? X05
                               : key == KEY_CALLCHAIN && settings->word[key] == CALLCHAIN_USER
                                   ? X04
                                   : P07;
        int rc =
            err_set(&change->err, id, "%s=%s cannot be used in mode %s%s", key_table[key].name,
                    buf_text(&value), mode->name,
                    key_table[key].modes == MODES_SAMPLING
                        ? settings->written_keys & KEY_BIT(KEY_MODE)
                              ? mode->system ? ": write mode=system-sampling"
                                             : ": write mode=process-sampling"
                              : ": it needs sampling, so set period= or freq= too"
                    : key_table[key].modes == MODES_CPUS
                        ? ": it is for CPUs only"
                        : ": it is for processes only, and CPUs and cgroups (cgroup:/ too) are "
                          "counted system-wide");
        buf_free(&value);
        return rc;
    }
    if (settings_number(settings, KEY_PERIOD) != UINT64_MAX &&
        settings_number(settings, KEY_FREQ) != UINT64_MAX)
        return err_set(&change->err, P07,
                       "period and freq cannot both be set: write period=off or freq=off");
    return check_counts(change);
}

/* ---- mode and scope ---- */

static bool implies_scope(const struct desired *desired, bool system)
{
    for (unsigned i = 0; i < desired->targets.n; i++)
        if (!desired->targets.items[i].word.remove &&
            wanted_is_system(&desired->targets.items[i]) == system)
            return true;
    for (unsigned i = 0; system && desired->set && i < desired->set->n; i++)
        if (!(desired->set->event[i].scope & EVENT_PROCESS))
            return true;
    return false;
}

/* Chooses the mode from the command, targets and settings, unless it was written. Refuses to change
 * between processes and CPUs while targets are attached (P17). Another mode restarts the count. */
static int choose_mode(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    const bool attached = pmc_links_left(pmc) > 0, was_system = mode_table[pmc->mode_in_use].system;
    struct desired *desired = &change->desired;
    struct settings *settings = &desired->settings;

    if (!(settings->written_keys & KEY_BIT(KEY_MODE))) {
        /* Without targets the scope stays too, unless the command writes other events or a target.
         */
        bool asked = desired->new_set || implies_scope(desired, false);
        bool system = implies_scope(desired, true) || ((attached || !asked) && was_system);
        bool samples = settings->word[KEY_OFFCPU] ||
                       settings_number(settings, KEY_PERIOD) != UINT64_MAX ||
                       settings_number(settings, KEY_FREQ) != UINT64_MAX;

        if (attached && !desired->new_set)
            system = was_system;
        settings->mode = system ? (samples ? SYSTEM_SAMPLING : SYSTEM_COUNTING)
                                : (samples ? PROCESS_SAMPLING : PROCESS_COUNTING);
    }
    if (attached && mode_table[settings->mode].system != was_system)
        return err_set(&change->err, P17,
                       "%s is attached in mode %s: write \"detach\" to ctl before you change "
                       "between processes and CPUs",
                       pmc->name, mode_table[pmc->mode_in_use].name);
    if (pmc->set && settings->mode != pmc->mode_in_use)
        desired->new_set = change->diff.reopen = true; /* restart from the initial values */
    return 0;
}

/* Refuses a target of the other scope: a process with CPUs, or a CPU with processes. */
static int refuse_scope(struct change *change, const struct mode_row *mode)
{
    for (unsigned i = 0; i < change->desired.targets.n; i++) {
        const struct wanted *wanted = &change->desired.targets.items[i];

        if (wanted_is_system(wanted) == mode->system)
            continue;
        return err_set(
            &change->err, mode->system ? E26 : E22,
            "%s counts %s (mode %s), so \"" WORD_FMT "\" cannot be a target: write %s, or %s",
            change->name, mode->system ? "CPUs and cgroups" : "processes", mode->name,
            WORD_ARG(wanted->word.word), mode->system ? "cpu0, all or cgroup:/PATH" : "a PID",
            pmc_links_left(change->pmc) ? "first \"detach\" to ctl" : "another mode to mode");
    }
    return 0;
}

/* Refuses words of the other scope in a write to `target` before processes are looked up, as hwpmc
 * does. */
int check_target_scope(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    const struct settings *settings = &change->desired.settings;

    if (strcmp(change->file, "target") != 0)
        return 0; /* config is checked in the order of check_command() */
    if (settings->written_keys & KEY_BIT(KEY_MODE))
        return refuse_scope(change, &mode_table[settings->mode]);
    return pmc_links_left(pmc) ? refuse_scope(change, &mode_table[pmc->mode_in_use]) : 0;
}

static int check_scope(struct change *change)
{
    const struct desired *desired = &change->desired;
    const struct mode_row *mode = &mode_table[desired->settings.mode];

    for (unsigned i = 0; desired->set && i < desired->set->n; i++) {
        const struct event *event = &desired->set->event[i];

        if (event->scope & (mode->system ? EVENT_CPU | EVENT_PACKAGE : EVENT_PROCESS))
            continue;
        return err_set(&change->err, P30,
                       "\"%s\" cannot be counted in mode %s: it counts only for %s: write mode=%s",
                       event->written, mode->name,
                       mode->system ? "processes" : "CPUs or processor packages",
                       mode_table[mode->system ? PROCESS_COUNTING : SYSTEM_COUNTING].name);
    }
    return refuse_scope(change, mode);
}

/* ---- rights ---- */

enum right {
    RIGHT_KERNEL,
    RIGHT_SYSTEM,
    RIGHT_ALL
};

/* Returns the end of a sentence: the right that is needed. */
static const char *needs(const struct change *change, enum right right)
{
    static const char *const needed[][2] = {
        /* { at the root, in an instance } */
        [RIGHT_KERNEL] = {"needs CAP_PERFMON (or the tunable unprivileged_kernel)",
                          "the administrator of this instance does not allow (kernel_mode is 0)"},
        [RIGHT_SYSTEM] = {"needs CAP_PERFMON (or the tunable unprivileged_syspmcs)",
                          "the administrator of this instance does not allow (system_scope is 0)"},
        [RIGHT_ALL] = {"needs CAP_PERFMON, whatever the tunables say",
                       "is not possible in an instance"},
    };
    return needed[right][change->requester.in_instance];
}

int refuse_system(struct change *change)
{
    return err_set(&change->err, X07, "counting CPUs or cgroups %s", needs(change, RIGHT_SYSTEM));
}

/* Checks the right to system scope for targets that are attached or reopened. */
int check_system(struct change *change)
{
    const struct requester *requester = &change->requester;
    const enum mode mode = change->desired.settings.mode;
    const bool samples = mode == SYSTEM_SAMPLING;
    bool opens = change_attaches(change) || (change->diff.reopen && pmc_links_left(change->pmc));

    if (!opens || !mode_table[mode].system ||
        (samples ? requester->superuser : requester->may_system))
        return 0;
    if (!samples)
        return refuse_system(change);
    return err_set(&change->err, X07, "mode system-sampling shows the work of all users, and %s",
                   needs(change, RIGHT_ALL));
}

int refuse_kernel(struct change *change, const char *event, const char *instead)
{
    return err_set(&change->err, P18, "\"%s\" counts kernel mode, and that %s%s", event,
                   needs(change, RIGHT_KERNEL), instead);
}

/* Checks kernel=on. It may stay on in a PMC that was given to the user. */
static int check_kernel_on(struct change *change)
{
    const struct settings *settings = &change->desired.settings;
    bool asks_kernel = change->desired.command_keys & KEY_BIT(KEY_KERNEL) &&
                       settings->word[KEY_KERNEL] &&
                       !settings_same(settings, &change->pmc->settings, KEY_KERNEL);

    if (!asks_kernel || change->requester.may_kernel)
        return 0;
    return err_set(&change->err, P18, "kernel=on counts kernel mode, and that %s",
                   needs(change, RIGHT_KERNEL));
}

int check_event_rights(struct change *change)
{
    const struct requester *requester = &change->requester;
    int rc = check_kernel_on(change);

    for (unsigned i = 0; !rc && i < change->desired.set->n; i++) {
        const struct plan_event *plan = &change->desired.events[i];
        const struct event *event = plan->event;
        bool kernel = plan->kernel, counts_nothing = !plan->user && !plan->kernel;

        if (event->counts_both_modes) {
            /* Every user may count these events, unless the spelling has :k. They are refused too
             * if the settings turn off both modes and the spelling has no modifier. */
            kernel = event->kernel == MODIFIER_ON;
            counts_nothing = event->user == MODIFIER_NONE && event->kernel == MODIFIER_NONE &&
                             !change->desired.settings.word[KEY_USER] && !change->desired.kernel;
        }
        if (counts_nothing)
            return err_set(&change->err, P07,
                           requester->may_kernel
                               ? "user=off and kernel=off: \"%s\" would count nothing"
                               : "user=off leaves only kernel mode, and you may not count it (that "
                                 "needs CAP_PERFMON or unprivileged_kernel=1): \"%s\" would count "
                                 "nothing",
                           event->written);
        if (!requester->may_kernel && (kernel || event->needs_kernel))
            return refuse_kernel(change, event->written,
                                 event->needs_kernel            ? ""
                                 : event->kernel == MODIFIER_ON ? ": write it without :k or os"
                                                                : ": write kernel=off");
        if (event->needs_superuser && !requester->superuser)
            return err_set(&change->err, X07,
                           "\"%s\" also counts other processes than the target, and that %s",
                           event->written, needs(change, RIGHT_ALL));
        if (!(event->scope & EVENT_PROCESS) && !requester->may_system)
            return err_set(&change->err, X07, "\"%s\" counts only for CPUs, and that %s",
                           event->written, needs(change, RIGHT_SYSTEM));
    }
    return rc;
}

static int check_rights(struct change *change)
{
    bool counts = change->desired.new_set || change->diff.reopen || change_attaches(change);

    return counts && change->desired.set ? check_event_rights(change) : check_kernel_on(change);
}

/* ---- verbs ---- */

/* Refuses a PMC whose CPU targets are all offline. */
static int check_online(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    unsigned cpus = 0, offline = 0;

    for (unsigned i = 0; i < pmc->links->n; i++) {
        const struct link *link = pmc->links->link[i];

        cpus += link->kind == TARGET_CPU && link->state != LINK_ENDED;
        offline += link->state == LINK_OFFLINE;
    }
    if (cpus == 0 || cpus != offline)
        return 0;
    return err_set(&change->err, E38,
                   "every CPU of %s is offline: attach a CPU of info/cpus that is online",
                   pmc->name);
}

static int check_start(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    struct difference *diff = &change->diff;
    bool runs = state_table[pmc->state].started && pmc->state != PMC_LOST;

    if (pmc_links_left(pmc) == 0 && change->desired.targets.n == 0) {
        if (pmc->attached.any)
            return err_set(
                &change->err, E43,
                "%s cannot start: all its targets have exited. Write another one to target",
                pmc->name);
        return err_set(
            &change->err, E23,
            "%s counts in system scope: write cpu0-3, all or cgroup:/PATH to target first",
            pmc->name);
    }
    int rc = check_online(change);
    if (rc)
        return rc;
    for (unsigned i = 0; !runs && change->desired.settings.word[KEY_START] && i < pmc->links->n;
         i++)
        diff->reopen |= link_live(pmc->links->link[i]) && !pmc->links->link[i]->armed;
    diff->read = change->desired.verb == VERB_RESTART;
    diff->start = diff->start_opened = !runs || diff->read;
    return 0;
}

static void set_diff_stop(struct change *change)
{
    const struct pmc *pmc = change->pmc;

    change->diff.stop = state_table[pmc->state].started;
    change->diff.reopen |= pmc->state == PMC_ARMED; /* the kernel has no other way to disarm */
    change->diff.read |=
        change->diff.stop &&
        pmc->recording; /* put_remainder() logs the counts that are in no switch or exit record */
}

static int check_verb(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    const enum verb verb = change->desired.verb;
    int rc;

    switch (verb) {
    case VERB_START:
    case VERB_RESTART:
        return check_start(change);
    case VERB_STOP:
        if (pmc->state == PMC_ALLOCATED || !pmc->run.first_start_ns)
            return err_set(
                &change->err, X02,
                "%s was never started, so there is nothing to stop: write \"start\" first",
                pmc->name);
        rc = check_online(change);
        if (rc == 0)
            set_diff_stop(change);
        return rc;
    case VERB_RESET:
        change->diff.read = true;
        if (!state_table[pmc->state].started)
            return 0;
        return err_set(&change->err, E06,
                       "%s is %s: write \"stop\" to ctl before \"reset\", or write \"restart\"",
                       pmc->name, state_table[pmc->state].name);
    case VERB_FLUSH:
    case VERB_CLOSE:
        if (!pmc->settings.word[KEY_LOG])
            return err_set(
                &change->err, verb == VERB_CLOSE ? E14 : E15,
                "%s has no log to %s (log=off): write log=on to config while it is stopped",
                pmc->name, verb_table[verb].name);
        if (verb == VERB_FLUSH)
            return 0;
        change->desired.settings.word[KEY_LOG] = false;
        if (recorded_for(pmc->mode_in_use, &pmc->settings))
            set_diff_stop(change); /* the PMC cannot count without its log */
        return 0;
    default:
        return 0;
    }
}

/* ---- all checks ---- */

static int check_set_needed(struct change *change)
{
    const struct desired *desired = &change->desired;

    if (!desired->set && !change->pmc->set &&
        (desired->verb || desired->sets_count || desired->targets.n))
        return err_set(&change->err, P08, "%s has no event yet: write one to event",
                       change->pmc->name);
    return desired_set_fill(change);
}

int check_command(struct change *change)
{
    static int (*const checks[])(struct change *) = {
        check_settable,   check_set_needed, choose_mode,
        check_applicable, check_sampling,   check_scope,
        check_rights,     check_verb,       NULL,
    };
    struct desired *desired = &change->desired;
    const struct settings *present = &change->pmc->settings;

    change->diff.reopen = desired->new_set;
    for (unsigned key = 0; key < KEYS; key++)
        if (key_table[key].opens && key != KEY_EVENT && key != KEY_MODE &&
            !settings_same(&desired->settings, present, key))
            change->diff.reopen = true; /* the setting needs new counters */
    /* an initial value takes effect at once, like a write to `count` */
    if (change->pmc->set && !desired->new_set && (desired->command_keys & KEY_BIT(KEY_COUNT)) &&
        !settings_same(&desired->settings, present, KEY_COUNT))
        desired->sets_count = true;
    return run_steps(change, checks);
}
