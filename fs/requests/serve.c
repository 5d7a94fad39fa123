/*
 * A few serving slots; the thread in a slot reads the FUSE descriptor in blocking reads. (A single
 * thread is often woken on the wrong CPU, which costs ten times more.) A thread with a slow request
 * gives up its slot to a spare thread. Threads without a slot run requests that an earlier worker
 * left, requests that were woken, and the engine's tasks, or wait.
 */
#include "fs/requests/serve.h"

#include "fs/requests/io.h"
#include "fs/requests/loop.h"
#include "fs/requests/request.h"

#include <errno.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum {
    TASKS_MAX = 4,    /* engine tasks that run at the same time */
    THREADS_MORE = 16 /* threads without a slot: slow requests, tasks, and spare ones */
};

struct server {
    struct serve *serve;
    pthread_t thread;
    atomic_bool serving;
};

/* Protected by the engine's lock. */
struct serve {
    struct fs *fs;
    pthread_cond_t given; /* there is work, or the threads shall stop */
    unsigned n_slots, n_serving;
    unsigned n_idle, n_tasks;
    bool notifies;     /* a thread sends notifications */
    bool configures;   /* a thread reads the configuration */
    unsigned n_called; /* threads that were woken or started and do not run yet */
    bool ending;
    uint32_t next_place; /* position in the requests of an earlier worker */
    bool taken_up;       /* all of these are taken */
    unsigned n_threads, max_threads;
    struct server servers[];
};

static __thread struct server *self; /* NULL: the main thread */

/* Processes a request that was read into the slot, or one (`left`) of an earlier worker. */
static void serve_process(struct fs *fs, struct inflight_request *left, struct fuse_buf *buf)
{
    struct inflight_request *request = inflight_begin(left);
    const struct fuse_in_header *head = buf->mem;

    if (head->opcode == FUSE_RELEASE)
        io_release(fs, request, ((const struct fuse_release_in *)(head + 1))->fh);
    else
        fuse_session_process_buf(fs->tree.session, buf);
    if (inflight_current() == request) /* finished: answered at once, or needs no answer */
        inflight_done(request);
}

/* Interrupts a request: a waiting one ends, a slow one checks for it. If another thread is just
 * reading the request, the kernel repeats the interrupt (EAGAIN). The mark is set without the lock,
 * because a reload holds it while it waits for slow requests. */
static void serve_interrupt(struct fs *fs, const struct fuse_in_header *head)
{
    const struct fuse_interrupt_in *of = (const void *)(head + 1);
    struct request *rq;

    if (!inflight_interrupt(fs->inflight, of->unique)) {
        inflight_reply(fs->inflight, head->unique, EAGAIN);
        return;
    }
    fs_lock(fs);
    rq = wait_take(&fs->queues, of->unique);
    if (rq)
        request_end(rq, -EINTR);
    else
        fs_unlock(fs);
}

/* Reads and processes one request. Returns 0 at the end of the mount, or a negative errno. */
static int serve_one(struct fs *fs)
{
    struct fuse_buf buf = {.mem = inflight_buffer()};
    int n = fuse_session_receive_buf(fs->tree.session, &buf);
    const struct fuse_in_header *head = buf.mem;

    if (n > 0 && head->opcode == FUSE_INTERRUPT)
        serve_interrupt(fs, head);
    else if (n > 0)
        serve_process(fs, NULL, &buf);
    return n;
}

/* FUSE_INIT was read when the tree was mounted. The kernel ignores a second reply of a later
 * worker. */
bool serve_init(struct fs *fs)
{
    struct fuse_buf buf = {.mem = fs->inflight->init, .size = fs->inflight->init_bytes};

    fuse_session_process_buf(fs->tree.session, &buf);
    return fs->initialised;
}

/* Takes up one request of an earlier worker. Returns false if there is none. */
static bool serve_left(struct serve *serve)
{
    struct fs *fs = serve->fs;
    struct inflight_request *left = inflight_next(fs->inflight, &serve->next_place);

    serve->taken_up |= !left;
    if (!left)
        return false;
    fs_unlock(fs);
    struct fuse_buf buf = {.mem = arena_at(left->block, left->bytes), .size = left->bytes};
    serve_process(fs, left, &buf);
    fs_lock(fs);
    return true;
}

/* ---- work for threads without a slot ---- */

static bool serve_has_more(const struct serve *serve)
{
    const struct fs *fs = serve->fs;

    return serve->n_serving < serve->n_slots || !TAILQ_EMPTY(&fs->queues.ready) ||
           !serve->taken_up || (!serve->notifies && engine_has_name(fs->tree.engine)) ||
           (!serve->configures && fs->conf_stale) ||
           (serve->n_tasks < TASKS_MAX && engine_has_task(fs->tree.engine));
}

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

/* Wakes or starts one thread, which looks for work and calls the next one if there is more. */
static void serve_call(struct serve *serve)
{
    if (serve->n_called > 0 || serve->ending)
        return;
    if (serve->n_idle == 0) {
        server_start(serve);
        return;
    }
    serve->n_called++;
    pthread_cond_signal(&serve->given);
}

void serve_more(struct serve *serve)
{
    bool about_to = self && !self->serving;

    if (serve && !about_to && serve_has_more(serve))
        serve_call(serve);
}

void serve_leave(struct serve *serve)
{
    if (self && self->serving) {
        self->serving = false;
        serve->n_serving--;
    }
    if (serve && serve_has_more(serve))
        serve_call(serve);
}

/* ---- a thread ---- */

/* Serves in a slot until a slow request gives it up. */
static void server_serve(struct server *server)
{
    struct serve *serve = server->serve;
    struct fs *fs = serve->fs;
    int n = 1;

    serve->n_serving++;
    server->serving = true;
    serve_more(serve);
    fs_unlock(fs);
    while (server->serving && !fs->stopping && (n > 0 || n == -EINTR || n == -EAGAIN))
        n = serve_one(fs);
    fs_lock(fs);
    if (!server->serving)
        return;
    server->serving = false;
    serve->n_serving--;
    serve->n_slots = 0; /* the mount is gone */
    loop_end(fs->loop);
}

static bool server_task(struct serve *serve)
{
    bool ran = false;

    if (serve->n_tasks < TASKS_MAX && engine_has_task(serve->fs->tree.engine)) {
        serve->n_tasks++;
        ran = fs_run_task(serve->fs);
        if (ran)
            fs_lock(serve->fs);
        serve->n_tasks--;
    }
    return ran;
}

static bool server_notify(struct serve *serve)
{
    bool ran;

    if (serve->notifies)
        return false;
    serve->notifies = true;
    ran = notify_next(serve->fs);
    serve->notifies = false;
    return ran;
}

static bool server_configure(struct serve *serve)
{
    struct fs *fs = serve->fs;

    if (serve->configures || !fs->conf_stale)
        return false;
    serve->configures = true;
    fs->conf_stale = false;
    fs_unlock(fs);
    fs->conf_again(fs);
    fs_lock(fs);
    serve->configures = false;
    return true;
}

/* Does one piece of work. Serving slots are filled before anything else. */
static void server_turn(struct server *server)
{
    struct serve *serve = server->serve;
    struct fs *fs = serve->fs;
    bool accepted = serve->n_serving > 0 || serve->n_slots == 0;

    if (accepted && !serve->taken_up && serve_left(serve)) {
        return;
    } else if (accepted && fs_run_ready(fs)) {
        fs_lock(fs);
    } else if (accepted &&
               (server_notify(serve) || server_configure(serve) || server_task(serve))) {
        return;
    } else if (serve->n_serving < serve->n_slots) {
        server_serve(server);
    } else {
        serve->n_idle++;
        pthread_cond_wait(&serve->given, &fs->lock);
        serve->n_idle--;
        fs_unlock(fs);
        fs_lock(fs); /* waits while a reload is running */
        serve->n_called -= serve->n_called > 0;
    }
}

static void *serve_main(void *arg)
{
    struct server *server = self = arg;
    struct serve *serve = server->serve;
    struct fs *fs = serve->fs;

    /* If the supervisor exits, the first thread gets SIGTERM. A stopped process only sees it after
     * SIGCONT, so the other threads get that. */
    prctl(PR_SET_PDEATHSIG, SIGCONT);
    const bool sits = inflight_take_slot(fs->inflight, (unsigned)(server - serve->servers));
    fs_lock(fs);
    serve->n_called--;
    while (sits && !serve->ending)
        server_turn(server);
    fs_unlock(fs);
    request_thread_end();
    return NULL;
}

/* SIGUSR1 interrupts a read(2). */
static void on_wake(int signal_number)
{
    (void)signal_number;
}

bool serve_start(struct fs *fs, unsigned n_slots)
{
    unsigned max = n_slots + THREADS_MORE;
    struct serve *serve = calloc(1, sizeof *serve + max * sizeof serve->servers[0]);
    struct sigaction action = {.sa_handler = on_wake};
    bool started;

    if (!serve)
        return false;
    sigaction(SIGUSR1, &action, NULL);
    serve->fs = fs;
    serve->max_threads = max;
    serve->n_slots = n_slots;
    pthread_cond_init(&serve->given, NULL);
    fs_lock(fs);
    fs->serve = serve;
    while (serve->n_threads <= n_slots && server_start(serve)) /* one spare thread */
        ;
    started = serve->n_threads > 0;
    fs_unlock(fs);
    return started;
}

/* Joins a thread. Repeats the signal, because one just before the read(2) has no effect. */
static void server_join(struct server *server)
{
    struct timespec until;

    do {
        if (server->serving)
            pthread_kill(server->thread, SIGUSR1);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 2000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
    } while (pthread_timedjoin_np(server->thread, NULL, &until) != 0);
}

/*
 * The end of the mount wakes threads in read(2); a signal wakes them if a bind mount or an open
 * file keeps the connection alive.
 */
void serve_stop(struct fs *fs)
{
    struct serve *serve = fs->serve;

    fs_lock(fs);
    serve->ending = true;
    pthread_cond_broadcast(&serve->given);
    fs_unlock(fs);
    for (unsigned i = 0; i < serve->n_threads; i++)
        server_join(&serve->servers[i]);
    fs->serve = NULL;
    pthread_cond_destroy(&serve->given);
    free(serve);
}
