/*
 * Stage three of a change, without the lock: counters are opened, started, stopped and read; and at
 * the end what is left over is closed. Until the commit nothing has happened to the PMC.
 */
#include "core/change.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct admission {
    const struct change *change;
    const struct rights *rights; /* of who attaches, or attached; NULL: the superuser's */
};

/* The process is a target of its own: counted once. Of one with a thread for a target the other
 * threads are left out. */
static int apart(const struct link *link)
{
    return link->kind == TARGET_THREAD ? -EPERM : 0;
}

/* A process found below the target: may the opener observe it, and is it somebody else's target? */
static int admit(void *arg, pid_t pid)
{
    const struct admission *admission = arg;
    const struct change *change = admission->change;
    const struct engine *engine = change->engine;
    int rc;

    if (engine->host->now_ns(engine->host_state) >= change->deadline_ns)
        return -EPERM; /* the attach is over in any case */
    for (unsigned i = 0; i < change->n_kept; i++)
        if (!change->kept[i].link->ended && change->kept[i].link->pid == pid)
            return apart(change->kept[i].link);
    for (unsigned i = 0; i < change->n_fresh; i++)
        if (change->fresh[i]->pid == pid)
            return apart(change->fresh[i]);
    rc = engine->host->may_observe_pid(engine->host_state, admission->rights, pid);
    return rc == 0 ? 1 : rc == -ESRCH ? 0 : -EPERM; /* one that has ended is not left out */
}

/* As who commands it knows the process or thread; 0: not at all. */
static pid_t number_said(const struct change *change, const struct link *link)
{
    const struct engine *engine = change->engine;

    if (link->said || link->kind > TARGET_THREAD || change->cause != CAUSE_COMMAND)
        return link->said;
    return engine->host->process_seen_by(engine->host_state, change->tid,
                                         link->kind == TARGET_THREAD ? link->tid : link->pid);
}

/* It is the process of who writes. */
static bool is_own(const struct change *change, const struct link *link)
{
    const struct engine *engine = change->engine;

    return change->cause == CAUSE_COMMAND &&
           link->pid == engine->host->caller_pid(engine->host_state, change->tid);
}

/* Opened anew for a changed setting: with the rights of who changes it. */
static int observable(struct change *change, const struct link *link)
{
    const struct engine *engine = change->engine;

    if (!link->recheck || change->superuser)
        return 0;
    if (!change->may_foreign && !is_own(change, link))
        return err_set(&change->err, E40,
                       "process %d: unprivileged_proc_debug is 0: only the superuser "
                       "observes other processes, everybody else only self",
                       (int)number_said(change, link));
    return engine->host->may_observe(engine->host_state, change->rights, link->proc->process,
                                     &change->err);
}

/* May who attaches observe what the process runs by now? Nobody asks about the superuser's links.
 */
static int still_observable(struct change *change, const struct link *link)
{
    const struct engine *engine = change->engine;

    if (!link->rights || !link->proc)
        return 0;
    return engine->host->may_observe(engine->host_state, link->rights, link->proc->process,
                                     &change->err);
}

static int open_counter(struct change *change, struct link *link)
{
    const struct engine *engine = change->engine;
    bool command = change->cause == CAUSE_COMMAND && !link->again;
    struct admission admission = {
        .change = change,
        .rights = !command            ? link->rights
                  : change->superuser ? NULL
                                      : change->rights,
    };
    struct opening opening = change_opening(change);
    struct plan plan = link_plan(link, &opening);
    int rc;

    plan.target.said = number_said(change, link);
    plan.deadline_ns = change->deadline_ns;
    plan.attach_ms = change->attach_ns / 1000000;
    plan.max_covered = change->max_covered;
    plan.fds_free = change->fds_free;
    plan.fds_quota = change->fds_quota;
    plan.fds_limit = change_quota_name(change);
    plan.admit = admit;
    plan.admit_arg = &admission;
    rc = engine->backend->attach(engine->backend_state, &plan, &link->counter, &change->err);
    if (rc == 0 && opening.recording)
        link->recording = recording_ref(opening.recording);
    return rc;
}

void use_descriptors(unsigned long *left, unsigned n)
{
    if (*left != ULONG_MAX)
        *left -= n < *left ? n : *left;
}

/* Its numbers in the log are those that who attaches it knows. */
static void see_link(const struct change *change, struct link *link)
{
    const struct engine *engine = change->engine;

    link->shown_pid = engine->host->process_seen_by(engine->host_state, change->tid, link->pid);
    if (link->kind == TARGET_THREAD)
        link->shown_tid = engine->host->process_seen_by(engine->host_state, change->tid, link->tid);
}

/*
 * The counters are opened with the daemon's rights: an exec of a privileged program after the first
 * question is found by a second one, before they are started.
 */
static int attach(struct change *change, struct link *link)
{
    const struct engine *engine = change->engine;
    int rc = observable(change, link);

    if (rc == 0)
        rc = open_counter(change, link);
    if (rc)
        return rc;
    rc = still_observable(change, link);
    if (rc) {
        engine->backend->free(link->counter);
        link->counter = NULL;
        return rc;
    }
    engine->backend->facts_of(link->counter, &link->facts);
    use_descriptors(&change->fds_free, link->facts.descriptors);
    use_descriptors(&change->fds_quota, link->facts.descriptors);
    link->attached_ns = engine->host->now_ns(engine->host_state);
    if (!link->renews && link->kind <= TARGET_THREAD)
        see_link(change, link);
    return 0;
}

static void explain_quota(struct change *change)
{
    char said[sizeof change->err.text];

    if (change->err.id != P11 || change->fds_whose != QUOTA_HALF)
        return;
    memcpy(said, change->err.text, sizeof said);
    err_set(&change->err, P11,
            "%s: who is not the superuser may hold half of the %lu that pmcfs may "
            "open (RLIMIT_NOFILE), those that watch the targets included",
            said, change->engine->fd_limit);
}

/* Attach all; of several, those that exited meanwhile are passed over. */
static int attach_all(struct change *change)
{
    unsigned attached = 0;

    for (unsigned i = 0; i < change->n_fresh; i++) {
        struct link *link = change->fresh[i];
        int rc = change_goes_on(change);

        if (rc == 0)
            rc = attach(change, link);
        if (rc == -ESRCH && (change->n_fresh > 1 || link->again)) {
            change_pass_over(change, (struct word){"", 0});
            attached += link->again; /* nobody asked for it */
            continue;
        }
        if (rc) {
            explain_quota(change);
            return rc;
        }
        attached++;
    }
    if (change->n_fresh && !attached) {
        change->err = change->note;
        return -ESRCH;
    }
    return 0;
}

static int start_all(struct change *change)
{
    const struct backend *backend = change->engine->backend;
    int rc = 0;

    for (unsigned i = 0; rc == 0 && change->start && i < change->n_kept; i++) {
        struct kept *kept = &change->kept[i];

        if (!link_live(kept->link))
            continue;
        rc = backend->start(kept->link->counter, &change->err);
        kept->started = rc == 0;
    }
    for (unsigned i = 0; rc == 0 && change->start_fresh && i < change->n_fresh; i++)
        if (change->fresh[i]->counter)
            rc = backend->start(change->fresh[i]->counter, &change->err);
    return rc;
}

/* Before counters are opened: an exec in between is seen. Without a guard (no memory) none is. */
static int watch_all(struct change *change)
{
    struct engine *engine = change->engine;
    const struct host *host = engine->host;

    for (unsigned i = 0; i < change->n_watching; i++) {
        struct watching *watching = &change->watching[i];
        const struct proc *proc = watching->proc;
        int rc = watching->watch ? host->process_watch(proc->process, proc->id) : 0;

        watching->watched = watching->watch && (rc == 0 || rc == -ENOTSUP);
        if (rc && !watching->watched)
            return err_set(&change->err, P14, "the end of process %d cannot be watched: %s",
                           (int)host->process_pid(proc->process), err_errno_name(rc));
        if (watching->guard)
            engine->backend->guard(engine->backend_state, host->process_pid(proc->process),
                                   proc->id, &watching->made);
    }
    return 0;
}

static int look(const struct backend *backend, const struct link *link, struct tally *out,
                unsigned n)
{
    struct reading reading;
    int rc = backend->read(link->counter, &reading, true);

    if (rc == 0)
        tally_take(out, &reading, n);
    return rc;
}

/* Of links that stay the reading is what the command is about. */
static int look_at_kept(struct change *change)
{
    const struct backend *backend = change->engine->backend;
    unsigned n = pmc_events(change->pmc);

    for (unsigned i = 0; i < change->n_kept; i++) {
        struct kept *kept = &change->kept[i];

        if (change->stop && link_live(kept->link)) {
            backend->stop(kept->link->counter);
            kept->stopped = true;
        }
        if (kept->now && look(backend, kept->link, kept->now, n))
            return err_set(&change->err, P14,
                           "a counter of %s could not be read, so nothing was changed",
                           change->name);
    }
    return 0;
}

/* Of the dead too where they record: a backend that has all of what is off can tell what is
 * missing. */
static bool stops_who_leaves(const struct change *change)
{
    return change->cause == CAUSE_COMMAND || change->cause == CAUSE_DROPPED ||
           (change->cause == CAUSE_DEATHS && change->pmc->recording);
}

/*
 * Links that leave are stopped first, so that nobody reads more than what remains; one that cannot
 * be read leaves what was seen of it.
 */
int change_stop(struct change *change)
{
    const struct backend *backend = change->engine->backend;
    unsigned n = pmc_events(change->pmc);
    int rc = look_at_kept(change);

    for (unsigned i = 0; rc == 0 && i < change->n_replaced; i++) {
        struct replaced *replaced = &change->replaced[i];

        if (!replaced->link->counter)
            continue;
        if (stops_who_leaves(change)) {
            backend->stop(replaced->link->counter);
            replaced->stopped = true;
        }
        replaced->unread = look(backend, replaced->link, replaced->last, n) != 0;
    }
    return rc;
}

/* It failed: what was started or stopped runs, or not, as before. */
static void turn_back(struct change *change)
{
    const struct backend *backend = change->engine->backend;
    bool ran = !state_table[change->pmc->state].open;

    for (unsigned i = 0; i < change->n_kept; i++) {
        const struct kept *kept = &change->kept[i];

        if (kept->started && !ran)
            backend->stop(kept->link->counter);
        if (kept->stopped && ran)
            backend->start(kept->link->counter, &(struct err){.id = ERR_NONE});
    }
    for (unsigned i = 0; ran && i < change->n_replaced; i++)
        if (change->replaced[i].stopped)
            backend->start(change->replaced[i].link->counter, &(struct err){.id = ERR_NONE});
}

void change_apply(struct change *change)
{
    /* restart: the new run begins at what is read now. Others: nothing is counted by two counters.
     */
    bool look_first = (change->read && change->start) || change->cause == CAUSE_CPUS ||
                      change->cause == CAUSE_DROPPED || change->again;

    bool ends = change->stop || change->drain || (change->n_replaced && !change->n_fresh);

    change->rc = watch_all(change);
    if (change->rc == 0)
        change->rc = record_open(change);
    if (change->rc == 0)
        change->rc = attach_all(change);
    if (change->rc == 0)
        change->rc = change_book_opened(change);
    if (change->rc == 0 && !ends)
        record_hold(change);
    if (change->rc == 0 && look_first)
        change->rc = change_stop(change);
    if (change->rc == 0)
        change->rc = start_all(change);
    if (change->rc == 0 && !ends)
        record_begun(change);
    if (change->rc == 0 && !look_first)
        change->rc = change_stop(change);
    if (change->rc == 0 && ends)
        record_ended(change);
    if (change->rc)
        turn_back(change);
}

void change_clean(struct change *change)
{
    struct engine *engine = change->engine;

    links_destroy(engine, change->dead);
    change->dead = NULL;
    recording_leave(change->recording, false); /* of a change that failed */
    recording_leave(change->old_recording, engine->forgetting);
    change->recording = change->old_recording = NULL;
    if (change->view)
        engine->host->view_free(change->view);
    change->view = NULL;
    for (struct proc *proc; (proc = change->dead_procs);) {
        change->dead_procs = proc->next_dead;
        proc_destroy(engine, proc);
    }
    for (unsigned i = 0; i < change->n_watching; i++) {
        if (change->watching[i].made)
            engine->backend->unguard(change->watching[i].made);
        change->watching[i].made = NULL;
    }
    if (change->writer)
        engine->host->process_free(change->writer);
    change->writer = NULL;
    for (unsigned i = 0; i < change->n_wanted; i++) {
        if (change->wanted[i].process)
            engine->host->process_free(change->wanted[i].process);
        change->wanted[i].process = NULL;
        if (change->wanted[i].cgroup_fd >= 0)
            close(change->wanted[i].cgroup_fd);
        change->wanted[i].cgroup_fd = -1;
    }
}
