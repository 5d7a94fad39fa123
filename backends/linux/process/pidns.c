/*
 * Translation of PIDs between PID namespaces by NSpid lines, which have one column for each
 * namespace from /proc's downward. Namespaces of equal depth are distinguished by inode. (The
 * kernel has calls for this since 6.12.)
 */
#include "backends/linux/process/pidns.h"
#include "backends/look.h"

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

/* Reads the fdinfo of a pidfd, or returns NULL. */
static char *pidfd_text(pid_t tid)
{
    int fd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD);
    if (fd < 0 && errno == EINVAL)
        fd = (int)syscall(SYS_pidfd_open, tid, 0);
    char *text = fd < 0 ? NULL : proc_fd_text(fd);
    if (fd >= 0)
        close(fd);
    return text;
}

/*
 * Reads the NSpid columns and returns their number; 0: none (the process was reaped). Uses the
 * fdinfo of a pidfd, because status takes 3 ms with 65,536 groups; uses status if there is no pidfd
 * (threads before Linux 6.9) or no such line (before 5.5).
 */
static unsigned columns_of(pid_t tid, pid_t columns[DEPTH_MAX])
{
    char *text = pidfd_text(tid), *end;
    const char *p = text ? proc_field(text, "NSpid") : NULL;
    unsigned n = 0;
    if (!p) {
        free(text);
        text = proc_task_text(tid, "status");
        p = text ? proc_field(text, "NSpid") : NULL;
    }
    while (p && n < DEPTH_MAX) {
        const long number = strtol(p, &end, 10);
        if (end == p || number <= 0)
            break;
        columns[n++] = (pid_t)number;
        p = *end == '\t' || *end == ' ' ? end + 1 : NULL;
    }
    free(text);
    return n;
}

/* Finds the namespace `up` levels above that of tid. Returns 0 or -errno. */
static int ancestor_find(pid_t tid, unsigned up, struct ns_id *out)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/ns/pid", tid);
    int fd = look_open(AT_FDCWD, path);
    for (; fd >= 0 && up > 0; up--) {
        const int parent = ioctl(fd, NS_GET_PARENT);
        close(fd);
        fd = parent < 0 ? -errno : parent;
    }
    if (fd < 0)
        return fd;
    const int rc = ns_of(fd, out);
    close(fd);
    return rc;
}

/* Returns the number of tid in the namespace; wanted: only this number (0: any). */
static pid_t number_in(const struct pidns *ns, pid_t tid, pid_t wanted)
{
    pid_t columns[DEPTH_MAX];
    struct ns_id found;
    const unsigned n = columns_of(tid, columns);
    if (n < ns->depth || (wanted && columns[ns->depth - 1] != wanted))
        return 0;
    return ancestor_find(tid, n - ns->depth, &found) == 0 && ns_same(&found, &ns->id)
               ? columns[ns->depth - 1]
               : 0;
}

pid_t pidns_number(const struct pidns *ns, pid_t pid)
{
    return number_in(ns, pid, 0);
}

int pidns_of(const struct host_state *state, pid_t tid, struct pidns *out)
{
    pid_t columns[DEPTH_MAX];
    if (ns_identify(tid, "pid", &out->id) < 0)
        return -EPERM;
    if (ns_same(&out->id, &state->pidns))
        return 0;
    out->depth = columns_of(tid, columns);
    return out->depth ? 1 : -EPERM;
}

/* Finds the thread of the process with this number. Threads are in their process's namespace. */
static int process_search(const struct pidns *ns, pid_t pid, pid_t number, pid_t *out)
{
    pid_t columns[DEPTH_MAX], *tids;
    size_t n;
    char path[64];
    if (columns_of(pid, columns) < ns->depth)
        return -ESRCH;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    int rc = proc_numbers(AT_FDCWD, path, &tids, &n);
    if (rc < 0)
        return rc == -ENOMEM ? rc : -ESRCH;
    rc = -ESRCH;
    for (size_t i = 0; rc < 0 && i < n; i++)
        if (number_in(ns, tids[i], number)) {
            *out = tids[i];
            rc = 0;
        }
    free(tids);
    return rc;
}

static int number_search(const struct pidns *ns, pid_t number, pid_t *out)
{
    pid_t *pids;
    size_t n;
    int rc = proc_numbers(AT_FDCWD, "/proc", &pids, &n);
    if (rc < 0)
        return rc;
    rc = -ESRCH;
    for (size_t i = 0; rc == -ESRCH && i < n; i++)
        rc = process_search(ns, pids[i], number, out);
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

pid_t pidns_from_host(const struct host_state *state, pid_t tid, pid_t pid)
{
    struct pidns ns;
    const int rc = tid ? pidns_of(state, tid, &ns) : 0;
    return rc > 0 ? pidns_number(&ns, pid) : rc == 0 ? pid : 0;
}

int pidns_first(const struct host_state *state, pid_t tid, pid_t *out)
{
    pid_t columns[DEPTH_MAX];
    struct pidns ns;
    *out = 0;
    int rc = pidns_of(state, tid, &ns);
    if (rc <= 0)
        return rc;
    const unsigned below = columns_of(state->self, columns) + 1;
    if (ns.depth < below)
        return -EPERM;
    rc = ancestor_find(tid, ns.depth - below, &ns.id);
    ns.depth = below;
    return rc < 0 ? rc : number_search(&ns, 1, out);
}
