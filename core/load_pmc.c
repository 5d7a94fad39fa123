/*
 * The lines of one PMC: itself, its settings and events, its log, its targets and their counters.
 */
#include "core/load_state.h"

#include "core/engine.h"

#include <limits.h>
#include <stdlib.h>

/* What its own line says fits together. */
static bool pmc_sound(const struct loading *load, const struct pmc *pmc)
{
    const struct pmc_rest *rest = &load->expected;

    return (pmc->state == PMC_NEW) == !rest->events &&
           (rest->events || (!rest->links && !pmc->wants_all)) && load_id_sound(pmc->id) &&
           !ids_find(&load->engine->pmcs, pmc->id);
}

static bool pmc_fill(struct loading *load, struct pmc *pmc)
{
    struct pmc_rest *rest = &load->expected;

    if (!saved_scan(&saved_pmc, pmc, &load->line) ||
        !saved_scan(&saved_pmc_rest, rest, &load->line) || !pmc_sound(load, pmc))
        return false;
    struct links *links = links_new(rest->links);
    struct tally *base = tally_new(rest->events);
    pmc->set = rest->events ? set_new(rest->events) : NULL;
    if (!links || !base || (rest->events && !pmc->set)) {
        free(links);
        free(base);
        return false;
    }
    free(pmc->links);
    free(pmc->base);
    pmc->links = links;
    pmc->links->n = 0; /* grows as the links are read */
    pmc->base = base;
    return true;
}

/* "INSTANCE NAME", and the rest. */
static struct pmc *pmc_named(struct loading *load)
{
    struct word word;
    uint64_t id;
    bool fits = scan_u64(&load->line, INSTANCE_ID_MAX, &id) && scan_word(&load->line, &word);
    struct instance *instance = fits ? engine_instance(load->engine, id) : NULL;
    char *name = instance ? word_dup(word) : NULL;
    struct pmc *pmc = NULL;

    if (name && name_legal(name, NULL) && !instance_find(instance, name))
        pmc = pmc_new(instance, name);
    free(name);
    return pmc;
}

bool load_pmc(struct loading *load)
{
    struct engine *engine = load->engine;
    struct pmc *pmc = pmc_named(load);

    load->pmc = NULL;
    load->events = load->links = 0;
    if (!pmc)
        return false;
    if (!pmc_fill(load, pmc) || !pmc_put_on(pmc, pmc->id, pmc->uid, pmc->payer)) {
        pmc_drop(pmc);
        return false;
    }
    load->pmc = pmc;
    struct proc *owner = ids_find(&engine->procs, load->expected.owner);
    if (owner) {
        proc_ref(owner);
        pmc_own(pmc, owner);
    }
    pmc->cpus_stale = true;
    pmc_pend(pmc); /* what happened meanwhile is found out */
    return true;
}

static bool load_settings(struct loading *load)
{
    struct settings *settings = &load->pmc->settings;
    struct word pair, key, value;
    uint64_t given;

    if (!scan_u64(&load->line, UINT32_MAX, &given))
        return false;
    while (scan_word(&load->line, &pair)) {
        enum key which = word_split(pair, &key, &value) ? key_find(key) : KEYS;

        if (which == KEYS || which == KEY_EVENT || which == KEY_TARGET ||
            settings_set(settings, which, value, NULL) != 0)
            return false;
    }
    settings->given = (uint32_t)given;
    return true;
}

static bool load_event(struct loading *load)
{
    if (load->events >= load->expected.events)
        return false;
    struct event *event = &load->pmc->set->event[load->events++];

    return saved_scan(&saved_event, event, &load->line) &&
           event->class_index < load->engine->n_classes && event->written && event->resolved;
}

static bool load_base(struct loading *load)
{
    return tally_scan(load->pmc->base, load->expected.events, &load->line);
}

static bool claim_scan(struct loading *load, struct claim *claim)
{
    struct word cpus;
    bool fine = saved_scan(&saved_claim, claim, &load->line) &&
                claim->class_index < load->engine->n_classes && scan_word(&load->line, &cpus) &&
                (word_is(cpus, "-") || cpus_parse(&claim->cpus, cpus) == 0);

    for (unsigned i = 0; fine && i < claim->n; i++)
        fine = saved_scan(&saved_member, &claim->member[i], &load->line);
    return fine;
}

/* ---- its log ---- */

static bool load_sets(struct loading *load)
{
    struct pmc *pmc = load->pmc;

    uint64_t bytes;

    if (pmc->sets || !scan_u64(&load->line, INT64_MAX, &bytes) || !pmc_keeps_account(pmc) ||
        !(pmc->sets = log_sets_scan(line_rest(&load->line))))
        return false;
    account_add(pmc->account, (int64_t)bytes);
    pmc->sets_bytes = bytes;
    return true;
}

static bool load_log(struct loading *load)
{
    struct pmc *pmc = load->pmc;

    if (pmc->log || !pmc_keeps_account(pmc) || !(pmc->log = log_scan(line_rest(&load->line))))
        return false;
    log_set_charge(pmc->log, account_charge, pmc->account);
    return true;
}

static bool load_counted(struct loading *load)
{
    struct pmc *pmc = load->pmc;
    bool fine = !pmc->counted_before &&
                (pmc->counted_before = calloc(SET_MAX, sizeof *pmc->counted_before));

    for (unsigned i = 0; fine && i < load->expected.events; i++)
        fine = scan_u64(&load->line, UINT64_MAX, &pmc->counted_before[i]);
    return fine;
}

static bool load_recording(struct loading *load)
{
    struct engine *engine = load->engine;
    struct pmc *pmc = load->pmc;
    struct recording *recording;
    struct recording_plan plan = pmc_recording_plan(pmc, load->expected.events, pmc->recorded);

    plan.kernel = pmc->recorded_kernel;
    if (pmc->recording || !pmc->log || !pmc->recorded || !pmc->counted_before ||
        !engine->backend->recorder_new ||
        recording_adopt(&plan, pmc->first_start_ns > 0, line_rest(&load->line), &recording) != 0)
        return false;
    pmc_record(pmc, recording);
    account_add(pmc->account, (int64_t)pmc->recorded_bytes);
    pmc_follow(pmc);
    return true;
}

static bool load_claim(struct loading *load)
{
    struct pmc *pmc = load->pmc;
    struct claim *claim = pmc->claim ? NULL : calloc(1, sizeof *claim);

    if (!claim)
        return false;
    claim->pmc = pmc->id;
    claim->uid = pmc->uid;
    cpus_init(&claim->cpus);
    if (claim_scan(load, claim) && rows_retake(load->engine->rows, claim)) {
        pmc->claim = claim;
        return true;
    }
    cpus_free(&claim->cpus);
    free(claim);
    return false;
}

static bool load_link(struct loading *load)
{
    struct link *link = load->links < load->expected.links ? link_new(load->expected.events) : NULL;
    struct held held = {.rights = NULL};

    if (!link)
        return false;
    link->pmc = load->pmc;
    load->pmc->links->link[load->links++] = link;
    load->pmc->links->n = load->links;
    bool fine =
        saved_scan(&saved_link, link, &load->line) && saved_scan(&saved_held, &held, &load->line);
    struct proc *proc = fine ? ids_find(&load->engine->procs, held.proc) : NULL;
    if (proc)
        link_set_proc(link, proc);
    fine = held_take(&held, &link->rights) && fine;
    return fine && tally_scan(link->base, load->expected.events, &load->line) &&
           (link->kind != TARGET_CGROUP || link->cgroup) &&
           (link->kind >= TARGET_CPU || link->ended || link->proc);
}

static bool counter_adopt(struct engine *engine, struct pmc *pmc, struct link *link,
                          const char *printed)
{
    struct plan_event events[SET_MAX];
    struct opening opening = {
        .events = events,
        .n = pmc->set->n,
        .settings = &pmc->settings,
        .sampling = &pmc->sampling,
        .set = pmc->set_number,
        .recording = pmc->recording,
        .recorded = pmc->recording ? pmc->recorded : 0,
    };

    for (unsigned i = 0; i < pmc->set->n; i++)
        events[i] = pmc_plan_event(&pmc->set->event[i], &pmc->settings, pmc->kernel);
    struct plan plan = link_plan(link, &opening);
    plan.fds_free = plan.fds_quota = ULONG_MAX;
    if (engine->backend->adopt(engine->backend_state, &plan, printed, &link->counter) != 0)
        return false;
    if (pmc->recording)
        link->recording = recording_ref(pmc->recording);
    return true;
}

static bool load_counter(struct loading *load)
{
    struct engine *engine = load->engine;
    struct pmc *pmc = load->pmc;
    struct link *link = load->links ? pmc->links->link[load->links - 1] : NULL;

    if (!link || link->counter || !pmc->set || load->events < load->expected.events ||
        !load_id_sound(link->id) || ids_find(&engine->links, link->id) ||
        !counter_adopt(engine, pmc, link, line_rest(&load->line)))
        return false;
    pmc_hold_link(pmc, link, true);
    return ids_add(&engine->links, link->id, link);
}

/* ---- its lines ---- */

static const struct {
    const char *name;
    bool (*load)(struct loading *load);
} lines[] = {
    {"settings", load_settings},   {"event", load_event}, {"base", load_base},
    {"sets", load_sets},           {"log", load_log},     {"counted", load_counted},
    {"recording", load_recording}, {"claim", load_claim}, {"link", load_link},
    {"counter", load_counter},
};

bool load_pmc_line(struct loading *load, struct word name)
{
    for (unsigned i = 0; load->pmc && i < sizeof lines / sizeof lines[0]; i++)
        if (word_is(name, lines[i].name))
            return lines[i].load(load);
    return false;
}

bool load_pmc_complete(const struct loading *load)
{
    return !load->pmc ||
           (load->events == load->expected.events && load->links == load->expected.links);
}
