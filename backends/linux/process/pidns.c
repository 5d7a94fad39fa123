/*
 * Process numbers between PID namespaces. The kernel translates since 6.12 (and some older ones);
 * otherwise the NSpid lines of /proc do: one column for each namespace from /proc's own downward.
 */
#include "backends/linux/process/pidns.h"
#include "backends/look.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef NS_GET_PID_FROM_PIDNS
#define NS_GET_PID_FROM_PIDNS _IOR(NSIO, 0x6, int)
#endif
#ifndef NS_GET_TGID_IN_PIDNS
#define NS_GET_TGID_IN_PIDNS _IOR(NSIO, 0x9, int)
#endif

#define DEPTH_MAX 33 /* the kernel nests 32 deep, and the outermost */

/* The NSpid columns of a status text; 0 when there are none (a process that has been collected). */
static unsigned columns_read(const char *status, pid_t columns[DEPTH_MAX])
{
    const char *p = proc_field(status, "NSpid");
    unsigned n = 0;
    while (p && n < DEPTH_MAX) {
        char *end;
        long number = strtol(p, &end, 10);
        if (end == p || number <= 0)
            break;
        columns[n++] = (pid_t)number;
        p = *end == '\t' || *end == ' ' ? end + 1 : NULL;
    }
    return n;
}

static unsigned columns_of(pid_t tid, pid_t columns[DEPTH_MAX])
{
    char *status = proc_task_text(tid, "status");
    unsigned n = status ? columns_read(status, columns) : 0;
    free(status);
    return n;
}

/* Is the namespace `up` levels above that of tid the one meant? */
static bool ancestor_is(pid_t tid, unsigned up, const struct ns_id *ns)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/ns/pid", tid);
    int fd = look_open(AT_FDCWD, path, O_RDONLY);
    for (; fd >= 0 && up > 0; up--) {
        int parent = ioctl(fd, NS_GET_PARENT);
        close(fd);
        fd = parent;
    }
    struct ns_id found;
    bool same = fd >= 0 && ns_of(fd, &found) == 0 && ns_same(&found, ns);
    if (fd >= 0)
        close(fd);
    return same;
}

/* The number of thread tid in the namespace `ns`, `depth` columns deep; 0 when it is not in there.
 */
static pid_t number_in(pid_t tid, const struct ns_id *ns, unsigned depth, pid_t wanted)
{
    pid_t columns[DEPTH_MAX];
    unsigned n = columns_of(tid, columns);
    if (n < depth || (wanted && columns[depth - 1] != wanted))
        return 0;
    return ancestor_is(tid, n - depth, ns) ? columns[depth - 1] : 0;
}

unsigned pidns_depth(pid_t tid)
{
    pid_t columns[DEPTH_MAX];

    return columns_of(tid, columns);
}

pid_t pidns_number(pid_t tid, const struct ns_id *ns, unsigned depth)
{
    return depth > 0 ? number_in(tid, ns, depth, 0) : 0;
}

static int scan_process(pid_t pid, const struct ns_id *ns, unsigned depth, pid_t number, pid_t *out)
{
    pid_t *tids;
    size_t n;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    int rc = proc_numbers(AT_FDCWD, path, &tids, &n);
    if (rc < 0)
        return rc == -ENOMEM ? rc : -ESRCH;
    rc = -ESRCH;
    for (size_t i = 0; rc < 0 && i < n; i++)
        if (number_in(tids[i], ns, depth, number)) {
            *out = tids[i];
            rc = 0;
        }
    free(tids);
    return rc;
}

int pidns_scan(pid_t tid, pid_t number, pid_t *out)
{
    struct ns_id ns;
    pid_t columns[DEPTH_MAX];
    unsigned depth = columns_of(tid, columns);
    if (depth == 0 || ns_identify(tid, "pid", &ns) < 0)
        return -EPERM;
    pid_t *pids;
    size_t n;
    int rc = proc_numbers(AT_FDCWD, "/proc", &pids, &n);
    if (rc < 0)
        return rc;
    rc = -ESRCH;
    for (size_t i = 0; rc == -ESRCH && i < n; i++)
        rc = scan_process(pids[i], &ns, depth, number, out);
    free(pids);
    return rc;
}

int pidns_to_host(const struct host_state *state, pid_t tid, pid_t number, pid_t *out)
{
    struct ns_id ns;
    if (ns_identify(tid, "pid", &ns) < 0)
        return -EPERM;
    if (ns_same(&ns, &state->pidns)) {
        *out = number;
        return 0;
    }
    int fd = ns_open(tid, "pid");
    if (fd < 0)
        return fd == -EMFILE || fd == -ENFILE ? fd : -EPERM;
    int found = ioctl(fd, NS_GET_PID_FROM_PIDNS, (unsigned long)number);
    int failed = errno;
    close(fd);
    if (found > 0) {
        *out = found;
        return 0;
    }
    return found < 0 && failed == ENOTTY ? pidns_scan(tid, number, out) : -ESRCH;
}

/* The namespace just below the daemon's in which that of tid lies, or is: 0 or -errno. */
static int outermost_find(const struct host_state *state, pid_t tid, struct ns_id *found)
{
    int fd = ns_open(tid, "pid"), rc = fd < 0 ? fd : -EAGAIN;
    while (rc == -EAGAIN) {
        struct ns_id above;
        int parent = ioctl(fd, NS_GET_PARENT);
        if (parent < 0 || ns_of(fd, found) < 0 || ns_of(parent, &above) < 0)
            rc = -errno;
        else if (ns_same(&above, &state->pidns))
            rc = 0;
        close(fd);
        fd = parent;
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

int pidns_first(const struct host_state *state, pid_t tid, pid_t *out)
{
    struct ns_id ns;
    const unsigned depth = pidns_depth(state->self) + 1;
    pid_t *pids;
    size_t n;
    *out = 0;
    if (ns_identify(tid, "pid", &ns) < 0)
        return -EPERM;
    if (ns_same(&ns, &state->pidns))
        return 0;
    int rc = outermost_find(state, tid, &ns);
    if (rc == 0)
        rc = proc_numbers(AT_FDCWD, "/proc", &pids, &n);
    if (rc < 0)
        return rc;
    for (size_t i = 0; *out == 0 && i < n; i++)
        if (number_in(pids[i], &ns, depth, 1))
            *out = pids[i];
    free(pids);
    return *out ? 0 : -ESRCH;
}

pid_t pidns_column(pid_t tid, pid_t pid)
{
    struct ns_id ns;
    pid_t columns[DEPTH_MAX];
    unsigned depth = columns_of(tid, columns);
    if (depth == 0 || ns_identify(tid, "pid", &ns) < 0)
        return 0;
    return number_in(pid, &ns, depth, 0);
}

pid_t pidns_from_host(const struct host_state *state, pid_t tid, pid_t pid)
{
    struct ns_id ns;
    if (tid == 0)
        return pid;
    if (ns_identify(tid, "pid", &ns) < 0)
        return 0;
    if (ns_same(&ns, &state->pidns))
        return pid;
    int fd = ns_open(tid, "pid");
    if (fd < 0)
        return 0;
    int found = ioctl(fd, NS_GET_TGID_IN_PIDNS, (unsigned long)pid);
    int failed = errno;
    close(fd);
    if (found < 0 && failed == ENOTTY)
        return pidns_column(tid, pid);
    return found > 0 ? found : 0;
}
