/*
 * The first part of a change, without the lock. For a command: parses it, resolves names, finds
 * processes and cgroups, and checks that the requester may observe them. For a change of the
 * engine: checks links that lost their events, and cgroups.
 */
#include "core/change/plan.h"
#include "core/pmc/metric.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A note longer than this gets only the words of further skipped targets, without reasons. */
#define REASONS_BYTES 80

int change_check_abort(struct change *change)
{
    const struct engine *engine = change->engine;

    if (slow_interrupted(change->call))
        return -EINTR; /* the requester no longer waits */
    if (atomic_load(&change->pmc->was_released))
        return err_set(&change->err, P26, "the PMC was released while the command waited");
    if (engine->host->now_ns(engine->host_state) < change->deadline_ns)
        return 0;
    return err_set(
        &change->err, P13,
        "finding and attaching the targets took longer than attach_ms (%llu milliseconds): nothing "
        "was attached. Write fewer at a time, or raise attach_ms in admin/tunables",
        (unsigned long long)change->attach_ns / 1000000);
}

/* ---- events ---- */

static bool same_names(const struct desired *desired, const struct pmc *pmc)
{
    const struct set *set = pmc->set;

    if (!set || set->n != desired->n_names ||
        strcmp(pmc->metrics ? pmc->metrics : "", desired->metrics ? desired->metrics : "") != 0)
        return false;
    for (unsigned i = 0; i < set->n; i++)
        if (strcmp(set->event[i].written, desired->names[i]) != 0)
            return false;
    return true;
}

static int is_event(void *name, const char *needed, struct err *err)
{
    (void)err;
    return strcmp(*(const char **)name, needed) == 0;
}

/* If a metric of the command needs the refused event `name`, adds the name of the metric to the
 * sentence. Returns the errno of the refusal, which is in rc. */
static int name_metric(struct change *change, const char *name, int rc)
{
    const struct err refusal = change->err;
    struct word word;
    struct scan scan = scan_of(word_of(change->desired.metrics ? change->desired.metrics : ""));

    while (scan_word(&scan, &word))
        if (metric_events(word, is_event, &name, NULL) == 1)
            return err_set(&change->err, refusal.id, WORD_FMT " needs %s: %s", WORD_ARG(word), name,
                           refusal.text);
    return rc;
}

/* Refuses sets whose hardware events belong to several classes. */
static int check_classes(struct change *change)
{
    const struct class_info *classes = change->engine->classes;
    const struct set *set = change->desired.set;
    const struct event *first = NULL;

    for (unsigned i = 0; i < set->n; i++) {
        const struct event *event = &set->event[i];

        if (!classes[event->class_index].hardware)
            continue;
        if (first && first->class_index != event->class_index)
            return err_set(&change->err, CS08,
                           "\"%s\" belongs to class %s and \"%s\" to class %s: use one PMC for "
                           "each hardware class",
                           first->written, classes[first->class_index].name, event->written,
                           classes[event->class_index].name);
        first = event;
    }
    return 0;
}

/* Resolves the names of new events, and opens the events and the set as a test. */
static int find_set(struct change *change)
{
    const struct backend *backend = change->engine->backend;
    struct backend_state *state = change->engine->backend_state;
    struct desired *desired = &change->desired;
    int rc = 0;

    if (desired->n_names == 0 || same_names(desired, change->pmc))
        return 0;
    desired->new_set = true;
    desired->set = set_new(desired->n_names);
    if (!desired->set)
        return err_nomem(&change->err);
    for (unsigned i = 0; rc == 0 && i < desired->n_names; i++) {
        const char *name = desired->names[i];
        struct event *event = &desired->set->event[i];

        rc = backend->resolve(state, name, event, &change->err);
        if (rc == 0)
            continue;
        if (event->needs_kernel && !change->requester.may_kernel)
            rc = refuse_kernel(change, name, "");
        else if (change->err.id == CS01 && metric_needs(name))
            rc = err_set(
                &change->err, P09,
                "\"%s\" cannot be counted: this host does not have the event (see events/)", name);
        rc = name_metric(change, name, rc);
    }
    if (rc == 0)
        rc = desired_set_fill(change);
    if (rc == 0) /* before the tests, whose results must not reach users without rights */
        rc = check_event_rights(change);
    for (unsigned i = 0; !rc && backend->verify && i < desired->set->n; i++) {
        rc = backend->verify(state, &desired->set->event[i], &change->err);
        if (rc)
            rc = name_metric(change, desired->names[i], rc);
    }
    if (rc == 0)
        rc = check_classes(change);
    return rc ? rc
              : backend->check_set(state, desired->events, desired->set->n,
                                   desired->settings.word[KEY_MULTIPLEX], &change->err);
}

/*
 * Tests the filter when it or the events are written. Skipped if the requester may not count one of
 * the events: check_event_rights() refuses that later.
 */
static int find_filter(struct change *change)
{
    const struct engine *engine = change->engine;
    const struct desired *desired = &change->desired;
    const struct set *set = desired->set ? desired->set : change->pmc->set;

    if (!desired->settings.filter || !set ||
        (!desired->new_set && !(desired->command_keys & KEY_BIT(KEY_FILTER))))
        return 0;
    if (!engine->backend->check_filter)
        return err_set(&change->err, P09,
                       "filter=%s: the backend \"%s\" does not support filters: write filter=off",
                       text_shown(desired->settings.filter), engine->backend->name);
    for (unsigned i = 0; i < set->n; i++)
        if (set->event[i].needs_kernel && !change->requester.may_kernel)
            return 0;
    return engine->backend->check_filter(engine->backend_state, set->event, set->n,
                                         desired->settings.filter, &change->err);
}

/* ---- targets ---- */

void change_note_skipped(struct change *change, struct word word)
{
    struct err note = change->note;

    if (note.id == ERR_NONE)
        change->note = change->err;
    else if (word.len == 0 || strlen(note.text) < REASONS_BYTES)
        err_set(&change->note, note.id, "%s; %s", note.text, change->err.text);
    else
        err_set(&change->note, note.id, "%s, " WORD_FMT, note.text, WORD_ARG(word));
    change->err = (struct err){.id = ERR_NONE};
}

static int find_process(struct change *change, struct wanted *wanted)
{
    struct engine *engine = change->engine;
    const struct host *host = engine->host;
    const struct requester *requester = &change->requester;
    const struct target_word *word = &wanted->word;
    int rc =
        host->process_open(engine->host_state, change->call->tid, word->self ? 0 : word->number,
                           word->kind == TARGET_THREAD, &wanted->process, &change->err);
    if (rc == 0)
        rc = quota_target_fd(change, word->remove);
    if (rc)
        return rc;
    wanted->pid = host->process_pid(wanted->process);
    wanted->tid = host->process_tid(wanted->process);
    if (!word->remove)
        host->process_name(wanted->process, wanted->name);
    if (word->remove || requester->superuser)
        return 0;
    if (!requester->may_observe_others &&
        !(word->self && requester->rights && change->call->uid == requester->rights->uid))
        return err_set(&change->err, E40,
                       WORD_FMT ": unprivileged_proc_debug is 0: only the superuser may observe "
                                "other processes. Write self",
                       WORD_ARG(word->word));
    rc = host->may_observe(engine->host_state, requester->rights, requester->opener,
                           wanted->process, &change->err);
    if (rc != -EPERM || !word->self)
        return rc;
    /* A user can make a privileged program write "self" to the user's descriptor. */
    struct err refusal = change->err;
    return err_set(
        &change->err, E40,
        "%s (self means the process that opened this file: open and write the file in the "
        "process to be counted)",
        refusal.text);
}

/* reattach: opens the root of the path, because the cgroup may not exist. Looks for the cgroup
 * after watching for its creation, so that no creation is missed. */
static int find_reattach_cgroup(struct change *change, struct wanted *wanted, const char *path)
{
    const struct engine *engine = change->engine;
    const struct host *host = engine->host;
    struct cgroup_watch *watch = NULL;
    int fd, rc = host->cgroup_root(engine->host_state, change->call->tid, path, &fd,
                                   &wanted->cgroup, &change->err);

    if (rc)
        return rc;
    wanted->cgroup_fd = fd;
    wanted->absent = true;
    rc = quota_target_fd(change, wanted->word.remove);
    if (rc || wanted->word.remove)
        return rc;
    rc = host->cgroup_watch(engine->host_state, fd, wanted->cgroup, change->pmc->id, &watch, &fd,
                            &change->err);
    if (watch)
        host->cgroup_unwatch(watch); /* the engine's own change watches the cgroup permanently */
    if (rc || fd < 0)
        return rc;
    close(wanted->cgroup_fd);
    wanted->cgroup_fd = fd;
    wanted->absent = false;
    return 0;
}

static int find_cgroup(struct change *change, struct wanted *wanted)
{
    struct engine *engine = change->engine;

    /* also for a detach, because its result reveals whether the cgroup exists */
    if (!change->requester.may_system)
        return refuse_system(change);
    char *path = strndup(wanted->word.path, wanted->word.path_len);
    if (!path)
        return err_nomem(&change->err);
    text_unescape(path);
    int rc = change->desired.settings.word[KEY_REATTACH]
                 ? find_reattach_cgroup(change, wanted, path)
                 : engine->host->cgroup_open(engine->host_state, change->call->tid, path,
                                             &wanted->cgroup_fd, &wanted->cgroup, &change->err);
    free(path);
    if (rc == 0 && !wanted->absent)
        wanted->cgroup_key = engine->host->cgroup_key(wanted->cgroup_fd);
    return rc;
}

static int find_targets(struct change *change)
{
    const struct engine *engine = change->engine;
    struct desired *desired = &change->desired;
    unsigned skipped = 0;
    int rc = 0;

    change->deadline_ns = engine->host->now_ns(engine->host_state) + change->attach_ns;
    /* requester.opener lets a process observe itself even if other processes of its user may not
     * observe it. Not with stacks, because those processes could read the samples. */
    if (desired->settings.word[KEY_CALLCHAIN] == CALLCHAIN_DWARF)
        change->requester.opener = NULL;
    for (unsigned i = 0; rc == 0 && i < desired->targets.n; i++) {
        struct wanted *wanted = &desired->targets.items[i];
        const struct target_word *word = &wanted->word;

        rc = change_check_abort(change);
        if (rc == 0 && word->kind == TARGET_CGROUP)
            rc = find_cgroup(change, wanted);
        else if (rc == 0 && word->kind != TARGET_CPU)
            rc = find_process(change, wanted);
        if (rc == -ESRCH && word->remove && !word->self) {
            rc = 0; /* plan_removed_target() refuses it */
        } else if (rc == -ESRCH && !word->remove && desired->targets.n > 1) {
            wanted->skipped = true;
            skipped++;
            change_note_skipped(change, word->word);
            rc = 0;
        }
    }
    if (rc || skipped == 0 || skipped < desired->targets.n)
        return rc;
    change->err = change->note;
    return -ESRCH;
}

/* ---- recording and exec checks ---- */

/* Finds the PID namespace and the limits for records. */
static int find_view_and_limits(struct change *change)
{
    const struct engine *engine = change->engine;
    const struct settings *settings = &change->desired.settings;

    change->recording.limits =
        (struct sample_limits){.max_freq = UINT64_MAX, .max_frames = UINT_MAX};
    if (!recorded_for(settings->mode, settings) &&
        !recorded_for(change->pmc->mode_in_use, settings) &&
        settings_number(settings, KEY_PERIOD) == UINT64_MAX &&
        settings_number(settings, KEY_FREQ) == UINT64_MAX && !settings->word[KEY_OFFCPU])
        return 0;
    engine->backend->sample_limits(engine->backend_state, &change->recording.limits);
    int rc =
        engine->host->view_open(engine->host_state, change->call->tid, &change->recording.view);
    if (rc == 0 || rc == -ESRCH)
        return 0;
    return err_set(&change->err, P15,
                   "pmcfs cannot see your PID namespace, whose PIDs the log would use: %s. Run "
                   "pmcfs in the host's PID namespace",
                   err_errno_name(rc));
}

/* With lifetime=owner, opens the process that writes. */
static int find_owner(struct change *change)
{
    const struct engine *engine = change->engine;
    const struct desired *desired = &change->desired;

    if (!(desired->command_keys & KEY_BIT(KEY_LIFETIME)) ||
        desired->settings.word[KEY_LIFETIME] != LIFETIME_OWNER)
        return 0;
    return engine->host->process_open(engine->host_state, change->call->tid, 0, false,
                                      &change->writer, &change->err);
}

/*
 * reattach: watches the cgroup, then checks whether it was created or removed, so that no creation
 * is missed. A link without a watch is new, or was loaded by this worker.
 */
static int check_reattach(struct change *change, struct move *move)
{
    const struct engine *engine = change->engine;
    const struct host *host = engine->host;
    const struct link *link = move->old;
    const bool waits = link_waits(link);
    bool changed = false;

    if (link->watch && !waits && host->cgroup_alive(link->cgroup_fd))
        return 0;
    move->root_fd = waits ? fcntl(link->cgroup_fd, F_DUPFD_CLOEXEC, 0)
                          : host->cgroup_reopen_root(link->cgroup_fd, link->cgroup);
    if (move->root_fd < 0)
        return err_set(&change->err, P14,
                       "cannot open the root of cgroup \"%s\": detach it and attach it again",
                       text_shown(link->cgroup));
    int rc = host->cgroup_watch(engine->host_state, move->root_fd, link->cgroup, change->pmc->id,
                                &move->watch, &move->cgroup_fd, &change->err);
    if (rc == 0)
        changed = waits ? move->cgroup_fd >= 0 : !host->cgroup_alive(link->cgroup_fd);
    if (changed)
        move->verdict = VERDICT_CGROUP_CHANGED;
    return rc;
}

/* Sets the verdict of each link that lost its events: are the attacher's rights sufficient for the
 * program that the process runs now? With reattach also inspects the cgroups. */
static int find_verdicts(struct change *change)
{
    const struct engine *engine = change->engine;
    const struct host *host = engine->host;

    change->deadline_ns = host->now_ns(engine->host_state) + change->attach_ns;
    EACH_MOVE (move, change) {
        const struct link *link = move->old;
        const struct process *process = link->proc ? link->proc->process : NULL;
        int rc = change->checks_cgroups && link->kind == TARGET_CGROUP && link->state != LINK_ENDED
                     ? check_reattach(change, move)
                     : 0;

        if (rc)
            return rc;
        if (move->verdict < VERDICT_CHECK)
            continue;
        if (link->kind == TARGET_THREAD && !host->process_alive(process))
            move->verdict = VERDICT_DEAD;
        if (move->verdict != VERDICT_CHECK)
            continue;
        if (host->process_headless(process))
            move->verdict = VERDICT_HEADLESS;
        else if (link->rights &&
                 host->may_observe(engine->host_state, link->rights, NULL, process, NULL) != 0)
            move->verdict = VERDICT_REFUSED;
        else
            move->verdict = VERDICT_RENEW;
    }
    return 0;
}

void change_find(struct change *change)
{
    static int (*const steps[])(struct change *) = {
        change_parse, check_target_scope, find_view_and_limits, find_set,
        find_filter,  find_targets,       find_owner,           NULL};

    change->rc = change->cause == CAUSE_COMMAND ? run_steps(change, steps) : find_verdicts(change);
}
