/*
 * A process that shares everything but its life: clone() with CLONE_VM and CLONE_FILES, not a
 * thread. What it waits for in the kernel are locks, and a fatal signal ends that; nobody else is
 * ended by it.
 */
#include "backends/look.h"

#include "backends/proc.h"
#include "core/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif

#define STACK_BYTES 65536

enum {
    LOOKS = 5, /* at what it does, in LOOK_MS */
    LOOKS_MAX = 20 * LOOKS
};

#if defined(__SANITIZE_THREAD__)
#define HERE true /* what looks for races takes clone() for fork() */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HERE true
#endif
#endif
#ifndef HERE
#define HERE false
#endif

struct look {
    long (*fn)(void *arg);
    void *arg;
    pid_t parent;
    long answer;
};

/* It ends with the daemon in any case: it holds the mount's descriptor, too. */
bool look_bind(pid_t parent)
{
    return HERE || (syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 &&
                    syscall(SYS_getppid) == parent);
}

static int look_main(void *arg)
{
    struct look *look = arg;

    if (look_bind(look->parent))
        look->answer = look->fn(look->arg);
    syscall(SYS_exit_group, 0);
    __builtin_unreachable();
}

/* Or has it, on a busy machine, not come to run? */
static bool look_waits(pid_t pid)
{
    struct proc_stat stat;

    return proc_caller_stat(pid, &stat) < 0 || stat.state != 'R';
}

/* Our own child, not collected yet: the number is still its. */
bool look_collect(pid_t pid, int pidfd, int *status)
{
    struct pollfd wait = {.fd = pidfd, .events = POLLIN};
    unsigned waited = 0;

    for (unsigned i = 0; i < LOOKS_MAX && waited < LOOKS && poll(&wait, 1, LOOK_MS / LOOKS) == 0;
         i++)
        waited += look_waits(pid);
    const bool ended = poll(&wait, 1, 0) != 0;
    if (!ended)
        kill(pid, SIGKILL);
    close(pidfd);
    *status = SIGKILL;
    waitpid(pid, status, __WALL);
    return ended;
}

/* Where that is not possible it is a thread, which may take credentials as well. */
static void *look_here(void *arg)
{
    struct look *look = arg;

    look->answer = look->fn(look->arg);
    return NULL;
}

static long look_by_thread(struct look *look)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, look_here, look))
        return -EAGAIN;
    pthread_join(thread, NULL);
    return look->answer;
}

/* Signals wait: the daemon's handlers are not to run in it, and nothing interrupts the wait. Its
 * errno is that of this thread, which does not look at it meanwhile. */
long look_at(long (*fn)(void *arg), void *arg)
{
    struct look look = {.fn = fn, .arg = arg, .parent = getpid(), .answer = -ETIME};
    char *stack = HERE ? NULL : malloc(STACK_BYTES);
    sigset_t all, before;
    int pidfd = -1, status;
    pid_t pid;

    if (HERE)
        return look_by_thread(&look);
    if (!stack)
        return -ENOMEM;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pid = clone(look_main, stack + STACK_BYTES, CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_PIDFD,
                &look, &pidfd);
    if (pid < 0)
        look.answer = errno == EMFILE || errno == ENFILE ? -errno : -EAGAIN;
    else
        look_collect(pid, pidfd, &status);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    free(stack);
    return look.answer;
}

/* ---- what is asked ---- */

struct question {
    int fd;     /* or directory */
    int opened; /* to be closed by the asking thread: nothing tells when the other was ended */
    const char *path;
    int flags;
    char *text;
    size_t size;
    uint64_t until_ns;
};

static long answer_of(long rc)
{
    return rc < 0 ? -errno : rc;
}

static long open_run(void *arg)
{
    const struct question *q = arg;

    return answer_of(syscall(SYS_openat, q->fd, q->path, q->flags | O_CLOEXEC, 0));
}

static long read_run(void *arg)
{
    const struct question *q = arg;
    size_t len = 0;
    long n = 1;

    while (n > 0 && len < q->size && (len == 0 || monotonic_ns() < q->until_ns)) {
        n = syscall(SYS_read, q->fd, q->text + len, q->size - len);
        if (n < 0 && len == 0)
            return answer_of(n);
        len += n > 0 ? (size_t)n : 0;
    }
    return (long)len;
}

static long file_run(void *arg)
{
    struct question *q = arg;
    const long fd = open_run(q);

    if (fd < 0)
        return fd;
    q->fd = q->opened = (int)fd;
    return read_run(q);
}

int look_open(int dir, const char *path, int flags)
{
    return (int)look_at(open_run, &(struct question){.fd = dir, .path = path, .flags = flags});
}

ssize_t look_read(int fd, char *text, size_t size, uint64_t until_ns)
{
    return look_at(read_run,
                   &(struct question){.fd = fd, .text = text, .size = size, .until_ns = until_ns});
}

ssize_t look_file(int dir, const char *path, char *text, size_t size)
{
    struct question q = {.fd = dir,
                         .opened = -1,
                         .path = path,
                         .flags = O_RDONLY,
                         .text = text,
                         .size = size - 1,
                         .until_ns = UINT64_MAX};
    const ssize_t n = look_at(file_run, &q);

    if (q.opened >= 0)
        close(q.opened);
    text[n > 0 ? n : 0] = '\0';
    return n;
}
