/*
 * The texts of info/ and admin/: the machine, rows, statistics, tunables.
 */
#include "core/access.h"
#include "core/files.h"
#include "core/foreign.h"
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

int show_info_backend(struct call *call)
{
    buf_str(call->out, call->engine->backend->name);
    buf_char(call->out, '\n');
    call->engine->backend->facts(call->engine->backend_state, call->out);
    return CALL_DONE;
}

int show_info_cpu(struct call *call)
{
    call->engine->host->cpu_name(call->engine->host_state, call->out);
    buf_char(call->out, '\n');
    return CALL_DONE;
}

int show_info_cpuref(struct call *call)
{
    call->engine->backend->cpuref(call->engine->backend_state, call->out);
    return CALL_DONE;
}

int show_info_cpus(struct call *call)
{
    buf_str(call->out, "possible ");
    cpus_print(&call->engine->possible, call->out);
    buf_str(call->out, "\nonline ");
    cpus_print(&call->engine->online, call->out);
    buf_char(call->out, '\n');
    return CALL_DONE;
}

/* engine.h: rows of all classes together. */
unsigned engine_rows(const struct engine *engine);
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
    static const char *const names[] = { "interrupt", "user", "system", "edge", "threshold", "read",
                                         "write", "invert", "qualifier", "precise" };
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

static void row_owner(struct call *call, unsigned users, uint64_t oldest)
{
    const struct pmc *pmc = oldest ? ids_find(&call->engine->pmcs, oldest) : NULL;
    struct buf *out = call->out;

    buf_u64(out, users);
    if (!pmc) {
        buf_str(out, " - - - - - -\n");
        return;
    }
    if (!access_read(pmc, call->rights)) {
        buf_str(out, " other other other other - -\n");
        return;
    }
    buf_char(out, ' ');
    buf_str(out, pmc->name);
    buf_char(out, ' ');
    buf_u64(out, pmc->uid);
    buf_char(out, ' ');
    if (pmc->owner)
        buf_i64(out, call->engine->host->process_pid(pmc->owner->process));
    else
        buf_char(out, '-');
    buf_char(out, ' ');
    for (unsigned i = 0; i < pmc_events(pmc); i++) {
        if (i)
            buf_char(out, '+');
        buf_str(out, pmc->set->event[i].written);
    }
    buf_str(out, pmc->settings.value[KEY_DESCENDANTS] ? " descendants -\n" : " - -\n");
}

static void row_line(struct call *call, unsigned cpu, unsigned class_index, unsigned row, unsigned number)
{
    const struct engine *engine = call->engine;
    struct buf *out = call->out;
    uint64_t oldest = 0;
    unsigned users = rows_users(engine->rows, cpu, class_index, row, &oldest);

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
    buf_str(out, disposition_name(rows_disposition(engine->rows, class_index, row)));
    buf_char(out, ' ');
    buf_str(out, slot_name(rows_slot(engine->rows, cpu, class_index, row)));
    buf_char(out, ' ');
    row_owner(call, users, oldest);
}

int show_info_rows(struct call *call)
{
    const struct engine *engine = call->engine;

    buf_str(call->out,
            "cpu row name class disposition state users pmc uid pid event flags reload\n");
    for (int cpu = cpus_next(&engine->online, 0); cpu >= 0; cpu = cpus_next(&engine->online, cpu + 1)) {
        unsigned number = 0;

        for (unsigned i = 0; i < engine->n_classes; i++) {
            const struct class_info *class = &engine->classes[i];
            bool here = !cpus_count(&class->cpus) || cpus_has(&class->cpus, (unsigned)cpu);

            for (unsigned row = 0; here && row < class->rows; row++)
                row_line(call, (unsigned)cpu, i, row, number + row);
            number += class->rows;
        }
    }
    return CALL_DONE;
}

int show_info_stats(struct call *call)
{
    const struct engine *engine = call->engine;
    struct buf *out = call->out;

    fact(out, "intr_ignored", 0); /* hwpmc's eight: interrupts and log belong to sampling */
    fact(out, "intr_processed", 0);
    fact(out, "intr_bufferfull", 0);
    fact(out, "syscalls", engine->operations);
    fact(out, "syscall_errors", engine->operations_failed);
    fact(out, "buffer_requests", 0);
    fact(out, "buffer_requests_failed", 0);
    fact(out, "log_sweeps", 0);
    static const char *const names[STAT_COUNT] = {
        [STAT_REQUESTS] = "requests", [STAT_PARKED] = "parked", [STAT_OPEN_FILES] = "open_files",
        [STAT_WORKS] = "works", [STAT_RELOADS] = "reloads",
    };
    for (unsigned i = 0; i < STAT_COUNT; i++)
        fact(out, names[i], engine->stats[i]);
    fact(out, "pmcs", engine->pmcs.n);
    fact(out, "processes", engine->procs.n);
    fact(out, "descriptors", engine->fds_used);
    fact(out, "descriptors_limit", engine->fd_limit);
    fact(out, "attaches", engine->attaches);
    fact(out, "attaches_raced", engine->attaches_raced);
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

    d->rc = d->engine->backend->describe(d->engine->backend_state, d->class_name, d->event, &d->text);
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
    d->work = (struct work){ description_run, description_finish, false };
    d->engine = engine;
    buf_init(&d->text, NULL, 0);
    call->work = &d->work;
    return CALL_WORK;
}

/* ---- admin ---- */

int show_tunable(struct call *call)
{
    const struct tunable_row *row = tunable_row((enum tunable)call->index);

    tunable_print(&call->engine->tunables, (enum tunable)call->index, call->out);
    buf_char(call->out, '\n');
    if (strncmp(row->effect, "none", 4) == 0) {
        buf_str(call->out, "# ");
        buf_str(call->out, row->effect);
        buf_char(call->out, '\n');
    }
    return CALL_DONE;
}

static int only_superuser(struct call *call)
{
    if (access_superuser(call->rights))
        return 0;
    return err_set(&call->err, E39, "only the superuser (CAP_PERFMON or CAP_SYS_ADMIN in the initial user "
                   "namespace) administers rows and tunables");
}

static int one_word(struct call *call, struct word *word)
{
    struct word more;
    struct scan scan;

    scan_init(&scan, call->text, call->len);
    if (!scan_word(&scan, word))
        return err_set(&call->err, P05, "nothing but blanks was written");
    if (scan_word(&scan, &more))
        return err_set(&call->err, P27, "one word, not more: \"" WORD_FMT "\" is too much",
                       WORD_ARG(more));
    return 0;
}

int store_tunable(struct call *call)
{
    enum tunable which = (enum tunable)call->index;
    struct word word;
    int rc = only_superuser(call);

    if (rc == 0)
        rc = one_word(call, &word);
    if (rc == 0)
        rc = tunable_set(&call->engine->tunables, which, word, false, &call->err);
    if (rc == 0 && which == TUNABLE_STRICT_ROWS)
        rows_set_strict(call->engine->rows, tunable_bool(&call->engine->tunables, which));
    return rc;
}

/* The number of slots that others hold, as last probed. */
int show_probe(struct call *call)
{
    buf_u64(call->out, foreign_slots(call->engine));
    buf_char(call->out, '\n');
    return CALL_DONE;
}

int store_probe(struct call *call)
{
    struct word word;
    int rc = only_superuser(call);

    if (rc == 0)
        rc = one_word(call, &word);
    if (rc)
        return rc;
    if (!word_is(word, "1"))
        return err_set(&call->err, P27, "\"" WORD_FMT "\": write 1 to probe again", WORD_ARG(word));
    call->work = foreign_probe(call->engine);
    return call->work ? CALL_WORK : err_set(&call->err, E32, "no memory");
}

/* Row numbers of admin/cpuN run through all classes with rows. */
static bool slot_of(const struct call *call, unsigned *cpu, unsigned *class_index, unsigned *row)
{
    unsigned number = (unsigned)(call->index & 0xffff);

    *cpu = (unsigned)(call->index >> 16);
    for (unsigned i = 0; i < call->engine->n_classes; i++) {
        if (number < call->engine->classes[i].rows) {
            *class_index = i;
            *row = number;
            return true;
        }
        number -= call->engine->classes[i].rows;
    }
    return false;
}

int show_slot(struct call *call)
{
    unsigned cpu, class_index, row;

    if (!slot_of(call, &cpu, &class_index, &row))
        return -ENOENT;
    if (!cpus_has(&call->engine->online, cpu))
        return err_set(&call->err, E34, "CPU %u is offline", cpu);
    bool disabled = rows_slot(call->engine->rows, cpu, class_index, row) == SLOT_DISABLED;
    buf_str(call->out, disabled ? "disabled\n" : "enabled\n");
    return CALL_DONE;
}

int store_slot(struct call *call)
{
    unsigned cpu, class_index, row;
    struct word word;
    int rc = only_superuser(call);

    if (rc)
        return rc;
    if (!slot_of(call, &cpu, &class_index, &row))
        return -ENOENT;
    if (!cpus_has(&call->engine->online, cpu))
        return err_set(&call->err, E34, "CPU %u is offline", cpu);
    if ((rc = one_word(call, &word)))
        return rc;
    if (word_alike(word, "disabled", false) || word_alike(word, "disable", false))
        return rows_disable(call->engine->rows, cpu, class_index, row, &call->err);
    if (word_alike(word, "enabled", false) || word_alike(word, "enable", false))
        return rows_enable(call->engine->rows, cpu, class_index, row, &call->err);
    return err_set(&call->err, E17, "\"" WORD_FMT "\": write enabled or disabled", WORD_ARG(word));
}
