/*
 * The swap: the only place where a change takes effect, with the lock. First checks the
 * events on descendants and chooses rows, which are the last possible refusals; then replaces the
 * old value by the desired one.
 */
#include "core/change/plan.h"

#include <stdlib.h>
#include <string.h>

/* ---- removing links, and guards ---- */

/* Removes a link from the tables and drops the reference of the PMC or change. The counter is
 * closed when the last running read has finished. */
static void remove_link(struct change *change, struct link *link)
{
    ids_remove(&change->engine->links, link->id);
    link_leave_lists(link);
    link_unref(link, &change->to_destroy);
}

/* Gives new exec guards to the procs. Old ones are freed with the change. */
static void give_guards(struct change *change)
{
    EACH_MOVE (move, change) {
        if (!move->guards)
            continue;
        struct proc *proc = move->next->proc;
        struct guard *old_guard = proc->guard;
        move->guards = false;
        proc->guarded = move->guard != NULL;
        engine_touch(change->engine, JOURNAL_PROCESS, proc->id);
        if (!move->guard)
            continue; /* not opened: the next change that opens a link of this process tries again
                       */
        change->engine->fds_used += old_guard == NULL;
        proc->guard = move->guard;
        proc->guard_fd = change->engine->backend->guard_fd(move->guard);
        proc->lost_before_reload = false;
        move->guard = old_guard;
    }
}

/* ---- counts ---- */

static uint64_t now(const struct change *change)
{
    return change->engine->host->now_ns(change->engine->host_state);
}

/* Returns the reading of a link with a counter: the present one, or the last seen. */
static const struct tally *reading_of(const struct move *move)
{
    const struct link *link = move->old;

    if (move->was_read)
        return move->old_counts;
    /* the base is newer after a reset, or if the link was loaded */
    return (int64_t)(link->seen->covered_ns - link->base->covered_ns) > 0 ? link->seen : link->base;
}

static void sum_total(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    const unsigned n = pmc_values(pmc);
    struct tally *total = change->diff.total;

    memcpy(total, pmc->base, TALLY_SIZE(n));
    EACH_MOVE (move, change) {
        if (!move->old)
            continue;
        if (move->old->counter) {
            tally_add(total, reading_of(move), n);
            tally_subtract(total, move->old->base, n);
        } else {
            tally_add(total, move->old->base, n); /* ended or offline: final count */
        }
    }
}

/* Keeps the count of a link that is removed or replaced: in the PMC's base, or in the new link. */
static void swap_count(struct change *change, struct move *move)
{
    struct pmc *pmc = change->pmc;
    const unsigned n = pmc_values(pmc);
    struct link *link = move->old, *next = move->next;
    struct tally *last = move->old_counts;

    memcpy(last, link->counter ? reading_of(move) : link->base, TALLY_SIZE(n));
    if (link->counter)
        tally_subtract(last, link->base, n);
    bool missed = link->missed || (link->counter && !move->was_read) || last->descendant_lost;
    if (!next || (move->opens && !next->counter)) {
        pmc->missed |= missed;
        tally_add(pmc->base, last, n);
        return;
    }
    next->missed |= missed;
    if (!move->opens) {
        memcpy(next->base, last, TALLY_SIZE(n));
        next->gone_since_ns = next->state == LINK_OFFLINE ? now(change) : next->gone_since_ns;
        return;
    }
    pmc->attached.left_out -= link->facts.left_out; /* skipped descendants are counted again */
    /* so that reading - base = reading + earlier count */
    memset(next->base, 0, TALLY_SIZE(n));
    tally_subtract(next->base, last, n);
    if (link->gone_since_ns)
        next->gap_ns += now(change) - link->gone_since_ns;
}

/* Sets the initial values, and clears times and missing counts. */
static void set_initial_count(struct change *change)
{
    const struct settings *settings = &change->desired.settings;
    struct pmc *pmc = change->pmc;
    struct tally *base = pmc->base;
    const unsigned n = set_values(change->engine, change->desired.set);

    memset(base, 0, TALLY_SIZE(n));
    for (unsigned i = 0; i < change->desired.set->n && i < settings->n_counts; i++)
        base->value[i] = base->value[n + i] = settings->counts[i];
    pmc_clear_missed(pmc);
    pmc->run.ran_ns = 0;
}

/* reset and restart: makes the present reading the base of every link. */
static void swap_reset(struct change *change)
{
    const unsigned n = pmc_values(change->pmc);

    EACH_MOVE (move, change) {
        struct link *link = move->old && move->opens ? move->next : move->old;

        if (!link)
            continue;
        if (move->opens || link->state == LINK_OFFLINE)
            memset(link->base, 0, TALLY_SIZE(n));
        else if (move->was_read)
            memcpy(link->base, move->old_counts, TALLY_SIZE(n));
        if (link->state == LINK_OFFLINE)
            link->gone_since_ns = now(change);
        link->gap_ns = 0;
        link->missed = false;
    }
    set_initial_count(change);
}

/* A write to `count`, or a changed count= in config: the events of all links count from the written
 * values. Times stay, except the elapsed time of rates. */
static void swap_write_count(struct change *change)
{
    struct pmc *pmc = change->pmc;
    const struct settings *settings = &change->desired.settings;
    const struct tally *total = change->diff.total;
    const unsigned n = pmc_values(pmc);
    struct buf text = {0};

    for (unsigned i = 0; i < pmc_events(pmc); i++) {
        uint64_t put = i < settings->n_counts ? settings->counts[i] : 0;

        pmc->base->value[i] = pmc->base->value[n + i] = put;
        EACH_MOVE (move, change) {
            if (!move->next)
                continue;
            const bool reads = move->next == move->old && move->old->counter;
            uint64_t *value = move->next->base->value;

            value[i] = reads ? reading_of(move)->value[i] : 0;
            value[n + i] = reads ? reading_of(move)->value[n + i] : 0;
        }
        buf_u64(&text, total->value[settings->word[KEY_MULTIPLEX] ? n + i : i]);
        buf_char(&text, '\n');
    }
    pmc->run.ran_ns = 0;
    if (state_table[pmc->state].started) /* it waits for a cgroup */
        pmc->run.started_ns = now(change);
    if (change->call->open && !text.failed && strcmp(change->file, "count") == 0) {
        free(change->call->open->old_count);
        change->call->open->old_count = strdup(buf_text(&text));
    }
    buf_free(&text);
}

static void swap_set(struct change *change)
{
    struct pmc *pmc = change->pmc;
    struct desired *desired = &change->desired;

    set_unref(pmc->set);
    pmc->set = set_share(pmc->engine, set_ref(desired->set));
    if (desired->n_names) {
        free(pmc->metrics);
        pmc->metrics = desired->metrics;
        desired->metrics = NULL;
    }
    free(pmc->base);
    pmc->base = change->diff.base;
    change->diff.base = NULL;
    set_initial_count(change);
    pmc->state = PMC_ALLOCATED;
    pmc->attached.any = pmc->attached.raced = false;
    pmc->run.first_start_ns = pmc->run.started_ns = 0;
    pmc->attached.left_out = 0;
}

static void swap_counts(struct change *change)
{
    const struct desired *desired = &change->desired;
    const bool resets = desired->verb == VERB_RESET || desired->verb == VERB_RESTART;

    sum_total(change);
    EACH_MOVE (move, change)
        if (move->old && move->next != move->old && !desired->new_set)
            swap_count(change, move);
    if (desired->sets_count)
        swap_write_count(change);
    if (resets)
        swap_reset(change);
    if (desired->new_set)
        swap_set(change);
    if (desired->sets_count || resets || desired->new_set) {
        change->pmc->epoch++;
        change->pmc->resets++;
    }
}

/* ---- links ---- */

/* Moves the watch of a cgroup to its new link. The old watch is freed with the change. */
static void swap_watch(const struct change *change, struct move *move)
{
    struct link *old = move->old, *next = move->next;
    struct cgroup_watch *old_watch = old ? old->watch : NULL;

    if (!next || next->kind != TARGET_CGROUP)
        return;
    if (old)
        old->watch = NULL;
    if (!move->watch && change->desired.settings.word[KEY_REATTACH]) {
        next->watch = old_watch;
        return;
    }
    next->watch = move->watch;
    move->watch = old_watch;
}

static void swap_links(struct change *change)
{
    struct pmc *pmc = change->pmc;
    struct difference *diff = &change->diff;
    struct links *old = pmc->links;

    /* If a running read holds the old vector, the old vector keeps its references to the links, so
     * the new vector takes references too. */
    for (unsigned i = 0; old->refs > 1 && i < old->n; i++)
        old->link[i]->refs++;
    EACH_MOVE (move, change) {
        if (move->next && move->next != move->old && link_waits(move->next)) {
            pmc_charge_link_fds(pmc, move->next, true);
            if (!move->next->gone_since_ns)
                move->next->gone_since_ns = now(change);
        }
        swap_watch(change, move);
        if (!move->opens || !move->next->counter)
            continue;
        const struct counter_facts *facts = &move->next->facts;
        pmc_charge_link_fds(pmc, move->next, true);
        pmc->engine->totals.attaches++;
        pmc->engine->totals.raced += facts->raced;
        pmc->instance->totals.attaches++;
        pmc->instance->totals.raced += facts->raced;
        pmc->attached.raced |= facts->raced;
        pmc->attached.left_out += facts->left_out;
        pmc->attached.any = true;
        if (change->desired.settings.word[KEY_DESCENDANTS])
            link_spread(move->next);
    }
    pmc->links = diff->links;
    pmc_charge_links(pmc);
    diff->links = NULL;
    if (--old->refs == 0)
        free(old);
}

/* Removes leaving links, and links that could not be attached. */
static void remove_links(struct change *change)
{
    EACH_MOVE (move, change) {
        if (move->old && move->old != move->next) {
            if (move->old->counter || link_waits(move->old))
                pmc_charge_link_fds(change->pmc, move->old, false);
            remove_link(change, move->old);
        }
        if (move->opens && !move->next->counter)
            remove_link(change, move->next);
    }
}

/* ---- state and settings ---- */

/* Returns true if targets are left and all are cgroups that do not exist now. */
static bool all_wait(const struct pmc *pmc)
{
    unsigned waits = 0;

    for (unsigned i = 0; i < pmc->links->n; i++)
        waits += link_waits(pmc->links->link[i]);
    return waits > 0 && waits == pmc_links_left(pmc);
}

static enum pmc_state state_after(const struct change *change)
{
    const struct pmc *pmc = change->pmc;
    const struct difference *diff = &change->diff;
    bool live = pmc_links_left(pmc) > 0;

    if (!pmc->set)
        return PMC_NEW;
    if (!live && (pmc->state != PMC_ALLOCATED || change->cause == CAUSE_OWN))
        return PMC_EXITED;
    if (diff->stop)
        return PMC_STOPPED;
    if (change->cause == CAUSE_COMMAND && live && diff->start)
        return change->desired.settings.word[KEY_START] ? PMC_ARMED : PMC_RUNNING;
    if (pmc->state == PMC_EXITED) /* attached, not started */
        return pmc->run.first_start_ns ? PMC_STOPPED : PMC_ALLOCATED;
    return pmc->state;
}

static void swap_state(struct change *change, enum pmc_state after, bool starts)
{
    struct pmc *pmc = change->pmc;

    if (!state_table[after].started)
        pmc->run.ran_ns = pmc_elapsed_ns(pmc, now(change));
    if (starts) {
        pmc->run.started_ns = now(change);
        pmc->epoch++; /* earlier readings do not apply to this run */
        if (!pmc->run.first_start_ns)
            pmc->run.first_start_ns = pmc->run.started_ns;
    }
    pmc->state = after;
    pmc_changed(pmc);
}

static void swap_settings(struct change *change, bool links_change)
{
    struct pmc *pmc = change->pmc;
    struct desired *desired = &change->desired;
    struct open_file *open = change->call->open;
    struct settings old_settings = pmc->settings;
    bool covers_cpus = change->cause == CAUSE_OWN || (desired->wants_all && !pmc->cpus.all);

    pmc->settings = desired->settings;
    desired->settings = old_settings; /* freed with the change */
    pmc->mode_in_use = pmc->settings.mode;
    pmc->counts_kernel = desired->kernel;
    if (desired->set)
        pmc->settings.word[KEY_KERNEL] = desired->kernel;
    pmc->cpus.all = desired->wants_all;
    if (covers_cpus)
        pmc->cpus.stale = false;
    else if (desired->wants_all && links_change)
        pmc->cpus.stale = true; /* "-all,all": another CPU may be online now */
    if (desired->command_keys & KEY_BIT(KEY_LIFETIME)) {
        if (open) {
            pmc->is_held = pmc->settings.word[KEY_LIFETIME] == LIFETIME_OPEN;
            open->holds = pmc->is_held ? pmc->id : 0;
        }
        if (pmc->owner)
            pmc_clear_owner(pmc, &change->to_destroy);
        if (change->owner)
            pmc_set_owner(pmc, change->owner);
        change->owner = NULL;
    }
    if (desired->n_names == 0)
        return;
    /* if started_set equals sets_started, later writes through the file add events */
    pmc->sets_started += !desired->extends_set || pmc->sets_started == 0; /* 0: no events yet */
    if (open)
        open->started_set = pmc->sets_started;
}

/* ---- the swap ---- */

/* The swap of a release: removes everything from the PMC. */
static void swap_out_all(struct change *change)
{
    struct pmc *pmc = change->pmc;
    struct links *old = pmc->links;

    if (change->diff.total &&
        (change->diff.stop ||
         !pmc->recording)) { /* otherwise ENOMEM, or the engine only forgets its state */
        sum_total(change);
        record_release_notes(change);
    }
    for (unsigned i = 0; i < old->n; i++) {
        old->link[i]->refs += old->refs > 1;
        if (old->link[i]->counter || link_waits(old->link[i]))
            pmc_charge_link_fds(pmc, old->link[i], false);
        remove_link(change, old->link[i]);
    }
    pmc->links = NULL;
    pmc_charge_links(pmc);
    if (--old->refs == 0)
        free(old);
    if (pmc->recording)
        change->recording.old = pmc_set_recording(pmc, NULL);
    change->released_claim = pmc->claim;
    pmc->claim = NULL;
    if (pmc->owner)
        pmc_clear_owner(pmc, &change->to_destroy);
}

void change_swap(struct change *change)
{
    struct pmc *pmc = change->pmc;
    struct links *links = change->diff.links;
    bool links_change = false;

    pmc_touch(pmc);
    if (change->cause == CAUSE_RELEASE) {
        swap_out_all(change);
        return;
    }
    links->n = 0;
    EACH_MOVE (move, change) { /* without links that could not be attached */
        links_change |= move->next != move->old;
        if (move->next && (!move->opens || move->next->counter))
            links->link[links->n++] = move->next;
    }
    /* A change of the engine without effect must not wake readers. */
    const bool has_effect = change->cause != CAUSE_OWN || links_change;
    change->rc = quota_descendant_events(change);
    if (change->rc == 0)
        change->rc = change_rows(change);
    if (change->rc)
        return;
    pmc->may_have_switched = false;
    give_guards(change);
    const bool was_waiting = pmc->state == PMC_WAITING;
    swap_counts(change);
    swap_links(change);
    pmc->epoch += links_change;
    enum pmc_state after = has_effect ? state_after(change) : pmc->state;
    if (has_effect && was_waiting && change->desired.new_set && after == PMC_ALLOCATED)
        after = PMC_RUNNING; /* a waiting PMC with a new event continues to wait, see below */
    if (has_effect && state_table[after].started)
        after = all_wait(pmc) ? PMC_WAITING : after == PMC_WAITING ? PMC_RUNNING : after;
    const bool was_started = state_table[pmc->state].started;
    const bool starts =
        state_table[after].started && (!was_started || change->desired.verb == VERB_RESTART);
    record_notes_before(change, was_started && !state_table[after].started, after);
    swap_settings(change, links_change);
    record_swap(change);
    if (has_effect)
        swap_state(change, after, starts);
    pmc_update_drain_list(pmc);
    record_notes_after(change, starts);
    remove_links(change);
}

void change_discard(struct change *change)
{
    give_guards(change);
    if (change->pmc->log)
        log_set_max(change->pmc->log, log_size(change->engine, &change->pmc->settings));
    EACH_MOVE (move, change) {
        if (move->old)
            move->old->noted &= ~(unsigned)NOTE_REPLACED;
        if (move->opens)
            remove_link(change, move->next);
        else if (move->next && move->next != move->old)
            link_unref(move->next, &change->to_destroy);
    }
    if (change->owner)
        proc_unref(change->owner, &change->to_destroy);
}
