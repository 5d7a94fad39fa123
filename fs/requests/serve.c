/*
 * A few seats, each a thread in blocking reads of the FUSE descriptor: a lone one is woken on the
 * wrong CPU and costs ten times more. A thread with a slow request gives up its seat to a spare
 * one; those without a seat go on with requests that were woken, do the engine's own tasks, or
 * wait. Their buffers are there before the first read, since a fault inside read(2) would turn a
 * killed daemon's request into EIO.
 */
#include "fs/requests/serve.h"

#include "fs/requests/loop.h"
#include "fs/requests/request.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define INIT_BUFFER  ((size_t)1 << 20 | 65536) /* the library's size until it knows max_write */
#define SERVE_BUFFER (2 * (size_t)WRITE_MAX + 65536)

enum {
    TASKS_MAX = 4,    /* of the engine's own, at once */
    THREADS_MORE = 16 /* than seats: for slow requests, those tasks, and a few to spare */
};

struct server {
    struct serve *serve;
    pthread_t thread;
    void *buffer;
    atomic_bool seated;
};

/* All with the engine's lock. */
struct serve {
    struct fs *fs;
    pthread_cond_t given; /* something to do, or the end */
    unsigned n_seats, n_seated;
    unsigned n_idle, n_tasks;
    unsigned n_called; /* threads that were woken or made, and have not looked yet */
    bool ending;
    unsigned n_threads, max_threads;
    struct server servers[];
};

static __thread struct server *self; /* NULL: the main thread */

static void *buffer_make(size_t size)
{
    void *buffer =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    return buffer == MAP_FAILED ? NULL : buffer;
}

/* "unique" of the head: length, code, number. One that is sent again has the last bit set. */
static uint64_t number_of(const void *buffer)
{
    uint64_t number;

    memcpy(&number, (const char *)buffer + 2 * sizeof(uint32_t), sizeof number);
    return number & ~(UINT64_C(1) << 63);
}

/* One request. <= 0: none; 0 is the end of the mount. */
static int serve_one(struct fuse_session *session, void *buffer)
{
    struct fuse_buf buf = {.mem = buffer};
    int n = fuse_session_receive_buf(session, &buf);

    if (n > 0) {
        request_number(number_of(buffer));
        fuse_session_process_buf(session, &buf);
    }
    return n;
}

bool serve_init(struct fs *fs)
{
    void *buffer = buffer_make(INIT_BUFFER);
    int n = 1;

    while (buffer && !fs->initialised && (n > 0 || n == -EINTR))
        n = serve_one(fs->tree.session, buffer);
    if (buffer)
        munmap(buffer, INIT_BUFFER);
    return fs->initialised;
}

/* ---- what there is to do ---- */

static bool serve_has_more(const struct serve *serve)
{
    const struct fs *fs = serve->fs;

    return serve->n_seated < serve->n_seats || !TAILQ_EMPTY(&fs->park.ready) ||
           (serve->n_tasks < TASKS_MAX && engine_has_task(fs->tree.engine));
}

static void *serve_main(void *arg);

static bool server_start(struct serve *serve)
{
    struct server *server = &serve->servers[serve->n_threads];

    if (serve->n_threads == serve->max_threads)
        return false;
    server->serve = serve;
    if (pthread_create(&server->thread, NULL, serve_main, server) != 0)
        return false;
    serve->n_threads++;
    serve->n_called++;
    return true;
}

/* One that is called looks at everything, and calls the next if there is more. */
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
    bool about_to = self && !self->seated;

    if (serve && !about_to && serve_has_more(serve))
        serve_call(serve);
}

void serve_leave(struct serve *serve)
{
    if (self && self->seated) {
        self->seated = false;
        serve->n_seated--;
    }
    if (serve && serve_has_more(serve))
        serve_call(serve);
}

/* ---- a thread ---- */

/* In a seat until a slow request takes it away. */
static void server_sit(struct server *server)
{
    struct serve *serve = server->serve;
    struct fs *fs = serve->fs;
    int n = 1;

    serve->n_seated++;
    server->seated = true;
    serve_more(serve);
    fs_unlock(fs);
    while (server->seated && !fs->stopping && (n > 0 || n == -EINTR || n == -EAGAIN))
        n = serve_one(fs->tree.session, server->buffer);
    fs_lock(fs);
    if (!server->seated)
        return;
    server->seated = false;
    serve->n_seated--;
    serve->n_seats = 0; /* the mount is gone */
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

/* Somebody has to accept requests before anything else is done. */
static void server_turn(struct server *server)
{
    struct serve *serve = server->serve;
    struct fs *fs = serve->fs;
    bool accepted = serve->n_seated > 0 || serve->n_seats == 0;

    if (accepted && fs_run_ready(fs)) {
        fs_lock(fs);
    } else if (accepted && server_task(serve)) {
        return;
    } else if (serve->n_seated < serve->n_seats) {
        server_sit(server);
    } else {
        serve->n_idle++;
        pthread_cond_wait(&serve->given, &fs->lock);
        serve->n_idle--;
        fs_unlock(fs);
        fs_lock(fs); /* perhaps a reload is under way */
        serve->n_called -= serve->n_called > 0;
    }
}

static void *serve_main(void *arg)
{
    struct server *server = self = arg;
    struct serve *serve = server->serve;
    struct fs *fs = serve->fs;

    server->buffer = buffer_make(SERVE_BUFFER);
    fs_lock(fs);
    serve->n_called--;
    while (server->buffer && !serve->ending)
        server_turn(server);
    fs_unlock(fs);
    if (server->buffer)
        munmap(server->buffer, SERVE_BUFFER);
    request_thread_end();
    return NULL;
}

/* Only there to interrupt a read(2). */
static void on_wake(int signal_number)
{
    (void)signal_number;
}

bool serve_start(struct fs *fs, unsigned n_seats)
{
    unsigned max = n_seats + THREADS_MORE;
    struct serve *serve = calloc(1, sizeof *serve + max * sizeof serve->servers[0]);
    struct sigaction action = {.sa_handler = on_wake};
    bool started;

    if (!serve)
        return false;
    sigaction(SIGUSR1, &action, NULL);
    serve->fs = fs;
    serve->max_threads = max;
    serve->n_seats = n_seats;
    pthread_cond_init(&serve->given, NULL);
    fs_lock(fs);
    fs->serve = serve;
    while (serve->n_threads <= n_seats && server_start(serve)) /* and one to spare */
        ;
    started = serve->n_threads > 0;
    fs_unlock(fs);
    return started;
}

/* A signal that comes just before the read(2) is lost: it is repeated. */
static void server_join(struct server *server)
{
    struct timespec until;

    do {
        if (server->seated)
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
 * A thread that reads is woken by the end of the mount; where a bind mount or a held file keeps the
 * connection alive, by a signal.
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
