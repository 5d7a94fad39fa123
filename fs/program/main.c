/*
 * pmcfs: the order of start and stop. The only file here that names a backend.
 */
#include "backends/backends.h"
#include "core/base/arena.h"
#include "core/base/fds.h"
#include "core/base/journal.h"
#include "fs/program/confine.h"
#include "fs/program/supervise.h"
#include "fs/program/tables.h"
#include "fs/program/upgrade.h"
#include "fs/program/worker.h"
#include "fs/requests/device.h"
#include "fs/requests/inflight.h"
#include "fs/requests/say.h"
#include "fs/tree/readme.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
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

/* Opens descriptors 0 to 2 if they are closed, so that no later file gets these numbers. */
static void descriptors_plug(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= 2);
    if (fd > 2)
        close(fd);
}

/* Closes all inherited descriptors, except the FUSE device if the mountpoint is /dev/fd/N. */
static void descriptors_forget(const char *mountpoint)
{
    unsigned mount;

    if (sscanf(mountpoint, "/dev/fd/%u", &mount) != 1 || mount < 3) {
        close_range(3, ~0U, 0);
        return;
    }
    if (mount > 3)
        close_range(3, mount - 1, 0);
    close_range(mount + 1, ~0U, 0);
    fcntl((int)mount, F_SETFD, FD_CLOEXEC);
}

/* Raises the limit of descriptors: each event of each target's thread needs one. */
static void descriptors_raise(void)
{
    struct rlimit limit, most;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    most = (struct rlimit){.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    if (limit.rlim_max < most.rlim_max && setrlimit(RLIMIT_NOFILE, &most) == 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Removes LIBPFM_* variables, by which libpfm4 would load event tables and print debug output. */
static void environment_clean(void)
{
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
}

/*
 * Goes into the background. The parent waits until the child writes a byte (the tree is usable) or
 * exits, and does not return. Returns the child's end of the pipe.
 */
static int background_begin(void)
{
    int ends[2];
    pid_t child;
    char byte = 0;

    if (pipe2(ends, O_CLOEXEC) < 0 || (child = fork()) < 0) {
        say(LOG_ERR, "cannot go into the background: %s", strerror(errno));
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

/* ---- one process, or a worker below a supervisor ---- */

static struct worker worker = {.options = &options, .host = &linux_host};

static int work(struct inflight *inflight, int hold_fd)
{
    return worker_run(&worker, inflight, hold_fd);
}

/* Reads FUSE_INIT, the kernel's first request, and keeps it for every worker. */
static bool init_read(struct inflight *inflight)
{
    char request[8192]; /* the kernel refuses reads into less */
    ssize_t n;

    do
        n = read(inflight->fuse_fd, request, sizeof request);
    while (n < 0 && errno == EINTR);
    if (n <= 0 || (size_t)n > sizeof inflight->init) {
        say(LOG_ERR, "no FUSE_INIT from the kernel: not mounted");
        mount_end(&worker.place);
        return false;
    }
    memcpy(inflight->init, request, (size_t)n);
    inflight->init_bytes = (uint32_t)n;
    device_learn_timeout(inflight, true);
    return true;
}

static struct inflight *inflight_make(int *fd)
{
    static struct journal *journal; /* mapped here so that it exists; workers map it again */
    struct inflight *inflight = inflight_new(fd);
    struct timespec now;

    journal = inflight ? journal_new() : NULL;
    if (!journal || arena_fd() < 0) {
        say(LOG_ERR, "cannot start: %s", strerror(errno));
        return NULL;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    inflight->started_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    inflight->journal_fd = journal_fd(journal);
    inflight->arena_fd = arena_fd();
    inflight->fuse_fd = mount_make(&worker.place);
    return inflight->fuse_fd >= 0 && init_read(inflight) ? inflight : NULL;
}

static bool began; /* the old program of an upgrade cannot come back */

static int mount_run(void)
{
    struct inflight *inflight;
    int fd = options.resume;

    inflight = options.resume ? supervisor_resume(&options, &worker.place) : inflight_make(&fd);
    if (!inflight)
        return 1;
    say_keep(NULL, 0);
    began = true;
    return options.single ? work(inflight, -1) : supervise(inflight, fd, &options, &worker.place, work);
}

static int background_run(void)
{
    const bool foreground = options.foreground || options.resume;

    worker.ready_fd = foreground ? -1 : background_begin();
    if (worker.ready_fd >= 0 && !fd_mine(worker.ready_fd)) {
        say(LOG_ERR, "cannot start: %s", strerror(errno));
        return 1;
    }
    if (chdir("/") < 0)
        say(LOG_WARNING, "cannot change to /: %s", strerror(errno));
    return mount_run();
}

static int text_out(struct buf *text)
{
    fwrite(text->data, 1, text->len, stdout);
    buf_free(text);
    if (fflush(stdout) == 0)
        return 0;
    say(LOG_ERR, "cannot write to standard output: %s", strerror(errno));
    return 1;
}

/* --check. In an upgrade also checks that this program can read the shared state. */
static int check_answer(void)
{
    if (options.complaints || !options.resume || inflight_open(options.resume))
        return options.complaints > 0;
    say(LOG_ERR, "this version cannot continue the requests of the running version%s%s",
        errno == EPROTO ? "" : ": ", errno == EPROTO ? "" : strerror(errno));
    return 1;
}

/* Handles --help and similar options. Returns the exit status, or -1 to mount the tree. */
static int questions_answer(void)
{
    struct buf text;

    buf_init(&text, NULL, 0);
    if (options.help) {
        tables_print("help", &text);
    } else if (options.version) {
        buf_printf(&text, "pmcfs %s\ninterface %d\nlibfuse %s\n", PMCFS_VERSION, PMCFS_INTERFACE,
                   fuse_pkgversion());
    } else if (options.print_tables) {
        if (!tables_print(options.print_tables, &text)) {
            say(LOG_ERR, "no table %s: give one of %s", options.print_tables, buf_text(&text));
            buf_free(&text);
            return 2;
        }
    } else if (options.upgrade) {
        return upgrade_ask(options.mountpoint);
    } else {
        return options.check ? check_answer() : -1;
    }
    return text_out(&text);
}

static int run(int argc, char **argv)
{
    int status;

    descriptors_plug();
    mallopt(M_ARENA_MAX, 2); /* one per thread would keep the memory of a burst */
    /* The main loop returns memory of large replies to the system, not each free(). */
    mallopt(M_MMAP_THRESHOLD, 8 << 20);
    mallopt(M_TRIM_THRESHOLD, 8 << 20);
    say_for_fuse();
    status = options_read(&options, &linux_host, argc, argv);
    if (status == 0)
        status = questions_answer();
    if (status >= 0)
        return status;
    worker.place = (struct mount_settings){options.source, options.mountpoint, options.mount_flags,
                                           buf_text(&options.labels)};
    worker.backend = options.backend && strcmp(options.backend, sim_backend.name) == 0
                         ? &sim_backend
                         : &perf_backend;
    if (geteuid() != 0) {
        say(LOG_ERR, "cannot mount on \"%s\": start pmcfs as root", options.mountpoint);
        status = 1;
    } else if (!options.resume && !mount_prepare(&worker.place)) {
        status = 1;
    } else {
        readme_place(options.mountpoint);
        environment_clean();
        if (!options.resume)
            descriptors_forget(options.mountpoint);
        descriptors_raise();
        signal(SIGPIPE, SIG_IGN);
        umask(022);
        if (!options.resume)
            capabilities_report();
        if (worker.backend->prepare)
            worker.backend->prepare();
        status = confine_process() ? background_run() : 1;
    }
    return status;
}

int main(int argc, char **argv)
{
    static char why[400] = "it printed no reason";
    int status;

    say_keep(why, sizeof why);
    status = run(argc, argv);
    if (!began)
        upgrade_back(&options, argv, why);
    options_free(&options);
    return status;
}
