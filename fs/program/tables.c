/*
 * Prints the program's tables as tab separated lines. The table conf is the text of
 * conf/pmcfs.conf.
 */
#include "fs/program/tables.h"

#include "core/base/err.h"
#include "core/change/change.h"
#include "core/log/record.h"
#include "core/pmc/settings.h"
#include "core/pmc/tunable.h"
#include "fs/program/options.h"
#include "fs/tree/files.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

static struct tunables standard; /* all tunables with their defaults */

static void print_tunables(struct buf *out)
{
    for (int i = 0; i < TUNABLE_COUNT; i++) {
        const struct tunable_row *row = tunable_row((enum tunable)i);
        buf_printf(out, "%s\t", row->name);
        tunable_print(&standard, (enum tunable)i, out);
        buf_char(out, '\t');
        tunable_range_print(&standard, (enum tunable)i, out);
        buf_printf(out, "\t%s\t%s\t%s\n", row->at_start ? "mount" : "any time", row->help,
                   row->effect);
    }
}

static void print_files(struct buf *out)
{
    files_print(false, false, out);
}

static void print_conf(struct buf *out)
{
    buf_str(out,
            "# Configuration of pmcfs(8). Each line shows a default; remove the # to change it.\n"
            "# pmcfs(5), TUNABLES, describes the tunables. Options of -o take precedence.\n"
            "# After a change: send SIGHUP to pmcfs. Check this file with: pmcfs --check\n"
            "# Files *.conf in pmcfs.conf.d/ next to this file are read after it.\n"
            "\n"
            "[pmcfs]\n"
            "\n"
            "# Backend: perf (the kernel's perf_events) or sim (a simulated PMU, for tests).\n"
            "#backend = perf\n");
    for (int i = 0; i < TUNABLE_COUNT; i++) {
        const struct tunable_row *row = tunable_row((enum tunable)i);
        buf_printf(out, "\n# %c%s.\n# ", toupper((unsigned char)row->help[0]), row->help + 1);
        tunable_range_print(&standard, (enum tunable)i, out);
        buf_printf(out, "; can be changed %s; effect: %s\n#%s = ",
                   row->at_start ? "at mount only" : "at any time", row->effect, row->name);
        tunable_print(&standard, (enum tunable)i, out);
        buf_char(out, '\n');
    }
    buf_str(out, "\n"
                 "# PMCs and instances to create at mount: see pmcfs(8), COUNTERS AT BOOT.\n"
                 "# Keys of a [pmc NAME]: the settings of its file config, owner and mode-bits.\n"
                 "# [pmc system]\n"
                 "# event = page-faults,context-switches\n"
                 "# target = all\n"
                 "# metrics = cpu\n"
                 "# owner = prometheus:\n"
                 "# mode-bits = 0750\n"
                 "\n"
                 "# Keys of an [instance NAME]: its limits, owner and mode-bits.\n"
                 "# [instance web]\n"
                 "# owner = 1000:1000\n"
                 "# max_pmcs = 20\n");
}

static void print_errors(struct buf *out)
{
    for (int i = 1; i < ERR_COUNT; i++)
        buf_printf(out, "%s\t%s\t%s\t%s\n", err_table[i].id, err_errno_name(err_table[i].code),
                   err_table[i].where, err_table[i].condition);
}

/* Columns: name, values, default, range of numbers, modes, help, the reference features. */
static void print_settings(struct buf *out)
{
    static const char *const places[] = {[PLACE_ANY] = "",
                                         [PLACE_PROCESS] = "process",
                                         [PLACE_CPUS] = "system",
                                         [PLACE_SAMPLING] = "sampling"};

    for (int i = 0; i < KEYS; i++) {
        const struct key_row *row = &key_table[i];
        buf_printf(out, "%s\t%s\t%s\t", row->name, row->values, row->standard);
        if (row->shape == SHAPE_OFF_NUMBER)
            buf_printf(out, "%" PRIu64 " to %" PRIu64, row->min, row->max);
        buf_printf(out, "\t%s\t%s\t%s\n", places[row->place], row->help,
                   row->reference ? row->reference : "");
    }
}

static void print_modes(struct buf *out)
{
    for (int i = 0; i < MODE_COUNT; i++)
        buf_printf(out, "%s\t%s\t%s\n", mode_table[i].name, mode_table[i].short_name,
                   mode_table[i].help);
}

static void print_states(struct buf *out)
{
    for (int i = 0; i < PMC_STATES; i++)
        buf_printf(out, "%s\t%s\n", state_table[i].name, state_table[i].help);
}

static void print_verbs(struct buf *out)
{
    for (int i = 1; i < VERBS; i++)
        buf_printf(out, "%s\t%s\t%s\n", verb_table[i].name, verb_table[i].help,
                   verb_table[i].reference);
}

static void print_records(struct buf *out)
{
    for (unsigned i = 0; i < record_rows; i++)
        buf_printf(out, "%s\t%s\t%s\t%s\n", record_table[i].word, record_table[i].fields,
                   record_table[i].help, record_table[i].reference);
}

static void print_help(struct buf *out)
{
    buf_str(out,
            "usage: pmcfs [options] [SOURCE] MOUNTPOINT\n"
            "       pmcfs --upgrade MOUNTPOINT\n"
            "Mounts performance counters as a file system.\n\n"
            "  -f, --foreground      stay in the foreground and write messages to stderr\n"
            "  -o KEY=VALUE[,...]    set a tunable, backend=perf|sim, or an option of mount(8)\n"
            "     single             serve in one process, without supervisor (for debuggers)\n"
            "  -c, --config FILE     read FILE instead of " CONF_DEFAULT "\n"
            "      --check           check the configuration, report errors, and exit\n"
            "      --print-tables T  print table T: settings, tunables, conf, errors, files,\n"
            "                        modes, states, verbs, records or help\n"
            "      --upgrade         replace the program that serves MOUNTPOINT by this one\n"
            "  -V, --version         print the version and the number of the interface\n"
            "  -h, --help            print this text\n\n"
            "All tunables with default and range: pmcfs --print-tables tunables\n"
            "Manual: pmcfs(8) to mount and run, pmcfs(5) for the files and settings,\n"
            "pmcfs-log(5) for samples and records, pmcfs-access(7) for permissions, quotas and\n"
            "containers, pmcfs-compat(7) for users of hwpmc, perfmon, pmcstat and cpc.\n");
}

static const struct {
    const char *name;
    void (*print)(struct buf *out);
} tables[] = {
    {"files", print_files},   {"tunables", print_tunables}, {"conf", print_conf},
    {"errors", print_errors}, {"settings", print_settings}, {"modes", print_modes},
    {"states", print_states}, {"verbs", print_verbs},       {"records", print_records},
    {"help", print_help},
};

bool tables_print(const char *what, struct buf *out)
{
    tunables_init(&standard);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (strcmp(what, tables[i].name) == 0) {
            tables[i].print(out);
            return true;
        }
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        buf_printf(out, "%s%s", i > 0 ? " " : "", tables[i].name);
    return false;
}
