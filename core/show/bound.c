/*
 * Upper bounds of the lengths of texts, for the sizes of files. Computed without making the text,
 * and usually larger.
 */
#include "core/engine.h"
#include "core/files.h"
#include "core/pmc/pmc.h"

#include <string.h>

#define CELLS_MAX  192  /* numbers, unit and scale in a line of `detail` */
#define LINE_MAX   512  /* names of a PMC and its instance, and numbers */
#define LINES      6    /* lines of a PMC in metrics.prom in addition to its counts */
#define ESCAPED    4    /* a byte of a name, escaped as \ooo */
#define ONE        2048 /* parts of a PMC's texts that do not depend on events and targets */
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

/* `detail` is the longest text: a line for each event and target, and sums. */
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

/* metrics.prom has a line for each event, or for each event and CPU, and some for the PMC. */
static uint64_t metrics_bound(const struct pmc *pmc)
{
    const char *instance = pmc->instance->name; /* NULL: the root */
    uint64_t names = strlen(pmc->name) + (instance ? strlen(instance) : 0);
    uint64_t lines = (uint64_t)pmc_events(pmc) * (pmc->links->n + 1) + LINES;

    return lines * (names + CELLS_MAX) + (pmc->links->n + 1) * words_bound(pmc);
}

/* Cached, because each listing of the directory needs it. */
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

/* A process PMC appears, with all its events, in the lines of its rows of every CPU. */
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

/* A line for each unit mask and attribute. */
uint64_t bound_event(const struct call *call)
{
    (void)call;
    return EVENT_MAX;
}

/* Each number of the log may become a word of text: a frame becomes a file and an offset. */
uint64_t bound_log(const struct call *call)
{
    const struct pmc *pmc = call->pmc;
    bool goes_on = !state_table[pmc->state].settable && pmc->settings.word[KEY_LOG];
    struct log_stats stats;

    pmc_log_stats(pmc, &stats);
    return ONE + WORD * (goes_on ? log_size(pmc->engine, &pmc->settings) : stats.bytes);
}

/* The length of a stream is not known; less(1) shows no more than this. */
uint64_t bound_series(const struct call *call)
{
    return state_table[call->pmc->state].settable ? bound_pmc(call) : SERIES_MAX;
}
