/*
 * Stage three of a change, without the lock: counters are opened, started, stopped and read; and at the
 * end what is left over is closed. Until the commit nothing has happened to the PMC.
 */
#include "core/change.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A process found below the target: may the opener observe it, and is it somebody else's target? */
static int admit(void *arg, pid_t pid)
{
    const struct change *change = arg;
    const struct engine *engine = change->engine;

    for (unsigned i = 0; i < change->n_kept; i++)
        if (!change->kept[i].link->ended && change->kept[i].link->pid == pid)
            return 0;
    for (unsigned i = 0; i < change->n_fresh; i++)
        if (change->fresh[i]->pid == pid)
            return 0;
    if (change->superuser ||
        engine->host->may_observe_pid(engine->host_state, change->rights, pid) == 0)
        return 1;
    return -EPERM;
}

/* Opened anew for a changed setting: with the rights of who changes it. */
static int observable(struct change *change, const struct link *link)
{
    const struct engine *engine = change->engine;

    if (!link->recheck || change->superuser)
        return 0;
    if (link->kind == TARGET_CGROUP) {
        if (change->may_system ||
            engine->host->cgroup_may_move(engine->host_state, change->rights, link->cgroup_fd) == 0)
            return 0;
        return err_set(&change->err, X07, "cgroup:%s is counted for the superuser and for who may write "
                       "its cgroup.procs", link->cgroup);
    }
    if (link->pid == engine->host->caller_pid(engine->host_state, change->tid))
        return 0; /* its own process */
    if (!change->may_foreign)
        return err_set(&change->err, E40, "process %d: unprivileged_proc_debug is 0: only the superuser "
                       "observes other processes, everybody else only self", (int)link->pid);
    return engine->host->may_observe(engine->host_state, change->rights, link->proc->process,
                                     &change->err);
}

static int attach(struct change *change, struct link *link)
{
    const struct engine *engine = change->engine;
    struct plan plan = {
        .events = change->plan,
        .n = change->set->n,
        .target = { .kind = link->kind, .pid = link->pid, .tid = link->tid, .cpu = link->cpu,
                    .cgroup_fd = link->cgroup_fd, .alive = link_target_alive, .alive_arg = link },
        .descendants = change->want.value[KEY_DESCENDANTS],
        .at_exec = link->armed,
        .multiplex = change->want.value[KEY_MULTIPLEX],
        .deadline_ns = engine->host->now_ns(engine->host_state) + change->attach_ns,
        .max_covered = change->max_covered,
        .fds_free = change->fds_free,
        .admit = admit,
        .admit_arg = change,
        .tag = link->id,
    };
    int rc = observable(change, link);

    if (rc)
        return rc;
    rc = engine->backend->attach(engine->backend_state, &plan, &link->counter, &change->err);

    if (rc)
        return rc;
    engine->backend->facts_of(link->counter, &link->facts);
    change->fds_free -= link->facts.descriptors < change->fds_free ? link->facts.descriptors
                                                                   : change->fds_free;
    link->attached_ns = engine->host->now_ns(engine->host_state);
    return 0;
}

/* Attach all; of several, those that exited meanwhile are passed over. */
static int attach_all(struct change *change)
{
    unsigned attached = 0;

    for (unsigned i = 0; i < change->n_fresh; i++) {
        int rc = attach(change, change->fresh[i]);

        if (rc == -ESRCH && change->n_fresh > 1) {
            change_pass_over(change);
            continue;
        }
        if (rc)
            return rc;
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

/* Before its counters are opened: an exec in between is seen. Without it (no memory) none is. */
static void guard(struct engine *engine, struct proc *proc)
{
    const struct backend *backend = engine->backend;

    if (!backend->guard)
        return;
    if (proc->guard)
        backend->unguard(proc->guard);
    proc->guard = NULL;
    backend->guard(engine->backend_state, engine->host->process_pid(proc->process), proc->id,
                   &proc->guard);
}

static void watch_all(struct change *change)
{
    const struct host *host = change->engine->host;

    for (unsigned i = 0; i < change->n_fresh; i++) {
        struct proc *proc = change->fresh[i]->proc;

        if (!change->fresh[i]->watch)
            continue;
        host->process_watch(proc->process, proc->id);
        if (change->fresh[i]->kind == TARGET_PROCESS)
            guard(change->engine, proc);
    }
    if (change->unguarded)
        guard(change->engine, change->unguarded);
    if (change->watch_owner)
        host->process_watch(change->owner->process, change->owner->id);
}

static void look(const struct backend *backend, const struct link *link, struct tally *out, unsigned n)
{
    struct reading reading;

    if (backend->read(link->counter, &reading) == 0)
        tally_take(out, &reading, n);
}

/* Links that leave are stopped first, so that nobody reads more than what remains. */
static void stop_and_look(struct change *change)
{
    const struct backend *backend = change->engine->backend;
    unsigned n = pmc_events(change->pmc);

    for (unsigned i = 0; i < change->n_kept; i++) {
        struct kept *kept = &change->kept[i];

        if (change->stop && link_live(kept->link))
            backend->stop(kept->link->counter);
        if (kept->now)
            look(backend, kept->link, kept->now, n);
    }
    for (unsigned i = 0; i < change->n_replaced; i++) {
        struct replaced *replaced = &change->replaced[i];

        if (!replaced->link->counter)
            continue;
        if (change->cause == CAUSE_COMMAND || change->cause == CAUSE_DROPPED)
            backend->stop(replaced->link->counter);
        look(backend, replaced->link, replaced->last, n);
    }
}

void change_apply(struct change *change)
{
    struct engine *engine = change->engine;

    watch_all(change);
    change->rc = attach_all(change);
    /* restart: the new run begins at what is read now. CPUs: nothing is counted by two counters. */
    bool look_first = (change->read && change->start) || change->cause == CAUSE_CPUS ||
                      change->cause == CAUSE_DROPPED;
    if (change->rc == 0 && look_first)
        stop_and_look(change);
    if (change->rc == 0)
        change->rc = start_all(change);
    if (change->rc == 0 && !look_first)
        stop_and_look(change);
    for (unsigned i = 0; change->rc && i < change->n_kept; i++)
        if (change->kept[i].started && state_table[change->pmc->state].open)
            engine->backend->stop(change->kept[i].link->counter);
}

void change_clean(struct change *change)
{
    struct engine *engine = change->engine;

    links_destroy(engine, change->dead);
    change->dead = NULL;
    for (struct proc *proc; (proc = change->dead_procs);) {
        change->dead_procs = proc->next_dead;
        proc_destroy(engine, proc);
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
