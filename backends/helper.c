/*
 * A process of helper_call() shares memory and descriptors with the daemon: clone() with CLONE_VM
 * and CLONE_FILES. Helpers are processes, because SIGKILL stops a process even while it blocks in
 * the kernel; sent to a thread, it would kill the daemon.
 */
#include "backends/helper.h"

#include "backends/proc.h"
#include "core/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif

#define STACK_BYTES 65536

enum {
    POLLS = 5, /* checks of the helper's state in HELPER_MS */
    POLLS_MAX = 20 * POLLS
};

/* The thread sanitizer treats clone(2) like fork(2). Builds with it use a thread, which can also
 * take credentials but is never killed. */
#if defined(__SANITIZE_THREAD__)
#define BY_THREAD true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BY_THREAD true
#endif
#endif
#ifndef BY_THREAD
#define BY_THREAD false
#endif

struct helper {
    long (*fn)(void *arg);
    void *arg;
    pid_t parent;
    long answer;
};

/* The helper holds the descriptor of the mount, so it must not outlive the daemon. */
bool helper_bind(pid_t parent)
{
    return BY_THREAD || (syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 &&
                         syscall(SYS_getppid) == parent);
}

static int helper_main(void *arg)
{
    struct helper *helper = arg;

    if (helper_bind(helper->parent))
        helper->answer = helper->fn(helper->arg);
    return 0;
}

/*
 * Waits for a helper, reaps it and closes pidfd; until it is reaped, its PID is not reused. A check
 * that finds state R does not count: on a busy host the helper may have no CPU. Returns its status,
 * or -ETIME after SIGKILL: after POLLS checks in another state, or POLLS_MAX checks.
 */
static int helper_collect(pid_t pid, int pidfd)
{
    struct pollfd wait = {.fd = pidfd, .events = POLLIN};
    struct proc_stat stat;
    unsigned waited = 0;
    int status = 0;

    for (unsigned i = 0; i < POLLS_MAX && waited < POLLS && poll(&wait, 1, HELPER_MS / POLLS) == 0;
         i++)
        waited += proc_stat_directly(pid, &stat) < 0 || stat.state != 'R';
    const bool ended = poll(&wait, 1, 0) != 0;
    if (!ended)
        kill(pid, SIGKILL);
    close(pidfd);
    waitpid(pid, &status, __WALL);
    return ended ? status : -ETIME;
}

/* Blocks all signals: the daemon's handlers must not run in the helper, nor interrupt the wait. */
int helper_process(int flags, int (*fn)(void *arg), void *arg)
{
    char *stack = malloc(STACK_BYTES);
    sigset_t all, before;
    int pidfd = -1, rc;

    if (!stack)
        return -ENOMEM;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const pid_t pid = clone(fn, stack + STACK_BYTES, flags | CLONE_PIDFD, arg, &pidfd);
    if (pid < 0)
        rc = errno == EMFILE || errno == ENFILE ? -errno : -EAGAIN;
    else
        rc = helper_collect(pid, pidfd);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    free(stack);
    return rc;
}

static void *helper_thread(void *arg)
{
    helper_main(arg);
    return NULL;
}

/* The helper uses the errno of this thread, which waits and does not use it. */
long helper_call(long (*fn)(void *arg), void *arg)
{
    struct helper helper = {.fn = fn, .arg = arg, .parent = getpid(), .answer = -ETIME};
    pthread_t thread;

    if (BY_THREAD) {
        if (pthread_create(&thread, NULL, helper_thread, &helper))
            return -EAGAIN;
        pthread_join(thread, NULL);
        return helper.answer;
    }
    const int rc = helper_process(CLONE_VM | CLONE_FILES | CLONE_FS, helper_main, &helper);
    return rc < 0 && rc != -ETIME ? rc : helper.answer;
}

/* ---- opening and reading files ---- */

/*
 * A helper that is killed right after openat(2) cannot report its new descriptor. So it opens with
 * flags that have no effect on a file that is read, and that no other descriptor has: O_APPEND and
 * a combination of the other bits, which only one helper uses at a time.
 */
#define MARK_BITS (O_APPEND | O_NONBLOCK | O_ASYNC | O_SYNC)
static const int marks[] = {
    O_APPEND,
    O_APPEND | O_NONBLOCK,
    O_APPEND | O_ASYNC,
    O_APPEND | O_NONBLOCK | O_ASYNC,
    O_APPEND | O_DSYNC,
    O_APPEND | O_NONBLOCK | O_DSYNC,
    O_APPEND | O_ASYNC | O_DSYNC,
    O_APPEND | O_NONBLOCK | O_ASYNC | O_DSYNC,
    O_APPEND | O_SYNC,
    O_APPEND | O_NONBLOCK | O_SYNC,
    O_APPEND | O_ASYNC | O_SYNC,
    O_APPEND | O_NONBLOCK | O_ASYNC | O_SYNC,
};
#define N_MARKS (sizeof marks / sizeof *marks)

static pthread_mutex_t marks_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t mark_freed = PTHREAD_COND_INITIALIZER;
static unsigned marks_taken; /* bits */

/* Closes the descriptors with this mark, which a killed helper has left. */
static void marked_close(int mark)
{
    pid_t *fds;
    size_t n;

    if (proc_list_numbers(AT_FDCWD, "/proc/self/fd", &fds, &n) < 0)
        return;
    for (size_t i = 0; i < n; i++) {
        const int flags = fds[i] > STDERR_FILENO ? fcntl(fds[i], F_GETFL) : -1;

        if (flags >= 0 && (flags & (O_ACCMODE | MARK_BITS)) == mark)
            close(fds[i]);
    }
    free(fds);
}

/* The arguments of a helper. */
struct file_args {
    int fd;     /* the file, or with `path` a directory */
    int opened; /* the file that is open, for the caller of the helper; -1: none */
    const char *path;
    int flags;
    char *text;
    size_t size;
    uint64_t until_ns;
};

static long open_run(void *arg)
{
    struct file_args *q = arg;
    const long fd = syscall(SYS_openat, q->fd, q->path, q->flags | O_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    q->opened = (int)fd;
    return fd;
}

static long read_run(void *arg)
{
    struct file_args *q = arg;
    size_t len = 0;
    long n = 1;

    if (q->path) {
        n = open_run(q);
        if (n < 0)
            return n;
        q->fd = (int)n;
    }
    while (n > 0 && len < q->size && (len == 0 || monotonic_ns() < q->until_ns)) {
        n = syscall(SYS_read, q->fd, q->text + len, q->size - len);
        if (n < 0 && len == 0)
            return -errno;
        len += n > 0 ? (size_t)n : 0;
    }
    return (long)len;
}

/* Runs fn, which opens q->path for reading with a mark, in a helper. Returns its result. */
static long helper_opening(long (*fn)(void *arg), struct file_args *q)
{
    unsigned mark = 0;

    pthread_mutex_lock(&marks_lock);
    while (marks_taken == (1u << N_MARKS) - 1)
        pthread_cond_wait(&mark_freed, &marks_lock);
    while (marks_taken & 1u << mark)
        mark++;
    marks_taken |= 1u << mark;
    pthread_mutex_unlock(&marks_lock);

    q->flags = O_RDONLY | marks[mark];
    const long rc = helper_call(fn, q);
    if (q->opened >= 0)
        fcntl(q->opened, F_SETFL, 0);
    else if (rc == -ETIME)
        marked_close(marks[mark]);
    pthread_mutex_lock(&marks_lock);
    marks_taken &= ~(1u << mark);
    pthread_cond_signal(&mark_freed);
    pthread_mutex_unlock(&marks_lock);
    return rc;
}

int helper_open(int dir, const char *path)
{
    struct file_args q = {.fd = dir, .opened = -1, .path = path};
    const int rc = (int)helper_opening(open_run, &q);

    return q.opened >= 0 ? q.opened : rc;
}

ssize_t helper_read(int dir, const char *path, int *fd, char *text, size_t size, uint64_t until_ns)
{
    const bool opens = *fd < 0;
    struct file_args q = {.fd = opens ? dir : *fd,
                          .opened = *fd,
                          .path = opens ? path : NULL,
                          .text = text,
                          .size = size,
                          .until_ns = until_ns};
    const ssize_t n = opens ? helper_opening(read_run, &q) : helper_call(read_run, &q);

    *fd = q.opened;
    return n;
}
