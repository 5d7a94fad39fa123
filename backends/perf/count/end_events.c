/*
 * Exit watches and exec guards (counter.h). The loop may be calling guard_hup() while guard_free()
 * runs (without the engine's lock), so each watched descriptor holds a reference.
 *
 * The event of an exec guard also gets POLLHUP when its thread exits or another thread executes a
 * program. The engine checks if the target lives; if it has exited since, the ring shows the cause.
 * The ring is written backward, so it has the newest records. The kernel detaches the events right
 * after the COMM record of the exec, before the new program maps anything, so that record is last.
 */
#include "backends/perf/count/counter.h"

#include "backends/perf/probe/open.h"
#include "backends/perf/record/sampling.h"
#include "backends/proc.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

struct guard {
    struct backend_state *state;
    uint64_t tag;
    LIST_ENTRY(guard) late; /* in state->late_guards; le_prev NULL: not in it */
    bool is_exec_guard;     /* else an exit watch */
    void *map;
    size_t bytes;
    unsigned refs, open; /* atomic; open: descriptors without POLLHUP yet */
    unsigned n;
    int fds[];
};

static void guard_unref(struct guard *guard)
{
    if (__atomic_sub_fetch(&guard->refs, 1, __ATOMIC_ACQ_REL) == 0)
        free(guard);
}

static void guard_hup(void *arg, uint64_t tag)
{
    struct guard *guard = arg;
    const struct sink *sink = guard->state->sink;

    if (__atomic_sub_fetch(&guard->open, 1, __ATOMIC_ACQ_REL) == 0)
        (guard->is_exec_guard ? sink->guard_fired : sink->counter_gone)(sink->ctx, tag);
    guard_unref(guard);
}

/*
 * Maps one ring for all descriptors (poll() reports POLLHUP at once for an event without a ring),
 * and starts to watch them. Returns 0 or -errno.
 */
static int guard_listen(struct guard *guard)
{
    const struct loop *loop = guard->state->loop;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    /* In a ring that is mapped read-only the kernel overwrites the oldest records. */
    int rights = guard->is_exec_guard ? PROT_READ : PROT_READ | PROT_WRITE;
    void *map = mmap(NULL, 2 * page, rights, MAP_SHARED, guard->fds[0], 0);

    if (map == MAP_FAILED)
        return -errno;
    guard->bytes = 2 * page;
    __atomic_store_n(&guard->map, map, __ATOMIC_RELEASE); /* perf_guard_lost_events() may read it */
    for (unsigned i = 1; i < guard->n; i++)
        if (ioctl(guard->fds[i], PERF_EVENT_IOC_SET_OUTPUT, (long)guard->fds[0]))
            return -errno;

    int rc = 0;
    guard->open = guard->n;
    for (unsigned i = 0; i < guard->n && !rc; i++) {
        __atomic_add_fetch(&guard->refs, 1, __ATOMIC_RELAXED);
        rc = loop->watch(loop->ctx, guard->fds[i], EPOLLHUP, guard_hup, guard, guard->tag);
        if (rc)
            guard_unref(guard);
    }
    return rc;
}

int guard_new(struct backend_state *state, const int *fds, unsigned stride, unsigned n,
              bool is_exec_guard, uint64_t tag, bool late, struct guard **out)
{
    struct guard *guard = calloc(1, sizeof *guard + n * sizeof guard->fds[0]);

    *out = NULL;
    if (!guard)
        return -ENOMEM;
    guard->state = state;
    guard->tag = tag;
    guard->is_exec_guard = is_exec_guard;
    guard->refs = 1;
    for (unsigned i = 0; i < n; i++)
        if (fds[(size_t)i * stride] >= 0)
            guard->fds[guard->n++] = fds[(size_t)i * stride];
    int rc = !guard->n ? -ENOENT : late ? 0 : guard_listen(guard);
    if (!rc && late) {
        pthread_mutex_lock(&state->setup);
        LIST_INSERT_HEAD(&state->late_guards, guard, late);
        pthread_mutex_unlock(&state->setup);
    }
    if (rc)
        guard_free(guard);
    else
        *out = guard;
    return rc;
}

/* Errors are ignored: the engine has other checks for processes. */
void guards_listen(struct backend_state *state)
{
    struct guard *guard;

    pthread_mutex_lock(&state->setup);
    while ((guard = LIST_FIRST(&state->late_guards))) {
        LIST_REMOVE(guard, late);
        guard->late.le_prev = NULL;
        guard_listen(guard);
    }
    pthread_mutex_unlock(&state->setup);
}

void guard_free(struct guard *guard)
{
    const struct loop *loop = guard ? guard->state->loop : NULL;

    if (!guard)
        return;
    pthread_mutex_lock(&guard->state->setup);
    if (guard->late.le_prev)
        LIST_REMOVE(guard, late);
    pthread_mutex_unlock(&guard->state->setup);
    for (unsigned i = 0; i < guard->n; i++)
        if (loop->unwatch(loop->ctx, guard->fds[i]))
            guard_unref(guard);
    if (guard->map)
        munmap(guard->map, guard->bytes);
    guard_unref(guard);
}

/* Returns the record at this offset of the ring. */
static const struct perf_event_header *guard_record(const struct guard *guard, uint64_t at)
{
    const struct perf_event_mmap_page *page = guard->map;

    return (const void *)((const char *)guard->map + page->data_offset +
                          (at & (page->data_size - 1)));
}

/* ---- exec guards ---- */

int perf_guard_adopt(struct backend_state *state, int fd, uint64_t tag, struct guard **out)
{
    return guard_new(state, &fd, 1, 1, true, tag, true, out);
}

int perf_guard(struct backend_state *state, pid_t tid, uint64_t tag, struct guard **out)
{
    struct perf_event_attr attr;
    pid_t *tids = NULL;
    size_t n = 0;

    sampling_dummy_attr(&attr);
    attr.disabled = 0;
    attr.comm = 1;
    attr.comm_exec = 1;
    attr.mmap = 1;
    attr.write_backward = 1;
    attr.watermark = 1;
    attr.wakeup_watermark = UINT32_MAX;
    int fd = event_open(&attr, tid, -1, -1, 0);
    /* If the first thread has exited, any other one does: an exec ends all other threads. */
    if (fd == -ESRCH && proc_threads(tid, &tids, &n) == 0)
        for (size_t i = 0; i < n && fd == -ESRCH; i++)
            fd = event_open(&attr, tids[i], -1, -1, 0);
    free(tids);
    *out = NULL;
    if (fd < 0)
        return fd;
    int rc = guard_new(state, &fd, 1, 1, true, tag, false, out);
    if (rc)
        event_close(&fd);
    return rc;
}

/* If an exec detached the events, the newest record is that exec, or an EXIT record after it. */
bool perf_guard_lost_events(const struct guard *guard)
{
    const struct perf_event_mmap_page *page = __atomic_load_n(&guard->map, __ATOMIC_ACQUIRE);
    struct pollfd poll_fd = {.fd = perf_guard_fd(guard)};

    if (!page || poll(&poll_fd, 1, 0) != 1 || !(poll_fd.revents & POLLHUP))
        return false;
    const uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
    const struct perf_event_header *record = guard_record(guard, head);
    if (record->type == PERF_RECORD_EXIT)
        record = guard_record(guard, head + record->size);
    return record->type == PERF_RECORD_COMM && (record->misc & PERF_RECORD_MISC_COMM_EXEC);
}

int perf_guard_fd(const struct guard *guard)
{
    return guard->fds[0];
}

void perf_unguard(struct guard *guard)
{
    int fd = guard ? perf_guard_fd(guard) : -1;

    guard_free(guard);
    event_close(&fd);
}
