/*
 * A few threads in blocking reads of the FUSE descriptor: a lone one is woken on the wrong CPU and
 * costs ten times more. Their buffers are there before the first read, since a fault inside read(2)
 * would turn a killed daemon's request into EIO.
 */
#include "fs/serve.h"

#include "fs/loop.h"
#include "fs/request.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#define INIT_BUFFER  ((size_t)1 << 20 | 65536) /* the library's size until it knows max_write */
#define SERVE_BUFFER (2 * (size_t)WRITE_MAX + 65536)

struct serve {
    struct fs *fs;
    unsigned n_threads;
    struct server {
        struct serve *serve;
        pthread_t thread;
        void *buffer;
    } servers[];
};

static void *buffer_make(size_t size)
{
    void *buffer =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    return buffer == MAP_FAILED ? NULL : buffer;
}

/* One request. <= 0: none; 0 is the end of the mount. */
static int serve_one(struct fuse_session *session, void *buffer)
{
    struct fuse_buf buf = {.mem = buffer};
    int n = fuse_session_receive_buf(session, &buf);

    if (n > 0)
        fuse_session_process_buf(session, &buf);
    return n;
}

bool serve_init(struct fs *fs)
{
    void *buffer = buffer_make(INIT_BUFFER);
    int n = 1;

    while (buffer && !fs->initialised && (n > 0 || n == -EINTR))
        n = serve_one(fs->session, buffer);
    if (buffer)
        munmap(buffer, INIT_BUFFER);
    return fs->initialised;
}

static void *serve_main(void *arg)
{
    struct server *server = arg;
    struct fs *fs = server->serve->fs;
    int n = 1;

    while (!fs->stopping && (n > 0 || n == -EINTR || n == -EAGAIN))
        n = serve_one(fs->session, server->buffer);
    request_thread_end();
    loop_end(fs->loop);
    return NULL;
}

/* Only there to interrupt a read(2). */
static void on_wake(int signal_number)
{
    (void)signal_number;
}

struct serve *serve_start(struct fs *fs, unsigned n_threads)
{
    struct serve *serve = calloc(1, sizeof *serve + n_threads * sizeof serve->servers[0]);
    struct sigaction action = {.sa_handler = on_wake};

    if (!serve)
        return NULL;
    serve->fs = fs;
    sigaction(SIGUSR1, &action, NULL);
    for (unsigned i = 0; i < n_threads; i++) {
        struct server *server = &serve->servers[i];
        server->serve = serve;
        server->buffer = buffer_make(SERVE_BUFFER);
        if (!server->buffer || pthread_create(&server->thread, NULL, serve_main, server) != 0) {
            if (server->buffer)
                munmap(server->buffer, SERVE_BUFFER);
            break;
        }
        serve->n_threads++;
    }
    if (serve->n_threads == 0) {
        free(serve);
        return NULL;
    }
    return serve;
}

/*
 * A thread that reads is woken by the end of the mount; where a bind mount or a held file keeps the
 * connection alive, by a signal, repeated because one that comes just before the read(2) is lost.
 */
void serve_stop(struct serve *serve)
{
    if (!serve)
        return;
    for (unsigned i = 0; i < serve->n_threads; i++) {
        struct timespec until;
        do {
            pthread_kill(serve->servers[i].thread, SIGUSR1);
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += 2000000;
            if (until.tv_nsec >= 1000000000) {
                until.tv_nsec -= 1000000000;
                until.tv_sec++;
            }
        } while (pthread_timedjoin_np(serve->servers[i].thread, NULL, &until) != 0);
        munmap(serve->servers[i].buffer, SERVE_BUFFER);
    }
    free(serve);
}
