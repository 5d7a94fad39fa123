/*
 * The main loop, and the engine's lock, whose holder wakes the loop. Callbacks of watched
 * descriptors run with the lock.
 */
#include "fs/requests/serve.h"

#include "core/base/arena.h"
#include "core/pmc/pmc.h"

#include "fs/requests/request.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 64,
    TRIM_BYTES = 1 << 20
};

struct watch {
    void (*fn)(void *arg, uint64_t tag);
    void *arg;
    uint64_t tag;
    uint32_t serial; /* 0: not watched; differs from the event's if the fd was reused */
};

struct loop_state {
    struct fs *fs;
    int epoll_fd, wake_fd, timer_fd, signal_fd;
    int supervisor_fd; /* to the supervisor; -1: none */
    atomic_bool woken;
    atomic_bool ended;
    pthread_mutex_t lock; /* a leaf; protects the watches */
    struct watch *watches;
    size_t n_watches;
    uint32_t serial;
    pthread_mutex_t exchange_lock; /* a leaf; serialises messages to the supervisor */
    uint32_t n_messages;
};

struct loop_state *loop_new(struct fs *fs, int supervisor_fd)
{
    struct loop_state *loop = calloc(1, sizeof *loop);
    sigset_t signals;

    if (!loop)
        return NULL;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
#ifdef PMCFS_DEBUG
    sigaddset(&signals, SIGUSR2);
#endif
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    pthread_mutex_init(&loop->lock, NULL);
    pthread_mutex_init(&loop->exchange_lock, NULL);
    loop->fs = fs;
    loop->supervisor_fd = supervisor_fd;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    loop->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    const int fds[] = {loop->wake_fd, loop->timer_fd, loop->signal_fd};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint32_t)fds[i]};

        if (fds[i] < 0 || loop->epoll_fd < 0 ||
            epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fds[i], &event) < 0) {
            loop_free(loop);
            return NULL;
        }
    }
    return loop;
}

void loop_free(struct loop_state *loop)
{
    int fds[] = {loop->epoll_fd, loop->wake_fd, loop->timer_fd, loop->signal_fd};

    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        fd_close(fds[i]);
    pthread_mutex_destroy(&loop->lock);
    pthread_mutex_destroy(&loop->exchange_lock);
    free(loop->watches);
    free(loop);
}

static int loop_watch(void *ctx, int fd, uint32_t events, void (*fn)(void *arg, uint64_t tag),
                      void *arg, uint64_t tag)
{
    struct loop_state *loop = ctx;
    struct epoll_event event = {.events = events};
    const size_t n = (size_t)fd + 64;
    struct watch *watches;
    int rc = -ENOMEM;

    pthread_mutex_lock(&loop->lock);
    if ((size_t)fd >= loop->n_watches) {
        watches = reallocarray(loop->watches, n, sizeof *watches);
        if (watches) {
            memset(watches + loop->n_watches, 0, (n - loop->n_watches) * sizeof *watches);
            loop->watches = watches;
            loop->n_watches = n;
        }
    }
    if ((size_t)fd < loop->n_watches) {
        if (++loop->serial == 0)
            ++loop->serial;
        event.data.u64 = (uint64_t)loop->serial << 32 | (uint32_t)fd;
        rc = epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
        if (rc == -EEXIST)
            rc = epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0 ? -errno : 0;
        if (rc == 0)
            loop->watches[fd] = (struct watch){fn, arg, tag, loop->serial};
    }
    pthread_mutex_unlock(&loop->lock);
    return rc;
}

/* Removes a watch. Needs the loop's lock. */
static bool watch_end(struct loop_state *loop, int fd)
{
    if (fd < 0 || (size_t)fd >= loop->n_watches || !loop->watches[fd].serial)
        return false;
    loop->watches[fd].serial = 0;
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    return true;
}

static bool loop_unwatch(void *ctx, int fd)
{
    struct loop_state *loop = ctx;

    pthread_mutex_lock(&loop->lock);
    bool ended = watch_end(loop, fd);
    pthread_mutex_unlock(&loop->lock);
    return ended;
}

/* Sends a message to the supervisor and returns its reply. On failure `done` is false. */
static struct supervisor_message supervisor_exchange(struct loop_state *loop,
                                                     struct supervisor_message message)
{
    struct supervisor_message answer = {.done = false};

    if (loop->supervisor_fd < 0)
        return answer;
    pthread_mutex_lock(&loop->exchange_lock);
    message.number = ++loop->n_messages;
    ssize_t n = send(loop->supervisor_fd, &message, sizeof message, MSG_NOSIGNAL);
    while (n > 0 && answer.number != message.number) /* a late reply to an earlier message */
        do
            n = recv(loop->supervisor_fd, &answer, sizeof answer, 0);
        while (n < 0 && errno == EINTR);
    pthread_mutex_unlock(&loop->exchange_lock);
    answer.done = answer.done && n > 0;
    return answer;
}

/* Sends the message about a ring (loop.keep_mapped) and waits for the reply, so that the caller may
 * close the descriptor afterwards. */
static bool loop_keep_mapped(void *ctx, int fd, size_t bytes)
{
    return supervisor_exchange(ctx, (struct supervisor_message){.fd = fd, .bytes = bytes}).done;
}

int loop_start_notifier(struct loop_state *loop)
{
    const struct supervisor_message answer =
        supervisor_exchange(loop, (struct supervisor_message){.fd = START_NOTIFIER});

    return answer.done ? answer.fd : -1;
}

struct loop loop_interface(struct loop_state *loop)
{
    return (struct loop){.ctx = loop,
                         .watch = loop_watch,
                         .unwatch = loop_unwatch,
                         .keep_mapped = loop_keep_mapped,
                         .supervisor = loop->supervisor_fd >= 0 ? getppid() : 0};
}

/* Wakes the main loop. Thread-safe, with any lock held. */
static void loop_wake(struct loop_state *loop)
{
    if (!atomic_exchange(&loop->woken, true))
        eventfd_write(loop->wake_fd, 1);
}

void loop_end(struct loop_state *loop)
{
    loop->ended = true;
    loop_wake(loop);
}

/* ---- the lock ---- */

void fs_lock(struct fs *fs)
{
    pthread_mutex_lock(&fs->lock);
    while (fs->reloading)
        pthread_cond_wait(&fs->changed, &fs->lock);
}

bool fs_publish(struct fs *fs)
{
    const bool all = engine_write_records(fs->tree.engine);
    const bool fine = handles_record(&fs->unpublished, all ? fs->handles : NULL);
    const bool with_answer = fs->publishes_answer;

    fs->publishes_answer = false;
    return engine_publish(fs->tree.engine, fine, with_answer);
}

void fs_unlock(struct fs *fs)
{
    struct work_queue unused = STAILQ_HEAD_INITIALIZER(unused);
    pthread_cond_t *const wakes = serve_take_wake(fs->serve);

    if (fs_publish(fs))
        STAILQ_CONCAT(&unused, &fs->unpublished.unused);
    const bool frees = !STAILQ_EMPTY(&unused);
    if (frees)
        fs->n_freeing++;
    pthread_mutex_unlock(&fs->lock);
    if (wakes)
        pthread_cond_signal(wakes);
    handles_free(&unused);
    if (frees)
        fs->n_freeing--;
}

/* Returns the time at which the main loop must wake; UINT64_MAX: never. */
static uint64_t next_deadline(const struct fs *fs)
{
    uint64_t deadline_ns = engine_deadline(fs->tree.engine);

    if (fs->queues.deadline_ns < deadline_ns)
        deadline_ns = fs->queues.deadline_ns;
    return fs->trim_ns < deadline_ns ? fs->trim_ns : deadline_ns;
}

void fs_wake(struct fs *fs)
{
    uint64_t deadline_ns, pmc_id;

    while (engine_next_wake(fs->tree.engine, &pmc_id))
        wait_wake(&fs->queues, pmc_id);
    serve_wake_thread(fs->serve);
    deadline_ns = next_deadline(fs);
    if (deadline_ns < fs->armed_ns || fs->attributes_stale) {
        if (deadline_ns < fs->armed_ns)
            fs->armed_ns = deadline_ns;
        loop_wake(fs->loop);
    }
}

/* ---- the main thread ---- */

/* Does all due work of the main thread and sets the timer for the next; does not wait. */
static void loop_turn(struct loop_state *loop)
{
    struct fs *fs = loop->fs;
    struct itimerspec when = {0};

    fs_lock(fs);
    uint64_t now_ns = fs->host->now_ns(fs->host_state);
    if (engine_deadline(fs->tree.engine) <= now_ns)
        engine_tick(fs->tree.engine, now_ns);
    wait_expire(&fs->queues, now_ns);
    fs_wake(fs);
    bool trim = fs->trim_ns <= now_ns;
    if (trim)
        fs->trim_ns = UINT64_MAX;
    bool stale = fs->attributes_stale;
    fs->attributes_stale = false;
    uint64_t deadline_ns = fs->armed_ns = next_deadline(fs);
    fs_unlock(fs);
    if (deadline_ns != UINT64_MAX) {
        when.it_value.tv_sec = (time_t)(deadline_ns / 1000000000);
        when.it_value.tv_nsec = (long)(deadline_ns % 1000000000) + (deadline_ns == 0);
    } /* a value of 0 disarms the timer */
    timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
    if (trim)
        arena_trim();
    if (trim && mallinfo2().fordblks >= TRIM_BYTES)
        malloc_trim(0); /* returns memory to the kernel, for example after many PMCs were removed */
    if (!stale)
        return;
    /* The tunable `readers` or the configuration may have changed the attributes of the root's
     * nodes and of all PMCs. */
    attributes_forget(&fs->tree, NODE_INSTANCE, 0);
    for (uint64_t id = 0;;) {
        fs_lock(fs);
        bool any = ids_next(&fs->tree.engine->pmcs, id, &id) != NULL;
        fs_unlock(fs);
        if (!any)
            return;
        attributes_forget(&fs->tree, NODE_PMC, id);
    }
}

void loop_answer_all(struct loop_state *loop)
{
    struct fs *fs = loop->fs;

    fs_lock(fs);
    wait_expire(&fs->queues, UINT64_MAX);
    while (fs_run_ready(fs))
        fs_lock(fs);
    fs_unlock(fs);
    loop_turn(loop);
}

/* Handles events of the loop's descriptors. Returns false for other events. */
static bool loop_handle_own(struct loop_state *loop, const struct epoll_event *event,
                            void (*on_signal)(struct fs *fs, int number))
{
    struct signalfd_siginfo info;
    uint64_t ignored;
    int fd = (int)event->data.u64;

    if (event->data.u64 >> 32)
        return false;
    if (fd == loop->signal_fd) {
        while (read(fd, &info, sizeof info) == (ssize_t)sizeof info)
            if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT)
                loop->ended = true;
            else
                on_signal(loop->fs, (int)info.ssi_signo);
    } else if (fd == loop->wake_fd) {
        /* reset before the turn: a later loop_wake() starts another turn */
        eventfd_read(fd, &ignored);
        loop->woken = false;
    } else if (read(fd, &ignored, sizeof ignored) < 0) {
        return true; /* the timer was set again */
    }
    return true;
}

void loop_run(struct loop_state *loop, void (*on_signal)(struct fs *fs, int number))
{
    struct epoll_event events[EVENTS_MAX];

    while (!loop->ended) {
        bool watched = false;

        loop_turn(loop);
        int n = epoll_wait(loop->epoll_fd, events, EVENTS_MAX, -1);
        for (int i = 0; i < n; i++)
            watched = !loop_handle_own(loop, &events[i], on_signal) || watched;
        if (!watched)
            continue;
        fs_lock(loop->fs); /* so that no watch is removed before its call */
        for (int i = 0; i < n; i++) {
            const uint32_t fd = (uint32_t)events[i].data.u64;
            const uint32_t serial = (uint32_t)(events[i].data.u64 >> 32);
            struct watch watch = {0};

            if (!serial)
                continue;
            pthread_mutex_lock(&loop->lock);
            if (fd < loop->n_watches)
                watch = loop->watches[fd];
            /* epoll would repeat an EPOLLHUP for ever */
            if (watch.serial == serial && events[i].events & EPOLLHUP)
                watch_end(loop, (int)fd);
            pthread_mutex_unlock(&loop->lock);
            if (watch.serial == serial)
                watch.fn(watch.arg, watch.tag);
        }
        fs_wake(loop->fs);
        fs_unlock(loop->fs);
    }
}
