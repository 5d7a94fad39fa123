/*
 * The parts of a change without the lock: opens, stops, reads and starts counters, and after the
 * swap closes unused ones. The PMC's settings, links and counts do not change before the swap.
 */
#include "core/base/arena.h"
#include "core/change/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct admission {
    const struct change *change;
    const struct rights *rights; /* rights of the attach; NULL: the superuser's */
};

/* plan.admit: decides about a process below the target. Returns 1 if it is counted; 0 if it is a
 * target itself or has exited; -EPERM if one of its threads is a target, or the attacher may not
 * observe it. */
static int admit(void *arg, pid_t pid)
{
    const struct admission *admission = arg;
    const struct engine *engine = admission->change->engine;

    if (engine->host->now_ns(engine->host_state) >= admission->change->deadline_ns)
        return -EPERM; /* too late: the attach will be refused with P13 */
    EACH_MOVE (move, admission->change) {
        const struct link *link = move->next;

        if (link && link->pid == pid && link->state != LINK_ENDED)
            return link->kind == TARGET_THREAD ? -EPERM : 0;
    }
    int rc = engine->host->may_observe_pid(engine->host_state, admission->rights,
                                           admission->change->requester.opener, pid);
    if (rc == -ESRCH)
        return 0; /* an exited process is not counted as skipped */
    return rc == 0 ? 1 : -EPERM;
}

/* Returns the number of the process or thread for the requester; 0: not visible, a CPU or cgroup,
 * or a change of the engine. */
static pid_t number_shown(const struct change *change, const struct move *move)
{
    const struct engine *engine = change->engine;
    const struct link *link = move->next;

    if (move->written_number || link->kind > TARGET_THREAD || change->cause != CAUSE_COMMAND)
        return move->written_number;
    return engine->host->pid_seen_by(engine->host_state, change->call->tid, link_task(link));
}

/* Checks a reopened target with the requester's rights. */
static int check_reopened(struct change *change, const struct move *move)
{
    const struct engine *engine = change->engine;
    const struct requester *requester = &change->requester;
    const struct link *link = move->next;

    if (!move->recheck || requester->superuser)
        return 0;
    if (!requester->may_observe_others &&
        link->pid != engine->host->caller_pid(engine->host_state, change->call->tid))
        return err_set(&change->err, E40,
                       "process %d: unprivileged_proc_debug is 0: only the superuser may observe "
                       "other processes. Write self",
                       (int)number_shown(change, move));
    return engine->host->may_observe(engine->host_state, requester->rights, requester->opener,
                                     link->proc->process, &change->err);
}

/*
 * Opens the counter with the daemon's rights. Checks the attacher's rights a second time after
 * that, because the target may have executed a privileged program since the first check. Not needed
 * for the superuser.
 */
static int attach(struct change *change, const struct move *move)
{
    const struct engine *engine = change->engine;
    const struct host *host = engine->host;
    struct link *link = move->next;
    struct admission admission = {change, link->rights};
    struct opening opening = change_opening(change);
    struct plan plan = link_plan(link, &opening);
    int rc = check_reopened(change, move);

    if (rc)
        return rc;
    plan.target.shown = number_shown(change, move);
    plan.deadline_ns = change->deadline_ns;
    plan.attach_ms = change->attach_ns / 1000000;
    plan.fds_left = engine_fds_left(engine);
    plan.fds_quota = quota_fds_left(change);
    plan.fds_limit_name = change->fds_limit_name;
    plan.admit = admit;
    plan.admit_arg = &admission;
    rc = engine->backend->attach(engine->backend_state, &plan, &link->counter, &change->err);
    if (rc)
        return rc;
    if (opening.recording)
        link->recording = recording_ref(opening.recording);
    engine->backend->counter_facts(link->counter, &link->facts);
    rc = quota_charge_fds(change, link->facts.descriptors);
    if (rc == 0 && link->rights && link->proc)
        rc = host->may_observe(engine->host_state, link->rights, change->requester.opener,
                               link->proc->process, &change->err);
    if (rc) {
        engine->backend->free(link->counter);
        link->counter = NULL;
        return rc;
    }
    if (move->old || link->kind > TARGET_THREAD)
        return 0;
    /* PIDs in the log are those of the requester's namespace */
    link->shown_pid = host->pid_seen_by(engine->host_state, change->call->tid, link->pid);
    if (link->kind == TARGET_THREAD)
        link->shown_tid = host->pid_seen_by(engine->host_state, change->call->tid, link->tid);
    return 0;
}

/* Opens the counters of all moves with `opens`. If there are several, targets that have exited are
 * skipped; if all have, returns -ESRCH. */
static int attach_all(struct change *change)
{
    unsigned attached = 0;

    EACH_MOVE (move, change) {
        int rc = move->opens ? change_check_abort(change) : 0;

        if (!move->opens)
            continue;
        if (rc == 0)
            rc = attach(change, move);
        if (rc == -ESRCH && change->diff.n_opens > 1) {
            change_note_skipped(change, (struct word){"", 0});
            move->reason = "exited";
            continue;
        }
        if (rc)
            return rc;
        attached++;
    }
    if (!change->diff.n_opens || attached)
        return 0;
    change->err = change->note;
    return -ESRCH;
}

/*
 * Stops counters of leaving links (with diff.stop, of all) before it reads them, so that no reader
 * sees more than the kept value. With diff.read only, counters that stay are read while they run.
 * Also stops counters of dead targets, because the backend can then detect lost counts. If a
 * leaving link cannot be read, its last seen value is kept; if a staying link cannot be read, the
 * command fails.
 */
static int stop_and_read(struct change *change)
{
    const struct backend *backend = change->engine->backend;
    struct reading reading;

    EACH_MOVE (move, change) {
        struct counter *counter = move->old ? move->old->counter : NULL;
        const bool kept = move->next == move->old;

        if (!counter)
            continue;
        if (!kept || (change->diff.stop && link_live(move->old))) {
            int rc = backend->stop(counter);

            move->stopped = true;
            rc = kept && change->cause != CAUSE_RELEASE ? err_shortage(&change->err, rc) : 0;
            if (rc)
                return rc;
        }
        if (!move->old_counts)
            continue;
        move->was_read = backend->read(counter, &reading, true) == 0;
        if (move->was_read)
            tally_set(move->old_counts, &reading, pmc_values(change->pmc));
        else if (kept && change->cause != CAUSE_RELEASE)
            return err_set(&change->err, P14,
                           "a counter of %s could not be read, so nothing was changed: try again",
                           change->name);
    }
    return 0;
}

static bool move_starts(const struct change *change, const struct move *move)
{
    return move->next && link_live(move->next) &&
           (move->opens ? change->diff.start_opened : change->diff.start);
}

/*
 * In system scope: before the counters start, tracks new processes and reads the inventory of
 * existing ones. So every process with samples is known, even if it exits at once.
 */
static int record_all_processes(struct change *change)
{
    const struct backend *backend = change->engine->backend;
    struct change_recording *recording = &change->recording;
    bool any = false;

    if (!recording->held || !mode_table[change->desired.settings.mode].system)
        return 0;
    EACH_MOVE (move, change)
        if (move_starts(change, move)) {
            if (backend->track)
                backend->track(move->next->counter);
            any = move->tracked = true;
        }
    if (!any || change->cause != CAUSE_COMMAND)
        return 0;
    /* at each start, because new mappings are not recorded while stopped */
    recording_inventory(recording->held, 0, recording->held_ns, &recording->inventory);
    return recording->inventory.failed ? err_nomem(&change->err) : 0;
}

static int start_all(struct change *change)
{
    int rc = 0;

    EACH_MOVE (move, change) {
        if (rc || !move_starts(change, move))
            continue;
        rc = change->engine->backend->start(move->next->counter, &change->err);
        move->started = rc == 0;
    }
    return rc;
}

void change_open(struct change *change)
{
    static int (*const steps[])(struct change *) = {
        record_open,          attach_all, stop_and_read,           record_drain_and_hold,
        record_all_processes, start_all,  record_target_inventory, NULL};
    const struct engine *engine = change->engine;

    if (change->cause == CAUSE_RELEASE && !change->diff.stop)
        return;
    /* Open exec guards before the counters, so that no exec is missed. The next change that opens a
     * link of the process repeats a failed attempt. */
    EACH_MOVE (move, change)
        if (move->guards && engine->backend->guard(engine->backend_state, link_task(move->next),
                                                   move->next->proc->id, &move->guard) == 0)
            quota_hold_fds(change, 1);
    change->rc = run_steps(change, steps);
}

/* ---- after the swap ---- */

/* After a refusal: starts the counters that the change stopped, and stops counters that it started.
 * If the worker died before that, the next one does it (counters_start_or_stop()). */
static void undo_starts_and_stops(struct change *change)
{
    const struct backend *backend = change->engine->backend;
    bool ran = state_table[change->pmc->state].started;

    EACH_MOVE (move, change) {
        if ((move->started || move->tracked) && !ran && !move->opens)
            backend->stop(move->old->counter);
        if (move->stopped && ran)
            backend->start(move->old->counter, &(struct err){.id = ERR_NONE});
    }
}

void change_close(struct change *change)
{
    struct engine *engine = change->engine;
    const struct host *host = engine->host;

    if (change->rc)
        undo_starts_and_stops(change);
    if (change->recording.held)
        recording_hold(change->recording.held, false);
    EACH_MOVE (move, change) {
        if (move->guard) /* the replaced guard, which has fired */
            engine->backend->unguard(move->guard);
        if (move->watch)
            host->cgroup_unwatch(move->watch);
        fd_close(move->cgroup_fd);
        fd_close(move->root_fd);
    }
    targets_destroy(engine, &change->to_destroy);
    recording_leave(change->recording.made, false); /* not NULL only after a refusal */
    recording_leave(change->recording.old, engine->forgetting);
    for (unsigned i = 0; i < change->desired.targets.n; i++) {
        struct wanted *wanted = &change->desired.targets.items[i];

        if (wanted->process)
            host->process_free(wanted->process);
        fd_close(wanted->cgroup_fd);
        cpus_free(&wanted->word.cpus);
        free(wanted->cgroup);
    }
    if (change->writer)
        host->process_free(change->writer);
    if (change->recording.view)
        host->view_free(change->recording.view);
}
