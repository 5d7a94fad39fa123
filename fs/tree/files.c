/*
 * The table of files. Adding a file touches this place and the function behind it.
 */
#include "fs/tree/files.h"

#include "core/engine.h"
#include "fs/tree/readme.h"

#include <stdio.h>
#include <string.h>

#define PMC(NAME, HELP, ...)                                                                       \
    {                                                                                              \
        .in = DIR_PMC, .name = NAME, .help = HELP, __VA_ARGS__                                     \
    }
#define INFO(NAME, SHOW, HELP, ...)                                                                \
    {                                                                                              \
        .in = DIR_INFO, .name = NAME, .mode = 0444, .show = SHOW, .help = HELP, __VA_ARGS__        \
    }

/* The index is the number in the node id: append, never renumber. Row 1 is the directory itself. */
static const struct file_row instance_rows[] = {
    [1] = {.is = DIR_ROOT,
           .name = "",
           .mode = 01777,
           .help = "mkdir makes a PMC, rmdir releases it"},
    [2] = {.in = DIR_ROOT,
           .name = "README",
           .mode = 0444,
           .show = readme_show,
           .bound = readme_bound,
           .help = "this page"},
    [3] =
        {.in = DIR_ROOT, .is = DIR_INFO, .name = "info", .mode = 0555, .help = "facts, read-only"},
    [4] = {.in = DIR_ROOT,
           .is = DIR_EVENTS,
           .name = "events",
           .mode = 0555,
           .help = "every event this machine can count, a directory per class"},
    [5] = {.in = DIR_ROOT,
           .is = DIR_ADMIN,
           .name = "admin",
           .mode = 0755,
           .flags = FILE_ROOT_ONLY,
           .help = "for the administrator: rows, tunables, instances"},
    [6] = {.in = DIR_ROOT,
           .is = DIR_INSTANCES,
           .name = "instances",
           .mode = 0711,
           .flags = FILE_ROOT_ONLY,
           .help = "subtrees for containers; mkdir makes one"},
    [7] = {.in = DIR_ROOT,
           .name = "counts",
           .mode = 0444,
           .flags = FILE_RIGHTS,
           .show = show_counts,
           .bound = bound_counts,
           .help = "a line per PMC and event that the reader may read"},
    [8] = {.in = DIR_ROOT,
           .name = "metrics.prom",
           .mode = 0444,
           .flags = FILE_RIGHTS | FILE_SNAPSHOT | FILE_FRESH,
           .show = show_metrics,
           .bound = bound_counts,
           .help = "the same for Prometheus"},
    [9] = {.in = DIR_INSTANCES, /* for the tables only: it is [1] of its own number */
           .is = DIR_ROOT,
           .any = "NAME",
           .mode = 01755,
           .flags = FILE_ROOT_ONLY,
           .help = "an instance: README, info, events, counts, metrics.prom and PMCs of its own"},
    [16] = INFO("version", show_info_version, "the version of pmcfs and of this interface"),
    [17] = INFO("backend", show_info_backend, "what counts, and what it found here",
                .bound = bound_classes),
    [18] = INFO("cpu", show_info_cpu, "the processor's name"),
    [19] = INFO("cpuref", show_info_cpuref, "the documents that describe its events"),
    [20] =
        INFO("cpus", show_info_cpus, "CPUs that are possible and online", .bound = bound_classes),
    [21] = INFO("npmc", show_info_npmc, "counters per CPU, all classes together"),
    [22] = INFO("classes", show_info_classes, "a line per class: rows, width, capabilities, CPUs",
                .bound = bound_classes),
    [23] = INFO("rows", show_info_rows, "a line per CPU and row: who holds it", .bound = bound_rows,
                .flags = FILE_RIGHTS),
    [24] = INFO("stats", show_info_stats, "what pmcfs itself has done, a number a line"),
    [25] = INFO("tsc", show_info_tsc, "the cycle counter and its rate"),
    [26] = INFO("last_error", show_info_last_error, "the reader's last failed operation",
                .flags = FILE_RIGHTS),
    [33] = {.in = DIR_ADMIN,
            .is = DIR_TUNABLES,
            .name = "tunables",
            .mode = 0555,
            .help = "what the administrator sets for all PMCs, one value a file"},
    [34] = {.in = DIR_ADMIN,
            .name = "probe",
            .mode = 0644,
            .show = show_probe,
            .store = store_probe,
            .help = "slots that others hold; write 1 to look again"},
    [35] = {.in = DIR_ADMIN,
            .is = DIR_LIMITS,
            .name = "instances",
            .mode = 0555,
            .help = "what those inside of each instance may have"},
};

static const struct file_row pmc_rows[] = {
    [1] = {.in = DIR_ROOT,
           .is = DIR_PMC,
           .any = "NAME",
           .mode = 0700,
           .help = "a PMC: its name is yours to choose"},
    [2] = PMC("config", "all settings, key=value a line; can be written back", .show = show_config,
              .bound = bound_pmc, .store = store_command, .flags = FILE_RIGHTS | FILE_GOES_ON),
    [3] = PMC("event", "the event, or the events of a set, one a line; >> adds one",
              .show = show_event, .bound = bound_pmc, .store = store_command, .flags = FILE_GOES_ON),
    [4] = PMC("mode", "process or system scope, counting or sampling", .show = show_mode,
              .store = store_command),
    [5] = PMC("target", "its targets: write a PID, self, cpu0, all, cgroup:/path; -WORD detaches",
              .show = show_target, .bound = bound_pmc, .store = store_command, .begin = begin_state,
              .poll = poll_state, .flags = FILE_RIGHTS),
    [6] = PMC("ctl", "the state; write a verb: start, stop and so on", .show = show_ctl,
              .store = store_ctl, .begin = begin_state, .poll = poll_state),
    [7] = PMC("count", "the value, one a line for a set; written: the initial value",
              .show = show_count, .store = store_count, .poll = poll_count,
              .flags = FILE_PLAIN | FILE_READERS),
    [8] = PMC("detail", "a table: per event and target, with times", .show = show_detail,
              .bound = bound_pmc, .flags = FILE_RIGHTS | FILE_READERS),
    [9] = PMC("series", "a stream: a line of values per interval (config interval=MS)",
              .stream = stream_series, .bound = bound_series, .poll = poll_series,
              .flags = FILE_STREAM),
    [10] = PMC("status", "everything about its state, \"name value\" lines", .show = show_status,
               .bound = bound_pmc, .begin = begin_state, .poll = poll_state,
               .flags = FILE_RIGHTS | FILE_READERS),
    [11] = PMC("error", "ok, or why the last command written to this PMC was refused",
               .show = show_error),
    [12] = PMC("samples", "a stream: the log as text; text written here is put into it",
               .stream = stream_samples, .bound = bound_log, .begin = begin_samples,
               .store = store_samples, .poll = poll_samples, .flags = FILE_STREAM | FILE_REST),
    [13] = PMC("samples.perf", "a stream: the log for perf report -i - and perf script -i -",
               .stream = stream_samples_perf, .bound = bound_log, .begin = begin_samples_perf,
               .poll = poll_samples, .flags = FILE_STREAM | FILE_REST),
    [15] = PMC("metrics", "what follows from the counts: ratios, and rates per second",
               .show = show_ratios, .bound = bound_pmc),
    [14] = PMC("samples.folded", "sampled stacks, folded and counted, for flame graphs",
               .show = show_samples_folded, .bound = bound_log, .flags = FILE_RIGHTS),
};

static const struct file_row event_rows[] = {
    [1] = {.in = DIR_EVENTS,
           .is = DIR_CLASS,
           .any = "CLASS",
           .mode = 0555,
           .help = "the events of one class"},
    [2] = {.in = DIR_CLASS,
           .any = "EVENT",
           .mode = 0444,
           .show = show_catalog_event,
           .bound = bound_event,
           .help = "what to write to count it, and what it means"},
};

static const struct file_row slot_rows[] = {
    [1] = {.in = DIR_ADMIN,
           .is = DIR_CPU,
           .any = "cpuN",
           .mode = 0555,
           .help = "the rows of one CPU"},
    [2] = {.in = DIR_CPU,
           .any = "ROW",
           .mode = 0644,
           .show = show_slot,
           .store = store_slot,
           .help = "enabled or disabled"},
};

static const struct file_row tunable_rows[] = {
    [2] = {.in = DIR_TUNABLES,
           .any = "TUNABLE",
           .mode = 0644,
           .show = show_tunable,
           .store = store_tunable,
           .help = "its value"},
};

#define LIMIT(NAME, HELP)                                                                          \
    {                                                                                              \
        .in = DIR_LIMIT, .name = NAME, .mode = 0644, .show = show_limit, .store = store_limit,     \
        .help = HELP                                                                               \
    }

static const struct file_row limit_rows[] = {
    [1] = {.in = DIR_LIMITS,
           .is = DIR_LIMIT,
           .any = "NAME",
           .mode = 0555,
           .help = "of one instance, one value a file"},
    [2] = LIMIT("max_pmcs", "PMCs in it; 0: no limit of its own"),
    [3] = LIMIT("max_fds", "descriptors held for its PMCs; 0: no limit of its own"),
    [4] = LIMIT("max_log", "bytes of the logs of its PMCs; 0: no limit of its own"),
    [5] = LIMIT("system_scope", "1: those inside may count whole CPUs"),
    [6] = LIMIT("kernel_mode", "1: those inside may count and sample kernel mode"),
    [7] = LIMIT("lifetime", "mount, or namespace: it ends with the PID namespace that uses it"),
    [8] = {.in = DIR_LIMIT,
           .name = "ctl",
           .mode = 0644,
           .show = show_instance_ctl,
           .store = store_instance_ctl,
           .help = "active; write release: its PMCs are released, and it is removed"},
};

#define TABLE(T)                                                                                   \
    {                                                                                              \
        T, sizeof T / sizeof T[0]                                                                  \
    }
static const struct {
    const struct file_row *rows;
    unsigned n;
} tables[NODE_KINDS] = {
    [NODE_INSTANCE] = TABLE(instance_rows), [NODE_PMC] = TABLE(pmc_rows),
    [NODE_EVENT] = TABLE(event_rows),       [NODE_SLOT] = TABLE(slot_rows),
    [NODE_TUNABLE] = TABLE(tunable_rows),   [NODE_LIMIT] = TABLE(limit_rows),
};

const struct file_row *file_row(enum node_kind kind, unsigned number)
{
    if (kind >= NODE_KINDS || number >= tables[kind].n || !tables[kind].rows[number].help)
        return NULL;
    return &tables[kind].rows[number];
}

unsigned file_rows(enum node_kind kind)
{
    return tables[kind].n;
}

/* The kind whose numbers the named files of a directory have. */
static enum node_kind file_kind(enum dir_kind dir)
{
    return dir == DIR_PMC ? NODE_PMC : dir == DIR_LIMIT ? NODE_LIMIT : NODE_INSTANCE;
}

const struct file_row *file_next(enum dir_kind dir, unsigned after, unsigned *number)
{
    enum node_kind kind = file_kind(dir);

    for (unsigned i = after + 1; i < tables[kind].n; i++) {
        const struct file_row *row = file_row(kind, i);
        if (row && row->in == dir && row->name) {
            *number = i;
            return row;
        }
    }
    return NULL;
}

const struct file_row *file_named(enum dir_kind dir, const char *name, unsigned *number)
{
    const struct file_row *row;

    *number = 0;
    while ((row = file_next(dir, *number, number)))
        if (strcmp(row->name, name) == 0)
            return row;
    return NULL;
}

bool file_reserved(const char *name)
{
    unsigned number;

    return file_named(DIR_ROOT, name, &number) || strncmp(name, "metrics.", 8) == 0 ||
           strcmp(name, "self") == 0;
}

/* The row of the directory that it is in; NULL: the root's. */
static const struct file_row *row_above(const struct file_row *row)
{
    if (row->in == DIR_ROOT || row->in == DIR_NONE)
        return NULL;
    for (int kind = 0; kind < NODE_KINDS; kind++)
        for (unsigned i = 1; i < tables[kind].n; i++) {
            const struct file_row *dir = file_row((enum node_kind)kind, i);
            if (dir && dir->is == row->in)
                return dir;
        }
    return NULL;
}

/* "info/rows", "NAME/count", "admin/cpuN/ROW": the path of a row from the root. */
static void row_path_print(const struct file_row *row, struct buf *out)
{
    const struct file_row *above = row_above(row);

    if (above) {
        row_path_print(above, out);
        buf_char(out, '/');
    }
    buf_str(out, row->name ? row->name : row->any);
}

static bool row_is_root_only(const struct file_row *row)
{
    while (row && !(row->flags & FILE_ROOT_ONLY))
        row = row_above(row);
    return row != NULL;
}

void files_print(bool inside, struct buf *out)
{
    for (int kind = 0; kind < NODE_KINDS; kind++)
        for (unsigned i = 1; i < tables[kind].n; i++) {
            const struct file_row *row = file_row((enum node_kind)kind, i);
            if (!row || row->in == DIR_NONE || (inside && row_is_root_only(row)))
                continue;
            row_path_print(row, out);
            buf_str(out, row->is ? "/\t" : "\t");
            buf_str(out, row->show || row->stream ? "r" : "");
            buf_str(out, row->store ? "w" : "");
            buf_printf(out, "\t%s\n", row->help);
        }
}
