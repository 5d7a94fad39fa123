/*
 * max_events_per_process: the limit of events on one process by all users, because each event costs
 * time at every fork and context switch. Includes events on its threads, and events inherited from
 * an ancestor with descendants=on, except the superuser's. A child has no more than its parent.
 */
#include "core/change/plan.h"
#include "core/users/users.h"

#include <stdlib.h>

/* A process and the number of events on it. */
struct load {
    pid_t pid;
    uint64_t events;
};

struct loads {
    VEC(struct load) of; /* sorted by PID */
    uint64_t adds;       /* events that load_add() adds */
    bool failed;         /* ENOMEM */
};

static void load_collect(void *arg, pid_t pid)
{
    struct loads *loads = arg;

    loads->failed |= vec_push(&loads->of, ((struct load){.pid = pid})) != 0;
}

static int by_pid(const void *a, const void *b)
{
    const struct load *one = a, *two = b;

    return (one->pid > two->pid) - (one->pid < two->pid);
}

static void load_add(void *arg, pid_t pid)
{
    struct loads *loads = arg;
    struct load *load =
        bsearch(&(struct load){.pid = pid}, loads->of.items, loads->of.n, sizeof *load, by_pid);

    if (load)
        load->events += loads->adds;
}

/* Adds inherited events. A counter that may have missed processes counts for all of them. */
static void add_inherited(struct loads *loads, const struct engine *engine,
                          const struct link *fresh)
{
    const struct backend *backend = engine->backend;
    const struct link *link;

    LIST_FOREACH (link, &engine->spreading, of_spreading) {
        /* a user without capabilities observes no process of another one */
        if (link->replaced ||
            (link->rights->payer != fresh->rights->payer && !link->rights->capabilities))
            continue;
        loads->adds = link->n_events;
        if (backend->covers(link->counter, 0))
            for (size_t i = 0; i < loads->of.n; i++)
                loads->of.items[i].events += link->n_events;
        else if (loads->of.n == 1 && backend->covers(link->counter, loads->of.items[0].pid))
            loads->of.items[0].events += link->n_events;
        else if (loads->of.n > 1)
            backend->processes(link->counter, load_add, loads);
    }
}

/* Returns the events of PMCs attached to this process or one of its threads. */
static uint64_t attached_to(const struct engine *engine, pid_t pid)
{
    uint64_t n = 0;
    const struct link *link;

    for (const struct proc *proc = procs_of(engine, pid); proc; proc = proc->peer)
        LIST_FOREACH (link, &proc->links, of_proc)
            n += link->replaced || link_spreads(link) ? 0 : link->n_events;
    return n;
}

/* Checks the limit for all processes, with the events of `fresh`. */
static int check_loads(struct change *change, struct loads *loads, const struct link *fresh,
                       uint64_t added, const char *where)
{
    const struct engine *engine = change->engine;
    const uint64_t limit = tunable_u64(&engine->tunables, TUNABLE_MAX_EVENTS_PER_PROCESS);

    add_inherited(loads, engine, fresh);
    for (size_t i = 0; i < loads->of.n; i++) {
        const struct load *load = &loads->of.items[i];
        const uint64_t n = load->events + attached_to(engine, load->pid) + added;

        if (n > limit)
            return err_set(&change->err, P11,
                           "%llu events on %s, and max_events_per_process allows %llu: use fewer "
                           "PMCs or events",
                           (unsigned long long)n, where, (unsigned long long)limit);
    }
    return 0;
}

int load_targets(struct change *change)
{
    EACH_MOVE (move, change)
        if (move->old && move->next != move->old)
            move->old->replaced = true;
    if (change->cause != CAUSE_COMMAND || change->asker.superuser)
        return 0;
    EACH_MOVE (move, change) {
        struct link *link = move->opens ? move->next : NULL;
        struct load load = {.pid = link ? link->pid : 0};
        struct loads loads = {.of = {&load, 1, 1}};

        if (!link || !link->proc || (move->old && move->old->n_events >= link->n_events))
            continue;
        int rc = check_loads(change, &loads, link, 0, "one process"); /* it is among the links */
        if (rc)
            return rc;
    }
    return 0;
}

int load_below(struct change *change)
{
    int rc = 0;

    EACH_MOVE (move, change) {
        struct link *link = move->opens ? move->next : NULL;
        struct loads loads = {.failed = false};

        if (rc || change->cause != CAUSE_COMMAND || change->asker.superuser || !link ||
            !link->counter || !link->proc || !change->desired.settings.word[KEY_DESCENDANTS])
            continue;
        change->engine->backend->processes(link->counter, load_collect, &loads);
        for (size_t i = 0; i < loads.of.n; i++)
            if (loads.of.items[i].pid == link->pid) {
                vec_remove(&loads.of, i); /* load_targets() has looked at it */
                break;
            }
        if (loads.of.n)
            qsort(loads.of.items, loads.of.n, sizeof loads.of.items[0], by_pid);
        rc = loads.failed
                 ? err_nomem(&change->err)
                 : check_loads(change, &loads, link, link->n_events, "a process below the target");
        free(loads.of.items);
    }
    return rc;
}
