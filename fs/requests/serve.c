/*
 * Serving: reads and replies of the FUSE descriptor, and the threads that process requests.
 *
 * There are a few serving slots; the thread in a slot reads the FUSE descriptor in blocking reads.
 * (A single thread is often woken on the wrong CPU, which costs ten times more.) A thread with a
 * slow request gives up its slot, and takes one again after the request. Spare threads keep half of
 * the slots filled: each wake-up costs as much as a short request. Threads without a slot run
 * requests that an earlier worker left, requests that were woken, and the engine's tasks, or wait.
 */
#include "fs/requests/serve.h"

#include "fs/requests/request.h"

#include <errno.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    TASKS_MAX = 4,      /* engine tasks that run at the same time */
    THREADS_MORE = 16,  /* threads without a slot: slow requests, tasks, and spare ones */
    TIMEOUT_LEAST = 15, /* seconds: the kernel rounds up to that */
    TIMEOUT_MOST = UINT16_MAX
};

struct server {
    struct serve *serve;
    pthread_t thread;
    atomic_bool serving;
};

/* Protected by the engine's lock. */
struct serve {
    struct fs *fs;
    pthread_cond_t wake; /* there is work, or the threads shall stop */
    unsigned n_slots, n_serving;
    unsigned n_idle, n_tasks;
    bool is_rereading;   /* a thread reads the configuration */
    unsigned n_called;   /* threads that were woken or started and do not run yet */
    bool wake_pending;   /* fs_unlock() wakes a thread */
    atomic_bool ending;  /* the threads shall stop; also read without the lock */
    uint32_t next_place; /* position in the requests of an earlier worker */
    bool inherited_done; /* no request of an earlier worker is left */
    unsigned n_threads, max_threads;
    struct server servers[];
};

static __thread struct server *self; /* NULL: the main thread */

/* ---- the FUSE descriptor ----
 * device_write() adds two flags that libfuse 3.14 does not know to the INIT reply. NO_EXPORT: no
 * file can be opened by a file handle, by which the root would be reached from the mount of an
 * instance. REQUEST_TIMEOUT: the longest timeout, so that the sysctl
 * fs.fuse.default_request_timeout does not apply. If a request takes longer than the timeout the
 * kernel ends the mount.
 */

#define NO_EXPORT_FLAG2       (1U << 6) /* FUSE_NO_EXPORT_SUPPORT, from Linux 6.9; ignored before */
#define REQUEST_TIMEOUT_FLAG2 (1U << 10) /* FUSE_REQUEST_TIMEOUT, from Linux 6.15 */

/* Offset of the timeout in the reply to FUSE_INIT: after flags2 and max_stack_depth. */
static const size_t timeout_at = offsetof(struct fuse_init_out, flags2) + 2 * sizeof(uint32_t);

static const struct inflight *session_inflight; /* of device_use() */
static bool init_replied; /* the reply to FUSE_INIT, the first of all, is written */

static bool timeout_is_offered(const struct inflight *inflight)
{
    struct fuse_init_in init;

    if (inflight->init_bytes < sizeof(struct fuse_in_header) + sizeof init)
        return false;
    memcpy(&init, inflight->init + sizeof(struct fuse_in_header), sizeof init);
    return init.flags & FUSE_INIT_EXT && init.flags2 & REQUEST_TIMEOUT_FLAG2;
}

/* Reads a sysctl. Returns 0 (no timeout) if the kernel does not have it. */
static unsigned timeout_setting(const char *path)
{
    FILE *file = fopen(path, "re");
    unsigned seconds = 0;

    if (file && fscanf(file, "%u", &seconds) != 1)
        seconds = 0;
    if (file)
        fclose(file);
    return seconds;
}

void device_learn_timeout(struct inflight *inflight, bool replies)
{
    if (inflight->timeout_known)
        return;
    unsigned most = timeout_setting("/proc/sys/fs/fuse/max_request_timeout");
    unsigned seconds = timeout_setting("/proc/sys/fs/fuse/default_request_timeout");
    if (replies && timeout_is_offered(inflight) && (seconds || most))
        seconds = TIMEOUT_MOST;
    if (most && (!seconds || seconds > most))
        seconds = most;
    inflight->timeout_s = seconds && seconds < TIMEOUT_LEAST ? TIMEOUT_LEAST : seconds;
    inflight->timeout_known = true;
}

static ssize_t device_write(int fd, struct iovec *iov, int count, void *userdata)
{
    const bool is_init_reply = !init_replied && count == 2 &&
                               iov[0].iov_len == sizeof(struct fuse_out_header) &&
                               iov[1].iov_len == sizeof(struct fuse_init_out);
    struct fuse_out_header header;
    struct fuse_init_out init;
    struct iovec changed[2];

    (void)userdata;
    if (inflight_answer_store(iov, count)) {
        ssize_t n = 0;

        for (int i = 0; i < count; i++)
            n += (ssize_t)iov[i].iov_len;
        return n;
    }
    if (is_init_reply)
        memcpy(&header, iov[0].iov_base, sizeof header);
    if (!is_init_reply || !header.unique || header.error)
        return writev(fd, iov, count);
    init_replied = true;
    memcpy(&init, iov[1].iov_base, sizeof init);
    init.flags |= FUSE_INIT_EXT;
    init.flags2 |= NO_EXPORT_FLAG2;
    if (session_inflight->timeout_s &&
        timeout_is_offered(session_inflight)) { /* otherwise there is no timeout to set */
        const uint16_t most = TIMEOUT_MOST;

        init.flags2 |= REQUEST_TIMEOUT_FLAG2;
        memcpy((char *)&init + timeout_at, &most, sizeof most);
    }
    changed[0] = iov[0];
    changed[1] = (struct iovec){.iov_base = &init, .iov_len = sizeof init};
    return writev(fd, changed, 2);
}

static ssize_t device_read(int fd, void *buffer, size_t size, void *userdata)
{
    (void)userdata;
    return read(fd, buffer, size);
}

bool device_use(struct fuse_session *session, struct inflight *inflight)
{
    static const struct fuse_custom_io calls = {.writev = device_write, .read = device_read};

    session_inflight = inflight;
    return fuse_session_custom_io(session, &calls, inflight->fuse_fd) == 0;
}

/* ---- requests ---- */

/* Processes a request that was read into the slot, or one (`inherited`) of an earlier worker. */
static void serve_process(struct fs *fs, struct inflight_request *inherited, struct fuse_buf *buf)
{
    struct inflight_request *request = inflight_begin(inherited);
    const struct fuse_in_header *head = buf->mem;

    if (head->opcode == FUSE_RELEASE)
        file_release(fs, request, ((const struct fuse_release_in *)(head + 1))->fh);
    else
        fuse_session_process_buf(fs->tree.session, buf);
    if (inflight_current() == request) /* finished: answered at once, or needs no answer */
        inflight_done(request);
}

/*
 * Reads and processes one request. Returns > 0, 0 at the end of the mount, or a negative errno.
 *
 * INTERRUPT finishes a waiting request, and a slow one checks for it. If another thread is just
 * reading the request, the kernel repeats the interrupt (EAGAIN). The mark is set before the lock
 * is taken, because fs_lock() waits while a reload waits for slow requests.
 */
static int serve_one(struct fs *fs)
{
    struct fuse_buf buf = {.mem = inflight_buffer()};
    int n = fuse_session_receive_buf(fs->tree.session, &buf);
    const struct fuse_in_header *head = buf.mem;
    const struct fuse_interrupt_in *interrupt = (const void *)(head + 1);
    const bool interrupts = n > 0 && head->opcode == FUSE_INTERRUPT;

    if (n > 0 && !interrupts)
        serve_process(fs, NULL, &buf);
    if (!interrupts)
        return n;
    if (!inflight_interrupt(fs->inflight, interrupt->unique)) {
        inflight_reply(fs->inflight, head->unique, EAGAIN);
        return n;
    }
    fs_lock(fs);
    struct request *rq = wait_take(&fs->queues, interrupt->unique);
    if (rq)
        request_fail(rq, -EINTR);
    else
        fs_unlock(fs);
    return n;
}

/* ---- threads without a slot ---- */

static void *serve_main(void *arg);

static bool server_start(struct serve *serve)
{
    struct server *server = &serve->servers[serve->n_threads];

    if (serve->n_threads == serve->max_threads)
        return false;
    server->serve = serve;
    errno = pthread_create(&server->thread, NULL, serve_main, server);
    if (errno)
        return false;
    serve->n_threads++;
    serve->n_called++;
    return true;
}

/* If there is work, wakes or starts one thread, which calls the next one if there is more. The
 * thread is woken after the lock is dropped; otherwise it would run only to wait for the lock. */
static void serve_call_thread(struct serve *serve)
{
    const struct fs *fs = serve ? serve->fs : NULL;

    if (!serve || serve->n_called > 0 || serve->ending)
        return;
    if (2 * serve->n_serving >= serve->n_slots && TAILQ_EMPTY(&fs->queues.ready) &&
        serve->inherited_done && (fs->is_notifying || !engine_has_name(fs->tree.engine)) &&
        (serve->is_rereading || !fs->conf_stale) &&
        (serve->n_tasks >= TASKS_MAX || !engine_has_task(fs->tree.engine)))
        return; /* nothing to do */
    if (serve->n_idle == 0) {
        server_start(serve);
        return;
    }
    serve->n_called++;
    serve->wake_pending = true;
}

pthread_cond_t *serve_take_wake(struct serve *serve)
{
    if (!serve || !serve->wake_pending)
        return NULL;
    serve->wake_pending = false;
    return &serve->wake;
}

void serve_wake_thread(struct serve *serve)
{
    if (!self || self->serving) /* otherwise this thread looks for work next */
        serve_call_thread(serve);
}

void serve_leave_slot(struct serve *serve)
{
    if (self && self->serving) {
        self->serving = false;
        serve->n_serving--;
    }
    serve_call_thread(serve);
}

/* ---- a thread ---- */

/* Serves in a slot until a slow request gives it up, or the mount ends. */
static void server_serve(struct server *server)
{
    struct serve *serve = server->serve;
    struct fs *fs = serve->fs;
    int n = 1;

    serve->n_serving++;
    server->serving = true;
    serve_wake_thread(serve);
    fs_unlock(fs);
    while (server->serving && !serve->ending && (n > 0 || n == -EINTR || n == -EAGAIN))
        n = serve_one(fs);
    fs_lock(fs);
    if (!server->serving)
        return;
    server->serving = false;
    serve->n_serving--;
    serve->n_slots = 0; /* the mount is gone */
    loop_end(fs->loop);
}

static bool run_engine_task(struct call *call, void *arg)
{
    (void)arg;
    return engine_task(call);
}

/*
 * Does one piece of work that needs no slot: a request of an earlier worker, a woken request, a
 * notification, the configuration, or a task of the engine. Returns false if there is none, or
 * other threads do it.
 */
static bool server_work(struct serve *serve)
{
    struct fs *fs = serve->fs;
    struct inflight_request *inherited = NULL;
    bool ran = false;

    if (!serve->inherited_done)
        inherited = inflight_next(fs->inflight, &serve->next_place);
    serve->inherited_done = !inherited;
    if (inherited) {
        struct fuse_buf buf = {.mem = arena_at(inherited->block, inherited->bytes),
                               .size = inherited->bytes};

        fs_unlock(fs);
        serve_process(fs, inherited, &buf);
        fs_lock(fs);
        return true;
    }
    if (fs_run_ready(fs)) {
        fs_lock(fs);
        return true;
    }
    if (!fs->is_notifying) {
        fs->is_notifying = true;
        ran = notify_next(fs);
        fs->is_notifying = false;
    }
    if (!ran && !serve->is_rereading && fs->conf_stale) {
        serve->is_rereading = true;
        fs->conf_stale = false;
        fs_unlock(fs);
        fs->reread_conf(fs);
        fs_lock(fs);
        serve->is_rereading = false;
        ran = true;
    }
    if (!ran && serve->n_tasks < TASKS_MAX && engine_has_task(fs->tree.engine)) {
        serve->n_tasks++;
        ran = fs_run_task(fs, run_engine_task, NULL);
        if (ran)
            fs_lock(fs);
        serve->n_tasks--;
    }
    return ran;
}

/* Runs a thread until the threads are stopped. If no thread serves, this one does; otherwise other
 * work comes before filling more serving slots. */
static void *serve_main(void *arg)
{
    struct server *server = self = arg;
    struct serve *serve = server->serve;
    struct fs *fs = serve->fs;

    /* If the supervisor exits, the first thread gets SIGTERM. A stopped process only sees it after
     * SIGCONT, so the other threads get that. */
    prctl(PR_SET_PDEATHSIG, SIGCONT);
    const bool has_buffer = inflight_take_buffer(fs->inflight, (unsigned)(server - serve->servers));
    fs_lock(fs);
    serve->n_called--;
    while (has_buffer && !serve->ending) {
        const bool served = serve->n_serving > 0 || serve->n_slots == 0;

        if (served && server_work(serve))
            continue;
        if (serve->n_serving < serve->n_slots) {
            server_serve(server);
            continue;
        }
        if (serve_take_wake(serve)) /* the wait drops the lock without fs_unlock() */
            pthread_cond_signal(&serve->wake);
        serve->n_idle++;
        pthread_cond_wait(&serve->wake, &fs->lock);
        serve->n_idle--;
        fs_unlock(fs);
        fs_lock(fs); /* waits while a reload is running */
        serve->n_called -= serve->n_called > 0;
    }
    fs_unlock(fs);
    request_thread_end();
    return NULL;
}

/* SIGUSR1 interrupts read(2). */
static void on_wake(int signal_number)
{
    (void)signal_number;
}

bool serve_start(struct fs *fs, unsigned n_slots)
{
    unsigned max = n_slots + THREADS_MORE;
    struct serve *serve = calloc(1, sizeof *serve + max * sizeof serve->servers[0]);
    struct sigaction action = {.sa_handler = on_wake};

    if (!serve)
        return false;
    sigaction(SIGUSR1, &action, NULL);
    serve->fs = fs;
    serve->max_threads = max;
    serve->n_slots = n_slots;
    pthread_cond_init(&serve->wake, NULL);
    fs_lock(fs);
    fs->serve = serve;
    while (serve->n_threads <= n_slots && server_start(serve)) /* one spare thread */
        ;
    bool started = serve->n_threads > 0;
    fs_unlock(fs);
    return started;
}

/*
 * The end of the mount wakes threads in read(2); a signal wakes them if a bind mount or an open
 * file keeps the connection alive. It is repeated, because one just before the read(2) has no
 * effect.
 */
void serve_stop(struct fs *fs)
{
    struct serve *serve = fs->serve;
    struct timespec until;

    fs_lock(fs);
    serve->ending = true;
    pthread_cond_broadcast(&serve->wake);
    fs_unlock(fs);
    for (unsigned i = 0; i < serve->n_threads; i++)
        do {
            if (serve->servers[i].serving)
                pthread_kill(serve->servers[i].thread, SIGUSR1);
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += 2000000;
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
        } while (pthread_timedjoin_np(serve->servers[i].thread, NULL, &until) != 0);
    fs->serve = NULL;
    pthread_cond_destroy(&serve->wake);
    free(serve);
}
