/*
 * Processes named by users, held by a pidfd. The pidfd is opened first and everything is read after
 * that, so that all results are about the held process.
 */
#include "backends/helper.h"
#include "backends/linux/linux.h"
#include "core/base/arena.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PIDFS_MAGIC 0x50494446 /* "PIDF" */
#define FIND_TRIES  8

struct process {
    struct host_state *host;
    pid_t pid;
    pid_t tid; /* 0: the process */
    int pidfd;
    uint64_t thread_start; /* start time of the thread, clock ticks */
    uint64_t key;
    uint64_t number; /* as written by the requester, for sentences */
    atomic_bool watched;
};

/* Opens a pidfd of the process of a thread and sets *pid to that process. Returns the pidfd or
 * -errno; -ESRCH: gone; -EDEADLK: a process of pmcfs. */
static int task_hold(const struct host_state *state, pid_t task, pid_t *pid)
{
    int fd = (int)syscall(SYS_pidfd_open, task, 0);
    *pid = task;
    if (fd < 0 && (errno == EINVAL || errno == ENOENT)) {
        *pid = proc_tgid(task);
        if (*pid == 0)
            return proc_is_gone(-errno) ? -ESRCH : -errno;
        fd = (int)syscall(SYS_pidfd_open, *pid, 0);
    }
    if (is_ours(state, *pid)) {
        fd_close(fd);
        return -EDEADLK;
    }
    if (fd < 0)
        return errno == EPERM ? -EIO : errno == EINVAL ? -ESRCH : -errno;
    return fd;
}

/* Returns 0 if the requester's number still means this task of the held process, -ESRCH if it has
 * another meaning, or another -errno. */
static int task_check(const struct process *process, pid_t requester, pid_t task)
{
    const pid_t number = (pid_t)process->number;
    const pid_t tgid = process->pid == task ? task : proc_tgid(task);
    if (tgid == 0)
        return -errno;
    const pid_t seen = number ? pidns_seen_by(process->host, requester, task) : 0;
    return seen < 0 ? seen : seen == number && tgid == process->pid ? 0 : -ESRCH;
}

/*
 * Sets pid, pidfd and, if `thread`, tid from the number. Tries again if the number has another
 * meaning once the pidfd is open: the process had exited and its number was reused. Returns 0 or
 * -errno.
 */
static int process_hold(struct process *process, pid_t requester, bool thread)
{
    struct host_state *host = process->host;
    const pid_t number = (pid_t)process->number;

    for (int i = 0; i < FIND_TRIES; i++) {
        pid_t task = requester;
        int rc = number ? pidns_to_host(host, requester, number, &task) : 0;
        if (rc < 0)
            return rc;
        const int fd = task_hold(host, task, &process->pid);
        rc = fd < 0 ? fd : task_check(process, requester, task);
        if (rc == 0) {
            process->pidfd = fd;
            process->tid = thread ? task : 0;
            return 0;
        }
        fd_close(fd);
        if (!proc_is_gone(rc))
            return rc;
    }
    return -ESRCH;
}

static int hold_failed(struct err *err, int rc, uint64_t number, bool thread)
{
    const char *what = thread ? "thread" : "process";
    switch (rc) {
    case -EDEADLK:
        return err_set(
            err, P16,
            "process %" PRIu64 " is pmcfs itself, which cannot be a target: write another", number);
    case -EPERM:
        return err_set(err, P15,
                       "pmcfs cannot see your PID namespace, so it cannot find PID %" PRIu64
                       ". Run pmcfs in the host's PID namespace (--pid=host, hostPID: true)",
                       number);
    case -ENOMEM:
    case -EMFILE:
    case -ENFILE:
        return err_shortage(err, rc);
    case -ESRCH:
        return err_set(err, E44, "no %s %" PRIu64 " in your PID namespace", what, number);
    case -ETIME:
        return err_set(err, P13, "%s %" PRIu64 " has been in execve for %d ms: try again", what,
                       number, HELPER_MS);
    }
    return err_set(err, P14, "cannot open a file descriptor for %s %" PRIu64 ": %s: try again",
                   what, number, err_errno_name(rc));
}

/* The key of a process from its PID and start time. Numbers are not reused within a tick of 10 ms.
 */
static uint64_t key_of(pid_t pid, uint64_t start)
{
    return start << 22 ^ (uint64_t)pid;
}

/*
 * Reads the key and, for a thread, the thread's start time. Since Linux 6.9 the key is the inode of
 * the pidfd, which no other process has until a reboot. Returns 0, -ESRCH if the process or thread
 * has exited, or another -errno.
 */
static int process_inspect(struct process *process)
{
    struct proc_stat stat = {0};
    struct statfs fs;
    struct stat st;
    int rc = 0;

    if (fstatfs(process->pidfd, &fs) == 0 && fs.f_type == PIDFS_MAGIC &&
        fstat(process->pidfd, &st) == 0) {
        process->key = st.st_ino;
    } else {
        rc = proc_stat(process->pid, 0, &stat);
        process->key = key_of(process->pid, stat.start);
    }
    if (rc == 0 && process->tid) {
        rc = proc_stat(process->pid, process->tid, &stat);
        process->thread_start = stat.start;
    }
    if (rc < 0 && !proc_is_gone(rc))
        return rc;
    return rc == 0 && linux_process_alive(process) ? 0 : -ESRCH;
}

int linux_process_open(struct host_state *state, pid_t tid, uint64_t number, bool thread,
                       struct process **out, struct err *err)
{
    if (tid == 0)
        return err_set(err, P15,
                       "pmcfs cannot see your PID namespace, so it cannot find your processes. Run "
                       "pmcfs in the host's PID namespace (--pid=host, hostPID: true)");
    if (number > INT_MAX)
        return err_set(err, E27, "%" PRIu64 " is not a valid PID: PIDs are 1 to 4194304", number);
    struct process *process = calloc(1, sizeof *process);
    if (!process)
        return hold_failed(err, -ENOMEM, number, thread);
    *process = (struct process){.host = state, .pidfd = -1, .number = number};
    int rc = process_hold(process, tid, thread);
    if (rc == 0)
        rc = process_inspect(process);
    if (rc == 0) {
        *out = process;
        return 0;
    }
    if (rc == -ESRCH && process->pidfd >= 0)
        rc = err_set(err, E44, "%s %" PRIu64 " has exited%s", thread ? "thread" : "process", number,
                     thread ? "" : " (it is a zombie)");
    else
        rc = hold_failed(err, rc, number, thread);
    linux_process_free(process);
    return rc;
}

/* Looks the first process up again after its pidfd is open, so that its number was not reused. */
int linux_process_first(struct host_state *state, pid_t tid, struct process **out, struct err *err)
{
    pid_t first, again;
    int rc = tid ? pidns_first(state, tid, &first) : -EPERM;
    *out = NULL;
    if (rc < 0)
        return hold_failed(err, rc, 1, false);
    if (first == 0)
        return 0;
    rc = linux_process_open(state, state->self, (uint64_t)first, false, out, err);
    if (rc < 0 || (pidns_first(state, tid, &again) == 0 && again == first))
        return rc;
    linux_process_free(*out);
    *out = NULL;
    return hold_failed(err, -ESRCH, 1, false);
}

void linux_process_free(struct process *process)
{
    if (process && process->pidfd >= 0)
        close(process->pidfd);
    linux_process_forget(process);
}

void linux_process_forget(struct process *process)
{
    assert(!process || !atomic_load(&process->watched));
    free(process);
}

pid_t linux_process_pid(const struct process *process)
{
    return process->pid;
}

pid_t linux_process_tid(const struct process *process)
{
    return process->tid;
}

uint64_t linux_process_key(const struct process *process)
{
    return process->key;
}

bool linux_process_alive(const struct process *process)
{
    struct proc_stat stat;
    int rc = process->tid ? proc_stat(process->pid, process->tid, &stat) : 0;
    if (process->tid && rc == 0 && (stat.start != process->thread_start || proc_stat_dead(&stat)))
        return false;
    if (proc_is_gone(rc)) /* other errors, such as EMFILE, prove nothing */
        return false;
    /* Readable when all threads have exited. Checked last, so that the values above are valid. */
    struct pollfd poll_fd = {.fd = process->pidfd, .events = POLLIN};
    return poll(&poll_fd, 1, 0) == 0;
}

/* The PID is checked after the read, so that the name is not that of a process that reuses it. */
void linux_process_name(const struct process *process, char name[PROCESS_NAME])
{
    struct pollfd poll_fd = {.fd = process->pidfd, .events = POLLIN};
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/task/%d/comm", process->pid,
             process->tid ? process->tid : process->pid);
    char *text = proc_text(path);
    size_t len = text ? strlen(text) : 0;
    if (len > 0 && poll(&poll_fd, 1, 0) == 0) {
        len -= text[len - 1] == '\n';
        len = len < PROCESS_NAME ? len : PROCESS_NAME - 1; /* workers of the kernel have more */
        memcpy(name, text, len);
        name[len] = '\0';
    }
    free(text);
}

bool linux_process_headless(const struct process *process)
{
    struct proc_stat stat;

    return proc_stat(process->pid, 0, &stat) == 0 && (proc_stat_dead(&stat) || stat.exiting) &&
           linux_process_alive(process);
}

int linux_process_may_observe(struct host_state *state, const struct rights *rights,
                              const struct opener *opener, const struct process *process,
                              struct err *err)
{
    const uint64_t number = process->number ? process->number : (uint64_t)process->pid;
    int rc = observe_check(state, rights, opener, process->pid, process->tid);
    if (rc == -ESRCH || !linux_process_alive(process))
        return err_set(err, E44, "process %" PRIu64 " has exited", number);
    if (rc == -ETIME)
        return err_set(err, P13,
                       "could not check within %d ms whether you may observe process %" PRIu64
                       " (it is in execve, or a process of pmcfs in your user namespace is "
                       "stopped): nothing was attached, try again",
                       HELPER_MS, number);
    if (is_shortage(rc))
        return hold_failed(err, rc, number, process->tid);
    return rc == 0 ? 0
                   : err_set(err, E40, "you may not observe process %" PRIu64 ": %s", number,
                             observe_reason(state, rights, process->pid, rc));
}

int linux_process_may_observe_pid(struct host_state *state, const struct rights *rights,
                                  const struct opener *opener, pid_t pid)
{
    if (!rights)
        return is_ours(state, pid) ? -EPERM : 0;
    int rc = observe_check(state, rights, opener, pid, 0);
    return rc == 0 || rc == -ESRCH ? rc : -EPERM;
}

/* Called by the loop when all threads have exited. sink->process_exited() may free the process. */
static void process_exited(void *arg, uint64_t tag)
{
    struct process *process = arg;
    const struct sink *sink = process->host->sink;
    if (!atomic_load(&process->watched))
        return;
    linux_process_unwatch(process);
    sink->process_exited(sink->ctx, tag);
}

int linux_process_watch(struct process *process, uint64_t tag)
{
    const struct loop *loop = process->host->loop;
    if (!loop)
        return -ENOTSUP;
    atomic_store(&process->watched,
                 true); /* set first, because it may fire before watch() returns */
    int rc = loop->watch(loop->ctx, process->pidfd, EPOLLIN, process_exited, process, tag);
    if (rc < 0)
        atomic_store(&process->watched, false);
    return rc;
}

void linux_process_unwatch(struct process *process)
{
    const struct loop *loop = process->host->loop;
    if (atomic_exchange(&process->watched, false))
        loop->unwatch(loop->ctx, process->pidfd);
}

uint64_t linux_pid_key(struct host_state *state, pid_t pid)
{
    struct proc_stat stat;

    (void)state;
    if (pid <= 0 || proc_stat(pid, 0, &stat) < 0)
        return 0;
    return (proc_stat_dead(&stat) || stat.exiting) && proc_alive(pid) == 0
               ? 0
               : key_of(pid, stat.start);
}

uint64_t linux_caller_key(struct host_state *state, pid_t pid)
{
    struct proc_stat stat;

    (void)state;
    return pid > 0 && proc_stat_directly(pid, &stat) == 0 ? key_of(pid, stat.start) : 0;
}

void linux_process_print(const struct process *process, struct buf *out)
{
    buf_printf(out, "%d %d %d %" PRIu64 " %" PRIu64 " %" PRIu64, process->pidfd, process->pid,
               process->tid, process->key, process->thread_start, process->number);
}

/* The descriptor must be a pidfd of this process, or of an exited one (Pid: -1). */
int linux_process_adopt(struct host_state *state, const char *printed, struct process **out)
{
    struct process *process = calloc(1, sizeof *process);
    if (!process)
        return -ENOMEM;
    process->host = state;
    const int n =
        sscanf(printed, "%d %d %d %" SCNu64 " %" SCNu64 " %" SCNu64, &process->pidfd, &process->pid,
               &process->tid, &process->key, &process->thread_start, &process->number);
    char *text = n == 6 ? proc_fd_text(process->pidfd) : NULL;
    const char *field = text ? proc_field(text, "Pid") : NULL;
    const long found = field ? strtol(field, NULL, 10) : 0;
    free(text);
    if (n != 6 || (found != process->pid && found != -1)) {
        free(process);
        return -EINVAL;
    }
    fd_keep(process->pidfd);
    *out = process;
    return 0;
}
