/*
 * pmcfs: the order of start and stop, and the program's tables (--print-tables, --help), from which
 * documents are generated and against which tests check them. The only file of fs/ that refers to
 * perf_backend, sim_backend and linux_host.
 */
#include "backends/backends.h"
#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/journal.h"
#include "core/change/change.h"
#include "core/log/record.h"
#include "core/pmc/settings.h"
#include "fs/program/confine.h"
#include "fs/program/upgrade.h"
#include "fs/program/worker.h"
#include "fs/requests/inflight.h"
#include "fs/requests/message.h"
#include "fs/requests/serve.h"
#include "fs/tree/files.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static struct options options;

/* ---- the process ---- */

/* Prepares what the process inherited: environment, descriptors, limits and signals. In an upgrade
 * the descriptors are those of the mount. */
static void process_prepare(void)
{
    const struct rlimit most = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    struct rlimit limit;
    unsigned mount;

    /* libpfm4 would load event tables and print debug output because of LIBPFM_* variables. */
    for (char **entry = environ; *entry;) {
        char name[64];
        size_t len = strcspn(*entry, "=");

        if (strncmp(*entry, "LIBPFM_", 7) != 0 || len >= sizeof name) {
            entry++;
            continue;
        }
        memcpy(name, *entry, len);
        name[len] = '\0';
        unsetenv(name); /* moves later entries down */
    }
    /* Close all descriptors, except the FUSE device if the mountpoint is /dev/fd/N. */
    if (!options.resume_fd && sscanf(options.mountpoint, "/dev/fd/%u", &mount) == 1 && mount >= 3) {
        if (mount > 3)
            close_range(3, mount - 1, 0);
        close_range(mount + 1, ~0U, 0);
        fcntl((int)mount, F_SETFD, FD_CLOEXEC);
    } else if (!options.resume_fd) {
        close_range(3, ~0U, 0);
    }
    /* Each event of each target's thread needs a descriptor. */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        (limit.rlim_max >= most.rlim_max || setrlimit(RLIMIT_NOFILE, &most) < 0)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    signal(SIGPIPE, SIG_IGN);
    umask(022);
}

/*
 * Goes into the background; exits with 1 if that fails. The parent does not return: it exits with 0
 * when the child writes 'r' (the tree is usable), or with 1 when the child exits. Returns the
 * child's end of the pipe.
 */
static int background_begin(void)
{
    int ends[2];
    pid_t child;
    char byte = 0;

    if (pipe2(ends, O_CLOEXEC) < 0 || (child = fork()) < 0) {
        message_log(LOG_ERR, "cannot go into the background: %s", strerror(errno));
        exit(1);
    }
    if (child > 0) {
        close(ends[1]);
        while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
            ;
        _exit(byte == 'r' ? 0 : 1);
    }
    close(ends[0]);
    setsid();
    return ends[1];
}

/* ---- tables ---- */

static struct tunables standard; /* all tunables with their defaults */

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

/* Prints a table. Returns false if there is no such table, with the names of all tables in out. */
static bool tables_print(const char *what, struct buf *out)
{
    static const char *const modes[] = {[MODES_ANY] = "",
                                        [MODES_PROCESS] = "process",
                                        [MODES_CPUS] = "system",
                                        [MODES_SAMPLING] = "sampling"};

    tunables_init(&standard);
    if (strcmp(what, "files") == 0) {
        files_print(false, false, out);
    } else if (strcmp(what, "tunables") == 0) {
        for (int i = 0; i < TUNABLE_COUNT; i++) {
            const struct tunable_row *row = tunable_row((enum tunable)i);
            buf_printf(out, "%s\t", row->name);
            tunable_print(&standard, (enum tunable)i, out);
            buf_char(out, '\t');
            tunable_range_print(&standard, (enum tunable)i, out);
            buf_printf(out, "\t%s\t%s\t%s\n", row->at_start ? "mount" : "any time", row->help,
                       row->effect);
        }
    } else if (strcmp(what, "conf") == 0) {
        print_conf(out);
    } else if (strcmp(what, "errors") == 0) {
        for (int i = 1; i < ERR_COUNT; i++)
            buf_printf(out, "%s\t%s\t%s\t%s\n", err_table[i].id, err_errno_name(err_table[i].code),
                       err_table[i].where, err_table[i].condition);
    } else if (strcmp(what, "settings") == 0) {
        /* Columns: name, values, default, range of numbers, modes, help, the reference features. */
        for (int i = 0; i < KEYS; i++) {
            const struct key_row *row = &key_table[i];
            buf_printf(out, "%s\t%s\t%s\t", row->name, row->values, row->standard);
            if (row->form == VALUE_OFF_NUMBER)
                buf_printf(out, "%" PRIu64 " to %" PRIu64, row->min, row->max);
            buf_printf(out, "\t%s\t%s\t%s\n", modes[row->modes], row->help,
                       row->reference ? row->reference : "");
        }
    } else if (strcmp(what, "modes") == 0) {
        for (int i = 0; i < MODE_COUNT; i++)
            buf_printf(out, "%s\t%s\t%s\n", mode_table[i].name, mode_table[i].short_name,
                       mode_table[i].help);
    } else if (strcmp(what, "states") == 0) {
        for (int i = 0; i < PMC_STATES; i++)
            buf_printf(out, "%s\t%s\n", state_table[i].name, state_table[i].help);
    } else if (strcmp(what, "verbs") == 0) {
        for (int i = 1; i < VERBS; i++)
            buf_printf(out, "%s\t%s\t%s\n", verb_table[i].name, verb_table[i].help,
                       verb_table[i].reference);
    } else if (strcmp(what, "records") == 0) {
        for (unsigned i = 0; i < record_rows; i++)
            buf_printf(out, "%s\t%s\t%s\t%s\n", record_table[i].word, record_table[i].fields,
                       record_table[i].help, record_table[i].reference);
    } else if (strcmp(what, "help") == 0) {
        print_help(out);
    } else {
        buf_str(out, "files tunables conf errors settings modes states verbs records help");
        return false;
    }
    return true;
}

/* ---- one process, or a worker below a supervisor ---- */

static struct worker worker = {.options = &options, .host = &linux_host};

/* Mounts the tree, and reads FUSE_INIT, the kernel's first request, for every worker. Returns the
 * memory for requests, with its descriptor *fd, or NULL after a message. */
static struct inflight *tree_mount(int *fd)
{
    static struct journal *journal; /* mapped only to create it; workers map it again */
    struct inflight *inflight = inflight_new(fd);
    char request[8192]; /* the kernel refuses reads into less */
    ssize_t n;

    journal = inflight ? journal_new() : NULL;
    if (!journal || arena_fd() < 0) {
        message_log(LOG_ERR, "cannot start: %s", strerror(errno));
        return NULL;
    }
    inflight->started_ns = clock_ns(CLOCK_REALTIME);
    inflight->journal_fd = journal_fd(journal);
    inflight->arena_fd = arena_fd();
    inflight->fuse_fd = mount_make(&worker.mount);
    if (inflight->fuse_fd < 0)
        return NULL;
    do
        n = read(inflight->fuse_fd, request, sizeof request);
    while (n < 0 && errno == EINTR);
    if (n <= 0 || (size_t)n > sizeof inflight->init) {
        message_log(LOG_ERR, "the kernel sent no FUSE_INIT, so nothing is mounted: try again");
        mount_end(&worker.mount);
        return NULL;
    }
    memcpy(inflight->init, request, (size_t)n);
    inflight->init_bytes = (uint32_t)n;
    device_learn_timeout(inflight, true);
    return inflight;
}

static bool mount_taken; /* in an upgrade the old program cannot be executed again */

static int argc;
static char **argv;

/* Goes into the background, mounts the tree or takes over its mount, and serves it. Returns the
 * exit status. */
static int mount_run(void)
{
    const bool foreground = options.foreground || options.resume_fd;
    char *end, *kept = NULL;
    int fd = options.resume_fd;

    worker.ready_fd = foreground ? -1 : background_begin();
    if (worker.ready_fd >= 0 && !fd_exempt(worker.ready_fd)) {
        message_log(LOG_ERR, "cannot start: %s", strerror(errno));
        return 1;
    }
    if (chdir("/") < 0)
        message_log(LOG_WARNING, "cannot change to /: %s", strerror(errno));
    struct inflight *inflight = options.resume_fd ? supervisor_resume(&worker) : tree_mount(&fd);
    if (!inflight)
        return 1;
    messages_keep(NULL, 0);
    mount_taken = true;
    /* Remove --resume from the arguments that ps(1) shows. They are contiguous in memory. */
    if (options.resume_fd && argc > 2 && options.resume_argument == argv[1] + strlen("--resume="))
        kept = strdup(options.resume_argument);
    if (kept) {
        options.resume_argument = kept;
        end = argv[argc - 1] + strlen(argv[argc - 1]) + 1;
        memmove(argv[1], argv[2], (size_t)(end - argv[2]));
        memset(end - (argv[2] - argv[1]), 0, (size_t)(argv[2] - argv[1]));
    }
    return options.single ? worker_run(&worker, inflight, -1) : supervise(&worker, inflight, fd);
}

/* Handles --help and similar options. Returns the exit status, or -1 to mount the tree. */
static int run_query_options(void)
{
    struct buf text = {0};

    if (options.help) {
        tables_print("help", &text);
    } else if (options.version) {
        buf_printf(&text, "pmcfs %s\ninterface %d\nlibfuse %s\n", PMCFS_VERSION, PMCFS_INTERFACE,
                   fuse_pkgversion());
    } else if (options.print_tables) {
        if (!tables_print(options.print_tables, &text)) {
            message_log(LOG_ERR, "no table %s: give one of %s", options.print_tables,
                        buf_text(&text));
            buf_free(&text);
            return 2;
        }
    } else if (options.upgrade) {
        return upgrade_request(options.mountpoint);
    } else if (!options.check) {
        return -1;
    } else { /* in an upgrade, can this program read the shared state? */
        if (options.complaints || !options.resume_fd)
            return options.complaints > 0;
        if (inflight_open(options.resume_fd)) {
            message_log(LOG_INFO, UPGRADE_READY);
            return 0;
        }
        message_log(LOG_ERR, "this version cannot continue the requests of the running version%s%s",
                    errno == EPROTO ? "" : ": ", errno == EPROTO ? "" : strerror(errno));
        return 1;
    }
    fwrite(text.data, 1, text.len, stdout);
    buf_free(&text);
    if (fflush(stdout) == 0)
        return 0;
    message_log(LOG_ERR, "cannot write to standard output: %s", strerror(errno));
    return 1;
}

static int run(void)
{
    int fd;

    do /* descriptors 0 to 2, if they are closed, so that no later file gets these numbers */
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= 2);
    if (fd > 2)
        close(fd);
    /* malloc_trim() shortens only the first arena; each other one would keep up to 8 MiB of a
     * burst. */
    mallopt(M_ARENA_MAX, 1);
    /* The main loop, not each free(), returns memory of large replies to the kernel. */
    mallopt(M_MMAP_THRESHOLD, 8 << 20);
    mallopt(M_TRIM_THRESHOLD, 8 << 20);
    messages_from_fuse();
    int status = options_read(&options, &linux_host, argc, argv);
    if (status == 0)
        status = run_query_options();
    if (status >= 0)
        return status;
    worker.mount = (struct mount_settings){options.source, options.mountpoint, options.mount_flags,
                                           buf_text(&options.labels)};
    worker.backend = options.backend && strcmp(options.backend, sim_backend.name) == 0
                         ? &sim_backend
                         : &perf_backend;
    if (geteuid() != 0) {
        message_log(LOG_ERR, "cannot mount on \"%s\": start pmcfs as root", options.mountpoint);
        return 1;
    }
    if (!options.resume_fd && !mount_prepare(&worker.mount))
        return 1;
    readme_set_mountpoint(options.mountpoint);
    process_prepare();
    if (!options.resume_fd)
        capabilities_report();
    if (worker.backend->prepare)
        worker.backend->prepare();
    return confine_process() ? mount_run() : 1;
}

int main(int count, char **words)
{
    static char why[400] = "it printed no reason";

    messages_keep(why, sizeof why);
    argc = count;
    argv = words;
    int status = run();
    if (!mount_taken)
        upgrade_roll_back(&options, argv, why);
    options_free(&options);
    return status;
}
