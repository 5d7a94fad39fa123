/*
 * info/rows: the holders of the rows, as an instance sees them. PIDs are translated without the
 * lock.
 */
#include "core/base/vec.h"
#include "core/engine.h"
#include "core/files.h"
#include "core/pmc/pmc.h"

#include <stdlib.h>

/* The process that created a PMC, with its PID in the reader's namespace. */
struct maker {
    uint64_t pmc, key;
    pid_t pid, shown;
};

struct makers {
    VEC(struct maker) of; /* sorted by PMC */
};

/* Prints the settings. With freq= the kernel chooses the reload count. */
static void row_settings(struct buf *out, const struct pmc *pmc)
{
    static const enum key flags[] = {KEY_DESCENDANTS, KEY_CALLCHAIN, KEY_LOG_CSW, KEY_LOG_EXIT};
    char before = ' ';

    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (!pmc->settings.word[flags[i]])
            continue;
        buf_printf(out, "%c%s", before, key_table[flags[i]].name);
        before = ',';
    }
    buf_str(out, before == ' ' ? " - " : " ");
    if (pmc->sampling.period)
        buf_u64(out, pmc->sampling.period);
    else
        buf_char(out, '-');
    buf_char(out, '\n');
}

static int maker_compare(const void *a, const void *b)
{
    const uint64_t x = ((const struct maker *)a)->pmc, y = ((const struct maker *)b)->pmc;

    return (x > y) - (x < y);
}

/* Prints the PID, or `-` if the process is gone or not visible to the reader. */
static void row_maker(const struct makers *makers, const struct pmc *pmc, struct buf *out)
{
    const struct maker wanted = {.pmc = pmc->id};
    const struct maker *maker = makers->of.n ? bsearch(&wanted, makers->of.items, makers->of.n,
                                                       sizeof wanted, maker_compare)
                                             : NULL;

    if (maker && maker->shown)
        buf_printf(out, " %d ", (int)maker->shown);
    else
        buf_str(out, " - ");
}

static void row_owner(const struct call *call, const struct makers *makers,
                      const struct slot_view *view)
{
    const struct pmc *pmc = view->oldest ? ids_find(&call->engine->pmcs, view->oldest) : NULL;
    struct buf *out = call->out;

    buf_u64(out, view->users);
    if (!pmc) {
        buf_str(out, " - - - - - -\n");
        return;
    }
    if (!access_read(pmc, call->instance, call->rights)) {
        buf_str(out, " other other other other - -\n");
        return;
    }
    buf_char(out, ' ');
    pmc_print_path(pmc, call->instance, out);
    buf_printf(out, " %u", pmc->uid);
    row_maker(makers, pmc, out);
    for (unsigned i = 0; i < pmc_events(pmc); i++)
        buf_printf(out, "%s%s", i ? "+" : "", pmc->set->event[i].written);
    row_settings(out, pmc);
}

static void row_line(const struct call *call, const struct makers *makers, unsigned cpu,
                     unsigned class_index, unsigned row, unsigned number)
{
    const struct engine *engine = call->engine;
    const char *class = engine->classes[class_index].name;
    struct slot_view view;

    rows_view(engine->rows, call->instance->id, cpu, class_index, row, &view);
    buf_printf(call->out, "%u %u %s-%u %s %s %s ", cpu, number, class, row, class,
               disposition_name(view.disposition), slot_name(view.state));
    row_owner(call, makers, &view);
}

static void rows_lines(const struct call *call, const struct makers *makers)
{
    const struct engine *engine = call->engine;

    buf_str(call->out,
            "cpu row name class disposition state users pmc uid pid event flags reload\n");
    for (int cpu = cpus_next(&engine->online, 0); cpu >= 0;
         cpu = cpus_next(&engine->online, cpu + 1)) {
        unsigned number = 0;

        for (unsigned i = 0; i < engine->n_classes; i++) {
            const struct class_info *class = &engine->classes[i];
            bool here = !cpus_count(&class->cpus) || cpus_has(&class->cpus, (unsigned)cpu);

            for (unsigned row = 0; here && row < class->rows; row++)
                row_line(call, makers, (unsigned)cpu, i, row, number + row);
            number += class->rows;
        }
    }
}

/* Lists the creators of the PMCs that the reader may read. Returns false on ENOMEM. */
static bool makers_list(const struct call *call, struct makers *makers)
{
    uint64_t id = 0;

    for (struct pmc *pmc; (pmc = ids_next(&call->engine->pmcs, id, &id));) {
        const struct maker maker = {.pmc = id, .key = pmc->maker_key, .pid = pmc->maker};

        if (pmc->claim && access_read(pmc, call->instance, call->rights) &&
            vec_push(&makers->of, maker))
            return false;
    }
    return true;
}

static void makers_look(const struct call *call, struct makers *makers)
{
    const struct host *host = call->engine->host;
    struct host_state *state = call->engine->host_state;

    for (size_t i = 0; i < makers->of.n; i++) {
        struct maker *maker = &makers->of.items[i];

        if (i && maker[-1].pid == maker->pid && maker[-1].key == maker->key)
            maker->shown = maker[-1].shown;
        else if (maker->key && host->pid_key(state, maker->pid) == maker->key)
            maker->shown = host->process_seen_by(state, call->tid, maker->pid);
    }
}

int show_info_rows(struct call *call)
{
    struct makers makers = {0};
    int rc = makers_list(call, &makers) ? CALL_DONE : err_nomem(&call->err);

    if (rc == CALL_DONE && makers.of.n)
        rc = slow_admit(call);
    if (rc == CALL_DONE && makers.of.n) {
        slow_begin(call, true);
        makers_look(call, &makers);
        slow_end(call);
    }
    if (rc == CALL_DONE && !call->instance)
        rc = err_set(&call->err, P26, "the instance of this file was removed");
    if (rc == CALL_DONE)
        rows_lines(call, &makers);
    free(makers.of.items);
    return rc;
}
