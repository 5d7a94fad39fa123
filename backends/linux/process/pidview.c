/*
 * A PID namespace held for records: the numbers by which those in it know processes and threads,
 * remembered when they are dead.
 */
#include "backends/linux/process/pidview.h"
#include "backends/linux/process/pidns.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef NS_GET_PID_IN_PIDNS
#define NS_GET_PID_IN_PIDNS _IOR(NSIO, 0x8, int)
#endif

/* Numbers remembered: SETS × WAYS. In a full set the next to come takes the place of the one that
 * came first. */
#define SETS 2048
#define WAYS 4

/* Without the ioctl /proc is read for each number, and how many there are is up to those in the
 * namespace: not more than so many in a time like that between two drains. */
#define READS_MAX 256
#define READS_NS  50000000

struct pid_view {
    int fd; /* of the namespace */
    struct ns_id ns;
    unsigned depth; /* of the namespace, for kernels without the ioctl */
    bool no_ioctl;
    unsigned n_reads;
    uint64_t reads_end_ns; /* then their number begins anew */
    struct set {
        struct {
            pid_t pid; /* 0: an empty place */
            pid_t number;
        } way[WAYS];
    } set[SETS];
    uint8_t next[SETS]; /* the way that is given up next */
};

static struct pid_view *view_new(int fd, const struct ns_id *ns, unsigned depth)
{
    struct pid_view *view = calloc(1, sizeof *view);
    if (view) {
        view->fd = fd;
        view->ns = *ns;
        view->depth = depth;
    }
    return view;
}

int linux_view_open(struct host_state *state, pid_t tid, struct pid_view **view)
{
    struct ns_id ns;
    *view = NULL;
    if (tid == 0)
        return 0;
    int rc = ns_identify(tid, "pid", &ns);
    if (rc < 0)
        return rc;
    if (ns_same(&ns, &state->pidns))
        return 0;
    int fd = ns_open(tid, "pid");
    if (fd < 0)
        return fd;
    *view = view_new(fd, &ns, pidns_depth(tid));
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

void linux_view_keep(struct pid_view *view)
{
    free(view);
}

static unsigned set_of(pid_t pid)
{
    return (unsigned)pid % SETS;
}

static bool view_may_read(struct pid_view *view)
{
    const uint64_t now = monotonic_ns();
    if (now >= view->reads_end_ns) {
        view->reads_end_ns = now + READS_NS;
        view->n_reads = 0;
    }
    return view->n_reads++ < READS_MAX;
}

/* The number that a living process has; 0 when it is dead, or not to be seen from there. False: it
 * cannot be known now. */
static bool view_ask(struct pid_view *view, pid_t pid, pid_t *number)
{
    if (!view->no_ioctl) {
        int found = ioctl(view->fd, NS_GET_PID_IN_PIDNS, (unsigned long)pid);
        *number = found > 0 ? found : 0;
        if (found >= 0 || errno != ENOTTY)
            return true;
        view->no_ioctl = true;
    }
    if (!view_may_read(view))
        return false;
    *number = pidns_number(pid, &view->ns, view->depth);
    return true;
}

pid_t linux_view_pid(struct pid_view *view, pid_t pid)
{
    struct set *set = &view->set[set_of(pid)];
    uint8_t *next = &view->next[set_of(pid)];
    if (pid <= 0)
        return 0;
    for (unsigned i = 0; i < WAYS; i++)
        if (set->way[i].pid == pid)
            return set->way[i].number;
    pid_t number;
    if (!view_ask(view, pid, &number))
        return 0;
    unsigned place = *next;
    for (unsigned i = 0; i < WAYS; i++)
        if (set->way[i].pid == 0)
            place = i;
    if (set->way[place].pid)
        *next = (uint8_t)((*next + 1) % WAYS);
    /* That it has none is remembered too: it would be asked for with each record. */
    set->way[place].pid = pid;
    set->way[place].number = number;
    return number;
}

void linux_view_forget(struct pid_view *view, pid_t pid)
{
    if (pid <= 0)
        return;
    struct set *set = &view->set[set_of(pid)];
    for (unsigned i = 0; i < WAYS; i++)
        if (set->way[i].pid == pid)
            set->way[i].pid = 0;
}

void linux_view_print(const struct pid_view *view, struct buf *out)
{
    buf_printf(out, "%d %ju %ju %u", view->fd, (uintmax_t)view->ns.dev, (uintmax_t)view->ns.ino,
               view->depth);
}

int linux_view_adopt(struct host_state *state, const char *printed, struct pid_view **view)
{
    int fd;
    unsigned depth;
    uintmax_t dev, ino;
    struct ns_id found;
    (void)state;
    if (sscanf(printed, "%d %ju %ju %u", &fd, &dev, &ino, &depth) != 4)
        return -EINVAL;
    const struct ns_id ns = {.dev = (dev_t)dev, .ino = (ino_t)ino};
    if (ns_of(fd, &found) < 0 || !ns_same(&found, &ns))
        return -EINVAL;
    *view = view_new(fd, &ns, depth);
    return *view ? 0 : -ENOMEM;
}

void view_without_ioctl(struct pid_view *view)
{
    view->no_ioctl = true;
}
