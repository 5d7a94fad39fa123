/*
 * A library for LD_PRELOAD that makes the Nth allocation or the Nth system call fail. The file
 * PMCFS_FAULTS is a `struct faults` shared with the test, which arms it; the stack of the failed
 * call is written to PMCFS_FAULTS.printed. Calls on /dev/fuse, locks, and calls that release
 * something never fail. Other kinds kill the process before or after its Nth write, which answers a
 * request (ENDS), or before its Nth free (FREES), or stop a lookup in /proc at the Nth opened file
 * (OPENED), or a thread after it has started or stopped the Nth perf event group (SWITCHED).
 * Executed programs load the library too and count in the same file.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/perf_event.h>
#include <poll.h>
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
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

/* CALLS are system calls, except those whose failure means that a process has exited or lacks a
 * right; ALL_CALLS are all. The other kinds are described above. */
enum kind {
    NOTHING,
    MEMORY,
    CALLS,
    ALL_CALLS,
    ENDS,
    FREES,
    OPENED,
    SWITCHED
};

struct faults {
    int kind; /* the kind of calls that are counted */
    int at;   /* number of the failing call, from 1; 0: none */
    int seen;
    int live;        /* allocated blocks of memory */
    char failed[32]; /* the function, or empty */
    int not_worker;  /* calls of workers are not counted */
};

static struct faults idle;
static struct faults *faults = &idle;
static bool is_worker;
static __thread bool looks; /* inside getgrnam_r() */

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("PMCFS_FAULTS");
    void *trace[1];
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED
                      : mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    backtrace(trace, 1); /* the first call allocates memory */
    if (at == MAP_FAILED)
        abort();
    close(fd);
    ((struct faults *)at)->live = idle.live;
    faults = at;
}

/* The wrapped function. With 64-bit offsets some names differ from the source. */
#define NEXT(function, name) ((__typeof__(&(function)))dlsym(RTLD_NEXT, name))

/* Writes the stack of this call to PMCFS_FAULTS.printed. */
static void tell(const char *function)
{
    char name[512];
    void *trace[24];

    snprintf(name, sizeof(name), "%s.printed", getenv("PMCFS_FAULTS"));
    const int fd = NEXT(open, "open64")(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dprintf(fd, "fault: %s, call %d\n", function, faults->at);
    backtrace_symbols_fd(trace, backtrace(trace, 24), fd);
    close(fd);
}

/* Counts a call if its kind is armed. Returns whether it must fail, and then sets errno to code. */
static bool fails(enum kind kind, const char *function, int code)
{
    const int armed = __atomic_load_n(&faults->kind, __ATOMIC_SEQ_CST);

    if ((armed != (int)kind && !(armed == ALL_CALLS && kind == CALLS)) ||
        (is_worker && faults->not_worker) || looks ||
        __atomic_add_fetch(&faults->seen, 1, __ATOMIC_SEQ_CST) != faults->at)
        return false;
    strncpy(faults->failed, function, sizeof(faults->failed) - 1);
    tell(function);
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
    if (fails(FREES, "free", errno))
        kill(getpid(), SIGKILL);
    if (old)
        __atomic_sub_fetch(&faults->live, 1, __ATOMIC_RELAXED);
    __libc_free(old);
}

/* Never fails inside: without memory glibc reports a missing group, or crashes. */
int getgrnam_r(const char *name, struct group *group, char *text, size_t size, struct group **found)
{
    if (fails(MEMORY, "getgrnam_r", ENOMEM))
        return ENOMEM;
    looks = true;
    const int rc = NEXT(getgrnam_r, "getgrnam_r")(name, group, text, size, found);
    looks = false;
    return rc;
}

/* ---- the kernel ---- */

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

#define CALL_OF(kind, type, function, name, refusal, code, parameters, arguments)                  \
    type function parameters                                                                       \
    {                                                                                              \
        return fails(kind, #function, code) ? refusal : NEXT(function, name) arguments;            \
    }
#define CALL(...) CALL_OF(CALLS, __VA_ARGS__)

CALL(FILE *, fopen, "fopen64", NULL, EMFILE, (const char *path, const char *mode), (path, mode))
CALL(FILE *, fdopen, "fdopen", NULL, ENOMEM, (int fd, const char *mode), (fd, mode))
CALL(DIR *, opendir, "opendir", NULL, EMFILE, (const char *path), (path))
CALL(char *, realpath, "realpath", NULL, ENOMEM, (const char *path, char *to), (path, to))
CALL_OF(ALL_CALLS, int, fstat, "fstat64", -1, EIO, (int fd, struct stat *to), (fd, to))
CALL_OF(ALL_CALLS, int, stat, "stat64", -1, ENOMEM, (const char *path, struct stat *to), (path, to))
CALL(int, statfs, "statfs64", -1, ENOMEM, (const char *path, struct statfs *to), (path, to))
CALL(int, statx, "statx", -1, ENOMEM,
     (int dir, const char *path, int flags, unsigned mask, struct statx *to),
     (dir, path, flags, mask, to))
CALL(int, mkdir, "mkdir", -1, ENOSPC, (const char *path, mode_t mode), (path, mode))
CALL(int, chdir, "chdir", -1, ENOMEM, (const char *path), (path))
CALL(int, mount, "mount", -1, ENOMEM,
     (const char *source, const char *on, const char *type, unsigned long flags, const void *data),
     (source, on, type, flags, data))
CALL(void *, mmap, "mmap64", MAP_FAILED, ENOMEM,
     (void *at, size_t size, int protection, int flags, int fd, off_t offset),
     (at, size, protection, flags, fd, offset))
CALL(int, madvise, "madvise", -1, ENOMEM, (void *at, size_t size, int how), (at, size, how))
CALL(int, memfd_create, "memfd_create", -1, EMFILE, (const char *name, unsigned flags),
     (name, flags))
CALL(int, ftruncate, "ftruncate64", -1, EIO, (int fd, off_t size), (fd, size))
CALL(int, eventfd, "eventfd", -1, EMFILE, (unsigned count, int flags), (count, flags))
CALL(int, timerfd_create, "timerfd_create", -1, EMFILE, (clockid_t clock, int flags),
     (clock, flags))
CALL(int, signalfd, "signalfd", -1, EMFILE, (int fd, const sigset_t *set, int flags),
     (fd, set, flags))
CALL(int, epoll_create1, "epoll_create1", -1, EMFILE, (int flags), (flags))
CALL(int, pipe2, "pipe2", -1, EMFILE, (int fds[2], int flags), (fds, flags))
CALL(int, socketpair, "socketpair", -1, EMFILE, (int domain, int type, int protocol, int fds[2]),
     (domain, type, protocol, fds))
CALL(int, setsockopt, "setsockopt", -1, ENOMEM,
     (int fd, int level, int name, const void *value, socklen_t size),
     (fd, level, name, value, size))
CALL(ssize_t, send, "send", -1, ENOBUFS, (int fd, const void *from, size_t size, int flags),
     (fd, from, size, flags))
CALL(ssize_t, recv, "recv", -1, ENOMEM, (int fd, void *to, size_t size, int flags),
     (fd, to, size, flags))
CALL_OF(ALL_CALLS, int, poll, "poll", -1, ENOMEM, (struct pollfd * fds, nfds_t n, int ms),
        (fds, n, ms))
CALL(pid_t, fork, "fork", -1, EAGAIN, (void), ())
CALL(int, execveat, "execveat", -1, ENOMEM,
     (int dir, const char *path, char *const argv[], char *const envp[], int flags),
     (dir, path, argv, envp, flags))
CALL(int, pthread_create, "pthread_create", EAGAIN, EAGAIN,
     (pthread_t * thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg),
     (thread, attr, run, arg))

/* Returns whether a read or write of fd may fail: only those of regular files do. */
static bool is_file(int fd)
{
    struct stat status;

    return faults->kind >= CALLS && NEXT(fstat, "fstat64")(fd, &status) == 0 &&
           S_ISREG(status.st_mode);
}

ssize_t read(int fd, void *to, size_t size)
{
    return is_file(fd) && fails(CALLS, "read", ENOMEM) ? -1 : NEXT(read, "read")(fd, to, size);
}

ssize_t pread(int fd, void *to, size_t size, off_t at)
{
    return is_file(fd) && fails(CALLS, "pread", ENOMEM) ? -1
                                                        : NEXT(pread, "pread64")(fd, to, size, at);
}

ssize_t pwrite(int fd, const void *from, size_t size, off_t at)
{
    return is_file(fd) && fails(CALLS, "pwrite", EIO)
               ? -1
               : NEXT(pwrite, "pwrite64")(fd, from, size, at);
}

/* F_GETFD never fails for an open descriptor. */
int fcntl(int fd, int command, ...)
{
    va_list rest;
    void *argument;

    va_start(rest, command);
    argument = va_arg(rest, void *);
    va_end(rest);
    if (command != F_GETFD && fails(CALLS, "fcntl", ENOLCK))
        return -1;
    return NEXT(fcntl, "fcntl64")(fd, command, argument);
}

int prctl(int option, ...)
{
    va_list rest;
    unsigned long arg[4];

    va_start(rest, option);
    for (int i = 0; i < 4; i++)
        arg[i] = va_arg(rest, unsigned long);
    va_end(rest);
    return fails(CALLS, "prctl", EPERM)
               ? -1
               : NEXT(prctl, "prctl")(option, arg[0], arg[1], arg[2], arg[3]);
}

/* Only SIGSTOP and SIGUSR1 fail: killing or continuing a process, or a test for its existence,
 * never does. */
int kill(pid_t pid, int number)
{
    if ((number == SIGSTOP || number == SIGUSR1) && fails(CALLS, "kill", EPERM))
        return -1;
    return NEXT(kill, "kill")(pid, number);
}

/* EPOLL_CTL_DEL never fails, because it releases something. */
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
    if (fails(CALLS, "ioctl", EIO))
        return -1;
    const int result = NEXT(ioctl, "ioctl")(fd, request, argument);
    if ((request == PERF_EVENT_IOC_ENABLE || request == PERF_EVENT_IOC_DISABLE) &&
        fails(SWITCHED, "ioctl", errno))
        for (;;)
            pause();
    return result;
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
        (number == SYS_pidfd_open && fails(CALLS, "pidfd_open", EMFILE)) ||
        (number == SYS_clone && fails(CALLS, "clone", EAGAIN)))
        return -1;
    const long result =
        NEXT(syscall, "syscall")(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
    if (number == SYS_openat && result >= 0 && fails(OPENED, "openat", errno))
        for (;;)
            pause();
    is_worker |= number == SYS_clone && result == 0;
    return result;
}

/* ---- death of the process ---- */

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
