/*
 * The texts of info/ and of events/CLASS/EVENT: the machine, rows, statistics.
 */
#include "core/access.h"
#include "core/engine.h"
#include "core/files.h"
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
    int rc = lookup->text.failed ? err_set(&call->err, E32, "no memory") : CALL_DONE;

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
        return err_set(&call->err, E32, "no memory");
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

/* ---- info/rows: numbers of processes are asked for without the lock ---- */

/* A process in the text: where its number belongs, and the number once it is known. */
struct row_pid {
    size_t at;
    pid_t pid, shown;
    uint64_t key;
};

#define ROWS_SOON 8 /* PIDs, above which it is slow */

struct rows_text {
    struct work work;
    struct engine *engine;
    const struct instance *from; /* whose file it is; while the lines are made */
    pid_t tid;                   /* who reads */
    struct buf text;             /* without the numbers */
    struct row_pid *pids;
    size_t n, size;
};

static void row_pid(struct rows_text *rows, const struct pmc *pmc)
{
    if (rows->n == rows->size) {
        size_t size = rows->size ? 2 * rows->size : 64;
        struct row_pid *grown = realloc(rows->pids, size * sizeof *grown);

        if (!grown) {
            rows->text.failed = true;
            return;
        }
        rows->pids = grown;
        rows->size = size;
    }
    rows->pids[rows->n++] = (struct row_pid){rows->text.len, pmc->maker, 0, pmc->maker_key};
}

/* At a rate it is the kernel that finds the reload count. */
static void row_settings(struct buf *out, const struct pmc *pmc)
{
    static const enum key flags[] = {KEY_DESCENDANTS, KEY_CALLCHAIN, KEY_LOG_CSW, KEY_LOG_EXIT};
    char before = ' ';

    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (!pmc->settings.value[flags[i]])
            continue;
        buf_char(out, before);
        buf_str(out, key_table[flags[i]].name);
        before = ',';
    }
    buf_str(out, before == ' ' ? " - " : " ");
    if (pmc->sampling.period)
        buf_u64(out, pmc->sampling.period);
    else
        buf_char(out, '-');
    buf_char(out, '\n');
}

static void row_owner(struct rows_text *rows, const struct rights *rights,
                      const struct slot_view *view)
{
    const struct pmc *pmc = view->oldest ? ids_find(&rows->engine->pmcs, view->oldest) : NULL;
    struct buf *out = &rows->text;

    buf_u64(out, view->users);
    if (!pmc) {
        buf_str(out, " - - - - - -\n");
        return;
    }
    if (!access_read(pmc, rows->from, rights)) {
        buf_str(out, " other other other other - -\n");
        return;
    }
    buf_char(out, ' ');
    pmc_print_path(pmc, rows->from, out);
    buf_char(out, ' ');
    buf_u64(out, pmc->uid);
    buf_char(out, ' ');
    row_pid(rows, pmc);
    buf_char(out, ' ');
    for (unsigned i = 0; i < pmc_events(pmc); i++) {
        if (i)
            buf_char(out, '+');
        buf_str(out, pmc->set->event[i].written);
    }
    row_settings(out, pmc);
}

static void row_line(struct rows_text *rows, const struct rights *rights, unsigned cpu,
                     unsigned class_index, unsigned row, unsigned number)
{
    const struct engine *engine = rows->engine;
    struct buf *out = &rows->text;
    struct slot_view view;

    rows_view(engine->rows, rows->from->id, cpu, class_index, row, &view);
    buf_u64(out, cpu);
    buf_char(out, ' ');
    buf_u64(out, number);
    buf_char(out, ' ');
    buf_str(out, engine->classes[class_index].name);
    buf_char(out, '-');
    buf_u64(out, row);
    buf_char(out, ' ');
    buf_str(out, engine->classes[class_index].name);
    buf_char(out, ' ');
    buf_str(out, disposition_name(view.disposition));
    buf_char(out, ' ');
    buf_str(out, slot_name(view.state));
    buf_char(out, ' ');
    row_owner(rows, rights, &view);
}

static void rows_lines(struct rows_text *rows, const struct rights *rights)
{
    const struct engine *engine = rows->engine;

    buf_str(&rows->text,
            "cpu row name class disposition state users pmc uid pid event flags reload\n");
    for (int cpu = cpus_next(&engine->online, 0); cpu >= 0;
         cpu = cpus_next(&engine->online, cpu + 1)) {
        unsigned number = 0;

        for (unsigned i = 0; i < engine->n_classes; i++) {
            const struct class_info *class = &engine->classes[i];
            bool here = !cpus_count(&class->cpus) || cpus_has(&class->cpus, (unsigned)cpu);

            for (unsigned row = 0; here && row < class->rows; row++)
                row_line(rows, rights, (unsigned)cpu, i, row, number + row);
            number += class->rows;
        }
    }
}

/* The same process in a line before: system PMCs stand once for each CPU. */
static const struct row_pid *row_pid_before(const struct rows_text *rows, size_t i)
{
    const struct row_pid *pid = &rows->pids[i];

    while (i-- > 0)
        if (rows->pids[i].pid == pid->pid && rows->pids[i].key == pid->key)
            return &rows->pids[i];
    return NULL;
}

static void rows_run(struct work *work)
{
    struct rows_text *rows = (struct rows_text *)work;
    const struct host *host = rows->engine->host;
    struct host_state *state = rows->engine->host_state;

    for (size_t i = 0; i < rows->n; i++) {
        struct row_pid *pid = &rows->pids[i];
        const struct row_pid *before = row_pid_before(rows, i);

        if (before)
            pid->shown = before->shown;
        else if (pid->key && host->pid_key(state, pid->pid) == pid->key)
            pid->shown = host->process_seen_by(state, rows->tid, pid->pid);
    }
}

static int rows_finish(struct call *call, struct work *work)
{
    struct rows_text *rows = (struct rows_text *)work;
    int rc = rows->text.failed ? err_set(&call->err, E32, "no memory") : CALL_DONE;
    size_t at = 0;

    for (size_t i = 0; rc == CALL_DONE && i < rows->n; i++) {
        const struct row_pid *pid = &rows->pids[i];

        buf_add(call->out, rows->text.data + at, pid->at - at);
        at = pid->at;
        if (pid->shown)
            buf_i64(call->out, pid->shown);
        else
            buf_char(call->out, '-'); /* gone, or not of the reader's PID namespace */
    }
    if (rc == CALL_DONE)
        buf_add(call->out, rows->text.data + at, rows->text.len - at);
    buf_free(&rows->text);
    free(rows->pids);
    free(rows);
    return rc;
}

int show_info_rows(struct call *call)
{
    struct rows_text *rows = calloc(1, sizeof *rows);

    if (!rows)
        return err_set(&call->err, E32, "no memory");
    rows->engine = call->engine;
    rows->from = call->instance;
    rows->tid = call->tid;
    buf_init(&rows->text, NULL, 0);
    rows_lines(rows, call->rights);
    rows->work = (struct work){rows_run, rows_finish, rows->n > ROWS_SOON};
    call->work = &rows->work;
    return CALL_WORK;
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

    d->rc =
        d->engine->backend->describe(d->engine->backend_state, d->class_name, d->event, &d->text);
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
        return err_set(&call->err, E32, "no memory");
    }
    memcpy(d->class_name, entry->class_name, len + 1);
    d->work = (struct work){description_run, description_finish, false};
    d->engine = engine;
    buf_init(&d->text, NULL, 0);
    call->work = &d->work;
    return CALL_WORK;
}
