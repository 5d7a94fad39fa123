/*
 * The program's tables as text: tab separated lines, except conf, which is the file
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

#include <string.h>

static struct tunables standard; /* default values */

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
            "# The defaults of pmcfs(8); each is in pmcfs(5), TUNABLES. Without # a line is in\n"
            "# force; -o comes after it.\n"
            "# SIGHUP makes a running pmcfs read again what can be changed at any time.\n"
            "# pmcfs --check says what is wrong with this file.\n"
            "\n"
            "[pmcfs]\n"
            "\n"
            "# what counts: perf (the kernel's perf_events) or sim (a simulated PMU, for tests)\n"
            "#backend = perf\n");
    for (int i = 0; i < TUNABLE_COUNT; i++) {
        const struct tunable_row *row = tunable_row((enum tunable)i);
        buf_printf(out, "\n# %s\n# ", row->help);
        tunable_range_print(&standard, (enum tunable)i, out);
        buf_printf(out, "; changed: %s; effect: %s\n#%s = ",
                   row->at_start ? "at mount only" : "at any time", row->effect, row->name);
        tunable_print(&standard, (enum tunable)i, out);
        buf_char(out, '\n');
    }
}

static void print_errors(struct buf *out)
{
    for (int i = 1; i < ERR_COUNT; i++)
        buf_printf(out, "%s\t%s\t%s\t%s\n", err_table[i].id, err_errno_name(err_table[i].code),
                   err_table[i].where, err_table[i].condition);
}

static void print_settings(struct buf *out)
{
    for (int i = 0; i < KEYS; i++) {
        const struct key_row *row = &key_table[i];
        buf_printf(out, "%s\t%s\t%s\t%s\t%s\n", row->name, row->values, row->standard, row->help,
                   row->seed ? row->seed : "");
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
        buf_printf(out, "%s\t%s\t%s\n", verb_table[i].name, verb_table[i].help, verb_table[i].seed);
}

static void print_records(struct buf *out)
{
    for (unsigned i = 0; i < record_rows; i++)
        buf_printf(out, "%s\t%s\t%s\t%s\n", record_table[i].word, record_table[i].fields,
                   record_table[i].help, record_table[i].seed);
}

static void print_help(struct buf *out)
{
    buf_str(out,
            "usage: pmcfs [options] [SOURCE] MOUNTPOINT\n"
            "       pmcfs --upgrade MOUNTPOINT\n"
            "Mounts the machine's performance counters as files.\n"
            "Manual: pmcfs(8) has what to type, pmcfs(5) every file, setting, tunable and error,\n"
            "pmcfs-compat(7) what differs from hwpmc, perfmon, pmcstat and cpc.\n\n"
            "  -f, --foreground      stay in the foreground, messages to stderr\n"
            "  -o KEY=VALUE[,...]    a tunable, backend=perf|sim, or an option of mount(8);\n"
            "     single             one process, which nothing takes the place of\n"
            "  -c, --config FILE     read FILE instead of " CONF_DEFAULT "\n"
            "      --check           say what is wrong with the configuration, and end\n"
            "      --print-tables T  print the table T: settings, tunables, conf, errors, files,\n"
            "                        modes, states, verbs, records or help\n"
            "      --upgrade         put this program in the place of the one at MOUNTPOINT\n"
            "  -V, --version         print the version\n"
            "  -h, --help            print this\n\n"
            "tunables (default; what is allowed):\n");
    for (int i = 0; i < TUNABLE_COUNT; i++) {
        const struct tunable_row *row = tunable_row((enum tunable)i);
        buf_printf(out, "  %-24s %s (", row->name, row->help);
        tunable_print(&standard, (enum tunable)i, out);
        buf_str(out, "; ");
        tunable_range_print(&standard, (enum tunable)i, out);
        buf_str(out, ")\n");
    }
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
