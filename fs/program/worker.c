/*
 * The process that serves a mount: the engine made of the journal, sessions and threads, and the
 * end. It begins as a fresh process, or where an earlier one was killed.
 */
#include "fs/program/worker.h"

#include "core/base/arena.h"
#include "core/base/fds.h"
#include "fs/program/crash.h"
#include "fs/program/mount.h"
#include "fs/program/options.h"
#include "fs/program/reload.h"
#include "fs/requests/device.h"
#include "fs/requests/loop.h"
#include "fs/requests/ops.h"
#include "fs/requests/readers.h"
#include "fs/requests/request.h"
#include "fs/requests/say.h"
#include "fs/requests/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

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

/* The objects' memory, from before or new. */
static bool memory_open(struct fs *fs, struct err *err)
{
    fs->kept.journal = arena_open(fs->hand->arena_fd) ? journal_open(fs->hand->journal_fd) : NULL;
    return fs->kept.journal || (err_nomem(err), false);
}

static struct loop loop; /* what host and backend know of fs->loop */

static bool engine_open(struct fs *fs, const struct worker *worker, struct err *err)
{
    const char *words = buf_text(&worker->options->backend_words);

    loop = loop_interface(fs->loop);
    fs->sink = engine_sink(&fs->tree.engine);
    return memory_open(fs, err) && fs->host->open(&loop, &fs->sink, &fs->host_state, err) >= 0 &&
           fs->backend->open(words, fs->host, fs->host_state, &loop, &fs->sink, &fs->backend_state,
                             err) >= 0 &&
           fs_load(fs, &worker->options->tunables, err);
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
static bool session_open(struct fs *fs)
{
    char *arguments[] = {(char *)"pmcfs", NULL};
    struct fuse_args args = FUSE_ARGS_INIT(1, arguments);

    fs->tree.session = fuse_session_new(&args, &fs_ops, sizeof fs_ops, fs);
    fuse_opt_free_args(&args);
    return fs->tree.session && device_use(fs->tree.session, fs->hand->fuse_fd);
}

/* ---- start and stop ---- */

static struct options *configured; /* for SIGHUP */

static void conf_again(struct fs *fs)
{
    struct tunables fresh;

    if (!options_reread(configured, &fresh))
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

/* No request waits any more: those that did are answered. Then the mount goes, then the threads. */
static void fs_stop(struct fs *fs, const struct mount_settings *place)
{
    fs->stopping = true;
    loop_last_turn(fs->loop);
    mount_end(place);
    serve_stop(fs);
    loop_last_turn(fs->loop);
}

static void handles_leave(struct fs *fs)
{
    struct handle *handle, *next;

    HASH_ITER (hh, fs->handles, handle, next) {
        poll_drop(&fs->park, handle);
        engine_release(fs->tree.engine, &handle->open);
        handle_remove(&fs->handles, handle);
        handle_unref(&fs->kept, handle);
    }
    handles_free(handles_end(&fs->kept));
    blocks_free(fs->kept.dead);
}

/* What is left when no other thread is. */
static void fs_free(struct fs *fs)
{
    handles_leave(fs);
    engine_close(fs);
    notify_forget(fs);
    park_free(&fs->park);
    loop_free(fs->loop);
    if (fs->tree.session)
        fuse_session_destroy(fs->tree.session);
    request_thread_end();
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
        say(LOG_WARNING, "the process that started pmcfs did not wait for it");
    close(fd);
}

/* What an earlier worker was told and did not say. */
static void pollers_tell(struct fs *fs)
{
    fs_lock(fs);
    for (const struct handle *handle = fs->handles; handle; handle = handle->hh.next)
        if (handle->place.poll_number)
            poll_notify(fs->hand->fuse_fd, handle->place.poll_number);
    fs_unlock(fs);
}

static bool fs_start(struct fs *fs)
{
    const unsigned n = (unsigned)tunable_u64(engine_tunables(fs->tree.engine), TUNABLE_THREADS);

    crash_take(fs->hand); /* before a thread may have a crash of its own */
    errno = EINVAL;
    if (session_open(fs) && serve_init(fs) && serve_start(fs, n))
        return true;
    say(LOG_ERR, "cannot serve: %s", strerror(errno));
    return false;
}

static void fs_serve(struct fs *fs, struct worker *worker)
{
    if (fs->hand->serves)
        pollers_tell(fs);
    fs->hand->serves = fs->hand->ready = true;
    if (!fs->hand->begun) {
        say_machine(fs);
        background_ready(worker->ready_fd);
        fs->hand->begun = true;
    }
    crash_tell(fs->hand);
    if (fs->backend->settle)
        fs->backend->settle(fs->backend_state);
    loop_run(fs->loop, on_signal);
    fs_stop(fs, &worker->place);
}

/* It is held for a microsecond or two: a thread that finds it taken looks again a few times before
 * it sleeps, which costs less than being woken. */
static void lock_init(struct fs *fs)
{
    pthread_mutexattr_t attributes;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&fs->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static bool fs_init(struct fs *fs, const struct worker *worker, int hold_fd)
{
    fs->tree.started_ns = fs->hand->started_ns;
    fs->tree.metrics_opened_ns = fs->tree.started_ns;
    fs->armed_ns = fs->trim_ns = UINT64_MAX;
    fs->tree.readers = (gid_t)-1;
    fs->mountpoint = worker->place.mountpoint;
    fs->host = worker->host;
    fs->backend = worker->backend;
    lock_init(fs);
    pthread_cond_init(&fs->changed, NULL);
    park_init(&fs->park, fs);
    STAILQ_INIT(&fs->errands);
    fs->loop = loop_new(hold_fd);
    if (fs->loop)
        loop_bind(fs->loop, fs);
    return fs->loop != NULL;
}

/* What an earlier worker held and no record names is closed. */
static void state_settle(struct fs *fs)
{
    hand_recover(fs->hand, journal_published(fs->kept.journal));
    arena_settle();
    fds_settle();
    engine_stat_set(fs->tree.engine, STAT_OPEN_FILES, fs->hand->n_open);
    engine_stat_set(fs->tree.engine, STAT_PARKED, 0);
    engine_stat_set(fs->tree.engine, STAT_RESTARTS, fs->hand->restarts);
}

int worker_run(struct worker *worker, struct hand *hand, int hold_fd)
{
    static struct fs fs;
    struct err err = {0};
    bool started = false;

    fs.hand = hand;
    configured = worker->options;
    crash_note(hand);
    if ((hold_fd >= 0 && !fds_begin()) || !fs_init(&fs, worker, hold_fd)) {
        say(LOG_ERR, "cannot start: %s", strerror(errno));
    } else if (!engine_open(&fs, worker, &err)) {
        say(LOG_ERR, "cannot start the %s backend: %s", fs.backend->name, err.text);
    } else {
        state_settle(&fs);
        loop.hold(loop.ctx, -1, 0); /* rings of descriptors that are closed, before one is reused */
        started = readers_resolve(&fs) && fs_start(&fs);
    }
    if (!started && hold_fd >= 0)
        return 1; /* what it has is the next one's */
    if (started) {
        fs_serve(&fs, worker);
    } else {
        fs.stopping = true;
        mount_end(&worker->place);
    }
    if (fs.tree.engine)
        fs_free(&fs);
    return started ? 0 : 1;
}
