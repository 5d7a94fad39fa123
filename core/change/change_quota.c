/*
 * The limits of a change. Each descriptor counts as soon as it is opened: for all of pmcfs, and
 * for the user if it belongs to a counter or recording. After the swap the PMC holds the charge.
 * The number of events on one process is limited for all users together.
 */
#include "core/change/plan.h"

#include <limits.h>
#include <stdlib.h>

static unsigned long subtract_to_zero(unsigned long from, unsigned long n)
{
    return from > n ? from - n : 0;
}

unsigned long engine_fds_left(const struct engine *engine)
{
    return subtract_to_zero(engine->fd_limit, engine->fds_used + FDS_RESERVED);
}

unsigned long quota_fds_left(const struct change *change)
{
    unsigned long left = user_left(change->payer, USED_FDS, change->charged_fds);

    if (change->cause != CAUSE_COMMAND ||
        change->requester.superuser) /* also if another user pays */
        return ULONG_MAX;
    /* after the swap the replaced recording and counters are closed */
    if (change->recording.creates || !change->recording.kinds)
        left += change->pmc->recorded.fds;
    EACH_MOVE (move, change)
        if (move->old && move->next != move->old && move->old->counter)
            left += move->old->facts.descriptors;
    return subtract_to_zero(left, change->charged_fds);
}

void quota_hold_fds(struct change *change, unsigned n)
{
    change->held_fds += n;
    change->engine->fds_used += n;
}

int quota_charge_fds(struct change *change, unsigned n)
{
    const unsigned long left = quota_fds_left(change);

    quota_hold_fds(change, n);
    change->charged_fds += n;
    user_charge_unchecked(change->payer, USED_FDS, n);
    if (n <= left)
        return 0;
    return err_set(
        &change->err, P11,
        "the command needs %u file descriptors, and the quota has %lu left (%s): release "
        "PMCs or detach targets",
        n, left, change->fds_limit_name);
}

void quota_undo(struct change *change)
{
    change->engine->fds_used -= change->held_fds;
    user_charge_unchecked(change->payer, USED_FDS, -(int64_t)change->charged_fds);
    user_charge_unchecked(change->payer, USED_BYTES, -(int64_t)change->charged_bytes);
    change->held_fds = change->charged_fds = 0;
    change->charged_bytes = 0;
}

int quota_links(struct change *change)
{
    const unsigned values = set_values(change->engine, change->desired.set);
    unsigned n = 0;

    EACH_MOVE (move, change)
        n += move->next != NULL;
    const int64_t more = (int64_t)(links_bytes(n, values) - change->pmc->links_bytes);
    if (change->cause != CAUSE_COMMAND || change->requester.superuser || more <= 0)
        return 0;
    if (user_charge(change->payer, USED_BYTES, more)) {
        change->charged_bytes += (uint64_t)more;
        return 0;
    }
    return err_set(&change->err, P11,
                   "the memory for %u targets (exited ones too) is more than %s leaves: write "
                   "\"reset\" to ctl to drop exited targets",
                   n, user_limit_shown(change->payer, USED_BYTES));
}

int quota_target_fd(struct change *change, bool removes)
{
    const struct engine *engine = change->engine;
    /* commands that free descriptors may use some of the reserve */
    const unsigned long kept = removes ? FDS_RESERVED / 2 : FDS_RESERVED;

    quota_hold_fds(change, 1);
    if (engine->fds_used + kept > engine->fd_limit)
        return err_set(
            &change->err, P10,
            "the target%s need%s %lu file descriptor%s, and pmcfs has %lu left of %lu: "
            "raise LimitNOFILE= of pmcfs.service",
            change->held_fds == 1 ? "" : "s", change->held_fds == 1 ? "s" : "", change->held_fds,
            change->held_fds == 1 ? "" : "s",
            subtract_to_zero(engine->fd_limit, engine->fds_used - change->held_fds + kept),
            engine->fd_limit);
    if (change->held_fds <= engine->fd_limit / 4 || change->requester.superuser)
        return 0;
    return err_set(&change->err, P11,
                   "one user may hold a quarter of the %lu file descriptors of pmcfs, and this is "
                   "more: detach targets, or raise LimitNOFILE= of pmcfs.service",
                   engine->fd_limit);
}

/*
 * ---- events on a process ----
 *
 * max_events_per_process limits the events of all users on one process, because each event costs
 * time at every fork and context switch. The limit includes events on its threads, and events
 * inherited from an ancestor with descendants=on, except the superuser's. A new child has at most
 * its parent's events, so a fork needs no check.
 */

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

/* Adds the events of links with descendants to the processes that they cover. A counter that may
 * cover processes that it does not know is added to all. */
static void add_inherited(struct loads *loads, const struct engine *engine,
                          const struct link *fresh)
{
    const struct backend *backend = engine->backend;
    const struct link *link;

    LIST_FOREACH (link, &engine->spreading, of_spreading) {
        /* a user without capabilities cannot have attached to another user's process */
        if ((link->noted & NOTE_REPLACED) ||
            (link->rights->payer != fresh->rights->payer && !link->rights->capabilities))
            continue;
        loads->adds = link->n_events;
        if (backend->covers(link->counter, 0))
            for (size_t i = 0; i < loads->of.n; i++)
                loads->of.items[i].events += link->n_events;
        else if (loads->of.n == 1 && backend->covers(link->counter, loads->of.items[0].pid))
            loads->of.items[0].events += link->n_events;
        else if (loads->of.n > 1)
            backend->each_process(link->counter, load_add, loads);
    }
}

/* Returns the events attached to this process and its threads, except those of add_inherited(). */
static uint64_t attached_to(const struct engine *engine, pid_t pid)
{
    uint64_t n = 0;
    const struct link *link;

    for (const struct proc *proc = procs_of(engine, pid); proc; proc = proc->peer)
        LIST_FOREACH (link, &proc->links, of_proc)
            n += (link->noted & NOTE_REPLACED) || link_spreads(link) ? 0 : link->n_events;
    return n;
}

/* Checks the limit for each process in `loads`: the sum of the events attached to it, the inherited
 * ones, and `added`. fresh: the link that would add events. where: names the process, for P11. */
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
                           "%s would have %llu events, and max_events_per_process allows %llu: use "
                           "fewer PMCs or events",
                           where, (unsigned long long)n, (unsigned long long)limit);
    }
    return 0;
}

int quota_target_events(struct change *change)
{
    EACH_MOVE (move, change)
        if (move->old && move->next != move->old)
            move->old->noted |= NOTE_REPLACED;
    if (change->cause != CAUSE_COMMAND || change->requester.superuser)
        return 0;
    EACH_MOVE (move, change) {
        struct link *link = move->opens ? move->next : NULL;
        struct load load = {.pid = link ? link->pid : 0};
        struct loads loads = {.of = {&load, 1, 1}};

        if (!link || !link->proc || (move->old && move->old->n_events >= link->n_events))
            continue;
        /* adds 0, because attached_to() counts this link already */
        int rc = check_loads(change, &loads, link, 0, "one process");
        if (rc)
            return rc;
    }
    return 0;
}

int quota_descendant_events(struct change *change)
{
    int rc = 0;

    if (change->cause != CAUSE_COMMAND || change->requester.superuser ||
        !change->desired.settings.word[KEY_DESCENDANTS])
        return 0;
    EACH_MOVE (move, change) {
        struct link *link = move->opens ? move->next : NULL;
        struct loads loads = {.failed = false};

        if (rc || !link || !link->counter || !link->proc)
            continue;
        change->engine->backend->each_process(link->counter, load_collect, &loads);
        for (size_t i = 0; i < loads.of.n; i++)
            if (loads.of.items[i].pid == link->pid) {
                vec_remove(&loads.of, i); /* quota_target_events() has checked it */
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
