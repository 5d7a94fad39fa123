/*
 * The loop may still call back after watch_free() (which runs without the engine's lock), so what
 * it is given is a serial, looked up in a list of those alive.
 *
 * A guard's event also ends when the process dies, or another thread executes a program. The engine
 * looks whether it lives; of one that died since, the ring tells. Written backward, it holds the
 * newest records: the kernel takes the events off right behind the exec's, before the new program
 * maps anything.
 */
#include "backends/perf/attach/end_events.h"

#include "backends/perf/attach/group.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

struct watched_fd {
    int fd;
    uintptr_t serial;
    bool alive;
};

struct guard {
    struct backend_state *state;
    struct guard *next;
    void (*tell)(void *ctx, uint64_t tag);
    uint64_t tag;
    void *map;
    size_t bytes;
    unsigned n, left;
    struct watched_fd fds[];
};

static pthread_mutex_t watches_lock = PTHREAD_MUTEX_INITIALIZER;
static struct guard *watches;
static uintptr_t last_serial;

static struct watched_fd *watched_find(uintptr_t serial, struct guard **of)
{
    for (struct guard *watch = watches; watch; watch = watch->next) {
        for (unsigned i = 0; i < watch->n; i++) {
            if (watch->fds[i].serial == serial && watch->fds[i].alive) {
                *of = watch;
                return &watch->fds[i];
            }
        }
    }
    return NULL;
}

static void watch_hup(void *arg, uint32_t events)
{
    struct guard *watch = NULL;
    struct watched_fd *one;
    void (*tell)(void *ctx, uint64_t tag) = NULL;
    void *ctx = NULL;
    uint64_t tag = 0;

    if (!(events & (EPOLLHUP | EPOLLERR)))
        return;
    pthread_mutex_lock(&watches_lock);
    one = watched_find((uintptr_t)arg, &watch);
    if (one) {
        one->alive = false;
        watch->state->loop->unwatch(watch->state->loop->ctx, one->fd);
        if (--watch->left == 0) {
            tell = watch->tell;
            ctx = watch->state->sink->ctx;
            tag = watch->tag;
        }
    }
    pthread_mutex_unlock(&watches_lock);
    if (tell)
        tell(ctx, tag);
}

/* One ring for all: without a ring poll says POLLHUP at once, dead or alive. */
static int watch_map(struct guard *watch, bool newest)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    /* Of a ring that may not be written the kernel overwrites the oldest records. */
    int rights = newest ? PROT_READ : PROT_READ | PROT_WRITE;
    void *map = mmap(NULL, 2 * page, rights, MAP_SHARED, watch->fds[0].fd, 0);

    if (map == MAP_FAILED)
        return -errno;
    watch->map = map;
    watch->bytes = 2 * page;
    for (unsigned i = 1; i < watch->n; i++)
        if (ioctl(watch->fds[i].fd, PERF_EVENT_IOC_SET_OUTPUT, (long)watch->fds[0].fd))
            return -errno;
    return 0;
}

static int watch_arm(struct guard *watch)
{
    const struct loop *loop = watch->state->loop;

    for (unsigned i = 0; i < watch->n; i++) {
        int rc = loop->watch(loop->ctx, watch->fds[i].fd, EPOLLHUP, watch_hup,
                             (void *)watch->fds[i].serial);

        if (rc) {
            while (i-- > 0)
                loop->unwatch(loop->ctx, watch->fds[i].fd);
            return rc;
        }
    }
    return 0;
}

static void watch_unlist(struct guard *watch)
{
    pthread_mutex_lock(&watches_lock);
    for (struct guard **at = &watches; *at; at = &(*at)->next) {
        if (*at == watch) {
            *at = watch->next;
            break;
        }
    }
    pthread_mutex_unlock(&watches_lock);
}

static void watch_drop(struct guard *watch)
{
    if (watch->map)
        munmap(watch->map, watch->bytes);
    free(watch);
}

static struct guard *any_new(struct backend_state *state, const int *fds, unsigned stride,
                             unsigned n, bool newest, uint64_t tag, int *rc)
{
    struct guard *watch = calloc(1, sizeof *watch + n * sizeof watch->fds[0]);

    *rc = watch ? 0 : -ENOMEM;
    if (!watch)
        return NULL;
    watch->state = state;
    watch->tell = newest ? state->sink->dropped : state->sink->gone;
    watch->tag = tag;
    for (unsigned i = 0; i < n; i++)
        if (fds[(size_t)i * stride] >= 0)
            watch->fds[watch->n++] =
                (struct watched_fd){.fd = fds[(size_t)i * stride], .alive = true};
    watch->left = watch->n;
    *rc = watch->n ? watch_map(watch, newest) : -ENOENT;
    if (*rc) {
        watch_drop(watch);
        return NULL;
    }
    pthread_mutex_lock(&watches_lock);
    for (unsigned i = 0; i < watch->n; i++)
        watch->fds[i].serial = ++last_serial;
    watch->next = watches;
    watches = watch;
    pthread_mutex_unlock(&watches_lock);
    *rc = watch_arm(watch);
    if (!*rc)
        return watch;
    watch_unlist(watch);
    watch_drop(watch);
    return NULL;
}

struct guard *watch_new(struct backend_state *state, const int *fds, unsigned stride, unsigned n,
                        uint64_t tag, int *rc)
{
    return any_new(state, fds, stride, n, false, tag, rc);
}

static const struct perf_event_header *record_at(const struct guard *watch, uint64_t at)
{
    const struct perf_event_mmap_page *page = watch->map;

    return (const void *)((const char *)watch->map + page->data_offset +
                          (at & (page->data_size - 1)));
}

/* Is an exec the last that was written, but for an EXIT? */
static bool last_is_exec(const struct guard *watch)
{
    const struct perf_event_mmap_page *page = watch->map;
    const uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
    const struct perf_event_header *record = record_at(watch, head);

    if (record->type == PERF_RECORD_EXIT)
        record = record_at(watch, head + record->size);
    return record->type == PERF_RECORD_COMM && (record->misc & PERF_RECORD_MISC_COMM_EXEC);
}

void watch_free(struct guard *watch)
{
    if (!watch)
        return;
    watch_unlist(watch);
    for (unsigned i = 0; i < watch->n; i++)
        if (watch->fds[i].alive)
            watch->state->loop->unwatch(watch->state->loop->ctx, watch->fds[i].fd);
    watch_drop(watch);
}

/* ---- guards ---- */

int perf_guard_adopt(struct backend_state *state, int fd, uint64_t tag, struct guard **out)
{
    int rc;

    *out = any_new(state, &fd, 1, 1, true, tag, &rc);
    return rc;
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
    struct pollfd poll_fd = {.fd = perf_guard_fd(guard)};

    return poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLHUP) && last_is_exec(guard);
}

int perf_guard_fd(const struct guard *guard)
{
    return guard->fds[0].fd;
}

void perf_guard_forget(struct guard *guard)
{
    watch_free(guard);
}

void perf_unguard(struct guard *guard)
{
    int fd = guard ? perf_guard_fd(guard) : -1;

    watch_free(guard);
    event_close(&fd);
}
