/*
 * Creation and release of PMCs, their charges, and sets of events.
 */
#include "core/pmc/pmc.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define LINKS_FREE  16  /* links without charge; also exited targets have links */
#define LINK_BYTES  640 /* memory of a link and its record */
#define VALUE_BYTES 48  /* memory of its counts per value (set_values()) */

const struct state_row state_table[PMC_STATES] = {
    [PMC_NEW] = {"new", false, "no event is set"},
    [PMC_ALLOCATED] = {"allocated", false, "an event is set, and the PMC was never started"},
    [PMC_ARMED] = {"armed", true, "start=exec is set, and no target has executed a program yet"},
    [PMC_RUNNING] = {"running", true, "the PMC counts whenever a target runs"},
    [PMC_STOPPED] = {"stopped", false, "the PMC does not count and keeps its value"},
    [PMC_EXITED] = {"exited", false, "no target is left"},
    [PMC_LOST] = {"lost", true, "the kernel took all of its hardware counters away"},
    [PMC_WAITING] = {"waiting", true, "reattach=on is set, and no target exists at this moment"},
};

/* ---- creation ---- */

bool pmc_set_name(struct pmc *pmc, const char *name)
{
    char *own =
        strlen(name) < sizeof pmc->short_name ? strcpy(pmc->short_name, name) : strdup(name);

    if (own && pmc->name != pmc->short_name)
        free(pmc->name);
    pmc->name = own ? own : pmc->name;
    return own;
}

struct pmc *pmc_new(struct instance *instance, const char *name)
{
    struct pmc *pmc = calloc(1, sizeof *pmc);

    if (!pmc)
        return NULL;
    pmc->engine = instance->engine;
    pmc->refs = 1;
    settings_init(&pmc->settings);
    pmc->links = links_new(0);
    pmc->base = tally_new(0);
    if (!pmc_set_name(pmc, name) || !pmc->links || !pmc->base)
        goto fail;
    pmc->instance = instance;
    if (instance_add(instance, pmc))
        return pmc;
    pmc->instance = NULL;
fail:
    pmc_unref(pmc);
    return NULL;
}

struct pmc *pmc_ref(struct pmc *pmc)
{
    pmc->refs++;
    return pmc;
}

void pmc_unref(struct pmc *pmc)
{
    if (!pmc || --pmc->refs > 0)
        return;
    assert(!pmc->instance && !pmc->claim && !pmc->owner);
    if (pmc->links) { /* of a PMC that was never on the tree */
        assert(pmc->links->n == 0);
        free(pmc->links);
    }
    assert(!pmc->recording && !pmc->drain.entry.le_prev);
    struct log_stats stats;
    pmc_log_stats(pmc, &stats);
    log_stats_add(&pmc->engine->totals.released_logs, &stats);
    log_unref(pmc->log);
    log_sets_unref(pmc->sets);
    if (pmc->user)
        user_charge_unchecked(pmc->user, USED_BYTES, -(int64_t)pmc->sets_bytes);
    user_unref(pmc->user);
    free(pmc->recorded.counted_before);
    set_unref(pmc->set);
    free(pmc->metrics);
    settings_clear(&pmc->settings);
    free(pmc->base);
    free(pmc->error);
    free(pmc->attach_error);
    free(pmc->notes);
    if (pmc->name != pmc->short_name)
        free(pmc->name);
    free(pmc);
}

static void charge_all(const struct pmc *pmc, struct user *user, int64_t times)
{
    user_charge_unchecked(user, USED_PMCS, times);
    user_charge_unchecked(user, USED_FDS, times * (int64_t)pmc->fds);
    user_charge_unchecked(user, USED_BYTES,
                          times *
                              (int64_t)(pmc->sets_bytes + pmc->recorded.bytes + pmc->links_bytes));
}

bool pmc_charge(struct pmc *pmc, uid_t uid, uid_t payer)
{
    struct user *user = user_get(pmc->engine, payer, pmc->instance->account), *before = pmc->user;

    if (!user)
        return false;
    charge_all(pmc, user, 1);
    if (pmc->log)
        user_charge_unchecked(user, USED_BYTES,
                              (int64_t)log_set_charge(pmc->log, user_charge_log, user));
    if (before)
        charge_all(pmc, before, -1);
    user_unref(before);
    pmc->user = user;
    pmc->uid = uid;
    pmc->payer = payer;
    return true;
}

void pmc_charge_fds(struct pmc *pmc, long n)
{
    pmc->fds += (unsigned long)n;
    pmc->engine->fds_used += (unsigned long)n;
    user_charge_unchecked(pmc->user, USED_FDS, n);
}

void pmc_charge_link_fds(struct pmc *pmc, const struct link *link, bool held)
{
    pmc_charge_fds(pmc, held ? (long)link->facts.descriptors : -(long)link->facts.descriptors);
}

uint64_t links_bytes(unsigned links, unsigned n)
{
    return links > LINKS_FREE ? (uint64_t)(links - LINKS_FREE) * (LINK_BYTES + n * VALUE_BYTES) : 0;
}

void pmc_charge_links(struct pmc *pmc)
{
    const uint64_t bytes = links_bytes(pmc->links ? pmc->links->n : 0, pmc_values(pmc));

    user_charge_unchecked(pmc->user, USED_BYTES, (int64_t)(bytes - pmc->links_bytes));
    pmc->links_bytes = bytes;
}

bool pmc_add_to_tree(struct pmc *pmc, uint64_t id, uid_t uid, uid_t payer)
{
    struct engine *engine = pmc->engine;
    bool known = ids_add(&engine->pmcs, id, pmc),
         listed = known && ids_add(&pmc->instance->pmcs, id, pmc);

    pmc->id = id;
    if (listed && pmc_charge(pmc, uid, payer)) {
        ids_set_name(&pmc->instance->pmcs, id, pmc->name);
        pmc_touch(pmc);
        return true;
    }
    if (known)
        ids_remove(&engine->pmcs, id);
    if (listed)
        ids_remove(&pmc->instance->pmcs, id);
    return false;
}

void pmc_drop(struct pmc *pmc)
{
    instance_remove(pmc->instance, pmc);
    pmc->instance = NULL;
    pmc_unref(pmc);
}

void pmc_remove_from_tree(struct pmc *pmc)
{
    struct log_stats stats;

    pmc_touch(pmc);
    pmc_log_stats(pmc, &stats);
    log_stats_add(&pmc->instance->totals.released_logs, &stats);
    instance_remove(pmc->instance, pmc);
    ids_remove(&pmc->instance->pmcs, pmc->id);
    ids_remove(&pmc->engine->pmcs, pmc->id);
    pmc->engine->n_polled -= pmc->poll.is_polled;
    pmc->poll.is_polled = false;
    pmc->instance = NULL;
    atomic_store(&pmc->was_released, true);
    pmc_update_drain_list(pmc);
    user_charge_unchecked(pmc->user, USED_PMCS, -1);
    pmc_wake(pmc);
}

void pmc_defer(struct pmc *pmc, enum work_kind kind)
{
    if (engine_defer(pmc->engine, pmc_work(pmc, kind), kind))
        pmc_ref(pmc);
}

struct pmc *pmc_deferred_take(struct engine *engine, enum work_kind kind)
{
    struct work *work = work_take(&engine->deferred[kind], NULL);

    return work ? work_pmc(work, kind) : NULL;
}

void pmc_vanish(struct pmc *pmc)
{
    pmc->vanished_from = pmc->instance->id;
    pmc_defer(pmc, WORK_NAME);
    pmc_remove_from_tree(pmc);
    pmc_defer(pmc, WORK_CHANGE);
}

void pmc_changed(struct pmc *pmc)
{
    pmc_touch(pmc);
    pmc->change_number++;
    pmc->changed_ns = pmc->engine->host->realtime_ns(pmc->engine->host_state);
    pmc_wake(pmc);
}

uint64_t pmc_elapsed_ns(const struct pmc *pmc, uint64_t now_ns)
{
    bool runs = state_table[pmc->state].started && now_ns > pmc->run.started_ns;

    return pmc->run.ran_ns + (runs ? now_ns - pmc->run.started_ns : 0);
}

void pmc_set_state(struct pmc *pmc, enum pmc_state state)
{
    if (pmc->state == state)
        return;
    pmc->state = state;
    pmc_update_drain_list(pmc);
    pmc_changed(pmc);
}

unsigned pmc_links_left(const struct pmc *pmc)
{
    unsigned n = 0;

    for (unsigned i = 0; i < pmc->links->n; i++)
        n += pmc->links->link[i]->state != LINK_ENDED;
    return n;
}

void pmc_set_error(struct pmc *pmc, const char *line)
{
    char *copy = line ? strdup(line) : NULL;

    if (line && !copy)
        return;
    if (copy || pmc->error)
        pmc_touch(pmc);
    free(pmc->error);
    pmc->error = copy;
}

/* ---- sets of events ---- */

struct set *set_new(unsigned n)
{
    struct set *set = calloc(1, sizeof *set + n * sizeof set->event[0]);

    if (set)
        *set = (struct set){.refs = 1, .n = n};
    return set;
}

unsigned set_core_pmus(const struct engine *engine, const struct set *set)
{
    unsigned parts = 0;

    for (unsigned i = 0; set && i < set->n; i++)
        if (engine->classes[set->event[i].class_index].n_core_pmus > parts)
            parts = engine->classes[set->event[i].class_index].n_core_pmus;
    return parts;
}

struct set *set_ref(struct set *set)
{
    if (set)
        set->refs++;
    return set;
}

void set_unref(struct set *set)
{
    if (!set || --set->refs > 0)
        return;
    if (set->engine)
        HASH_DEL(set->engine->sets, set);
    for (unsigned i = 0; i < set->n; i++)
        event_clear(&set->event[i]);
    free(set);
}

/* Compares everything, because the meaning of a spelling may have changed. */
static bool set_same(const struct set *a, const struct set *b)
{
    const size_t facts = offsetof(struct event, class_index);
    bool same = a->n == b->n;

    for (unsigned i = 0; same && i < a->n; i++) {
        const struct event *x = &a->event[i], *y = &b->event[i];

        same = strcmp(x->written, y->written) == 0 && strcmp(x->resolved, y->resolved) == 0 &&
               memcmp((const char *)x + facts, (const char *)y + facts, sizeof *x - facts) == 0;
    }
    return same;
}

struct set *set_share(struct engine *engine, struct set *set)
{
    const char *written = set ? set->event[0].written : "";
    struct set *known;

    HASH_FIND_STR(engine->sets, written, known);
    if (!set || set->engine || (known && !set_same(known, set)))
        return set;
    if (known) {
        set_unref(set);
        return set_ref(known);
    }
    HASH_ADD_KEYPTR(hh, engine->sets, written, strlen(written), set);
    set->engine = hash_has(set) ? engine : NULL;
    return set;
}

void claim_members(struct claim *claim, const struct set *set, uint64_t row)
{
    for (unsigned i = 0; i < set->n; i++) {
        const struct event *event = &set->event[i];

        if (!event->rows)
            continue;
        claim->class_index = event->class_index;
        claim->member[claim->n++] =
            (struct claim_member){.fits = event->rows,
                                  .needed = event->rows_needed,
                                  .wanted = row == UINT64_MAX ? ROW_ANY : (int)row};
    }
}

/* ---- modes of events ---- */

struct plan_event pmc_plan_event(const struct event *event, const struct settings *settings,
                                 bool kernel)
{
    struct plan_event plan = {.event = event, .user = true, .kernel = true};

    if (event->counts_both_modes)
        return plan;
    if (event->user == MODIFIER_NONE && event->kernel == MODIFIER_NONE) {
        plan.user = settings->word[KEY_USER];
        plan.kernel = kernel;
    } else { /* the event's modifiers override the settings */
        plan.user = event->user == MODIFIER_ON;
        plan.kernel = event->kernel == MODIFIER_ON;
    }
    return plan;
}

void plan_event_print(const struct plan_event *plan, struct buf *out)
{
    buf_str(out, plan->event->resolved);
    if (!plan->kernel)
        buf_str(out, ":u");
    else if (!plan->user)
        buf_str(out, ":k");
}

void pmc_print_resolved(const struct pmc *pmc, unsigned i, struct buf *out)
{
    struct plan_event plan =
        pmc_plan_event(&pmc->set->event[i], &pmc->settings, pmc->counts_kernel);

    plan_event_print(&plan, out);
}

uint64_t pmc_names_bytes(const struct pmc *pmc)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < pmc_events(pmc); i++) {
        const struct event *event = &pmc->set->event[i];
        bytes += 2 * strlen(event->written) + strlen(event->resolved);
    }
    return bytes;
}

void pmc_print_path(const struct pmc *pmc, const struct instance *from, struct buf *out)
{
    if (pmc->instance != from)
        buf_printf(out, "instances/%s/", pmc->instance->name);
    buf_str(out, pmc->name);
}

struct plan link_plan(struct link *link, const struct opening *opening)
{
    const struct settings *settings = opening->settings;
    const struct sampling *sampling = opening->sampling;
    bool counts = !(opening->recorded & RECORDED_SAMPLES);

    return (struct plan){
        .events = opening->events,
        .n = opening->n,
        .target = {.kind = link->kind,
                   .pid = link->pid,
                   .tid = link->tid,
                   .cpu = link->cpu,
                   .cgroup_fd = link->cgroup_fd,
                   .alive = link_target_alive,
                   .alive_arg = link},
        .descendants = settings->word[KEY_DESCENDANTS],
        .at_exec = link->armed,
        .multiplex = settings->word[KEY_MULTIPLEX],
        .filter = settings->filter,
        .max_covered =
            (unsigned)tunable_u64(&link->pmc->engine->tunables, TUNABLE_MAX_COVERED_PER_PMC),
        .tag = link->id,
        .recorder = opening->recording ? recording_recorder(opening->recording) : NULL,
        .set_number = opening->set_number,
        .sampling = !counts,
        .period = sampling->period,
        .freq = sampling->freq,
        .skip_user = !settings->word[KEY_USER],
        .skip_kernel = settings_skip_kernel(settings),
        .chain_user = sampling->chain_user,
        .chain_kernel = sampling->chain_kernel,
        .max_frames = sampling->depth,
        .stack_bytes = sampling->stack,
        .raw = sampling->raw,
        .off_cpu = !counts && settings->word[KEY_OFFCPU],
        .values_at_switch = counts && (opening->recorded & RECORDED_SWITCHES),
        .values_at_exit = counts && opening->recorded,
    };
}

/* ---- events from outside ---- */

void pmc_change_later(struct pmc *pmc, uint64_t now_ns)
{
    const uint64_t pause_ns = 100000000;

    pmc_defer(pmc, WORK_CHANGE);
    pmc->waits_for_retry = true;
    if (!pmc->engine->retry_ns)
        pmc->engine->retry_ns = now_ns + pause_ns;
}

#define REATTACHES_MAX 20 /* changes queued at once, per second; later ones wait for the retry */

void pmc_schedule_reattach(struct pmc *pmc)
{
    const uint64_t now_ns = pmc->engine->host->now_ns(pmc->engine->host_state);

    pmc->reattach.due = true;
    pmc->reattach.tries = 0;
    if (now_ns - pmc->reattach.since_ns > 1000000000) {
        pmc->reattach.since_ns = now_ns;
        pmc->reattach.n = 0;
    }
    if (pmc->reattach.n++ < REATTACHES_MAX)
        pmc_defer(pmc, WORK_CHANGE);
    else
        pmc_change_later(pmc, now_ns);
    if (pmc->reattach.n > REATTACHES_MAX)
        pmc->reattach.n = REATTACHES_MAX;
}

/* ---- lifetime=owner ---- */

void pmc_set_owner(struct pmc *pmc, struct proc *proc)
{
    pmc->owner = proc;
    LIST_INSERT_HEAD(&proc->owned, pmc, owned);
}

void pmc_clear_owner(struct pmc *pmc, struct work_queue *unused)
{
    LIST_REMOVE(pmc, owned);
    proc_unref(pmc->owner, unused);
    pmc->owner = NULL;
}
