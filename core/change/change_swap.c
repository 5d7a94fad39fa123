/*
 * The swap: the only place where a change takes effect, with the lock. First checks the
 * events on descendants and chooses rows, which are the last possible refusals; then replaces the
 * old value by the desired one. The claim of the new set replaces the old claim. At an attach,
 * claims are moved to other rows if necessary, because PMCs that cover the same process must not
 * share a row.
 */
#include "core/change/plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows: the claim ---- */

/* Finds the CPUs of all links after the change. `all` and cgroups claim slots of offline CPUs too.
 */
static bool claim_cpus(const struct change *change, struct claim *claim)
{
    const struct links *links = change->diff.links;
    const struct cpus *class = &change->engine->classes[claim->class_index].cpus;
    bool ok = true, system_wide = false;

    for (unsigned i = 0; i < links->n; i++) {
        const struct link *link = links->link[i];

        if (link->state == LINK_ENDED)
            continue;
        if (link->kind == TARGET_CPU)
            ok &= cpus_add(&claim->cpus, link->cpu);
        system_wide |= link->kind == TARGET_CGROUP;
    }
    if (system_wide)
        ok &= cpus_copy(&claim->cpus, &change->engine->possible);
    else if (claim->system && change->desired.wants_all)
        ok &= cpus_add_all(&claim->cpus, cpus_count(class) ? class : &change->engine->possible);
    return ok;
}

static void claim_free(struct claim *claim)
{
    if (claim)
        cpus_free(&claim->cpus);
    free(claim);
}

/* Refuses row=N for a set that needs no rows. */
static int check_row(struct change *change)
{
    const struct desired *desired = &change->desired;
    const struct event *event = &desired->set->event[0];

    if (settings_number(&desired->settings, KEY_ROW) == UINT64_MAX ||
        (!desired->new_set && change->pmc->set && !(desired->command_keys & KEY_BIT(KEY_ROW))))
        return 0;
    return err_set(&change->err, E19,
                   "row=%llu: \"%s\" belongs to class \"%s\", which has no rows: write row=any",
                   (unsigned long long)settings_number(&desired->settings, KEY_ROW), event->written,
                   change->engine->classes[event->class_index].name);
}

/* Creates the claim of the desired set; its rows are chosen later. *out is NULL if no row is
 * needed: software events, multiplex=on, or no CPU. */
static int claim_make(struct change *change, struct claim **out)
{
    const struct set *set = change->desired.set;
    const struct pmc *pmc = change->pmc;
    unsigned n = 0;

    *out = NULL;
    for (unsigned i = 0; set && i < set->n; i++)
        n += set->event[i].rows != 0;
    if (set && n == 0)
        return check_row(change);
    if (n == 0 || change->desired.settings.word[KEY_MULTIPLEX])
        return 0;
    struct claim *claim = calloc(1, sizeof *claim);
    if (!claim)
        return err_nomem(&change->err);
    claim->pmc = pmc->id;
    claim->instance = pmc->instance->id;
    claim->uid = pmc->uid;
    claim->system = mode_table[change->desired.settings.mode].system;
    cpus_init(&claim->cpus);
    claim_members(claim, set, settings_number(&change->desired.settings, KEY_ROW));
    bool ok = claim_cpus(change, claim);
    if (ok && (!claim->system || cpus_count(&claim->cpus))) {
        *out = claim;
        return 0;
    }
    claim_free(claim);
    return ok ? 0 : err_nomem(&change->err);
}

/* ---- rows: processes that two PMCs cover ---- */

/* Returns true if the link covers, or will cover, a process or thread of the other one. */
static bool covers_link(struct engine *engine, const struct link *link, bool descendants,
                        const struct link *other)
{
    if (link->state == LINK_ENDED || other->state == LINK_ENDED || link->kind > TARGET_THREAD ||
        other->kind > TARGET_THREAD)
        return false;
    if (link->pid == other->pid)
        return link->kind == TARGET_PROCESS || other->kind == TARGET_PROCESS ||
               link->tid == other->tid;
    return descendants && link->counter && engine->backend->covers(link->counter, other->pid);
}

/* The links of a PMC after the change. */
struct links_after {
    const struct links *links; /* NULL: released */
    bool descendants;
};

static struct links_after links_after(const struct change *change, uint64_t id)
{
    const struct pmc *pmc = ids_find(&change->engine->pmcs, id);

    if (!pmc)
        return (struct links_after){.links = NULL};
    if (pmc == change->pmc)
        return (struct links_after){change->diff.links,
                                    change->desired.settings.word[KEY_DESCENDANTS]};
    return (struct links_after){pmc->links, pmc->settings.word[KEY_DESCENDANTS]};
}

static bool claims_conflict(void *ctx, uint64_t a, uint64_t b)
{
    const struct change *change = ctx;
    struct links_after of_a = links_after(change, a), of_b = links_after(change, b);

    if (!of_a.links || !of_b.links)
        return true; /* a released PMC holds its rows until its counters are closed */
    for (unsigned i = 0; i < of_a.links->n; i++)
        for (unsigned j = 0; j < of_b.links->n; j++) {
            const struct link *one = of_a.links->link[i], *other = of_b.links->link[j];

            if (covers_link(change->engine, one, of_a.descendants, other) ||
                covers_link(change->engine, other, of_b.descendants, one))
                return true;
        }
    return false;
}

/* ---- rows: replacing the claim ---- */

static bool claim_alike(const struct claim *a, const struct claim *b)
{
    if (!a || !b)
        return a == b;
    if (a->system != b->system || a->n != b->n || !cpus_equal(&a->cpus, &b->cpus))
        return false;
    for (unsigned i = 0; i < a->n; i++)
        if (a->member[i].fits != b->member[i].fits || a->member[i].needed != b->member[i].needed ||
            a->member[i].wanted != b->member[i].wanted)
            return false;
    return true;
}

static int claim_arrange(struct change *change, struct claim *claim)
{
    if (!claim || claim->system || !change->diff.n_opens)
        return 0;
    return rows_arrange(change->engine->rows, claim, claims_conflict, change, &change->err);
}

/* Reserves rows. A refusal names all events of the claim. */
static int claim_reserve(struct change *change, struct claim *claim)
{
    const struct set *set = change->desired.set;
    struct buf names;
    char room[256];
    int rc;

    buf_init(&names, room, sizeof room);
    for (unsigned i = 0; i < set->n; i++)
        if (set->event[i].rows)
            buf_printf(&names, "%s%s", names.len ? " " : "", set->event[i].written);
    rc = rows_reserve(change->engine->rows, claim, text_shown(buf_text(&names)), &change->err);
    buf_free(&names);
    return rc;
}

static int change_rows(struct change *change)
{
    struct rows *rows = change->engine->rows;
    struct claim *old = change->pmc->claim, *claim, before = {.pmc = 0};
    int rc = claim_make(change, &claim);

    if (rc)
        return rc;
    if (claim_alike(claim, old) && !change->desired.new_set) {
        claim_free(claim);
        return claim_arrange(change, old);
    }
    if (old) {
        before = *old;
        rows_release(rows, old);
    }
    if (claim)
        rc = claim_reserve(change, claim);
    if (rc == 0)
        rc = claim_arrange(change, claim);
    if (rc == 0) {
        claim_free(old);
        change->pmc->claim = claim;
        return 0;
    }
    if (claim)
        rows_release(rows, claim);
    claim_free(claim);
    if (old) { /* cannot fail: the lock was held, so the old rows are free */
        *old = before;
        bool retaken = rows_retake(rows, old);
        assert(retaken);
        (void)retaken;
    }
    return rc;
}

/* ---- removing links, and guards ---- */

/* Removes a link. Its counter is closed when the last running read has finished. */
static void retire(struct change *change, struct link *link)
{
    ids_remove(&change->engine->links, link->id);
    link_leave_lists(link);
    link_unref(link, &change->to_destroy);
}

/* Gives new exec guards to the procs. Old ones are freed with the change. */
static void settle_guards(struct change *change)
{
    EACH_MOVE (move, change) {
        if (!move->guards)
            continue;
        struct proc *proc = move->next->proc;
        struct guard *before = proc->guard;
        move->guards = false;
        proc->guarded = move->guard != NULL;
        engine_touch(change->engine, JOURNAL_PROCESS, proc->id);
        if (!move->guard)
            continue; /* not opened: the next change that opens a link of this process tries again
                       */
        change->engine->fds_used += before == NULL;
        proc->guard = move->guard;
        proc->guard_fd = change->engine->backend->guard_fd(move->guard);
        proc->lost_events = false;
        move->guard = before;
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
    return move->was_read ? move->last : link_last_counts(move->old);
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

/* Keeps the count of a leaving link: in its replacement, or in the PMC's base. */
static void swap_count(struct change *change, struct move *move)
{
    struct pmc *pmc = change->pmc;
    const unsigned n = pmc_values(pmc);
    struct link *link = move->old, *next = move->next;
    struct tally *last = move->last;
    bool unread = link->counter && !move->was_read;

    memcpy(last, link->counter ? reading_of(move) : link->base, TALLY_SIZE(n));
    if (link->counter)
        tally_subtract(last, link->base, n);
    bool missed = link->missed || unread || last->dropped;
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
static void begin_count(struct change *change)
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
            memcpy(link->base, move->last, TALLY_SIZE(n));
        if (link->state == LINK_OFFLINE)
            link->gone_since_ns = now(change);
        link->gap_ns = 0;
        link->missed = false;
    }
    begin_count(change);
}

/* Write to count: sets the shown values; times stay. */
static void swap_write_count(struct change *change)
{
    struct pmc *pmc = change->pmc;
    const struct settings *settings = &change->desired.settings;
    const struct tally *total = change->diff.total;
    const unsigned n = pmc_values(pmc);
    struct buf text;

    buf_init(&text, NULL, 0);
    for (unsigned i = 0; i < pmc_events(pmc); i++) {
        uint64_t put = i < settings->n_counts ? settings->counts[i] : 0;

        pmc->base->value[i] += put - total->value[i];
        pmc->base->value[n + i] += put - total->value[n + i];
        buf_u64(&text, total->value[settings->word[KEY_MULTIPLEX] ? n + i : i]);
        buf_char(&text, '\n');
    }
    if (change->call->open && !text.failed && strcmp(change->file, "count") == 0) {
        free(change->call->open->swap);
        change->call->open->swap = strdup(buf_text(&text));
        change->call->open->swapped = change->call->open->swap != NULL;
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
    begin_count(change);
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
    struct cgroup_watch *before = old ? old->watch : NULL;

    if (!next || next->kind != TARGET_CGROUP)
        return;
    if (old)
        old->watch = NULL;
    if (!move->watch && change->desired.settings.word[KEY_REATTACH]) {
        next->watch = before;
        return;
    }
    next->watch = move->watch;
    move->watch = before;
}

static void swap_links(struct change *change)
{
    struct pmc *pmc = change->pmc;
    struct difference *diff = &change->diff;
    struct links *old = pmc->links;

    /* If a running read holds the old vector, that keeps its references, so the new one takes its
     * own. */
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
        pmc->engine->work.attaches++;
        pmc->engine->work.raced += facts->raced;
        pmc->instance->work.attaches++;
        pmc->instance->work.raced += facts->raced;
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
static void retire_links(struct change *change)
{
    EACH_MOVE (move, change) {
        if (move->old && move->old != move->next) {
            if (move->old->counter || link_waits(move->old))
                pmc_charge_link_fds(change->pmc, move->old, false);
            retire(change, move->old);
        }
        if (move->opens && !move->next->counter)
            retire(change, move->next);
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

    if (state_table[after].settable)
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

static void swap_lifetime(struct change *change)
{
    struct pmc *pmc = change->pmc;
    struct open_file *open = change->call->open;
    bool holds = pmc->settings.word[KEY_LIFETIME] == LIFETIME_OPEN;

    if (!(change->desired.command_keys & KEY_BIT(KEY_LIFETIME)))
        return;
    if (open) {
        pmc->held_by = holds;
        open->holds = holds ? pmc->id : 0;
    }
    if (pmc->owner)
        pmc_clear_owner(pmc, &change->to_destroy);
    if (change->owner)
        pmc_set_owner(pmc, change->owner);
    change->owner = NULL;
}

static void swap_settings(struct change *change, bool links_change)
{
    struct pmc *pmc = change->pmc;
    struct desired *desired = &change->desired;
    struct settings before = pmc->settings;
    bool covers_cpus = change->cause == CAUSE_OWN || (desired->wants_all && !pmc->cpus.all);

    pmc->settings = desired->settings;
    desired->settings = before; /* freed with the change */
    pmc->effective = pmc->settings.mode;
    pmc->kernel = desired->kernel;
    if (desired->set)
        pmc->settings.word[KEY_KERNEL] = desired->kernel;
    pmc->cpus.all = desired->wants_all;
    if (covers_cpus)
        pmc->cpus.stale = false;
    else if (desired->wants_all && links_change)
        pmc->cpus.stale = true; /* "-all,all": another CPU may have come online meanwhile */
    swap_lifetime(change);
    if (desired->n_names == 0 || desired->extends_set)
        return;
    pmc->began++; /* call.open->began equals it: later writes through the file add events */
    if (change->call->open)
        change->call->open->began = pmc->began;
}

/* ---- the swap ---- */

/* Release: removes everything from the PMC. */
static void swap_release(struct change *change)
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
        retire(change, old->link[i]);
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
        swap_release(change);
        return;
    }
    links->n = 0;
    EACH_MOVE (move, change) { /* without links that could not be attached */
        links_change |= move->next != move->old;
        if (move->next && (!move->opens || move->next->counter))
            links->link[links->n++] = move->next;
    }
    /* A change of the engine without effect must not wake readers. */
    const bool idle = change->cause == CAUSE_OWN && !links_change;
    change->rc = quota_descendant_events(change);
    if (change->rc == 0)
        change->rc = change_rows(change);
    if (change->rc)
        return;
    pmc->switching = false;
    settle_guards(change);
    const bool waited = pmc->state == PMC_WAITING;
    swap_counts(change);
    swap_links(change);
    pmc->epoch += links_change;
    enum pmc_state after = idle ? pmc->state : state_after(change);
    if (!idle && waited && change->desired.new_set && after == PMC_ALLOCATED)
        after = PMC_RUNNING; /* a waiting PMC with a new event continues to wait, see below */
    if (!idle && !state_table[after].settable)
        after = all_wait(pmc) ? PMC_WAITING : after == PMC_WAITING ? PMC_RUNNING : after;
    const bool was_settable = state_table[pmc->state].settable;
    const bool starts =
        !state_table[after].settable && (was_settable || change->desired.verb == VERB_RESTART);
    record_notes_before(change, !was_settable && state_table[after].settable, after);
    swap_settings(change, links_change);
    record_swap(change);
    if (!idle)
        swap_state(change, after, starts);
    pmc_update_drain_list(pmc);
    record_notes_after(change, starts);
    retire_links(change);
}

void change_discard(struct change *change)
{
    settle_guards(change);
    if (change->pmc->log)
        log_set_max(change->pmc->log, log_size(change->engine, &change->pmc->settings));
    EACH_MOVE (move, change) {
        if (move->old)
            move->old->noted &= ~(unsigned)NOTE_REPLACED;
        if (move->opens)
            retire(change, move->next);
        else if (move->next && move->next != move->old)
            link_unref(move->next, &change->to_destroy);
    }
    if (change->owner)
        proc_unref(change->owner, &change->to_destroy);
}
