/*
 * How long a text can become, for the size that its file shows: never less than the text, and found
 * without making it, so more than that as a rule.
 */
#include "core/engine.h"
#include "core/files.h"
#include "core/pmc/pmc.h"

#include <string.h>

#define CELLS_MAX  192  /* the numbers, unit and scale of a line of `detail` */
#define LINE_MAX   512  /* names of a PMC and its instance, and numbers */
#define LINES      6    /* of a PMC in metrics.prom besides its counts */
#define ESCAPED    4    /* a byte of a user's name, as \ooo */
#define ONE        2048 /* what a PMC's texts have besides its events and targets */
#define WORD       16
#define EVENT_MAX  (64u << 10)
#define SERIES_MAX (1u << 20)

static uint64_t words_bound(const struct pmc *pmc)
{
    uint64_t words = 0;

    for (unsigned i = 0; i < pmc_events(pmc); i++) {
        const struct event *event = &pmc->set->event[i];
        words += 2 * strlen(event->written) + strlen(event->resolved);
    }
    return words;
}

/* Everything is said once for each event and target, and for the sum: the table of `detail`. */
uint64_t bound_pmc(const struct call *call)
{
    const struct pmc *pmc = call->pmc;
    const struct links *links = pmc->links;
    uint64_t labels = 0;

    for (unsigned i = 0; i < links->n; i++)
        if (links->link[i]->cgroup)
            labels += ESCAPED * strlen(links->link[i]->cgroup);
    return ONE + (links->n + 1) * (words_bound(pmc) + pmc_events(pmc) * CELLS_MAX) +
           pmc_events(pmc) * labels;
}

/* metrics.prom has a line for each event, or for that and each CPU, and some for the PMC. */
static uint64_t metrics_bound(const struct pmc *pmc)
{
    const char *instance = pmc->instance->name; /* NULL: the root */
    uint64_t names = strlen(pmc->name) + (instance ? strlen(instance) : 0);
    uint64_t lines = (uint64_t)pmc_events(pmc) * (pmc->links->n + 1) + LINES;

    return lines * (names + CELLS_MAX) + (pmc->links->n + 1) * words_bound(pmc);
}

/* Asked for with each listing of the directory: found anew only when something has changed. */
uint64_t bound_counts(const struct call *call)
{
    struct engine *engine = call->engine;
    struct instance *instance = call->instance;
    struct ids *pmcs = instance_is_root(instance) ? &engine->pmcs : &instance->pmcs;
    uint64_t id = 0;

    if (instance->bound && instance->bound_at == engine->touches)
        return instance->bound;
    instance->bound = 2 * ONE;
    for (struct pmc *pmc; (pmc = ids_next(pmcs, id, &id));)
        instance->bound += metrics_bound(pmc);
    instance->bound_at = engine->touches;
    return instance->bound;
}

/* A PMC of processes stands, with its whole set, on the lines of its rows for every CPU. */
uint64_t bound_rows(const struct call *call)
{
    struct engine *engine = call->engine;
    uint64_t lines = engine_rows(engine), bound = (lines + 1) * LINE_MAX, id = 0;

    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));)
        for (unsigned i = 0; i < pmc_events(pmc); i++)
            bound += pmc_events(pmc) * (strlen(pmc->set->event[i].written) + 1);
    return bound * cpus_count(&engine->online);
}

/* A line for each class, with the numbers of its CPUs. */
uint64_t bound_classes(const struct call *call)
{
    const struct engine *engine = call->engine;

    return (engine->n_classes + 2u) * (LINE_MAX + UINT64_C(6) * cpus_count(&engine->possible));
}

/* Umasks and attributes, a line each. */
uint64_t bound_event(const struct call *call)
{
    (void)call;
    return EVENT_MAX;
}

/* A number in the log is a word in its text: a file and an offset where it is a frame. */
uint64_t bound_log(const struct call *call)
{
    const struct pmc *pmc = call->pmc;
    bool goes_on = !state_table[pmc->state].settable && pmc->settings.word[KEY_LOG];
    struct log_stats stats;

    pmc_log_stats(pmc, &stats);
    return ONE + WORD * (goes_on ? log_size(pmc->engine, &pmc->settings) : stats.bytes);
}

/* While it runs that is not known; less(1) shows no more of a file than this. */
uint64_t bound_series(const struct call *call)
{
    return state_table[call->pmc->state].settable ? bound_pmc(call) : SERIES_MAX;
}
