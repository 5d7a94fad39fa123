/*
 * The one place where a change becomes true, with the lock; and its opposite, after a refusal.
 */
#include "core/change.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void give_away(struct change *change, struct proc *proc)
{
    if (!proc)
        return;
    proc->next_dead = change->dead_procs;
    change->dead_procs = proc;
}

/* A link leaves for good. Its counter is closed once the last long read is over. */
static void retire(struct change *change, struct link *link)
{
    struct engine *engine = change->engine;

    ids_remove(&engine->links, link->id);
    if (link->counter)
        pmc_hold_fds(link->pmc, -(long)link->facts.descriptors);
    link_leave_proc(link);
    link_unref(link, &change->dead);
}

/* What was set up is the proc's from now on; what was not is left to the next change. */
static void settle_watching(struct change *change)
{
    for (unsigned i = 0; i < change->n_watching; i++) {
        struct watching *watching = &change->watching[i];
        struct proc *proc = watching->proc;
        struct guard *before = proc->guard;

        if (watching->watch && !watching->watched)
            proc->watched = false;
        if (watching->guard && !watching->made)
            proc->guarded = false;
        if (!watching->made)
            continue;
        change->engine->fds_used += before ? 0 : 1;
        proc->guard = watching->made;
        proc->left = false;
        watching->made = before; /* freed with the change */
    }
}

/* What the link counted since its base. */
static void tally_since(struct tally *last, const struct link *link, unsigned n)
{
    if (link->counter)
        tally_subtract(last, link->base, n);
    else
        memcpy(last, link->base, TALLY_SIZE(n)); /* ended or offline: base is its final count */
}

/* A privileged program may end before anybody could look: what it did is not in the count. */
static bool ended_unobserved(const struct change *change, const struct link *link)
{
    const struct recording *recording = change->pmc->recording;

    if (change->cause != CAUSE_DEATHS || link->kind > TARGET_THREAD)
        return false;
    return (link->proc && proc_left(link->proc)) ||
           (recording && recording_left(recording, link->pid));
}

static void commit_replaced(struct change *change, struct replaced *replaced)
{
    struct pmc *pmc = change->pmc;
    unsigned n = pmc_events(pmc);
    bool goes_on = replaced->successor && replaced->successor->counter; /* not: passed over */
    struct link *after = replaced->ended ? replaced->ended : goes_on ? replaced->successor : NULL;
    uint64_t now = change->engine->host->now_ns(change->engine->host_state);

    if (replaced->unread)
        memcpy(replaced->last, link_seen(replaced->link), TALLY_SIZE(n));
    tally_since(replaced->last, replaced->link, n);
    replaced->left = ended_unobserved(change, replaced->link);
    if (after && replaced->left)
        after->dropped = after->missed = true;
    if (after)
        after->missed |= replaced->unread || replaced->last->dropped;
    if (replaced->ended) {
        memcpy(after->base, replaced->last, TALLY_SIZE(n));
        if (after->offline)
            after->gone_since_ns = now;
    } else if (goes_on) {
        pmc->left_out -= replaced->link->facts.left_out; /* they were asked anew */
        /* reading - base = reading + what was counted before */
        memset(after->base, 0, TALLY_SIZE(n));
        tally_subtract(after->base, replaced->last, n);
        if (replaced->link->gone_since_ns)
            after->gap_ns += now - replaced->link->gone_since_ns;
    } else if (!replaced->dropped) {
        pmc->missed |= replaced->link->missed || replaced->unread || replaced->last->dropped;
        tally_add(pmc->base, replaced->last, n);
    }
}

static void commit_links(struct change *change)
{
    struct pmc *pmc = change->pmc;
    struct links *links = change->links, *old = pmc->links;
    unsigned n = 0;

    /* A long read holds the old vector: then it keeps its references, and ours are made anew. */
    for (unsigned i = 0; old->refs > 1 && i < old->n; i++)
        old->link[i]->refs++;
    for (unsigned i = 0; i < change->n_kept; i++) {
        struct link *link = change->kept[i].link;

        if (change->forget_ended && link->ended)
            retire(change, link);
        else
            links->link[n++] = link;
    }
    for (unsigned i = 0; i < change->n_replaced; i++)
        if (change->replaced[i].ended) {
            links->link[n++] = change->replaced[i].ended;
            change->replaced[i].ended = NULL;
        }
    for (unsigned i = 0; i < change->n_fresh; i++) {
        struct link *link = change->fresh[i];

        if (!link->counter) {
            retire(change, link); /* passed over */
            continue;
        }
        pmc_hold_fds(pmc, link->facts.descriptors);
        change->engine->attaches++;
        change->engine->attaches_raced += link->facts.raced;
        pmc->instance->attaches++;
        pmc->instance->attaches_raced += link->facts.raced;
        pmc->raced |= link->facts.raced;
        pmc->left_out += link->facts.left_out;
        pmc->had_target = true;
        links->link[n++] = link;
    }
    links->n = n;
    change->n_fresh = 0;
    for (unsigned i = 0; i < change->n_replaced; i++)
        retire(change, change->replaced[i].link);
    pmc->links = links;
    change->links = NULL;
    if (--old->refs == 0)
        free(old);
}

/* A CPU is meant by name, by `all`, or by both: what changed of that. */
static void commit_names(struct change *change)
{
    const struct links *links = change->pmc->links;

    for (unsigned i = 0; i < links->n; i++) {
        struct link *link = links->link[i];

        if (link->kind != TARGET_CPU)
            continue;
        if (cpus_has(&change->unnamed, link->cpu))
            link->from_all = true;
        if (cpus_has(&change->named, link->cpu))
            link->from_all = false;
    }
}

/* Initial values of the set as wanted. */
static void commit_initial(struct change *change, struct tally *base)
{
    const struct settings *want = &change->want;
    unsigned n = change->set->n;

    memset(base, 0, TALLY_SIZE(n));
    for (unsigned i = 0; i < n && i < want->n_counts; i++)
        base->value[i] = base->value[n + i] = want->counts[i];
}

/* reset and restart: every link begins anew at its present reading. */
static void commit_reset(struct change *change)
{
    struct pmc *pmc = change->pmc;
    unsigned n = pmc_events(pmc);
    uint64_t now = change->engine->host->now_ns(change->engine->host_state);

    for (unsigned i = 0; i < change->n_kept; i++) {
        struct kept *kept = &change->kept[i];

        if (kept->now)
            memcpy(kept->link->base, kept->now, TALLY_SIZE(n));
        else if (kept->link->offline)
            memset(kept->link->base, 0, TALLY_SIZE(n));
        if (kept->link->offline)
            kept->link->gone_since_ns = now;
        kept->link->gap_ns = 0;
        kept->link->missed = false;
    }
    pmc_miss_nothing(pmc);
    pmc->ran_ns = 0;
    change->forget_ended = true;
    commit_initial(change, pmc->base);
    pmc->epoch++;
    pmc->resets++;
}

/* count is written: what is shown becomes the new value; times stay. */
static void commit_put(struct change *change)
{
    struct pmc *pmc = change->pmc;
    unsigned n = pmc_events(pmc);
    struct buf swap;

    buf_init(&swap, NULL, 0);
    for (unsigned i = 0; i < n; i++) {
        uint64_t value = pmc->base->value[i], estimate = pmc->base->value[n + i];
        uint64_t put = i < change->want.n_counts ? change->want.counts[i] : 0;

        for (unsigned k = 0; k < change->n_kept; k++) {
            const struct kept *kept = &change->kept[k];
            const struct tally *base = kept->link->base;
            bool live = kept->now != NULL;

            value += live ? kept->now->value[i] - base->value[i] : base->value[i];
            estimate += live ? kept->now->value[n + i] - base->value[n + i] : base->value[n + i];
        }
        pmc->base->value[i] += put - value;
        pmc->base->value[n + i] += put - estimate;
        buf_u64(&swap, change->want.value[KEY_MULTIPLEX] ? estimate : value);
        buf_char(&swap, '\n');
    }
    change->swap = swap.failed ? NULL : strdup(buf_text(&swap));
    buf_free(&swap);
    pmc->epoch++;
    pmc->resets++;
}

static void commit_set(struct change *change)
{
    struct pmc *pmc = change->pmc;

    set_unref(pmc->set);
    pmc->set = set_ref(change->set);
    if (change->n_names) {
        free(pmc->metrics);
        pmc->metrics = change->metrics;
        change->metrics = NULL;
    }
    free(pmc->base);
    pmc->base = change->base;
    change->base = NULL;
    commit_initial(change, pmc->base);
    pmc->state = PMC_ALLOCATED;
    pmc->had_target = false;
    pmc->first_start_ns = pmc->started_ns = pmc->ran_ns = 0;
    pmc_miss_nothing(pmc);
    pmc->raced = false;
    pmc->left_out = 0;
    pmc->epoch++;
    pmc->resets++;
}

static enum pmc_state state_after(const struct change *change)
{
    const struct pmc *pmc = change->pmc;
    bool live = pmc_live_links(pmc) > 0;

    if (!pmc->set)
        return PMC_NEW;
    if (!live && (pmc->state != PMC_ALLOCATED || change->cause == CAUSE_DEATHS))
        return PMC_EXITED;
    if (change->stop)
        return PMC_STOPPED;
    if (change->cause == CAUSE_COMMAND && live && (change->start || change->start_fresh) &&
        (change->start || state_table[pmc->state].open))
        return change->want.value[KEY_START] ? PMC_ARMED : PMC_RUNNING; /* the new ones */
    if (pmc->state == PMC_EXITED)                                       /* attached, not started */
        return pmc->first_start_ns ? PMC_STOPPED : PMC_ALLOCATED;
    return pmc->state;
}

/* A run begins with it. */
static bool starts_run(const struct change *change, enum pmc_state after)
{
    return !state_table[after].open &&
           (state_table[change->pmc->state].open || change->verb == VERB_RESTART);
}

static void commit_state(struct change *change, enum pmc_state after)
{
    struct pmc *pmc = change->pmc;
    uint64_t now = change->engine->host->now_ns(change->engine->host_state);

    if (state_table[after].open)
        pmc->ran_ns = pmc_elapsed_ns(pmc, now);
    if (starts_run(change, after)) {
        pmc->started_ns = now;
        pmc->epoch++; /* what was read before says nothing about this run */
        if (!pmc->first_start_ns)
            pmc->first_start_ns = now;
    }
    pmc->state = after;
    pmc_follow(pmc);
    pmc_changed(pmc);
}

static void commit_settings(struct change *change)
{
    struct pmc *pmc = change->pmc;
    struct settings before = pmc->settings;

    pmc->settings = change->want;
    pmc->settings.mode = pmc->effective = change->effective;
    pmc->kernel = change->kernel;
    if (change->set)
        pmc->settings.value[KEY_KERNEL] = change->kernel;
    bool looked = change->cause == CAUSE_CPUS || (change->wants_all && !pmc->wants_all);
    pmc->wants_all = change->wants_all;
    if (looked) {
        pmc->cpus_stale = false;
        pmc->cpus_serial = change->cpus_serial;
    } else if (change->wants_all && change->n_replaced) {
        pmc->cpus_stale = true; /* -all and `all` in one command: a CPU may have come */
        pmc_pend(pmc);
    }
    change->want = before; /* freed with the change */
    if (change->open && (change->given & GIVEN(KEY_LIFETIME))) {
        bool holds = pmc->settings.value[KEY_LIFETIME] == LIFETIME_OPEN;

        pmc->held_by = holds;
        change->open->holds = holds ? pmc->id : 0;
    }
    if (change->given & GIVEN(KEY_LIFETIME)) {
        struct proc *owner = change->owner;

        change->owner = NULL;
        if (pmc->owner)
            give_away(change, pmc_disown(pmc));
        if (owner)
            pmc_own(pmc, owner);
    }
}

/* What is written next through this open file joins the set that it began. */
static void commit_began(struct change *change)
{
    if (change->n_names == 0 || change->joins)
        return;
    change->pmc->began++;
    if (change->open)
        change->open->began = change->pmc->began;
}

static void commit_claim(struct change *change)
{
    struct pmc *pmc = change->pmc;

    if (!change->new_claim)
        return;
    change->old_claim = pmc->claim; /* its rows are free once its counters are closed */
    pmc->claim = change->claim;
    change->claim = NULL;
    change->new_claim = false;
    free(change->before);
    change->before = NULL;
}

void change_commit(struct change *change)
{
    struct pmc *pmc = change->pmc;
    /* The engine looked and found nothing to do: nobody is to be woken for that. */
    bool idle = change->cause != CAUSE_COMMAND && !change->n_replaced && !change->n_fresh;

    settle_watching(change);
    change_unbook(change);
    if (!change->new_set)
        for (unsigned i = 0; i < change->n_replaced; i++)
            commit_replaced(change, &change->replaced[i]);
    if (change->n_replaced && !change->new_set)
        pmc->epoch++;
    if (change->put)
        commit_put(change);
    if (change->verb == VERB_RESET || change->verb == VERB_RESTART)
        commit_reset(change);
    if (change->new_set)
        commit_set(change);
    commit_links(change);
    commit_names(change);
    commit_claim(change);
    enum pmc_state after = idle ? pmc->state : state_after(change);
    bool starts = starts_run(change, after);
    record_end(change, !state_table[pmc->state].open && state_table[after].open,
               after == PMC_EXITED);
    commit_settings(change);
    commit_began(change);
    commit_recording(change);
    if (!idle)
        commit_state(change, after);
    pmc_follow(pmc);
    record_begin(change, starts);
    record_unhold(change);
}

/* ---- after a refusal ---- */

void change_undo(struct change *change)
{
    record_unhold(change);
    if (change->recording_bytes)
        account_add(change->pmc->account, -(int64_t)change->recording_bytes);
    change->recording_bytes = 0;
    settle_watching(change);
    change_unbook(change);
    if (change->new_claim) {
        if (change->claim) {
            rows_release(change->engine->rows, change->claim);
            cpus_free(&change->claim->cpus);
            free(change->claim);
        }
        change->claim = NULL;
        change->new_claim = false;
        change_rows_back(change);
    }
    for (unsigned i = 0; i < change->n_fresh; i++) {
        struct link *link = change->fresh[i];

        if (link->counter)
            pmc_hold_fds(change->pmc, link->facts.descriptors); /* retire() takes it back */
        retire(change, link);
    }
    if (change->owner) {
        give_away(change, proc_unref(change->engine, change->owner));
        change->owner = NULL;
    }
    change->n_fresh = 0;
    for (unsigned i = 0; i < change->n_replaced; i++)
        if (change->replaced[i].ended)
            link_unref(change->replaced[i].ended, &change->dead);
}

/* ---- the end of a PMC ---- */

void change_release_now(struct change *change)
{
    struct pmc *pmc = change->pmc;
    struct links *old = pmc->links;

    record_last_end(change);
    for (unsigned i = 0; i < old->n; i++) {
        old->link[i]->refs += old->refs > 1;
        retire(change, old->link[i]);
    }
    pmc->links = NULL;
    if (--old->refs == 0)
        free(old);
    if (pmc->recording)
        change->old_recording = pmc_record(pmc, NULL);
    change->old_claim = pmc->claim;
    pmc->claim = NULL;
    if (pmc->owner)
        give_away(change, pmc_disown(pmc));
}
