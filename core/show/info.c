/*
 * The texts of info/, except info/rows, and of events/CLASS/EVENT.
 */
#include "core/engine.h"
#include "core/files.h"
#include "core/pmc/metric.h"
#include "core/pmc/pmc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void fact(struct buf *out, const char *name, uint64_t value)
{
    buf_printf(out, "%s %" PRIu64 "\n", name, value);
}

int show_info_version(struct call *call)
{
    buf_str(call->out, "pmcfs " PMCFS_VERSION "\n");
    fact(call->out, "interface", PMCFS_INTERFACE);
    return CALL_DONE;
}

/* ---- texts that read the system's files, without the lock ---- */

static int look_up(struct call *call, void (*print)(const struct engine *engine, struct buf *out))
{
    struct buf text;

    buf_init(&text, NULL, 0);
    slow_begin(call, false);
    print(call->engine, &text);
    slow_end(call);
    buf_free(call->out);
    *call->out = text;
    return CALL_DONE;
}

static void print_backend(const struct engine *engine, struct buf *out)
{
    buf_printf(out, "%s\n", engine->backend->name);
    engine->backend->facts(engine->backend_state, out);
}

int show_info_backend(struct call *call)
{
    return look_up(call, print_backend);
}

int show_info_cpu(struct call *call)
{
    buf_printf(call->out, "%s\n", call->engine->machine);
    return CALL_DONE;
}

static void print_cpuref(const struct engine *engine, struct buf *out)
{
    engine->backend->cpuref(engine->backend_state, out);
}

int show_info_cpuref(struct call *call)
{
    return look_up(call, print_cpuref);
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

bool engine_row_is_on(const struct engine *engine, unsigned cpu, unsigned number)
{
    for (unsigned i = 0; i < engine->n_classes; i++) {
        const struct class_info *class = &engine->classes[i];

        if (number < class->rows)
            return !cpus_count(&class->cpus) || cpus_has(&class->cpus, cpu);
        number -= class->rows;
    }
    return false;
}

unsigned engine_rows(const struct engine *engine)
{
    unsigned n = 0;

    for (unsigned i = 0; i < engine->n_classes; i++)
        n += engine->classes[i].rows;
    return n;
}

int show_info_npmc(struct call *call)
{
    buf_printf(call->out, "%u\n", engine_rows(call->engine));
    return CALL_DONE;
}

static void capabilities(unsigned mask, struct buf *out)
{
    static const char *const names[] = {"interrupt", "user",  "system", "edge",      "threshold",
                                        "read",      "write", "invert", "qualifier", "precise"};
    const char *before = "";

    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!(mask >> i & 1))
            continue;
        buf_printf(out, "%s%s", before, names[i]);
        before = ",";
    }
    buf_str(out, *before ? "" : "-");
}

int show_info_classes(struct call *call)
{
    const struct engine *engine = call->engine;

    for (unsigned i = 0; i < engine->n_classes; i++) {
        const struct class_info *class = &engine->classes[i];

        buf_printf(call->out, "%s rows %u width %u capabilities ", class->name, class->rows,
                   class->width);
        capabilities(class->capabilities, call->out);
        buf_str(call->out, " cpus ");
        cpus_print(cpus_count(&class->cpus) ? &class->cpus : &engine->possible, call->out);
        if (rows_overcommitted(engine->rows, i))
            buf_str(call->out, " overcommitted");
        buf_char(call->out, '\n');
    }
    return CALL_DONE;
}

/* Adds up the statistics of all logs, including released ones. */
static struct log_stats log_sums(struct ids *pmcs, const struct totals *work)
{
    struct log_stats sums = work->released, stats;
    uint64_t id = 0;

    for (struct pmc *pmc; (pmc = ids_next(pmcs, id, &id));) {
        pmc_log_stats(pmc, &stats);
        log_add(&sums, &stats);
    }
    return sums;
}

/* Prints hwpmc's eight statistics, or the nearest equivalents. */
static void print_eight(struct buf *out, const struct log_stats *logs, const struct totals *work)
{
    fact(out, "intr_ignored", logs->hidden);
    fact(out, "intr_processed", logs->records);
    fact(out, "intr_bufferfull", logs->kernel_lost);
    fact(out, "syscalls", work->operations);
    fact(out, "syscall_errors", work->failed);
    fact(out, "buffer_requests", logs->records + logs->refused);
    fact(out, "buffer_requests_failed", logs->refused);
    fact(out, "log_sweeps", work->drained);
}

/* Prints statistics of the daemon. */
static void print_daemon(struct buf *out, const struct engine *engine)
{
    static const char *const names[STAT_COUNT] = {
        [STAT_REQUESTS] = "requests", [STAT_PARKED] = "parked",   [STAT_OPEN_FILES] = "open_files",
        [STAT_WORKS] = "works",       [STAT_RELOADS] = "reloads", [STAT_RESTARTS] = "restarts",
    };

    for (unsigned i = 0; i < STAT_COUNT; i++)
        fact(out, names[i], engine->stats[i]);
    fact(out, "processes", engine->procs.n);
    fact(out, "descriptors_limit", engine->fd_limit);
    fact(out, "instances", engine->instances.n);
}

int show_info_stats(struct call *call)
{
    struct engine *engine = call->engine;
    struct instance *instance = call->instance;
    const bool all = instance_is_root(instance);
    const struct totals *work = all ? &engine->work : &instance->work;
    struct ids *pmcs = all ? &engine->pmcs : &instance->pmcs;
    const struct log_stats logs = log_sums(pmcs, work);
    struct buf *out = call->out;

    print_eight(out, &logs, work);
    fact(out, "pmcs", pmcs->n);
    fact(out, "descriptors", all ? engine->fds_used : instance->share->used[USED_FDS]);
    fact(out, "attaches", work->attaches);
    fact(out, "attaches_raced", work->raced);
    fact(out, "log_lost", logs.lost + logs.refused);
    fact(out, "kernel_lost", logs.kernel_lost);
    fact(out, "throttled", logs.throttled);
    fact(out, "hidden", logs.hidden);
    if (all)
        print_daemon(out, engine);
    return CALL_DONE;
}

int show_info_tsc(struct call *call)
{
    fact(call->out, "rate_hz", call->engine->host->tsc_hz(call->engine->host_state));
    fact(call->out, "value", call->engine->host->tsc(call->engine->host_state));
    return CALL_DONE;
}

int show_info_last_error(struct call *call)
{
    uid_t uid = call->rights ? call->rights->uid : call->uid;

    buf_printf(call->out, "%s\n", instance_error(call->instance, uid));
    return CALL_DONE;
}

/* ---- events/CLASS/EVENT ---- */

static int event_describe(const struct engine *engine, const char *class_name, const char *event,
                          struct buf *out)
{
    if (strcmp(class_name, METRIC_CLASS) == 0)
        return metric_describe(event, out);
    return engine->backend->describe(engine->backend_state, class_name, event, out);
}

/* Describes an event without the lock, because that reads the system's files. */
int show_catalog_event(struct call *call)
{
    struct engine *engine = call->engine;
    const struct catalog_entry *entry = catalog_event_by_id(&engine->catalog, call->index);
    char *event = entry ? strdup(entry->event) : NULL;
    char *class_name = entry ? strdup(entry->class_name) : NULL;
    int rc = entry ? CALL_DONE : -ENOENT;
    struct buf text;

    buf_init(&text, NULL, 0);
    if (entry && (!event || !class_name))
        rc = err_nomem(&call->err);
    if (rc == CALL_DONE) {
        slow_begin(call, false);
        rc = event_describe(engine, class_name, event, &text);
        slow_end(call);
    }
    if (text.failed)
        rc = err_nomem(&call->err);
    buf_add(call->out, text.data, text.len);
    buf_free(&text);
    free(event);
    free(class_name);
    return rc;
}
