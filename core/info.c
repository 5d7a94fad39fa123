/*
 * The texts of info/ and of events/CLASS/EVENT: the machine, statistics. Rows: info_rows.c.
 */
#include "core/engine.h"
#include "core/files.h"
#include "core/metric.h"
#include "core/pmc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void fact(struct buf *out, const char *name, uint64_t value)
{
    buf_str(out, name);
    buf_char(out, ' ');
    buf_u64(out, value);
    buf_char(out, '\n');
}

int show_info_version(struct call *call)
{
    buf_str(call->out, "pmcfs " PMCFS_VERSION "\n");
    fact(call->out, "interface", PMCFS_INTERFACE);
    return CALL_DONE;
}

/* ---- what has to be looked up in the machine's files: works ---- */

struct lookup {
    struct work work;
    const struct engine *engine;
    void (*print)(const struct engine *engine, struct buf *out);
    struct buf text;
};

static void lookup_run(struct work *work)
{
    struct lookup *lookup = (struct lookup *)work;

    lookup->print(lookup->engine, &lookup->text);
}

static int lookup_finish(struct call *call, struct work *work)
{
    struct lookup *lookup = (struct lookup *)work;
    int rc = lookup->text.failed ? err_nomem(&call->err) : CALL_DONE;

    buf_add(call->out, lookup->text.data, lookup->text.len);
    buf_free(&lookup->text);
    free(lookup);
    return rc;
}

static int lookup_begin(struct call *call,
                        void (*print)(const struct engine *engine, struct buf *out))
{
    struct lookup *lookup = calloc(1, sizeof *lookup);

    if (!lookup)
        return err_nomem(&call->err);
    lookup->work = (struct work){lookup_run, lookup_finish, false};
    lookup->engine = call->engine;
    lookup->print = print;
    buf_init(&lookup->text, NULL, 0);
    call->work = &lookup->work;
    return CALL_WORK;
}

static void print_backend(const struct engine *engine, struct buf *out)
{
    buf_str(out, engine->backend->name);
    buf_char(out, '\n');
    engine->backend->facts(engine->backend_state, out);
}

int show_info_backend(struct call *call)
{
    return lookup_begin(call, print_backend);
}

static void print_cpu(const struct engine *engine, struct buf *out)
{
    engine->host->cpu_name(engine->host_state, out);
    buf_char(out, '\n');
}

int show_info_cpu(struct call *call)
{
    return lookup_begin(call, print_cpu);
}

static void print_cpuref(const struct engine *engine, struct buf *out)
{
    engine->backend->cpuref(engine->backend_state, out);
}

int show_info_cpuref(struct call *call)
{
    return lookup_begin(call, print_cpuref);
}

/* ---- what the engine knows ---- */

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
    buf_u64(call->out, engine_rows(call->engine));
    buf_char(call->out, '\n');
    return CALL_DONE;
}

static void capabilities(unsigned mask, struct buf *out)
{
    static const char *const names[] = {"interrupt", "user",  "system", "edge",      "threshold",
                                        "read",      "write", "invert", "qualifier", "precise"};
    bool any = false;

    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!(mask >> i & 1))
            continue;
        if (any)
            buf_char(out, ',');
        buf_str(out, names[i]);
        any = true;
    }
    if (!any)
        buf_char(out, '-');
}

int show_info_classes(struct call *call)
{
    const struct engine *engine = call->engine;

    for (unsigned i = 0; i < engine->n_classes; i++) {
        const struct class_info *class = &engine->classes[i];

        buf_str(call->out, class->name);
        buf_str(call->out, " rows ");
        buf_u64(call->out, class->rows);
        buf_str(call->out, " width ");
        buf_u64(call->out, class->width);
        buf_str(call->out, " capabilities ");
        capabilities(class->capabilities, call->out);
        buf_str(call->out, " cpus ");
        cpus_print(cpus_count(&class->cpus) ? &class->cpus : &engine->possible, call->out);
        if (rows_overcommitted(engine->rows, i))
            buf_str(call->out, " overcommitted");
        buf_char(call->out, '\n');
    }
    return CALL_DONE;
}

/* Of all logs, also of those that are gone. */
static void log_sums(struct ids *pmcs, const struct log_stats *released, struct log_stats *sums)
{
    struct log_stats stats;
    uint64_t id = 0;

    *sums = *released;
    for (struct pmc *pmc; (pmc = ids_next(pmcs, id, &id));) {
        pmc_log_stats(pmc, &stats);
        log_add(sums, &stats);
    }
}

static void print_logs(struct buf *out, const struct log_stats *logs)
{
    fact(out, "log_lost", logs->lost + logs->refused);
    fact(out, "kernel_lost", logs->kernel_lost);
    fact(out, "throttled", logs->throttled);
    fact(out, "hidden", logs->hidden);
}

/* hwpmc's eight, with what comes nearest. */
static void print_eight(struct buf *out, const struct log_stats *logs, uint64_t operations,
                        uint64_t failed, uint64_t drained)
{
    fact(out, "intr_ignored", logs->hidden);
    fact(out, "intr_processed", logs->records);
    fact(out, "intr_bufferfull", logs->kernel_lost);
    fact(out, "syscalls", operations);
    fact(out, "syscall_errors", failed);
    fact(out, "buffer_requests", logs->records + logs->refused);
    fact(out, "buffer_requests_failed", logs->refused);
    fact(out, "log_sweeps", drained);
}

static int show_stats_inside(struct call *call)
{
    struct instance *instance = call->instance;
    struct buf *out = call->out;
    struct log_stats logs;

    log_sums(&instance->pmcs, &instance->released, &logs);
    print_eight(out, &logs, instance->operations, instance->operations_failed, instance->drained);
    fact(out, "pmcs", instance->n);
    fact(out, "descriptors", instance->share->fds);
    fact(out, "attaches", instance->attaches);
    fact(out, "attaches_raced", instance->attaches_raced);
    print_logs(out, &logs);
    return CALL_DONE;
}

int show_info_stats(struct call *call)
{
    static const char *const names[STAT_COUNT] = {
        [STAT_REQUESTS] = "requests", [STAT_PARKED] = "parked",   [STAT_OPEN_FILES] = "open_files",
        [STAT_WORKS] = "works",       [STAT_RELOADS] = "reloads",
    };
    struct engine *engine = call->engine;
    struct buf *out = call->out;
    struct log_stats logs;

    if (!instance_is_root(call->instance))
        return show_stats_inside(call);
    log_sums(&engine->pmcs, &engine->released, &logs);
    print_eight(out, &logs, engine->operations, engine->operations_failed, engine->drained);
    for (unsigned i = 0; i < STAT_COUNT; i++)
        fact(out, names[i], engine->stats[i]);
    fact(out, "pmcs", engine->pmcs.n);
    fact(out, "processes", engine->procs.n);
    fact(out, "descriptors", engine->fds_used);
    fact(out, "descriptors_limit", engine->fd_limit);
    fact(out, "attaches", engine->attaches);
    fact(out, "attaches_raced", engine->attaches_raced);
    print_logs(out, &logs);
    fact(out, "instances", engine->instances.n);
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

    buf_str(call->out, instance_error(call->instance, uid));
    buf_char(call->out, '\n');
    return CALL_DONE;
}

/* ---- events/CLASS/EVENT ---- */

/* Describing looks at the machine's files: a work. */
struct description {
    struct work work;
    struct engine *engine;
    int rc;
    struct buf text;
    char *event;
    char class_name[];
};

static void description_run(struct work *work)
{
    struct description *d = (struct description *)work;

    if (strcmp(d->class_name, METRIC_CLASS) == 0)
        d->rc = metric_describe(d->event, &d->text);
    else
        d->rc = d->engine->backend->describe(d->engine->backend_state, d->class_name, d->event,
                                             &d->text);
}

static int description_finish(struct call *call, struct work *work)
{
    struct description *d = (struct description *)work;
    int rc = d->rc;

    buf_add(call->out, d->text.data, d->text.len);
    buf_free(&d->text);
    free(d->event);
    free(d);
    return rc;
}

int show_catalog_event(struct call *call)
{
    struct engine *engine = call->engine;
    const struct catalog_entry *entry = catalog_event_by_id(&engine->catalog, call->index);
    size_t len = entry ? strlen(entry->class_name) : 0;
    struct description *d = entry ? calloc(1, sizeof *d + len + 1) : NULL;

    if (!entry)
        return -ENOENT;
    if (d)
        d->event = strdup(entry->event);
    if (!d || !d->event) {
        free(d);
        return err_nomem(&call->err);
    }
    memcpy(d->class_name, entry->class_name, len + 1);
    d->work = (struct work){description_run, description_finish, false};
    d->engine = engine;
    buf_init(&d->text, NULL, 0);
    call->work = &d->work;
    return CALL_WORK;
}
