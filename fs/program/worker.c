/*
 * The process that serves a mount: loads the state from the journal, starts the FUSE session and
 * the threads, and stops them. It starts with a new mount, or after an earlier worker has died.
 */
#include "fs/program/worker.h"

#include "core/base/arena.h"
#include "fs/requests/caller.h"
#include "fs/requests/inflight.h"
#include "fs/requests/message.h"
#include "fs/requests/request.h"
#include "fs/requests/serve.h"

#include <assert.h>
#include <errno.h>
#include <execinfo.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

/* ---- crashes of workers ---- */

static struct inflight *crash_inflight;   /* for on_crash() */
static void *last_stack[INFLIGHT_FRAMES]; /* of the last worker, if it crashed */
static int n_last_stack;

/* Records the crash and prints nothing, because the memory may be corrupt. The next worker is a
 * clone of the same process, so it can resolve these addresses. */
static void on_crash(int number, siginfo_t *info, void *context)
{
    struct inflight_request *request = inflight_current();

    (void)context;
    signal(number, SIG_DFL);
    if (request)
        request->crashes++;
    crash_inflight->crash.signal = number;
    crash_inflight->crash.address = info->si_addr;
    crash_inflight->crash.n = backtrace(crash_inflight->crash.frame, INFLIGHT_FRAMES);
    raise(number);
}

/* Returns true if the last worker exited with EXIT_SHORTAGE. */
static bool was_shortage(const struct inflight *inflight)
{
    return inflight->last_worker && WIFEXITED(inflight->last_status) &&
           WEXITSTATUS(inflight->last_status) == EXIT_SHORTAGE;
}

/* Logs how the last worker died, and its stack. */
static void crash_report(const struct inflight *inflight)
{
    const int status = inflight->last_status;

    if (!inflight->last_worker)
        return;
    if (was_shortage(inflight))
        message_log(LOG_WARNING, "the shortage has ended: this worker serves");
    else if (WIFSIGNALED(status))
        message_log(LOG_WARNING,
                    "worker process %d was killed by signal %d (%s); a new one continues",
                    (int)inflight->last_worker, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        message_log(LOG_WARNING, "worker process %d exited with status %d; a new one continues",
                    (int)inflight->last_worker, WEXITSTATUS(status));
    if (!n_last_stack)
        return;
    char **names = backtrace_symbols(last_stack, n_last_stack);
    for (int i = 0; names && i < n_last_stack; i++)
        message_log(LOG_WARNING, "  %s", names[i]);
    free(names);
}

/* ---- the state: host, backend, engine, open files ---- */

static bool file_load(void *arg, const struct journal_record *record)
{
    struct fs *fs = arg;

    return handle_load(&fs->handles, record, fs->tree.engine);
}

/* Creates the engine and the open files from the journal. */
static bool fs_load(struct fs *fs, const struct tunables *tunables, struct err *err)
{
    struct journal *journal = fs->unpublished.journal;

    fs->tree.engine = engine_new(tunables);
    if (!fs->tree.engine) {
        err_nomem(err);
        return false;
    }
    fs->tree.engine->is_reserved_name = file_reserved;
    fs->tree.engine->readers = fs->tree.readers;
    fs->tree.engine->limit_ns = (uint64_t)fs->inflight->timeout_s * 1000000000 / WAIT_PART;
    if (engine_start(fs->tree.engine, fs->host, fs->host_state, fs->backend, fs->backend_state,
                     err) ||
        engine_load(fs->tree.engine, journal, err))
        return false;
    engine_probe(fs->tree.engine);
    fs->tree.engine->unlock = &fs_unlock_ops;
    errno = 0;
    if (!journal_each(journal, JOURNAL_OPEN_FILE, file_load, fs)) {
        if (!err_shortage(err, -errno))
            err_set(err, P14, "an open file's record cannot be read: report this bug of pmcfs");
        return false;
    }
    engine_set_journal(fs->tree.engine, journal);
    engine_finish_load(fs->tree.engine);
    return true;
}

static struct loop loop; /* fs->loop, as host and backend see it */

static bool state_open(struct fs *fs, const struct worker *worker, struct err *err)
{
    const char *words = buf_text(&worker->options->backend_options);

    loop = loop_interface(fs->loop);
    fs->sink = engine_sink(&fs->tree.engine);
    fs->unpublished.journal =
        arena_open(fs->inflight->arena_fd) ? journal_open(fs->inflight->journal_fd) : NULL;
    if (!fs->unpublished.journal)
        return err_nomem(err), false;
    return fs->host->open(&loop, &fs->sink, &fs->host_state, err) >= 0 &&
           fs->backend->open(words, fs->host, fs->host_state, &loop, &fs->sink, &fs->backend_state,
                             err) >= 0 &&
           fs_load(fs, &worker->options->tunables, err);
}

/*
 * Debug builds: SIGUSR2 does what a new worker does, in this process. Waits until no request runs,
 * frees everything and loads it from the journal. Proves that no state is in pointers only. A state
 * that cannot be loaded ends the process.
 */
static void fs_reload(struct fs *fs)
{
    struct call call = {.instance = NULL};
    struct handle *handle;
    struct err err = {0};

    fs_lock(fs);
    while (notify_next(fs)) /* the journal does not contain these names */
        ;
    fs->reloading = true;
    while (fs->n_unlocked > 0)
        pthread_cond_wait(&fs->changed, &fs->lock);
    while (fs->n_freeing > 0) /* they free logs, which are charged to users of this engine */
        sched_yield();
    /* The engine's pending tasks, which the journal does not contain. No request is running, so the
     * lock is kept. */
    fs->tree.engine->unlock = NULL;
    call.engine = fs->tree.engine;
    call.instance = call.engine->root;
    call.now_ns = fs->host->now_ns(fs->host_state);
    while (engine_task(&call))
        ;
    fs_wake(fs);

    struct tunables tunables = fs->tree.engine->tunables;
    engine_prepare_reload(fs->tree.engine);
    if (fs_publish(fs))
        handles_free(&fs->unpublished.unused);
    bool fine = engine_check(fs->tree.engine, &err);
    for (handle = fs->handles; fine && handle; handle = handle->hh.next) {
        const uint64_t kept = handle->open.kept_bytes;

        open_file_forget(&handle->open); /* its record refers to the descriptors of its rights */
        handle->open.kept_bytes = kept;  /* the handle still owns the text */
    }
    if (fine) {
        wait_forget_charges(&fs->queues);
        engine_forget(fs->tree.engine);
        fine = fs_load(fs, &tunables, &err);
    }
    if (!fine) {
        message_log(LOG_CRIT, "the state cannot be loaded: %s", err.text);
        abort();
    }
    fs->tree.engine->stats[STAT_RELOADS]++;
    poll_announce(&fs->queues);
    wait_expire(&fs->queues, UINT64_MAX);

    fs->reloading = false;
    pthread_cond_broadcast(&fs->changed);
    fs_unlock(fs);
    if (fs->backend->finish_adoption)
        fs->backend->finish_adoption(fs->backend_state);
}

/* ---- start and stop ---- */

/* Logs one line with the reason if there is no usable PMU. */
static void hardware_report(const struct fs *fs)
{
    static const char key[] = "hardware_pmu no: ";
    struct buf facts = {0};
    unsigned n;

    const struct class_info *classes = fs->backend->classes(fs->backend_state, &n);
    for (unsigned i = 0; i < n; i++)
        if (classes[i].rows > 0)
            return;
    fs->backend->print_facts(fs->backend_state, &facts);
    const char *why = strstr(buf_text(&facts), key);
    why = why ? why + strlen(key) : "";
    message_log(LOG_NOTICE, "no usable PMU%s%.*s (see info/backend)", *why ? ": " : "",
                (int)strcspn(why, "\n"), why);
    buf_free(&facts);
}

static struct options *worker_options; /* for SIGHUP */

static void reread_conf(struct fs *fs)
{
    struct tunables fresh;

    if (!options_reread(worker_options, &fresh))
        return; /* all tunables keep their values */
    fs_lock(fs);
    engine_retune(fs->tree.engine, &fresh);
    fs_unlock(fs);
    readers_resolve(fs);
    fs_lock(fs);
    fs->attributes_stale = true;
    fs_wake(fs);
    fs_unlock(fs);
    sections_create(fs, &worker_options->sections);
    message_log(LOG_NOTICE, "the configuration was reread");
}

static void on_signal(struct fs *fs, int number)
{
    if (number != SIGHUP) {
        fs_reload(fs);
        return;
    }
    fs_lock(fs);
    fs->conf_stale = true;
    fs_wake(fs);
    fs_unlock(fs);
}

/* Frees everything; this is the only thread. */
static void fs_free(struct fs *fs)
{
    struct handle *handle, *next;

    HASH_ITER (hh, fs->handles, handle, next)
        file_close(fs, handle);
    handles_free(&fs->unpublished.unused);
    engine_free(fs->tree.engine);
    journal_free(fs->unpublished.journal);
    if (fs->backend_state)
        fs->backend->close(fs->backend_state);
    if (fs->host_state)
        fs->host->close(fs->host_state);
    assert(!fs->queues.users && TAILQ_EMPTY(&fs->queues.ready)); /* no request waits */
    loop_free(fs->loop);
    if (fs->tree.session)
        fuse_session_destroy(fs->tree.session);
    request_thread_end();
}

static void background_ready(int fd)
{
    if (fd < 0)
        return;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; null >= 0 && i <= 2; i++)
        dup2(null, i);
    if (null > 2)
        close(null);
    messages_to_syslog();
    if (write(fd, "r", 1) != 1)
        message_log(LOG_WARNING, "the process that started pmcfs exited before pmcfs was ready");
    close(fd);
}

static bool fs_start(struct fs *fs)
{
    const unsigned n = (unsigned)tunable_u64(&fs->tree.engine->tunables, TUNABLE_THREADS);
    char *arguments[] = {(char *)"pmcfs", NULL};
    struct fuse_args args = FUSE_ARGS_INIT(1, arguments);
    struct fuse_buf init = {.mem = fs->inflight->init, .size = fs->inflight->init_bytes};

    /* Copy the last worker's crash stack before a thread of this worker can crash and overwrite
     * it. */
    memcpy(last_stack, fs->inflight->crash.frame, sizeof last_stack);
    n_last_stack = fs->inflight->crash.n;
    fs->inflight->crash.n = 0;
    /* No request is served before the PMCs of the configuration exist. */
    if (!fs->inflight->was_usable)
        sections_create(fs, &worker_options->sections);
    fs->tree.session = fuse_session_new(&args, &fs_ops, sizeof fs_ops, fs);
    fuse_opt_free_args(&args);
    errno = EINVAL;
    if (fs->tree.session && device_use(fs->tree.session, fs->inflight)) {
        /* FUSE_INIT was read when the tree was mounted. The kernel ignores a second reply of a
         * later worker. */
        fuse_session_process_buf(fs->tree.session, &init);
        if (fs->initialised && serve_start(fs, n))
            return true;
    }
    if (!was_shortage(fs->inflight))
        message_log(LOG_ERR, "cannot serve: %s", strerror(errno));
    return false;
}

/* Serves until the mount ends. First wakes all pollers: an earlier worker may have died before it
 * did so. At the end answers all waiting requests, unmounts, and stops the threads. */
static void fs_serve(struct fs *fs, struct worker *worker)
{
    fs_lock(fs);
    for (const struct handle *handle = fs->handles; handle; handle = handle->hh.next)
        if (fs->inflight->has_served && handle->position.poll_number)
            poll_notify(fs->inflight->fuse_fd, handle->position.poll_number);
    fs_unlock(fs);
    fs->inflight->has_served = fs->inflight->ready = true;
    if (!fs->inflight->was_usable) {
        if (worker->options->foreground)
            hardware_report(fs);
        background_ready(worker->ready_fd);
        fs->inflight->was_usable = true;
    }
    crash_report(fs->inflight);
    if (fs->backend->finish_adoption)
        fs->backend->finish_adoption(fs->backend_state);
    loop_run(fs->loop, on_signal);
    fs->stopping = true;
    loop_answer_all(fs->loop);
    mount_end(&worker->mount);
    notify_end(fs); /* while requests are served: it may wait for one of them */
    serve_stop(fs);
    loop_answer_all(fs->loop);
}

static bool fs_init(struct fs *fs, const struct worker *worker, int supervisor_fd)
{
    pthread_mutexattr_t adaptive;

    fs->tree.started_ns = fs->inflight->started_ns;
    fs->tree.metrics_opened_ns = fs->tree.started_ns;
    fs->armed_ns = fs->trim_ns = UINT64_MAX;
    fs->tree.readers = (gid_t)-1;
    fs->host = worker->host;
    fs->backend = worker->backend;
    fs->reread_conf = reread_conf;
    /* The lock is held for a microsecond or two, so a thread spins for a moment before it sleeps,
     * which costs less than a wakeup. */
    pthread_mutexattr_init(&adaptive);
    pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&fs->lock, &adaptive);
    pthread_mutexattr_destroy(&adaptive);
    pthread_cond_init(&fs->changed, NULL);
    wait_init(&fs->queues, fs);
    STAILQ_INIT(&fs->unpublished.unused);
    fs->loop = loop_new(fs, supervisor_fd);
    return fs->loop != NULL;
}

int worker_run(struct worker *worker, struct inflight *inflight, int supervisor_fd)
{
    static struct fs fs;
    const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct err err = {0};
    void *frame;
    bool started = false, is_short = true; /* unless the state itself cannot be loaded */

    fs.inflight = crash_inflight = inflight;
    fs.notify_fd = -1;
    device_learn_timeout(inflight, false);
    worker_options = worker->options;
    backtrace(&frame, 1); /* the first call loads a library, which on_crash() must not do */
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        sigaction(crashes[i], &action, NULL);
    if ((supervisor_fd >= 0 && !fds_mark_old()) || !fs_init(&fs, worker, supervisor_fd)) {
        if (!was_shortage(inflight)) /* otherwise an earlier worker has logged it */
            message_log(LOG_ERR, "cannot start: %s", strerror(errno));
    } else if (!state_open(&fs, worker, &err)) {
        is_short = err.id == E32 || err.id == P10;
        if (!is_short || !was_shortage(inflight))
            message_log(LOG_ERR, "cannot start the %s backend: %s", fs.backend->name, err.text);
        if (supervisor_fd >= 0)
            fds_close_new();
    } else {
        inflight_recover(inflight, journal_publications(fs.unpublished.journal));
        /* Free memory and close descriptors of an earlier worker that no record refers to. */
        arena_free_unkept();
        fds_close_unkept();
        fs.tree.engine->stats[STAT_OPEN_FILES] = inflight->n_open;
        fs.tree.engine->stats[STAT_WAITING] = 0;
        fs.tree.engine->stats[STAT_RESTARTS] = inflight->restarts;
        loop.keep_mapped(loop.ctx, -1,
                         0); /* drop rings of closed descriptors before a number is reused */
        started = readers_resolve(&fs) && fs_start(&fs);
    }
    if (!started && supervisor_fd >= 0)
        return is_short ? EXIT_SHORTAGE : 1; /* the state stays for the next worker */
    if (started) {
        fs_serve(&fs, worker);
    } else {
        fs.stopping = true;
        mount_end(&worker->mount);
    }
    if (fs.tree.engine)
        fs_free(&fs);
    return started ? 0 : 1;
}
