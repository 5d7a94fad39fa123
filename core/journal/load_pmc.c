/*
 * The lines of one PMC: itself, its settings and events, its log, its targets and their counters.
 */
#include "core/journal/load_state.h"

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

    if (!saved_scan(&saved_pmc, pmc, &load->line) || !pmc_sound(load, pmc))
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

static struct pmc *pmc_named(struct loading *load)
{
    const struct pmc_rest *rest = &load->expected;
    struct instance *instance = engine_instance(load->engine, rest->instance);
    bool fits = instance && rest->name && name_check(rest->name, NULL) == 0 &&
                !instance_find(instance, rest->name);

    return fits ? pmc_new(instance, rest->name) : NULL;
}

static bool load_itself(struct loading *load)
{
    struct engine *engine = load->engine;
    struct pmc *pmc = NULL;

    if (!load->pmc && saved_scan(&saved_pmc_rest, &load->expected, &load->line))
        pmc = pmc_named(load);
    free(load->expected.name);
    load->expected.name = NULL;
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
    struct scan line = load->line;
    struct word pair, key, value;
    uint64_t given;

    while (scan_word(&line, &pair)) {
        enum key which = word_split(pair, &key, &value) ? key_find(key) : KEYS;

        if (which == KEYS || which == KEY_EVENT || which == KEY_TARGET)
            continue;
        if (settings_set(settings, which, value, NULL) != 0)
            return false;
    }
    if (!line_u64(&load->line, "given", &given))
        return false;
    settings->given = (uint32_t)given;
    return true;
}

static bool load_event(struct loading *load)
{
    if (load->events >= load->expected.events)
        return false;
    struct event *event = &load->pmc->set->event[load->events++];

    return saved_scan(&saved_event, event, &load->line) && load_class(load, &event->class_index) &&
           event->written && event->resolved;
}

static bool load_base(struct loading *load)
{
    return tally_scan(load->pmc->base, load->expected.events, &load->line);
}

/* ---- its log ---- */

/* The records are behind the objects they name. A log that is not there any more begins anew. */
static bool log_load(struct loading *load)
{
    struct pmc *pmc = load->pmc;
    bool fresh = true;

    if (!load_sets_end(load, &pmc->sets))
        return false;
    if (pmc->sets) {
        user_add(pmc->user, USED_BYTES, (int64_t)load->expected.sets_bytes);
        pmc->sets_bytes = load->expected.sets_bytes;
    }
    if (load->expected.log)
        pmc->log = load_log(load->engine, load->expected.log, &fresh);
    if (pmc->log)
        user_add(pmc->user, USED_BYTES,
                 (int64_t)log_set_charge(pmc->log, user_charge_log, pmc->user));
    return true;
}

static bool load_counted(struct loading *load)
{
    struct pmc *pmc = load->pmc;

    return !pmc->counted_before &&
           (pmc->counted_before = calloc(SET_MAX, sizeof *pmc->counted_before)) &&
           numbers_scan("before", pmc->counted_before, load->expected.events, &load->line);
}

static bool recording_adopted(struct loading *load, struct recording **recording)
{
    const struct pmc *pmc = load->pmc;
    struct recording_plan plan = pmc_recording_plan(pmc, load->expected.events, pmc->recorded);

    plan.kernel = pmc->recorded_kernel;
    return recording_adopt(&plan, pmc->first_start_ns > 0, load_rest(load), recording) == 0;
}

static bool load_recording(struct loading *load)
{
    struct engine *engine = load->engine;
    struct pmc *pmc = load->pmc;
    struct recording *recording;
    if (pmc->recording || !log_load(load) || !pmc_keeps_log(pmc) || !pmc->recorded ||
        !pmc->counted_before || !engine->backend->recorder_new ||
        !recording_adopted(load, &recording))
        return false;
    pmc_record(pmc, recording);
    pmc_follow(pmc);
    return true;
}

static bool load_claim(struct loading *load)
{
    struct pmc *pmc = load->pmc;
    struct claim *claim = pmc->claim ? NULL : calloc(1, sizeof *claim);
    struct word cpus;

    if (!claim)
        return false;
    claim->pmc = pmc->id;
    claim->uid = pmc->uid;
    cpus_init(&claim->cpus);
    pmc->claim = claim; /* its rows are taken when all of it is there */
    return saved_scan(&saved_claim, claim, &load->line) && load_class(load, &claim->class_index) &&
           (!line_find(&load->line, "cpus", &cpus) || cpus_parse(&claim->cpus, cpus) == 0);
}

static bool load_member(struct loading *load)
{
    struct claim *claim = load->pmc->claim;

    return claim && load->members < claim->n &&
           saved_scan(&saved_member, &claim->member[load->members++], &load->line);
}

/* Without its rows it has none. */
static bool claim_take(struct loading *load)
{
    struct claim *claim = load->pmc->claim;

    if (!claim || (load->members == claim->n && rows_retake(load->engine->rows, claim)))
        return true;
    load->pmc->claim = NULL;
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
        !counter_adopt(engine, pmc, link, load_rest(load)))
        return false;
    pmc_hold_link(pmc, link, true);
    return ids_add(&engine->links, link->id, link);
}

/* ---- its lines ---- */

static const struct load_line lines[] = {
    {"pmc", load_itself},          {"settings", load_settings}, {"event", load_event},
    {"base", load_base},           {"sampled", load_sampled},   {"counted", load_counted},
    {"recording", load_recording}, {"claim", load_claim},       {"member", load_member},
    {"link", load_link},           {"counter", load_counter},   {NULL, NULL},
};

bool load_pmc(struct loading *load, const char *text, size_t len)
{
    bool fine = load_lines(load, lines, text, len) && load->pmc;

    if (!load->pmc)
        return false;
    if (load->pmc->recording == NULL)
        fine = log_load(load) && fine;
    return claim_take(load) && fine && load->events == load->expected.events &&
           load->links == load->expected.links;
}
