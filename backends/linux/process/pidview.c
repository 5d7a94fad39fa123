/*
 * Views: PID translation for records, with a cache that keeps the numbers of exited tasks.
 */
#include "backends/linux/process/pidview.h"
#include "backends/linux/process/pidns.h"
#include "core/base/clock.h"
#include "core/base/fds.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PLACES 8192 /* size of the cache; direct-mapped */

/* Limits reads of /proc per interval, because the users of the namespace determine the number of
 * tasks. */
#define READS_MAX 256
#define READS_NS  50000000

struct pid_view {
    int fd; /* descriptor of the namespace, so that its inode is not reused */
    struct pidns ns;
    unsigned n_reads;
    uint64_t reads_end_ns; /* end of the interval */
    struct place {
        pid_t pid; /* 0: empty */
        pid_t number;
    } place[PLACES];
};

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

void linux_view_keep(struct pid_view *view)
{
    free(view);
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

/* Caches missing numbers too, which would otherwise be read for each record. */
pid_t linux_view_pid(struct pid_view *view, pid_t pid)
{
    struct place *place = &view->place[(unsigned)pid % PLACES];
    if (pid <= 0)
        return 0;
    if (place->pid == pid)
        return place->number;
    if (!view_may_read(view))
        return 0;
    *place = (struct place){pid, pidns_number(&view->ns, pid)};
    return place->number;
}

void linux_view_forget(struct pid_view *view, pid_t pid)
{
    struct place *place = &view->place[(unsigned)pid % PLACES];
    if (place->pid == pid)
        place->pid = 0;
}

void linux_view_print(const struct pid_view *view, struct buf *out)
{
    buf_printf(out, "%d %ju %ju %u", view->fd, (uintmax_t)view->ns.id.dev,
               (uintmax_t)view->ns.id.ino, view->ns.depth);
}

int linux_view_adopt(struct host_state *state, const char *printed, struct pid_view **view)
{
    int fd;
    struct pidns ns;
    uintmax_t dev, ino;
    struct ns_id found;
    (void)state;
    if (sscanf(printed, "%d %ju %ju %u", &fd, &dev, &ino, &ns.depth) != 4)
        return -EINVAL;
    ns.id = (struct ns_id){.dev = (dev_t)dev, .ino = (ino_t)ino};
    if (ns_of(fd, &found) < 0 || !ns_same(&found, &ns.id))
        return -EINVAL;
    fd_keep(fd);
    *view = view_new(fd, &ns);
    return *view ? 0 : -ENOMEM;
}
