/*
 * A helper for one request. What it says is believed as little as the files it reads: lengths are
 * bounded, time is bounded, and it is killed in any case.
 */
#include "backends/linux/symbol_ask.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEFTOVERS_MAX      32
#define LEFTOVERS_PER_USER 2
#define END_MS             200
#define LOOK_MS            50 /* does anybody still want to know? */

struct symbol_leftovers {
    pthread_mutex_t lock;
    struct {
        pid_t pid;
        uid_t uid;
    } of[LEFTOVERS_MAX];
    unsigned n;
};

struct helper {
    pid_t pid;
    int socket;
    uint64_t deadline_ns;
    const struct frame_asker *asker;
    size_t at, len; /* of what was received */
    char data[1 << 14];
};

/* ---- helpers that do not end ---- */

struct symbol_leftovers *symbol_leftovers_new(void)
{
    struct symbol_leftovers *leftovers = calloc(1, sizeof *leftovers);

    if (leftovers)
        pthread_mutex_init(&leftovers->lock, NULL);
    return leftovers;
}

static void leftovers_collect(struct symbol_leftovers *leftovers)
{
    for (unsigned i = 0; i < leftovers->n;)
        if (waitpid(leftovers->of[i].pid, NULL, WNOHANG | __WALL) != 0)
            leftovers->of[i] = leftovers->of[--leftovers->n];
        else
            i++;
}

void symbol_leftovers_free(struct symbol_leftovers *leftovers)
{
    if (!leftovers)
        return;
    leftovers_collect(leftovers);
    pthread_mutex_destroy(&leftovers->lock);
    free(leftovers);
}

/* May this user have another helper? */
static bool leftovers_allow(struct symbol_leftovers *leftovers, uid_t uid)
{
    unsigned own = 0;
    bool allowed;

    pthread_mutex_lock(&leftovers->lock);
    leftovers_collect(leftovers);
    for (unsigned i = 0; i < leftovers->n; i++)
        own += leftovers->of[i].uid == uid;
    allowed = own < LEFTOVERS_PER_USER && leftovers->n + 8 < LEFTOVERS_MAX;
    pthread_mutex_unlock(&leftovers->lock);
    return allowed;
}

static void leftovers_add(struct symbol_leftovers *leftovers, pid_t pid, uid_t uid)
{
    pthread_mutex_lock(&leftovers->lock);
    if (leftovers->n < LEFTOVERS_MAX) {
        leftovers->of[leftovers->n].pid = pid;
        leftovers->of[leftovers->n++].uid = uid;
    }
    pthread_mutex_unlock(&leftovers->lock);
}

/* ---- start and end ---- */

/* Executed anew: it has none of the daemon's memory, no other descriptor, and no environment. */
static int helper_spawn(int socket, pid_t *pid)
{
    char word[] = SYMBOL_WORD, name[] = "pmcfs";
    char *arguments[] = {name, word, NULL}, *environment[] = {NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    int rc;

    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    rc = posix_spawn_file_actions_adddup2(&files, socket, SYMBOL_SOCKET);
    rc = rc ? rc : posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    rc = rc ? rc : posix_spawn_file_actions_adddup2(&files, 1, 2);
    rc = rc ? rc : posix_spawn_file_actions_addclosefrom_np(&files, 3);
    rc = rc ? rc : posix_spawn(pid, "/proc/self/exe", &files, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return -rc;
}

static int helper_start(struct helper *helper, const struct frame_asker *asker,
                        uint64_t deadline_ns)
{
    int ends[2], rc;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    helper->socket = ends[0];
    helper->asker = asker;
    helper->deadline_ns = deadline_ns;
    helper->at = helper->len = 0;
    rc = helper_spawn(ends[1], &helper->pid);
    close(ends[1]);
    if (rc < 0)
        close(ends[0]);
    return rc;
}

/* Our own child, not collected yet: its number is still its. */
static void helper_end(struct helper *helper, struct symbol_leftovers *leftovers, uid_t uid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, helper->pid, 0);
    struct pollfd wait = {.fd = pidfd, .events = POLLIN};

    close(helper->socket);
    kill(helper->pid, SIGKILL);
    while (pidfd >= 0 && poll(&wait, 1, END_MS) < 0 && errno == EINTR)
        ;
    if (pidfd >= 0)
        close(pidfd);
    if (waitpid(helper->pid, NULL, WNOHANG | __WALL) == 0)
        leftovers_add(leftovers, helper->pid, uid);
}

/* ---- talking: false once it has ended or the time has ---- */

static bool helper_wait(const struct helper *helper, short events)
{
    struct pollfd wait = {.fd = helper->socket, .events = events};

    for (;;) {
        uint64_t now = clock_now_ns(), left_ms;
        int n;

        if (now >= helper->deadline_ns || frame_asker_is_gone(helper->asker))
            return false;
        left_ms = (helper->deadline_ns - now) / 1000000 + 1;
        n = poll(&wait, 1, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS);
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
    }
}

/* fds: these go with the first byte. */
static bool helper_send(struct helper *helper, const void *data, size_t len, const int *fds,
                        unsigned n_fds)
{
    union {
        char room[CMSG_SPACE(SYMBOL_BATCH * sizeof(int))];
        struct cmsghdr align;
    } control;

    while (len > 0) {
        struct iovec part = {(void *)(uintptr_t)data, len};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        ssize_t n;

        if (n_fds > 0) {
            message.msg_control = control.room;
            message.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
            memset(control.room, 0, message.msg_controllen);
            control.align = (struct cmsghdr){.cmsg_len = CMSG_LEN(n_fds * sizeof(int)),
                                             .cmsg_level = SOL_SOCKET,
                                             .cmsg_type = SCM_RIGHTS};
            memcpy(CMSG_DATA(&control.align), fds, n_fds * sizeof(int));
        }
        n = sendmsg(helper->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        if (n < 0 && !helper_wait(helper, POLLOUT))
            return false;
        if (n > 0) {
            data = (const char *)data + n;
            len -= (size_t)n;
            n_fds = 0;
        }
    }
    return true;
}

static bool helper_take(struct helper *helper, void *data, size_t len)
{
    while (len > 0) {
        size_t part = helper->len - helper->at;
        ssize_t n;

        if (part > 0) {
            part = part < len ? part : len;
            memcpy(data, helper->data + helper->at, part);
            helper->at += part;
            data = (char *)data + part;
            len -= part;
            continue;
        }
        if (!helper_wait(helper, POLLIN))
            return false;
        n = recv(helper->socket, helper->data, sizeof helper->data, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
            return false;
        helper->at = 0;
        helper->len = n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool request_send(struct helper *helper, const struct symbol_job *job)
{
    uint32_t n = job->size.n_modules;

    if (!helper_send(helper, &job->size, sizeof job->size, NULL, 0) ||
        !helper_send(helper, job->modules, n * sizeof *job->modules, NULL, 0) ||
        !helper_send(helper, job->queries, job->size.n_queries * sizeof *job->queries, NULL, 0))
        return false;
    for (uint32_t i = 0; i < n; i += SYMBOL_BATCH)
        if (!helper_send(helper, "", 1, job->fds + i, n - i < SYMBOL_BATCH ? n - i : SYMBOL_BATCH))
            return false;
    return true;
}

static bool name_take(struct helper *helper, char **out)
{
    char name[SYMBOL_NAME_MAX];
    uint16_t len;

    if (!helper_take(helper, &len, sizeof len) || len > sizeof name ||
        !helper_take(helper, name, len))
        return false;
    *out = len > 0 ? strndup(name, len) : NULL;
    return true;
}

/* True: all was heard. Else job->blamed is set, unless nobody is to blame. */
static bool answers_take(struct helper *helper, struct symbol_job *job)
{
    char byte;

    for (uint32_t i = 0; i < job->size.n_modules; i++)
        if (!helper_take(helper, &byte, 1)) {
            job->blamed = i;
            return false;
        }
    if (!helper_take(helper, &byte, 1))
        return false;
    for (; job->n_heard < job->size.n_queries; job->n_heard++)
        if (!name_take(helper, &job->names[job->n_heard])) {
            job->blamed = job->queries[job->n_heard].module;
            return false;
        }
    return true;
}

int symbol_ask(struct host_state *state, struct symbol_job *job, uint64_t deadline_ns)
{
    struct helper helper;
    bool heard;
    int rc;

    job->n_heard = 0;
    job->blamed = SYMBOL_NONE;
    if (!leftovers_allow(state->leftovers, job->asker->uid))
        return -EAGAIN;
    rc = helper_start(&helper, job->asker, deadline_ns);
    if (rc < 0)
        return rc;
    heard = request_send(&helper, job) && answers_take(&helper, job);
    helper_end(&helper, state->leftovers, job->asker->uid);
    return heard ? 0 : -EIO;
}
