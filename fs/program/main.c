/*
 * pmcfs: the order of start and stop. The only file here that names a backend.
 */
#include "backends/backends.h"
#include "fs/program/confine.h"
#include "fs/program/mount.h"
#include "fs/program/options.h"
#include "fs/program/reload.h"
#include "fs/program/tables.h"
#include "fs/requests/device.h"
#include "fs/requests/loop.h"
#include "fs/requests/ops.h"
#include "fs/requests/readers.h"
#include "fs/requests/request.h"
#include "fs/requests/say.h"
#include "fs/requests/serve.h"
#include "fs/tree/readme.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

extern char **environ;

static struct options options;

/* ---- the process ---- */

/* Numbers 0 to 2 are taken, so that nothing opened later is written to by mistake. */
static void descriptors_plug(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= 2);
    if (fd > 2)
        close(fd);
}

/* Descriptors that our parent left open are neither kept nor passed on; one may be the mount. */
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

/* Every thread of every target takes a descriptor. */
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

/* libpfm4 would take event tables and debugging from our parent's environment. */
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
        unsetenv(name); /* moves the later ones down */
    }
}

/*
 * Into the background: the parent stays until the child says through the pipe that the tree is
 * usable, or ends. Gives the child's end of the pipe; the parent does not return.
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

static void background_ready(int fd)
{
    int null;

    if (fd < 0)
        return;
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; null >= 0 && i <= 2; i++)
        dup2(null, i);
    if (null > 2)
        close(null);
    say_to_syslog();
    if (write(fd, "r", 1) != 1)
        say(LOG_WARNING, "the parent of pmcfs did not wait for it");
    close(fd);
}

/* ---- host, backend, engine ---- */

/* Without a usable PMU: one line that says so, and why (the backend's own words in info/backend).
 */
static void say_machine(const struct fs *fs)
{
    static const char key[] = "hardware_pmu no: ";
    const struct class_info *classes;
    struct buf facts;
    unsigned n;

    classes = fs->backend->classes(fs->backend_state, &n);
    for (unsigned i = 0; i < n; i++)
        if (classes[i].rows > 0)
            return;
    buf_init(&facts, NULL, 0);
    fs->backend->facts(fs->backend_state, &facts);
    const char *why = strstr(buf_text(&facts), key);
    why = why ? why + strlen(key) : "";
    say(LOG_NOTICE, "no usable PMU%s%.*s; serving what there is (info/backend, events/)",
        *why ? ": " : "", (int)strcspn(why, "\n"), why);
    buf_free(&facts);
}

static bool engine_open(struct fs *fs, const struct loop *loop, struct err *err)
{
    const char *words = buf_text(&options.backend_words);

    fs->tree.engine = engine_new(&options.tunables);
    if (!fs->tree.engine) {
        err_set(err, E32, "no memory");
        return false;
    }
    engine_reserve_names(fs->tree.engine, file_reserved);
    fs->sink = engine_sink(&fs->tree.engine);
    if (fs->host->open(loop, &fs->sink, &fs->host_state, err) < 0)
        return false;
    if (fs->backend->open(words, fs->host, fs->host_state, loop, &fs->sink, &fs->backend_state,
                          err) < 0)
        return false;
    if (engine_start(fs->tree.engine, fs->host, fs->host_state, fs->backend, fs->backend_state,
                     err) < 0)
        return false;
    engine_probe(fs->tree.engine);
    engine_set_seat(fs->tree.engine, &fs_seat);
    fs->kept.journal = journal_new();
    if (!fs->kept.journal)
        return err_nomem(err) == 0;
    engine_keep(fs->tree.engine, fs->kept.journal);
    return true;
}

static void engine_close(struct fs *fs)
{
    if (fs->tree.engine)
        engine_free(fs->tree.engine);
    journal_free(fs->kept.journal);
    if (fs->backend_state)
        fs->backend->close(fs->backend_state);
    if (fs->host_state)
        fs->host->close(fs->host_state);
}

/* A session on a descriptor that is mounted already. */
static bool session_open(struct fs *fs, const struct mount_settings *place)
{
    char *arguments[] = {(char *)"pmcfs", NULL};
    struct fuse_args args = FUSE_ARGS_INIT(1, arguments);
    int fd;

    fs->tree.session = fuse_session_new(&args, &fs_ops, sizeof fs_ops, fs);
    fuse_opt_free_args(&args);
    if (!fs->tree.session) {
        say(LOG_ERR, "cannot make a FUSE session");
        return false;
    }
    fd = mount_make(place);
    if (fd < 0)
        return false;
    if (!device_use(fs->tree.session, fd)) {
        say(LOG_ERR, "cannot serve the FUSE descriptor %d", fd);
        close(fd);
        return false;
    }
    return true;
}

/* ---- start and stop ---- */

static void conf_again(struct fs *fs)
{
    struct tunables fresh;

    if (!options_reread(&options, &fresh))
        return; /* what was written since stays, too */
    fs_lock(fs);
    engine_retune(fs->tree.engine, &fresh);
    fs->attributes_stale = true;
    fs_drain(fs);
    fs_unlock(fs);
    say(LOG_NOTICE, "the configuration was read again");
}

static void on_signal(struct fs *fs, int number)
{
    if (number == SIGHUP)
        conf_again(fs);
    else
        fs_reload(fs);
}

/* Every request that waited is answered. Then the mount goes, then the threads. */
static void fs_stop(struct fs *fs, const struct mount_settings *place)
{
    fs->stopping = true;
    loop_last_turn(fs->loop);
    notify_stop(fs);
    mount_end(place);
    serve_stop(fs);
    loop_last_turn(fs->loop);
}

static void handles_leave(struct fs *fs)
{
    struct handle *handle, *next;

    HASH_ITER(hh, fs->handles, handle, next)
    {
        poll_drop(&fs->park, handle);
        engine_release(fs->tree.engine, &handle->open);
        handle_remove(&fs->handles, handle);
        handle_unref(handle);
    }
}

/* What is left when no other thread is. */
static void fs_free(struct fs *fs)
{
    handles_leave(fs);
    engine_close(fs);
    park_free(&fs->park);
    loop_free(fs->loop);
    if (fs->tree.session)
        fuse_session_destroy(fs->tree.session);
    request_thread_end();
}

static bool fs_serve(struct fs *fs, const struct mount_settings *place, int ready_fd)
{
    unsigned n = (unsigned)tunable_u64(engine_tunables(fs->tree.engine), TUNABLE_THREADS);

    if (!session_open(fs, place))
        return false;
    if (!serve_init(fs) || !notify_start(fs) || !serve_start(fs, n)) {
        say(LOG_ERR, "the kernel did not begin to talk: the mount is given up");
        fs->stopping = true;
        mount_end(place);
        return false;
    }
    say_machine(fs);
    background_ready(ready_fd);
    loop_run(fs->loop, on_signal);
    fs_stop(fs, place);
    return true;
}

static bool fs_init(struct fs *fs)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    fs->tree.started_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    fs->tree.metrics_opened_ns = fs->tree.started_ns;
    fs->armed_ns = fs->trim_ns = UINT64_MAX;
    fs->tree.readers = (gid_t)-1;
    fs->mountpoint = options.mountpoint;
    pthread_mutex_init(&fs->lock, NULL);
    pthread_cond_init(&fs->changed, NULL);
    park_init(&fs->park, fs);
    fs->loop = loop_new();
    if (fs->loop)
        loop_bind(fs->loop, fs);
    return fs->loop != NULL;
}

static int pmcfs_run(int ready_fd)
{
    static struct fs fs;
    struct mount_settings place = {options.source, options.mountpoint, options.mount_flags};
    struct err err = {0};
    struct loop loop;
    bool served = false;

    fs.host = &linux_host;
    fs.backend = &perf_backend;
    if (options.backend && strcmp(options.backend, sim_backend.name) == 0)
        fs.backend = &sim_backend;
    if (!fs_init(&fs)) {
        say(LOG_ERR, "cannot start: %s", strerror(errno));
        return 1;
    }
    loop = loop_interface(fs.loop);
    if (!engine_open(&fs, &loop, &err)) {
        say(LOG_ERR, "cannot start the %s backend: %s", fs.backend->name, err.text);
    } else {
        readers_resolve(&fs);
        served = fs_serve(&fs, &place, ready_fd);
    }
    if (fs.tree.engine)
        fs_free(&fs);
    return served ? 0 : 1;
}

static int background_run(void)
{
    int ready_fd = options.foreground ? -1 : background_begin();

    if (chdir("/") < 0)
        say(LOG_WARNING, "cannot change to /: %s", strerror(errno));
    return pmcfs_run(ready_fd);
}

static int text_out(struct buf *text, int status)
{
    fwrite(text->data, 1, text->len, status == 0 ? stdout : stderr);
    buf_free(text);
    return fflush(stdout) == 0 ? status : 1;
}

/* --help and the like: the exit status, or -1 when the tree is to be mounted. */
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
            say(LOG_ERR, "no such table: %s; there are: %s", options.print_tables, buf_text(&text));
            buf_free(&text);
            return 2;
        }
    } else {
        return options.check ? options.complaints > 0 : -1;
    }
    return text_out(&text, 0);
}

int main(int argc, char **argv)
{
    struct mount_settings place;
    int status;

    descriptors_plug();
    mallopt(M_ARENA_MAX, 2); /* one for each of a dozen threads would keep what a burst needed */
    /* Replies of streams are not given back to the system one by one; the main loop sees to it. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
    say_for_fuse();
    status = options_read(&options, &linux_host, argc, argv);
    if (status == 0)
        status = questions_answer();
    if (status >= 0) {
        options_free(&options);
        return status;
    }
    place = (struct mount_settings){options.source, options.mountpoint, options.mount_flags};
    if (geteuid() != 0) {
        say(LOG_ERR, "cannot mount on \"%s\": pmcfs has to be started by root", options.mountpoint);
        status = 1;
    } else if (!mount_prepare(&place)) {
        status = 1;
    } else {
        readme_place(options.mountpoint);
        environment_clean();
        descriptors_forget(options.mountpoint);
        descriptors_raise();
        signal(SIGPIPE, SIG_IGN);
        umask(022);
        capabilities_tell();
        status = confine_process() ? background_run() : 1;
    }
    options_free(&options);
    return status;
}
