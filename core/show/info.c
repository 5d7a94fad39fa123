/*
 * The texts of info/ and of events/CLASS/EVENT.
 */
#include "core/engine.h"
#include "core/pmc/metric.h"
#include "core/pmc/pmc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_fact(struct buf *out, const char *name, uint64_t value)
{
    buf_printf(out, "%s %" PRIu64 "\n", name, value);
}

int show_info_version(struct call *call)
{
    buf_str(call->out, "pmcfs " PMCFS_VERSION "\n");
    print_fact(call->out, "interface", PMCFS_INTERFACE);
    return CALL_DONE;
}

/* ---- texts that read the system's files, without the lock ---- */

/* Prints `head` and the backend's text. */
static int print_unlocked(struct call *call, const char *head,
                          void (*print)(struct backend_state *state, struct buf *out))
{
    struct buf text = {0};

    lock_drop(call, false);
    buf_str(&text, head);
    print(call->engine->backend_state, &text);
    lock_retake(call);
    buf_add(call->out, text.data, text.len);
    call->out->failed |= text.failed;
    buf_free(&text);
    return CALL_DONE;
}

int show_info_backend(struct call *call)
{
    char head[64];

    snprintf(head, sizeof head, "%s\n", call->engine->backend->name);
    return print_unlocked(call, head, call->engine->backend->print_facts);
}

int show_info_cpuref(struct call *call)
{
    return print_unlocked(call, "", call->engine->backend->print_cpuref);
}

int show_info_cpu(struct call *call)
{
    buf_printf(call->out, "%s\n", call->engine->processor);
    return CALL_DONE;
}

/* ---- texts from the engine's state ---- */

int show_info_cpus(struct call *call)
{
    buf_str(call->out, "possible ");
    cpus_print(&call->engine->possible, call->out);
    buf_str(call->out, "\nonline ");
    cpus_print(&call->engine->online, call->out);
    buf_char(call->out, '\n');
    return CALL_DONE;
}

bool engine_cpu_has_row(const struct engine *engine, unsigned cpu, unsigned number)
{
    for (unsigned i = 0; i < engine->n_classes; i++) {
        const struct class_info *class = &engine->classes[i];

        if (number < class->rows)
            return !cpus_count(&class->cpus) || cpus_has(&class->cpus, cpu);
        number -= class->rows;
    }
    return false;
}

unsigned engine_n_rows(const struct engine *engine)
{
    unsigned n = 0;

    for (unsigned i = 0; i < engine->n_classes; i++)
        n += engine->classes[i].rows;
    return n;
}

int show_info_npmc(struct call *call)
{
    buf_printf(call->out, "%u\n", engine_n_rows(call->engine));
    return CALL_DONE;
}

int show_info_classes(struct call *call)
{
    static const char *const names[] = {"interrupt", "user",  "system", "edge",      "threshold",
                                        "read",      "write", "invert", "qualifier", "precise"};
    const struct engine *engine = call->engine;
    struct buf *out = call->out;

    for (unsigned i = 0; i < engine->n_classes; i++) {
        const struct class_info *class = &engine->classes[i];
        const char *before = "";

        buf_printf(out, "%s rows %u width %u capabilities ", class->name, class->rows,
                   class->width);
        for (unsigned bit = 0; bit < sizeof names / sizeof names[0]; bit++) {
            if (!(class->capabilities >> bit & 1))
                continue;
            buf_printf(out, "%s%s", before, names[bit]);
            before = ",";
        }
        buf_str(out, *before ? " cpus " : "- cpus ");
        cpus_print(cpus_count(&class->cpus) ? &class->cpus : &engine->possible, out);
        buf_str(out, rows_overcommitted(engine->rows, i) ? " overcommitted\n" : "\n");
    }
    return CALL_DONE;
}

int show_info_stats(struct call *call)
{
    static const char *const names[STAT_COUNT] = {
        [STAT_REQUESTS] = "requests", [STAT_WAITING] = "parked",  [STAT_OPEN_FILES] = "open_files",
        [STAT_WORKS] = "works",       [STAT_RELOADS] = "reloads", [STAT_RESTARTS] = "restarts",
    };
    struct engine *engine = call->engine;
    struct instance *instance = call->instance;
    const bool all = instance_is_root(instance);
    const struct totals *totals = all ? &engine->totals : &instance->totals;
    struct ids *pmcs = all ? &engine->pmcs : &instance->pmcs;
    struct log_stats logs = totals->released_logs, stats;
    struct buf *out = call->out;
    uint64_t id = 0;

    for (struct pmc *pmc; (pmc = ids_next(pmcs, id, &id));) {
        pmc_log_stats(pmc, &stats);
        log_stats_add(&logs, &stats);
    }
    /* hwpmc's eight statistics, or the nearest equivalents */
    print_fact(out, "intr_ignored", logs.hidden);
    print_fact(out, "intr_processed", logs.records);
    print_fact(out, "intr_bufferfull", logs.kernel_lost);
    print_fact(out, "syscalls", totals->operations);
    print_fact(out, "syscall_errors", totals->failed);
    print_fact(out, "buffer_requests", logs.records + logs.refused);
    print_fact(out, "buffer_requests_failed", logs.refused);
    print_fact(out, "log_sweeps", totals->drains);
    print_fact(out, "pmcs", pmcs->n);
    print_fact(out, "descriptors", all ? engine->fds_used : instance->account->used[USED_FDS]);
    print_fact(out, "attaches", totals->attaches);
    print_fact(out, "attaches_raced", totals->raced);
    print_fact(out, "log_lost", logs.lost + logs.refused);
    print_fact(out, "kernel_lost", logs.kernel_lost);
    print_fact(out, "throttled", logs.throttled);
    print_fact(out, "hidden", logs.hidden);
    if (!all)
        return CALL_DONE;
    for (unsigned i = 0; i < STAT_COUNT; i++)
        print_fact(out, names[i], engine->stats[i]);
    print_fact(out, "processes", engine->procs.n);
    print_fact(out, "descriptors_limit", engine->fd_limit);
    print_fact(out, "instances", engine->instances.n);
    return CALL_DONE;
}

int show_info_tsc(struct call *call)
{
    print_fact(call->out, "rate_hz", call->engine->host->tsc_hz(call->engine->host_state));
    print_fact(call->out, "value", call->engine->host->tsc(call->engine->host_state));
    return CALL_DONE;
}

int show_info_last_error(struct call *call)
{
    uid_t uid = call->rights ? call->rights->uid : call->uid;

    buf_printf(call->out, "%s\n", instance_error(call->instance, uid));
    return CALL_DONE;
}

/* ---- events/CLASS/EVENT ---- */

/* Describes an event without the lock, because that reads the system's files. */
int show_catalog_event(struct call *call)
{
    struct engine *engine = call->engine;
    const struct catalog_entry *entry = catalog_event_by_id(&engine->catalog, call->object);
    char *event = entry ? strdup(entry->event) : NULL;
    char *class_name = entry ? strdup(entry->class_name) : NULL;
    int rc = entry ? CALL_DONE : -ENOENT;
    struct buf text = {0};

    if (entry && (!event || !class_name))
        rc = err_nomem(&call->err);
    if (rc == CALL_DONE) {
        lock_drop(call, false);
        rc = strcmp(class_name, METRIC_CLASS) == 0
                 ? metric_describe(event, &text)
                 : engine->backend->describe(engine->backend_state, class_name, event, &text);
        lock_retake(call);
    }
    if (text.failed)
        rc = err_nomem(&call->err);
    buf_add(call->out, text.data, text.len);
    buf_free(&text);
    free(event);
    free(class_name);
    return rc;
}

/* ---- info/rows: the holders of the rows, as an instance sees them ---- */

/* The process that created a PMC, with its PID in the reader's namespace. */
struct creator {
    uint64_t pmc, key;
    pid_t pid, shown;
};

struct creators {
    struct creator *items; /* sorted by PMC */
    size_t n, cap;
};

static int creator_compare(const void *a, const void *b)
{
    const uint64_t x = ((const struct creator *)a)->pmc, y = ((const struct creator *)b)->pmc;

    return (x > y) - (x < y);
}

/* Prints the cells of a line from the column `users` on. They describe the row's oldest PMC. */
static void print_row_users(const struct call *call, const struct creators *creators,
                            const struct slot_view *view)
{
    static const enum key flags[] = {KEY_DESCENDANTS, KEY_CALLCHAIN, KEY_LOG_CSW, KEY_LOG_EXIT};
    const struct pmc *pmc = view->oldest ? ids_find(&call->engine->pmcs, view->oldest) : NULL;
    const struct creator wanted = {.pmc = view->oldest};
    const struct creator *creator =
        creators->n ? bsearch(&wanted, creators->items, creators->n, sizeof wanted, creator_compare)
                    : NULL;
    struct buf *out = call->out;
    char before = ' ';

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
    if (creator && creator->shown)
        buf_printf(out, " %d ", (int)creator->shown);
    else
        buf_str(out, " - "); /* gone, or not visible to the reader */
    for (unsigned i = 0; i < pmc_events(pmc); i++)
        buf_printf(out, "%s%s", i ? "+" : "", pmc->set->event[i].written);
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
        buf_char(out, '-'); /* with freq= the kernel chooses it */
    buf_char(out, '\n');
}

static void print_rows(const struct call *call, const struct creators *creators)
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
            struct slot_view view;

            for (unsigned row = 0; here && row < class->rows; row++) {
                rows_view(engine->rows, call->instance->id, (unsigned)cpu, i, row, &view);
                buf_printf(call->out, "%d %u %s-%u %s %s %s ", cpu, number + row, class->name, row,
                           class->name, disposition_name(view.disposition), slot_name(view.state));
                print_row_users(call, creators, &view);
            }
            number += class->rows;
        }
    }
}

int show_info_rows(struct call *call)
{
    const struct host *host = call->engine->host;
    struct host_state *state = call->engine->host_state;
    struct creators creators = {0}; /* the creators of the PMCs that the reader may read */
    uint64_t id = 0;
    int rc = CALL_DONE;

    for (struct pmc *pmc; rc == CALL_DONE && (pmc = ids_next(&call->engine->pmcs, id, &id));) {
        const struct creator creator = {
            .pmc = id, .key = pmc->creator_key, .pid = pmc->creator_pid};

        if (pmc->claim && access_read(pmc, call->instance, call->rights) &&
            vec_push(&creators, creator))
            rc = err_nomem(&call->err);
    }
    if (rc == CALL_DONE && creators.n)
        rc = slow_admit(call);
    if (rc == CALL_DONE && creators.n) {
        lock_drop(call, true);
        for (size_t i = 0; i < creators.n; i++) {
            struct creator *creator = &creators.items[i];

            if (i && creator[-1].pid == creator->pid && creator[-1].key == creator->key)
                creator->shown = creator[-1].shown;
            else if (creator->key && host->pid_key(state, creator->pid) == creator->key)
                creator->shown = host->pid_seen_by(state, call->tid, creator->pid);
        }
        lock_retake(call);
    }
    if (rc == CALL_DONE && !call->instance)
        rc = err_set(&call->err, P26, "the instance of this file was removed");
    if (rc == CALL_DONE)
        print_rows(call, &creators);
    free(creators.items);
    return rc;
}

/* ---- upper bounds of the lengths of texts ---- */

#define LINE_MAX  512 /* names of a PMC and its instance, and numbers */
#define EVENT_MAX (64u << 10)

/* A process PMC appears, with all its events, in the lines of its rows of every CPU. */
uint64_t bound_rows(const struct call *call)
{
    struct engine *engine = call->engine;
    uint64_t lines = engine_n_rows(engine), bound = (lines + 1) * LINE_MAX, id = 0;

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

/* Enough for a line for each unit mask and attribute. */
uint64_t bound_event(const struct call *call)
{
    (void)call;
    return EVENT_MAX;
}
