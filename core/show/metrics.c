/*
 * Tables of all PMCs that the reader may read: counts and metrics.prom (Prometheus text format
 * 0.0.4). Lines have no labels for processes and threads, and a label for the CPU only with
 * metrics=cpu.
 */
#include "core/engine.h"
#include "core/pmc/count.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Takes a snapshot of all PMCs that the reader may read, and prints it. */
static int snapshot_all(struct call *call,
                        int (*print)(struct call *call, struct snapshot *snapshot))
{
    bool all = instance_is_root(call->instance);
    struct ids *from = all ? &call->engine->pmcs : &call->instance->pmcs;
    struct pmc **pmcs = calloc(from->n + 1, sizeof(struct pmc *));
    uint64_t id = 0;
    unsigned n = 0;

    if (!pmcs)
        return err_nomem(&call->err);
    for (struct pmc *pmc; (pmc = ids_next(from, id, &id));)
        if (access_read(pmc, call->instance, call->rights))
            pmcs[n++] = pmc;
    int rc = snapshot_take(call, pmcs, n, true, false, print);
    free(pmcs);
    return rc;
}

/* Sets the error for an instance that was removed during the snapshot. */
static int refuse_gone_instance(struct call *call)
{
    return err_set(&call->err, P26, "the instance of this file was removed");
}

/* Omits PMCs without a valid total: an error would hide all others. */
static int print_counts(struct call *call, struct snapshot *snapshot)
{
    struct buf *out = call->out;

    if (!call->instance)
        return refuse_gone_instance(call);
    for (unsigned p = 0; p < snapshot->n; p++) {
        const struct snapshot_item *item = &snapshot->item[p];

        for (unsigned i = 0; item->is_valid && i < item->set->n; i++) {
            pmc_print_path(item->pmc, call->instance, out);
            buf_char(out, '\t');
            buf_str(out, item->set->event[i].written);
            buf_char(out, '\t');
            buf_u64(out, count_shown(item->pmc, item->total, i));
            buf_char(out, '\t');
            buf_u64(out, item->total->enabled_ns);
            buf_char(out, '\t');
            buf_u64(out, item->total->running_ns);
            buf_char(out, '\t');
            buf_str(out, state_table[item->pmc->state].name);
            buf_char(out, '\n');
        }
    }
    return CALL_DONE;
}

int show_counts(struct call *call)
{
    return snapshot_all(call, print_counts);
}

/* ---- metrics.prom ---- */

static void print_family_head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* before: '{' for the first label of a line, or ','. */
static void print_label(struct buf *out, char before, const char *name, const char *value)
{
    buf_char(out, before);
    buf_str(out, name);
    buf_str(out, "=\"");
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            buf_char(out, '\\');
        buf_char(out, *value);
    }
    buf_char(out, '"');
}

/*
 * Prints the name of the instance as label `subtree`, because `instance` is a label of Prometheus.
 * The file of the instance has it too, so that a collector of several files gets distinct labels.
 */
static void print_subtree_label(struct buf *out, const struct pmc *pmc)
{
    if (!instance_is_root(pmc->instance))
        print_label(out, ',', "subtree", pmc->instance->name);
}

static void print_number(struct buf *out, const char *name, const char *type, const char *help,
                         uint64_t value)
{
    print_family_head(out, name, type, help);
    buf_printf(out, "%s %" PRIu64 "\n", name, value);
}

/* Prints a line. Repeated events in a set get an index label. cpu is -1 for no CPU label. */
static void print_value(struct buf *out, const struct snapshot_item *item, unsigned i, int cpu,
                        uint64_t value)
{
    const struct event *event = &item->set->event[i];
    unsigned before = 0;

    for (unsigned k = 0; k < i; k++)
        before += strcmp(item->set->event[k].written, event->written) == 0;
    buf_str(out, "pmcfs_count_total");
    print_label(out, '{', "pmc", item->pmc->name);
    print_label(out, ',', "event", event->written);
    if (before)
        buf_printf(out, ",index=\"%u\"", before);
    print_label(out, ',', "scope",
                mode_table[item->pmc->mode_in_use].system ? "system" : "process");
    print_subtree_label(out, item->pmc);
    if (event->unit[0])
        print_label(out, ',', "unit", event->unit);
    if (cpu >= 0)
        buf_printf(out, ",cpu=\"%d\"", cpu);
    buf_str(out, "} ");
    buf_u64(out, value);
    buf_char(out, '\n');
}

/*
 * Prints a line per CPU, and one without the label for counts of no CPU: the initial value, cgroups
 * and detached CPUs. The lines add up to the count. A CPU has several links if it was detached and
 * attached again.
 */
static void print_cpu_values(struct buf *out, const struct snapshot_item *item, unsigned i)
{
    uint64_t rest = count_shown(item->pmc, item->total, i);
    bool any = false;

    for (unsigned l = 0; l < item->links->n; l++) {
        const struct link *link = item->links->link[l];
        bool first = link->kind == TARGET_CPU;
        uint64_t value = 0;

        for (unsigned k = 0; first && k < item->links->n; k++) {
            const struct link *other = item->links->link[k];

            if (other->kind != TARGET_CPU || other->cpu != link->cpu)
                continue;
            first = k >= l;
            value += count_shown(item->pmc, item->link[k], i);
        }
        if (!first)
            continue;
        print_value(out, item, i, (int)link->cpu, value);
        rest -= value;
        any = true;
    }
    if (rest || !any)
        print_value(out, item, i, -1, rest);
}

static void print_values(struct buf *out, struct snapshot *snapshot)
{
    const size_t begin = out->len;

    print_family_head(
        out, "pmcfs_count_total", "counter",
        "Events counted by a PMC. The value times the scale in detail is in the label unit.");
    const size_t end = out->len;
    for (unsigned p = 0; p < snapshot->n; p++) {
        const struct snapshot_item *item = &snapshot->item[p];

        for (unsigned i = 0; item->is_valid && i < item->set->n; i++) {
            if (item->pmc->settings.word[KEY_METRICS] == METRICS_CPU)
                print_cpu_values(out, item, i);
            else
                print_value(out, item, i, -1, count_shown(item->pmc, item->total, i));
        }
    }
    if (out->len == end) /* no value: the head goes too */
        out->len = begin;
}

/* Families with one line for each PMC. */
static const struct family {
    const char *name, *type, *help;
    enum {
        VALUE_ENABLED,
        VALUE_RUNNING,
        VALUE_PARTIAL,
        VALUE_LOST,
        VALUE_STATE
    } value;
    bool always; /* print a line even if the count cannot be read */
} families[] = {
    {"pmcfs_enabled_seconds_total", "counter",
     "Time during which a PMC was enabled, over all threads and CPUs.", VALUE_ENABLED, false},
    {"pmcfs_running_seconds_total", "counter",
     "Time that a PMC was on the hardware, over all threads and CPUs.", VALUE_RUNNING, false},
    {"pmcfs_partial", "gauge", "1 if the count is a lower bound: see partial in pmcfs(5).",
     VALUE_PARTIAL, false},
    {"pmcfs_lost_records_total", "counter", "Records of a PMC's log that were lost.", VALUE_LOST,
     true},
    {"pmcfs_state", "gauge", "1 for the present state of a PMC.", VALUE_STATE, true},
};

/* Prints a family with its line for each PMC. labels: a line for each PMC with "{" and the labels
 * that all families have, without the closing brace; an empty line for a released PMC. */
static void print_family(const struct family *of, const struct snapshot *snapshot,
                         const char *labels, struct buf *out)
{
    const size_t begin = out->len;
    struct log_stats stats;

    print_family_head(out, of->name, of->type, of->help);
    const size_t end = out->len;
    for (unsigned p = 0; p < snapshot->n; p++) {
        const struct snapshot_item *item = &snapshot->item[p];
        const char *own = labels;

        labels = strchr(labels, '\n') + 1;
        if (*own == '\n' || (!of->always && !item->is_valid))
            continue;
        buf_str(out, of->name);
        buf_add(out, own, (size_t)(labels - own - 1));
        if (of->value == VALUE_STATE)
            print_label(out, ',', "state", state_table[item->pmc->state].name);
        buf_str(out, "} ");
        switch (of->value) {
        case VALUE_ENABLED:
            buf_seconds(out, item->total->enabled_ns);
            break;
        case VALUE_RUNNING:
            buf_seconds(out, item->total->running_ns);
            break;
        case VALUE_PARTIAL:
            buf_u64(out, item->partial);
            break;
        case VALUE_LOST:
            pmc_log_losses(item->pmc, &stats);
            buf_u64(out, stats.lost + stats.refused + stats.kernel_lost);
            break;
        case VALUE_STATE:
            buf_u64(out, 1);
            break;
        }
        buf_char(out, '\n');
    }
    if (out->len == end) /* no value: the head goes too */
        out->len = begin;
}

static void print_families(struct buf *out, const struct snapshot *snapshot)
{
    struct buf labels = {0}; /* see print_family() */

    for (unsigned p = 0; p < snapshot->n; p++) {
        const struct pmc *pmc = snapshot->item[p].pmc;

        if (!pmc_released(pmc)) {
            print_label(&labels, '{', "pmc", pmc->name);
            print_subtree_label(&labels, pmc);
        }
        buf_char(&labels, '\n');
    }
    const char *text = buf_text(&labels);
    for (unsigned f = 0; !labels.failed && f < sizeof families / sizeof families[0]; f++)
        print_family(&families[f], snapshot, text, out);
    out->failed |= labels.failed;
    buf_free(&labels);
}

/* Prints metrics of pmcfs, for the file in the root only. */
static void print_health(const struct engine *engine, struct buf *out)
{
    print_family_head(out, "pmcfs_info", "gauge", "Version and backend.");
    buf_str(out, "pmcfs_info");
    print_label(out, '{', "version", PMCFS_VERSION);
    print_label(out, ',', "backend", engine->backend->name);
    buf_str(out, "} 1\n");
    print_number(out, "pmcfs_pmcs", "gauge", "PMCs allocated.", engine->pmcs.n);
    print_number(out, "pmcfs_descriptors", "gauge", "Descriptors held by counters and processes.",
                 engine->fds_used);
    print_number(out, "pmcfs_operations_total", "counter", "Operations on the tree.",
                 engine->totals.operations);
    print_number(out, "pmcfs_operations_failed_total", "counter", "Operations that were refused.",
                 engine->totals.failed);
    print_number(out, "pmcfs_attaches_raced_total", "counter",
                 "Attaches during which a thread may have been missed.", engine->totals.raced);
    print_number(out, "pmcfs_descriptors_limit", "gauge", "Descriptors that pmcfs may open.",
                 engine->fd_limit);
    print_number(out, "pmcfs_instances", "gauge", "Instances.", engine->instances.n);
}

static int print_metrics_prom(struct call *call, struct snapshot *snapshot)
{
    if (!call->instance)
        return refuse_gone_instance(call);
    print_values(call->out, snapshot);
    print_families(call->out, snapshot);
    if (instance_is_root(call->instance))
        print_health(call->engine, call->out);
    return CALL_DONE;
}

int show_metrics_prom(struct call *call)
{
    return snapshot_all(call, print_metrics_prom);
}

/* ---- upper bound ---- */

#define CELLS_MAX 192  /* numbers in a line */
#define LINES     6    /* more than the lines of a PMC in metrics.prom in addition to its counts */
#define HEADS     4096 /* lines that do not depend on PMCs */

/* metrics.prom has a line for each event, or for each event and CPU, and some for the PMC. Cached,
 * because each listing of the directory needs it. */
uint64_t bound_counts(const struct call *call)
{
    struct engine *engine = call->engine;
    struct instance *instance = call->instance;
    struct ids *pmcs = instance_is_root(instance) ? &engine->pmcs : &instance->pmcs;
    uint64_t id = 0;

    if (instance->bound && instance->bound_at == engine->tree_changes)
        return instance->bound;
    instance->bound = HEADS;
    for (struct pmc *pmc; (pmc = ids_next(pmcs, id, &id));) {
        const char *in = pmc->instance->name; /* NULL: the root */
        const uint64_t names = strlen(pmc->name) + (in ? strlen(in) : 0),
                       targets = pmc->links->n + 1;

        instance->bound += (pmc_events(pmc) * targets + LINES) * (names + CELLS_MAX) +
                           targets * pmc_names_bytes(pmc);
    }
    instance->bound_at = engine->tree_changes;
    return instance->bound;
}
