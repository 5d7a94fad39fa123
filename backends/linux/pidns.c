/*
 * Translation of PIDs between PID namespaces, for commands and (pid_view) for the PIDs in records.
 * Uses NSpid lines, which have one column for each namespace from /proc's downward. Namespaces of
 * equal depth are distinguished by inode. (The kernel has calls for this since 6.12.)
 */
#include "backends/helper.h"
#include "backends/linux/linux.h"
#include "core/base/arena.h"
#include "core/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

#define DEPTH_MAX 33 /* 32 nested namespaces and the outermost one */

#define CACHE_SIZE 8192 /* numbers in the cache of a view; direct-mapped */

/* Limits a view's reads of /proc per interval, because the users of the namespace determine the
 * number of tasks. Until the interval is over, linux_view_pid() returns 0 for other uncached
 * PIDs. */
#define READS_MAX 256
#define READS_NS  50000000

struct pidns {
    struct ns_id id;
    int depth; /* /proc's namespace has 1 */
};

struct pid_view {
    int fd; /* descriptor of the namespace, so that its inode is not reused */
    struct pidns ns;
    unsigned n_reads;
    uint64_t reads_end_ns; /* end of the interval */
    struct cached {
        pid_t pid; /* 0: empty */
        pid_t number;
    } cached[CACHE_SIZE];
};

/*
 * Reads the NSpid columns and returns their number, or -errno; -ESRCH: the process was reaped. Uses
 * the fdinfo of a pidfd, because status takes 3 ms with 65,536 groups; uses status if there is no
 * pidfd (threads before Linux 6.9) or no such line (before 5.5).
 */
static int columns_of(pid_t tid, pid_t columns[DEPTH_MAX])
{
    int fd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD);
    if (fd < 0 && errno == EINVAL)
        fd = (int)syscall(SYS_pidfd_open, tid, 0);
    char *text = fd < 0 ? NULL : proc_fd_text(fd), *end;
    const char *p = text ? proc_field(text, "NSpid") : NULL;
    int n = 0;

    fd_close(fd);
    if (!p) {
        free(text);
        text = proc_task_text(tid, "status");
        if (!text)
            return -errno;
        p = proc_field(text, "NSpid");
    }
    while (p && n < DEPTH_MAX) {
        const long number = strtol(p, &end, 10);
        if (end == p || number <= 0)
            break;
        columns[n++] = (pid_t)number;
        p = *end == '\t' || *end == ' ' ? end + 1 : NULL;
    }
    free(text);
    return n ? n : -ESRCH;
}

/* Finds the namespace `up` levels above that of tid. Returns 0 or -errno. */
static int ancestor_find(pid_t tid, int up, struct ns_id *out)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/ns/pid", tid);
    int fd = helper_open(AT_FDCWD, path);
    for (; fd >= 0 && up > 0; up--) {
        const int parent = ioctl(fd, NS_GET_PARENT);
        close(fd);
        fd = parent < 0 ? -errno : parent;
    }
    if (fd < 0)
        return fd;
    const int rc = ns_identify_fd(fd, out);
    close(fd);
    return rc;
}

/* Returns the number of tid in the namespace; 0 if tid is not in it, or if the number is not
 * `wanted` (0: any number); or -errno. */
static pid_t number_in(const struct pidns *ns, pid_t tid, pid_t wanted)
{
    pid_t columns[DEPTH_MAX];
    struct ns_id found;
    const int n = columns_of(tid, columns);
    if (n < 0)
        return n;
    if (n < ns->depth || (wanted && columns[ns->depth - 1] != wanted))
        return 0;
    const int rc = ancestor_find(tid, n - ns->depth, &found);
    return rc < 0 ? rc : ns_same(&found, &ns->id) ? columns[ns->depth - 1] : 0;
}

/*
 * Finds the namespace of thread tid. Returns 1; 0 for the daemon's namespace; -ENOMEM, -EMFILE or
 * -ENFILE; or -EPERM if tid cannot be inspected.
 */
static int pidns_of(const struct host_state *state, pid_t tid, struct pidns *out)
{
    pid_t columns[DEPTH_MAX];
    if (ns_identify(tid, "pid", &out->id) < 0)
        return -EPERM;
    if (ns_same(&out->id, &state->pidns))
        return 0;
    out->depth = columns_of(tid, columns);
    return out->depth > 0 ? 1 : is_shortage(out->depth) ? out->depth : -EPERM;
}

/* Finds the thread with this number in a namespace below the daemon's. Returns 0 or -errno; -ESRCH
 * only if all threads could be read. */
static int number_search(const struct pidns *ns, pid_t number, pid_t *out)
{
    pid_t columns[DEPTH_MAX], *pids;
    size_t n_pids;
    int rc = proc_list_numbers(AT_FDCWD, "/proc", &pids, &n_pids);

    if (rc < 0)
        return rc;
    rc = -ESRCH;
    for (size_t i = 0; rc < 0 && i < n_pids; i++) {
        pid_t *tids = NULL;
        size_t n_tids = 0;
        int n = columns_of(pids[i], columns);

        if (n >= ns->depth) /* threads are in the namespace of their process */
            n = proc_threads(pids[i], &tids, &n_tids);
        if (is_temporary(n))
            rc = n;
        for (size_t k = 0; rc < 0 && k < n_tids; k++) {
            n = number_in(ns, tids[k], number);
            *out = tids[k];
            if (n > 0 || is_temporary(n))
                rc = n > 0 ? 0 : n;
        }
        free(tids);
    }
    free(pids);
    return rc;
}

int pidns_to_host(const struct host_state *state, pid_t tid, pid_t number, pid_t *out)
{
    struct pidns ns;
    const int rc = pidns_of(state, tid, &ns);
    *out = number;
    return rc > 0 ? number_search(&ns, number, out) : rc;
}

pid_t pidns_seen_by(const struct host_state *state, pid_t tid, pid_t pid)
{
    struct pidns ns;
    const int rc = tid ? pidns_of(state, tid, &ns) : 0;
    return rc > 0 ? number_in(&ns, pid, 0) : rc == 0 ? pid : rc;
}

pid_t linux_pid_seen_by(struct host_state *state, pid_t tid, pid_t pid)
{
    const pid_t number = pidns_seen_by(state, tid, pid);
    return number > 0 ? number : 0;
}

int pidns_first(const struct host_state *state, pid_t tid, pid_t *out)
{
    pid_t columns[DEPTH_MAX];
    struct pidns ns;
    *out = 0;
    int rc = pidns_of(state, tid, &ns);
    if (rc <= 0)
        return rc;
    const int own = columns_of(state->self, columns);
    if (own < 0 || ns.depth <= own)
        return own < 0 ? own : -EPERM;
    rc = ancestor_find(tid, ns.depth - own - 1, &ns.id);
    ns.depth = own + 1;
    return rc < 0 ? rc : number_search(&ns, 1, out);
}

/* ---- views ---- */

static struct pid_view *view_new(int fd, const struct pidns *ns)
{
    struct pid_view *view = calloc(1, sizeof *view);
    if (view) {
        view->fd = fd;
        view->ns = *ns;
    }
    return view;
}

int linux_view_open(struct host_state *state, pid_t tid, struct pid_view **view)
{
    struct pidns ns;
    *view = NULL;
    int rc = tid ? pidns_of(state, tid, &ns) : 0;
    if (rc <= 0)
        return rc;
    int fd = ns_open(tid, "pid");
    if (fd < 0)
        return fd;
    *view = view_new(fd, &ns);
    if (*view)
        return 0;
    close(fd);
    return -ENOMEM;
}

void linux_view_free(struct pid_view *view)
{
    if (!view)
        return;
    close(view->fd);
    free(view);
}

void linux_view_forget(struct pid_view *view)
{
    free(view);
}

/* Caches missing numbers too, which would otherwise be read for each record, unless a later read
 * may succeed. */
pid_t linux_view_pid(struct pid_view *view, pid_t pid)
{
    struct cached *cached = &view->cached[(unsigned)pid % CACHE_SIZE];
    if (pid <= 0)
        return 0;
    if (cached->pid == pid)
        return cached->number;

    const uint64_t now = monotonic_ns();
    if (now >= view->reads_end_ns) {
        view->reads_end_ns = now + READS_NS;
        view->n_reads = 0;
    }
    if (view->n_reads++ >= READS_MAX)
        return 0;
    const pid_t number = number_in(&view->ns, pid, 0);
    if (is_temporary(number))
        return 0;
    *cached = (struct cached){pid, number > 0 ? number : 0};
    return cached->number;
}

void linux_view_forget_pid(struct pid_view *view, pid_t pid)
{
    struct cached *cached = &view->cached[(unsigned)pid % CACHE_SIZE];
    if (cached->pid == pid)
        cached->pid = 0;
}

void linux_view_print(const struct pid_view *view, struct buf *out)
{
    buf_printf(out, "%d %ju %ju %d", view->fd, (uintmax_t)view->ns.id.dev,
               (uintmax_t)view->ns.id.ino, view->ns.depth);
}

int linux_view_adopt(struct host_state *state, const char *printed, struct pid_view **view)
{
    int fd;
    struct pidns ns;
    uintmax_t dev, ino;
    struct ns_id found;
    (void)state;
    if (sscanf(printed, "%d %ju %ju %d", &fd, &dev, &ino, &ns.depth) != 4)
        return -EINVAL;
    ns.id = (struct ns_id){.dev = (dev_t)dev, .ino = (ino_t)ino};
    if (ns_identify_fd(fd, &found) < 0 || !ns_same(&found, &ns.id))
        return -EINVAL;
    fd_keep(fd);
    *view = view_new(fd, &ns);
    return *view ? 0 : -ENOMEM;
}
