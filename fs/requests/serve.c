/*
 * A few seats, each a thread in blocking reads of the FUSE descriptor: a lone one is woken on the
 * wrong CPU and costs ten times more. A thread with a slow request gives up its seat to a spare
 * one; those without a seat take up what an earlier worker left, go on with requests that were
 * woken, do the engine's own tasks, or wait.
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
    TASKS_MAX = 4,    /* of the engine's own, at once */
    THREADS_MORE = 16 /* than seats: for slow requests, those tasks, and a few to spare */
};

struct server {
    struct serve *serve;
    pthread_t thread;
    atomic_bool seated;
};

/* All with the engine's lock. */
struct serve {
    struct fs *fs;
    pthread_cond_t given; /* something to do, or the end */
    unsigned n_seats, n_seated;
    unsigned n_idle, n_tasks;
    bool notifies;     /* a thread tells the kernel of names */
    bool configures;   /* a thread reads the configuration again */
    unsigned n_called; /* threads that were woken or made, and have not looked yet */
    bool ending;
    uint32_t next_place; /* the next of those that an earlier worker left */
    bool taken_up;       /* there are no more */
    unsigned n_threads, max_threads;
    struct server servers[];
};

static __thread struct server *self; /* NULL: the main thread */

/* One that was read into the seat, or (`left`) that an earlier worker left. */
static void serve_process(struct fs *fs, struct in_hand *left, struct fuse_buf *buf)
{
    struct in_hand *request = hand_begin(left);
    const struct fuse_in_header *head = buf->mem;

    if (head->opcode == FUSE_RELEASE)
        io_release(fs, request, ((const struct fuse_release_in *)(head + 1))->fh);
    else
        fuse_session_process_buf(fs->tree.session, buf);
    if (hand_current() == request) /* answered by the library, or at once, or without an answer */
        hand_done(request);
}

/* What waits ends, what is slow may look. Where the request is read and not in hand yet, the kernel
 * says it again. The mark comes before the lock: a reload waits for what is slow. */
static void serve_interrupt(struct fs *fs, const struct fuse_in_header *head)
{
    const struct fuse_interrupt_in *of = (const void *)(head + 1);
    struct request *rq;

    if (!hand_interrupt(fs->hand, of->unique)) {
        hand_tell(fs->hand, head->unique, EAGAIN);
        return;
    }
    fs_lock(fs);
    rq = park_take(&fs->park, of->unique);
    if (rq)
        request_end(rq, -EINTR);
    else
        fs_unlock(fs);
}

/* One request. <= 0: none; 0 is the end of the mount. */
static int serve_one(struct fs *fs)
{
    struct fuse_buf buf = {.mem = hand_buffer()};
    int n = fuse_session_receive_buf(fs->tree.session, &buf);
    const struct fuse_in_header *head = buf.mem;

    if (n > 0 && head->opcode == FUSE_INTERRUPT)
        serve_interrupt(fs, head);
    else if (n > 0)
        serve_process(fs, NULL, &buf);
    return n;
}

/* The kernel's side of the agreement was read when it was mounted. What is answered a second time
 * it ignores. */
bool serve_init(struct fs *fs)
{
    struct fuse_buf buf = {.mem = fs->hand->init, .size = fs->hand->init_bytes};

    fuse_session_process_buf(fs->tree.session, &buf);
    return fs->initialised;
}

static bool serve_left(struct serve *serve)
{
    struct fs *fs = serve->fs;
    struct in_hand *left = hand_next(fs->hand, &serve->next_place);

    serve->taken_up |= !left;
    if (!left)
        return false;
    fs_unlock(fs);
    struct fuse_buf buf = {.mem = arena_at(left->block, left->bytes), .size = left->bytes};
    serve_process(fs, left, &buf);
    fs_lock(fs);
    return true;
}

/* ---- what there is to do ---- */

static bool serve_has_more(const struct serve *serve)
{
    const struct fs *fs = serve->fs;

    return serve->n_seated < serve->n_seats || !TAILQ_EMPTY(&fs->park.ready) || !serve->taken_up ||
           (!serve->notifies && !STAILQ_EMPTY(&fs->errands)) ||
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
        n = serve_one(fs);
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

/* A thread has to accept requests before anything else is done. */
static void server_turn(struct server *server)
{
    struct serve *serve = server->serve;
    struct fs *fs = serve->fs;
    bool accepted = serve->n_seated > 0 || serve->n_seats == 0;

    if (accepted && !serve->taken_up && serve_left(serve)) {
        return;
    } else if (accepted && fs_run_ready(fs)) {
        fs_lock(fs);
    } else if (accepted &&
               (server_notify(serve) || server_configure(serve) || server_task(serve))) {
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

    /* The end of the supervisor is told to each thread: to the first by SIGTERM, which one that was
     * stopped does not hear before this. */
    prctl(PR_SET_PDEATHSIG, SIGCONT);
    const bool sits = hand_sit(fs->hand, (unsigned)(server - serve->servers));
    fs_lock(fs);
    serve->n_called--;
    while (sits && !serve->ending)
        server_turn(server);
    fs_unlock(fs);
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
