/*
 * The table of files, and README, which lists it. CONTRIBUTING.md lists what a new file needs.
 */
#include "fs/tree/files.h"

#include "core/engine.h"
#include "core/pmc/pmc.h"

#include <stdio.h>
#include <string.h>

#define PATH_BYTES 64

static int readme_show(struct call *call);
static uint64_t readme_bound(const struct call *call);

/* Rows for a file (AT), for a directory (DIR) and for all objects of a kind (EACH), and short forms
 * of AT. The variable arguments start with the help text. */
#define AT(IN, NAME, MODE, ...)                                                                    \
    {                                                                                              \
        .in = IN, .name = NAME, .mode = MODE, .help = __VA_ARGS__                                  \
    }
#define DIR(IN, IS, NAME, MODE, ...) AT(IN, NAME, MODE, __VA_ARGS__, .is = IS)
#define EACH(IN, IS, ANY, MODE, ...) AT(IN, NULL, MODE, __VA_ARGS__, .is = IS, .placeholder = ANY)
#define INFO(NAME, SHOW, ...)        AT(DIR_INFO, NAME, 0444, __VA_ARGS__, .show = SHOW)
#define PMC(NAME, ...)               AT(DIR_PMC, NAME, 0, __VA_ARGS__)
/* A file with a limit of an instance. */
#define LIMIT(NAME, HELP) AT(DIR_LIMIT, NAME, 0644, HELP, .show = show_limit, .store = store_limit)

/* The index is the number of the row in node ids: never renumber or reuse it. Row 1 is the
 * directory of an object; tunables have none. */
static const struct file_row instance_rows[] = {
    [1] = DIR(DIR_NONE, DIR_ROOT, "", 01777, "mkdir creates a PMC, rmdir releases it"),
    [2] = AT(DIR_ROOT, "README", 0444, "examples, and this list", .show = readme_show,
             .bound = readme_bound),
    [3] = DIR(DIR_ROOT, DIR_INFO, "info", 0555, "facts about the host and about pmcfs, read-only"),
    [4] = DIR(DIR_ROOT, DIR_EVENTS, "events", 0555,
              "the events that can be counted on this host, a directory per class"),
    [5] = DIR(DIR_ROOT, DIR_ADMIN, "admin", 0755,
              "for the administrator: rows, tunables, instances", .flags = FILE_ROOT_ONLY),
    [6] = DIR(DIR_ROOT, DIR_INSTANCES, "instances", 0711,
              "subtrees for containers; mkdir creates one", .flags = FILE_ROOT_ONLY),
    [7] = AT(DIR_ROOT, "counts", 0444, "all PMCs that the reader may read, a line per event",
             .show = show_counts, .bound = bound_counts, .flags = FILE_RIGHTS),
    [8] = AT(DIR_ROOT, "metrics.prom", 0444,
             "all PMCs that the reader may read, as text for Prometheus", .show = show_metrics_prom,
             .bound = bound_counts, .flags = FILE_RIGHTS | FILE_SNAPSHOT | FILE_OPEN_TIME),
    /* only for README and the manual: an instance's directory is row 1 */
    [9] = EACH(DIR_INSTANCES, DIR_ROOT, "NAME", 01755,
               "an instance, with its own README, info, events, counts, metrics.prom and PMCs",
               .flags = FILE_ROOT_ONLY),
    [16] =
        INFO("version", show_info_version, "the version of pmcfs and the number of the interface"),
    [17] = INFO("backend", show_info_backend,
                "the backend (perf or sim) and its abilities on this host", .bound = bound_classes),
    [18] = INFO("cpu", show_info_cpu, "the name of the processor"),
    [19] =
        INFO("cpuref", show_info_cpuref, "the documents that describe the events of the processor"),
    [20] = INFO("cpus", show_info_cpus, "the possible and the online CPUs", .bound = bound_classes),
    [21] = INFO("npmc", show_info_npmc, "number of hardware counters per CPU, over all classes"),
    [22] = INFO("classes", show_info_classes,
                "for each class of events: number and width of its counters, abilities, CPUs",
                .bound = bound_classes),
    [23] = INFO("rows", show_info_rows,
                "the hardware counters of each CPU, and which PMC holds each of them",
                .bound = bound_rows, .flags = FILE_RIGHTS),
    [24] = INFO("stats", show_info_stats, "statistics of pmcfs itself, a number per line"),
    [25] = INFO("tsc", show_info_tsc, "the time stamp counter and its rate"),
    [26] =
        INFO("last_error", show_info_last_error,
             "the last failed operation of the reader's user, with its time", .flags = FILE_RIGHTS),
    [33] = DIR(DIR_ADMIN, DIR_TUNABLES, "tunables", 0555, "global settings, one value per file"),
    [34] = AT(DIR_ADMIN, "probe", 0644,
              "number of counters in use outside pmcfs; write 1 to count them again",
              .show = show_probe, .store = store_probe),
    [35] = DIR(DIR_ADMIN, DIR_LIMITS, "instances", 0555, "the limits of each instance"),
};

static const struct file_row pmc_rows[] = {
    [1] = EACH(DIR_ROOT, DIR_PMC, "NAME", 0700, "a PMC, under a name of your choice"),
    [2] =
        PMC("config", "all settings, key=value per line; can be written back", .show = show_config,
            .bound = bound_pmc, .store = store_command, .flags = FILE_RIGHTS),
    [3] = PMC("event", "the event, or the events of a set, one per line; >> adds one",
              .show = show_event, .bound = bound_pmc, .store = store_command),
    [4] = PMC("mode", "process or system scope, counting or sampling", .show = show_mode,
              .store = store_command),
    [5] = PMC("target", "the targets: write a PID, self, cpu0, all or cgroup:/path; -WORD detaches",
              .show = show_target, .bound = bound_pmc, .store = store_command, .begin = begin_state,
              .poll = poll_state, .flags = FILE_RIGHTS),
    [6] = PMC("ctl", "the state; write start, stop or another verb", .show = show_ctl,
              .store = store_command, .begin = begin_state, .poll = poll_state),
    [7] = PMC("count", "the value, one line per event; write the initial value", .show = show_count,
              .store = store_command, .poll = poll_count, .flags = FILE_LATE_HANDLE | FILE_READERS),
    [8] = PMC("detail", "the values per event and target, with times", .show = show_detail,
              .bound = bound_pmc, .flags = FILE_RIGHTS | FILE_READERS),
    [9] = PMC("series", "a stream with a line of values per interval (set interval=)",
              .stream = stream_series, .filler = filler_lines, .bound = bound_series,
              .poll = poll_series, .flags = FILE_STREAM),
    [10] = PMC("status", "everything about the state of the PMC, in \"name value\" lines",
               .show = show_status, .bound = bound_pmc, .begin = begin_state, .poll = poll_state,
               .flags = FILE_RIGHTS | FILE_READERS),
    [11] = PMC("error", "ok, or the reason why the last command was refused", .show = show_error),
    [12] = PMC("samples", "a stream with the log as text; text that you write is added to the log",
               .stream = stream_samples, .filler = filler_lines, .bound = bound_log,
               .begin = begin_samples, .store = store_samples, .poll = poll_samples,
               .flags = FILE_STREAM | FILE_AFTER_RELEASE | FILE_RIGHTS),
    [13] = PMC("samples.perf", "a stream with the log for perf report -i - and perf script -i -",
               .stream = stream_samples_perf, .filler = filler_samples_perf, .bound = bound_log,
               .begin = begin_samples_perf, .poll = poll_samples,
               .flags = FILE_STREAM | FILE_AFTER_RELEASE | FILE_RIGHTS),
    [14] = PMC("samples.folded", "the sampled stacks, folded and counted, for flame graphs",
               .show = show_samples_folded, .bound = bound_log, .flags = FILE_RIGHTS),
    [15] = PMC("metrics", "values derived from the counts: ratios, and rates per second",
               .show = show_metrics, .bound = bound_pmc),
};

static const struct file_row event_rows[] = {
    [1] = EACH(DIR_EVENTS, DIR_CLASS, "CLASS", 0555, "the events of one class"),
    [2] = EACH(DIR_CLASS, DIR_NONE, "EVENT", 0444, "the spelling of the event, and its meaning",
               .show = show_catalog_event, .bound = bound_event),
};

static const struct file_row slot_rows[] = {
    [1] = EACH(DIR_ADMIN, DIR_CPU, "cpuN", 0555, "the hardware counters of one CPU"),
    [2] = EACH(DIR_CPU, DIR_NONE, "ROW", 0644, "enabled or disabled", .show = show_slot,
               .store = store_slot),
};

static const struct file_row tunable_rows[] = {
    [2] = EACH(DIR_TUNABLES, DIR_NONE, "TUNABLE", 0644, "the value of the tunable",
               .show = show_tunable, .store = store_tunable),
};

static const struct file_row limit_rows[] = {
    [1] =
        EACH(DIR_LIMITS, DIR_LIMIT, "NAME", 0555, "the limits of one instance, one value per file"),
    [2] = LIMIT("max_pmcs", "maximum number of PMCs in the instance; 0: no limit"),
    [3] = LIMIT("max_fds", "maximum number of file descriptors for its PMCs; 0: no limit"),
    [4] = LIMIT("max_log", "maximum bytes of the logs of its PMCs; 0: no limit"),
    [5] = LIMIT("system_scope", "1: users inside may count CPUs and cgroups"),
    [6] = LIMIT("kernel_mode", "1: users inside may count and sample kernel mode"),
    [7] = LIMIT("lifetime",
                "mount, or namespace: released when the PID namespace that uses it is gone"),
    [8] = AT(DIR_LIMIT, "ctl", 0644, "active; write release to release its PMCs and remove it",
             .show = show_instance_ctl, .store = store_instance_ctl),
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

unsigned file_row_end(enum node_kind kind)
{
    return tables[kind].n;
}

const struct file_row *file_next(enum dir_kind dir, unsigned after, unsigned *number)
{
    /* the kind whose numbers the named files of the directory use */
    const enum node_kind kind = dir == DIR_PMC     ? NODE_PMC
                                : dir == DIR_LIMIT ? NODE_LIMIT
                                                   : NODE_INSTANCE;

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

const struct file_row *file_above(const struct file_row *row)
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

/* Prints the path of a row from the root, such as "NAME/count" or "admin/cpuN/ROW". */
static void row_path(const struct file_row *row, char path[PATH_BYTES])
{
    const struct file_row *above = file_above(row);

    path[0] = '\0';
    if (above)
        row_path(above, path);
    size_t n = strlen(path);
    snprintf(path + n, PATH_BYTES - n, "%s%s", row->name ? row->name : row->placeholder,
             row->is ? "/" : "");
}

void files_print(bool inside, bool as_page, struct buf *out)
{
    char path[PATH_BYTES], access[3];

    for (int kind = 0; kind < NODE_KINDS; kind++)
        for (unsigned i = 1; i < tables[kind].n; i++) {
            const struct file_row *row = file_row((enum node_kind)kind, i), *outer = row;

            while (outer && !(outer->flags & FILE_ROOT_ONLY))
                outer = file_above(outer);
            if (!row || row->in == DIR_NONE || (inside && outer))
                continue;
            row_path(row, path);
            snprintf(access, sizeof access, "%s%s", row->show || row->stream ? "r" : "",
                     row->store ? "w" : "");
            buf_printf(out, as_page ? "  %-33s %-2s  %s\n" : "%s\t%s\t%s\n", path, access,
                       row->help);
        }
}

/* ---- README ---- */

#define README_MAX   8192 /* bytes of the text without the paths of the mount */
#define README_PATHS 32   /* at most this many paths */

static const char *readme_mountpoint = "/pmc";

void readme_set_mountpoint(const char *mountpoint)
{
    readme_mountpoint = mountpoint;
}

/* '@' is replaced by the mountpoint, or in an instance by /pmc. */
static const char page[] =
    "pmcfs " PMCFS_VERSION ": performance counters as files.\n"
    "A directory is a counter (a PMC): mkdir creates it, rmdir releases it. Write to its\n"
    "files to set it up, and read them to see the counts.\n"
    "\n"
    "Count the page faults of a process (here: this shell):\n"
    "\n"
    "  mkdir @/i && echo page-faults > @/i/event && echo $$ > @/i/target\n"
    "  cat @/i/count\n"
    "  rmdir @/i\n"
    "\n"
    "Count the CPU time of a command and all its children, from the first instruction:\n"
    "\n"
    "  mkdir @/c && echo event=task-clock start=exec descendants=on > @/c/config\n"
    "  sh -c 'echo self > @/c/target && exec ls -R /usr/share/doc > /dev/null'\n"
    "  cat @/c/count; rmdir @/c\n"
    "\n"
    "Count several events together on one CPU, as root (>> adds an event):\n"
    "\n"
    "  mkdir @/s && echo context-switches,page-faults > @/s/event\n"
    "  echo task-clock >> @/s/event && echo cpu0 > @/s/target\n"
    "  paste @/s/event @/s/count; cat @/s/metrics\n"
    "  rmdir @/s\n"
    "\n"
    "Profile a command (flame graph: pmc-flamegraph @/p; report: pmcstat, or\n"
    "perf report -i - < @/p/samples.perf):\n"
    "\n"
    "  mkdir @/p && echo event=cpu-clock callchain=on start=exec freq=997 > @/p/config\n"
    "  sh -c 'echo self > @/p/target && exec ls -R /usr > /dev/null'\n"
    "  cat @/p/samples.folded\n"
    "  rmdir @/p\n"
    "\n"
    "All events of this host: ls @/events. Derived values such as instructions per cycle:\n"
    "ls @/events/metric, and write metric/NAME to event. Live view of all counters: pmctop.\n"
    "\n"
    "If a write fails, @/NAME/error or @/info/last_error has the reason. (The echo of dash\n"
    "always prints \"I/O error\".)\n"
    "\n"
    "Each write(2) is one command, which takes effect completely or not at all. Later writes\n"
    "to the same open file add their events to the set. Manual: man 5 pmcfs.\n"
    "\n"
    "Files (r: readable, w: writable):\n"
    "\n";

static int readme_show(struct call *call)
{
    bool inside = call->instance->id != 0;
    const char *where = inside ? "/pmc" : readme_mountpoint; /* the usual path in containers */

    for (const char *p = page; *p;) {
        size_t n = strcspn(p, "@");
        buf_add(call->out, p, n);
        p += n;
        if (*p == '@') {
            buf_str(call->out, where);
            p++;
        }
    }
    files_print(inside, true, call->out);
    return CALL_DONE;
}

static uint64_t readme_bound(const struct call *call)
{
    (void)call;
    return README_MAX + README_PATHS * strlen(readme_mountpoint);
}
