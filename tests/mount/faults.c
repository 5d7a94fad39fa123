/*
 * A library that is loaded before pmcfs's others (LD_PRELOAD) and lets one call fail: the Nth, of those that take
 * memory or of those that ask the kernel for something. The file PMCFS_FAULTS is `struct faults`, shared with the
 * test, which arms it. /dev/fuse, locks and what lets go of things never fail; but the process may be killed before
 * or after the Nth time that it writes, which is how requests are answered.
 */
#include <dlfcn.h>
#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { NOTHING, MEMORY, CALLS, ENDS };

struct faults {
    int kind; /* what is counted; nothing is while it is NOTHING */
    int at;   /* which of them fails, from 1; 0 is none */
    int seen;
    int live;        /* pieces of memory in use */
    char failed[32]; /* the function, or empty */
};

static struct faults idle;
static struct faults *faults = &idle;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("PMCFS_FAULTS");
    void *trace[1];
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    backtrace(trace, 1); /* the first one takes memory */
    if (at == MAP_FAILED)
        abort();
    close(fd);
    ((struct faults *)at)->live = idle.live;
    faults = at;
}

/* Is this call the one? Then from where it came goes to standard error. */
static bool fails(enum kind kind, const char *function, int code)
{
    void *trace[24];

    if (__atomic_load_n(&faults->kind, __ATOMIC_SEQ_CST) != (int)kind ||
        __atomic_add_fetch(&faults->seen, 1, __ATOMIC_SEQ_CST) != faults->at)
        return false;
    strncpy(faults->failed, function, sizeof(faults->failed) - 1);
    dprintf(STDERR_FILENO, "fault: %s, call %d\n", function, faults->at);
    backtrace_symbols_fd(trace, backtrace(trace, 24), STDERR_FILENO);
    errno = code;
    return true;
}

/* ---- memory ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *old);

static void *counted(void *piece)
{
    if (piece)
        __atomic_add_fetch(&faults->live, 1, __ATOMIC_RELAXED);
    return piece;
}

void *malloc(size_t size)
{
    return fails(MEMORY, "malloc", ENOMEM) ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return fails(MEMORY, "calloc", ENOMEM) ? NULL : counted(__libc_calloc(n, size));
}

void *realloc(void *old, size_t size)
{
    void *piece;

    if (fails(MEMORY, "realloc", ENOMEM))
        return NULL;
    piece = __libc_realloc(old, size);
    return old ? piece : counted(piece);
}

void free(void *old)
{
    if (old)
        __atomic_sub_fetch(&faults->live, 1, __ATOMIC_RELAXED);
    __libc_free(old);
}

/* ---- the kernel ---- */

/* The function behind this one, of this type. With 64-bit offsets some have another name than in the source. */
#define NEXT(function, name) ((__typeof__(&(function)))dlsym(RTLD_NEXT, name))

int open(const char *path, int flags, ...)
{
    mode_t mode;
    va_list rest;

    va_start(rest, flags);
    mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return fails(CALLS, "open", EMFILE) ? -1 : NEXT(open, "open64")(path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
    mode_t mode;
    va_list rest;

    va_start(rest, flags);
    mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return fails(CALLS, "openat", EMFILE) ? -1 : NEXT(openat, "openat64")(dir, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    return fails(CALLS, "fopen", EMFILE) ? NULL : NEXT(fopen, "fopen64")(path, mode);
}

DIR *opendir(const char *path)
{
    return fails(CALLS, "opendir", EMFILE) ? NULL : NEXT(opendir, "opendir")(path);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    return fails(CALLS, "mmap", ENOMEM) ? MAP_FAILED
                                        : NEXT(mmap, "mmap64")(at, size, protection, flags, fd, offset);
}

int memfd_create(const char *name, unsigned flags)
{
    return fails(CALLS, "memfd_create", EMFILE) ? -1 : NEXT(memfd_create, "memfd_create")(name, flags);
}

int eventfd(unsigned count, int flags)
{
    return fails(CALLS, "eventfd", EMFILE) ? -1 : NEXT(eventfd, "eventfd")(count, flags);
}

int timerfd_create(clockid_t clock, int flags)
{
    return fails(CALLS, "timerfd_create", EMFILE) ? -1 : NEXT(timerfd_create, "timerfd_create")(clock, flags);
}

int pipe2(int fds[2], int flags)
{
    return fails(CALLS, "pipe2", EMFILE) ? -1 : NEXT(pipe2, "pipe2")(fds, flags);
}

/* What lets go, EPOLL_CTL_DEL, never fails. */
int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    if (operation != EPOLL_CTL_DEL && fails(CALLS, "epoll_ctl", ENOMEM))
        return -1;
    return NEXT(epoll_ctl, "epoll_ctl")(epoll, operation, fd, event);
}

int ioctl(int fd, unsigned long request, ...)
{
    va_list rest;
    void *argument;

    va_start(rest, request);
    argument = va_arg(rest, void *);
    va_end(rest);
    return fails(CALLS, "ioctl", EIO) ? -1 : NEXT(ioctl, "ioctl")(fd, request, argument);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    return fails(CALLS, "pthread_create", EAGAIN) ? EAGAIN
                                                  : NEXT(pthread_create, "pthread_create")(thread, attr, run, arg);
}

long syscall(long number, ...)
{
    va_list rest;
    long arg[6];

    va_start(rest, number);
    for (int i = 0; i < 6; i++)
        arg[i] = va_arg(rest, long);
    va_end(rest);
    if ((number == SYS_perf_event_open && fails(CALLS, "perf_event_open", EMFILE)) ||
        (number == SYS_pidfd_open && fails(CALLS, "pidfd_open", EMFILE)))
        return -1;
    return NEXT(syscall, "syscall")(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

/* ---- its end ---- */

static void may_end(const char *when)
{
    if (fails(ENDS, when, errno))
        kill(getpid(), SIGKILL);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    may_end("before write");
    const ssize_t wrote = NEXT(write, "write")(fd, bytes, n);
    may_end("after write");
    return wrote;
}

ssize_t writev(int fd, const struct iovec *iov, int n)
{
    may_end("before writev");
    const ssize_t wrote = NEXT(writev, "writev")(fd, iov, n);
    may_end("after writev");
    return wrote;
}
