/*
 * info/rows: the holders of the rows, as an instance sees them. Numbers of processes are asked for
 * without the lock.
 */
#include "core/base/vec.h"
#include "core/engine.h"
#include "core/files.h"
#include "core/pmc/access.h"
#include "core/pmc/pmc.h"

#include <stdlib.h>

/* A process in the text: where its number belongs, and the number once it is known. */
struct row_pid {
    size_t at;
    pid_t pid, shown;
    uint64_t key;
};

struct rows_text {
    struct engine *engine;
    const struct instance *from; /* the instance of the file; while the lines are made */
    pid_t tid;                   /* of the reader */
    struct buf text;             /* without the numbers */
    VEC(struct row_pid) pids;
};

static void row_pid(struct rows_text *rows, const struct pmc *pmc)
{
    struct row_pid pid = {rows->text.len, pmc->maker, 0, pmc->maker_key};

    if (vec_push(&rows->pids, pid))
        rows->text.failed = true;
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
    const char *class = engine->classes[class_index].name;
    struct buf *out = &rows->text;
    struct slot_view view;

    rows_view(engine->rows, rows->from->id, cpu, class_index, row, &view);
    buf_printf(out, "%u %u %s-%u %s %s %s ", cpu, number, class, row, class,
               disposition_name(view.disposition), slot_name(view.state));
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
    const struct row_pid *pid = &rows->pids.items[i];

    while (i-- > 0)
        if (rows->pids.items[i].pid == pid->pid && rows->pids.items[i].key == pid->key)
            return &rows->pids.items[i];
    return NULL;
}

static void rows_run(struct rows_text *rows)
{
    const struct host *host = rows->engine->host;
    struct host_state *state = rows->engine->host_state;

    for (size_t i = 0; i < rows->pids.n; i++) {
        struct row_pid *pid = &rows->pids.items[i];
        const struct row_pid *before = row_pid_before(rows, i);

        if (before)
            pid->shown = before->shown;
        else if (pid->key && host->pid_key(state, pid->pid) == pid->key)
            pid->shown = host->process_seen_by(state, rows->tid, pid->pid);
    }
}

/* The text with the numbers. */
static void rows_print(const struct rows_text *rows, struct buf *out)
{
    size_t at = 0;

    for (size_t i = 0; i < rows->pids.n; i++) {
        const struct row_pid *pid = &rows->pids.items[i];

        buf_add(out, rows->text.data + at, pid->at - at);
        at = pid->at;
        if (pid->shown)
            buf_i64(out, pid->shown);
        else
            buf_char(out, '-'); /* gone, or not of the reader's PID namespace */
    }
    buf_add(out, rows->text.data + at, rows->text.len - at);
}

int show_info_rows(struct call *call)
{
    struct rows_text rows = {.engine = call->engine, .from = call->instance, .tid = call->tid};
    int rc;

    buf_init(&rows.text, NULL, 0);
    rows_lines(&rows, call->rights);
    rc = rows.pids.n ? slow_admit(call) : CALL_DONE;
    if (rc == CALL_DONE && rows.pids.n) {
        slow_begin(call, true);
        rows_run(&rows);
        slow_end(call);
    }
    if (rc == CALL_DONE && rows.text.failed)
        rc = err_nomem(&call->err);
    if (rc == CALL_DONE)
        rows_print(&rows, call->out);
    buf_free(&rows.text);
    free(rows.pids.items);
    return rc;
}
