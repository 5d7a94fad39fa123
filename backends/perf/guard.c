/*
 * A dummy event with a ring on the process's first thread: when it is taken off, poll says HUP.
 * That also happens when the process dies, or another thread executes a program. The engine looks
 * whether it lives; of one that died since, the ring tells. Written backward, it holds the newest
 * records: the kernel takes the events off right behind the exec's, before the new program maps
 * anything.
 */
#include "backends/perf/guard.h"

#include "backends/perf/group.h"
#include "backends/perf/watch.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdlib.h>

struct guard {
    int fd;
    struct watch *watch;
};

int perf_guard_adopt(struct backend_state *state, int fd, uint64_t tag, struct guard **out)
{
    struct guard *guard = malloc(sizeof *guard);
    int rc = -ENOMEM;

    *out = NULL;
    if (!guard)
        return rc;
    guard->fd = fd;
    guard->watch = watch_new(state, &guard->fd, 1, 1, true, state->sink->dropped, tag, &rc);
    if (!guard->watch) {
        free(guard);
        return rc;
    }
    *out = guard;
    return 0;
}

int perf_guard(struct backend_state *state, pid_t pid, uint64_t tag, struct guard **out)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attr,
        .config = PERF_COUNT_SW_DUMMY,
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .comm = 1,
        .comm_exec = 1,
        .mmap = 1,
        .write_backward = 1,
        .watermark = 1,
        .wakeup_watermark = UINT32_MAX,
    };
    int fd = event_open(&attr, pid, -1, -1, 0), rc;

    *out = NULL;
    if (fd < 0)
        return fd;
    rc = perf_guard_adopt(state, fd, tag, out);
    if (rc)
        event_close(&fd);
    return rc;
}

bool perf_guard_left(const struct guard *guard)
{
    struct pollfd poll_fd = {.fd = guard->fd};

    return poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLHUP) &&
           watch_last_is_exec(guard->watch);
}

int perf_guard_fd(const struct guard *guard)
{
    return guard->fd;
}

void perf_guard_forget(struct guard *guard)
{
    watch_free(guard->watch);
    free(guard);
}

void perf_unguard(struct guard *guard)
{
    if (!guard)
        return;
    int fd = guard->fd;
    perf_guard_forget(guard);
    event_close(&fd);
}
