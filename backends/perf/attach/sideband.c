/*
 * The rings of FORK, EXIT and COMM(exec) records, one per online CPU. Two locks: setup (opening and
 * closing, system calls) is taken before lock (rings and listeners, memory only).
 */
#include "backends/perf/attach/sideband.h"

#include "backends/perf/attach/group.h"
#include "core/vec.h"

#include <assert.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    RING_PAGES_MOST = 16,
    RING_PAGES_LEAST = 1,
    RECORD_BYTES_MAX = 256
};

struct side_ring {
    unsigned cpu;
    int fd;
    bool watched;
    struct perf_event_mmap_page *page;
    size_t bytes; /* of the whole mapping */
};

struct sideband {
    struct backend_state *state;
    pthread_mutex_t setup;
    pthread_mutex_t lock;
    struct side_listener *listeners;
    struct side_ring *rings;
    size_t n_rings;
    VEC(struct side_record) batch;
    bool lost;
};

struct sideband *sideband_new(struct backend_state *state)
{
    struct sideband *sideband = calloc(1, sizeof *sideband);

    if (!sideband)
        return NULL;
    sideband->state = state;
    pthread_mutex_init(&sideband->setup, NULL);
    pthread_mutex_init(&sideband->lock, NULL);
    return sideband;
}

void sideband_free(struct sideband *sideband)
{
    if (!sideband)
        return;
    assert(!sideband->listeners && !sideband->n_rings);
    free(sideband->batch.items);
    pthread_mutex_destroy(&sideband->setup);
    pthread_mutex_destroy(&sideband->lock);
    free(sideband);
}

void sideband_lock(struct sideband *sideband)
{
    pthread_mutex_lock(&sideband->lock);
}

void sideband_unlock(struct sideband *sideband)
{
    pthread_mutex_unlock(&sideband->lock);
}

static struct perf_event_attr side_attr(size_t ring_bytes)
{
    return (struct perf_event_attr){
        .size = sizeof(struct perf_event_attr),
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_DUMMY,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
        .sample_id_all = 1,
        .task = 1,
        .comm = 1,
        .comm_exec = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .watermark = 1,
        .wakeup_watermark = (uint32_t)(ring_bytes / 4),
    };
}

/* Smaller rings are tried when locked memory is short. */
static int ring_open(struct side_ring *ring, unsigned cpu)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int rc = -ENOMEM;

    for (size_t pages = RING_PAGES_MOST; pages >= RING_PAGES_LEAST; pages /= 4) {
        struct perf_event_attr attr = side_attr(pages * page);
        int fd = event_open(&attr, -1, (int)cpu, -1, 0);

        if (fd < 0)
            return fd;
        void *map = mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map != MAP_FAILED) {
            *ring =
                (struct side_ring){.cpu = cpu, .fd = fd, .page = map, .bytes = (pages + 1) * page};
            return 0;
        }
        rc = -errno;
        close(fd);
    }
    return rc;
}

static void ring_close(struct side_ring *ring, const struct loop *loop)
{
    if (ring->watched)
        loop->unwatch(loop->ctx, ring->fd);
    munmap(ring->page, ring->bytes);
    close(ring->fd);
}

struct raw_record {
    struct perf_event_header header;
    uint32_t word[(RECORD_BYTES_MAX - sizeof(struct perf_event_header)) / 4];
};

static void record_take(struct sideband *sideband, const struct raw_record *raw)
{
    struct side_record record = {.type = SIDE_FORK};

    switch (raw->header.type) {
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        record.type = raw->header.type == PERF_RECORD_FORK ? SIDE_FORK : SIDE_EXIT;
        record.pid = (pid_t)raw->word[0];
        record.ppid = (pid_t)raw->word[1];
        record.tid = (pid_t)raw->word[2];
        record.ptid = (pid_t)raw->word[3];
        break;
    case PERF_RECORD_COMM:
        if (!(raw->header.misc & PERF_RECORD_MISC_COMM_EXEC))
            return;
        record.type = SIDE_EXEC;
        record.pid = (pid_t)raw->word[0];
        record.tid = (pid_t)raw->word[1];
        break;
    case PERF_RECORD_LOST:
        sideband->lost = true;
        return;
    default:
        return;
    }
    /* sample_id_all with TID and TIME: the time is what a record ends with. */
    memcpy(&record.time_ns, (const char *)raw + raw->header.size - 8, 8);
    if (vec_push(&sideband->batch, record))
        sideband->lost = true;
}

static void ring_copy(void *to, const struct side_ring *ring, uint64_t at, size_t len)
{
    const char *data = (const char *)ring->page + ring->page->data_offset;
    size_t size = ring->page->data_size, from = at & (size - 1);
    size_t first = size - from < len ? size - from : len;

    memcpy(to, data + from, first);
    memcpy((char *)to + first, data, len - first);
}

static void ring_drain(struct sideband *sideband, struct side_ring *ring)
{
    uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
    uint64_t tail = ring->page->data_tail;

    if (head == tail)
        return;
    while (tail < head) {
        struct raw_record raw;

        ring_copy(&raw.header, ring, tail, sizeof raw.header);
        if (raw.header.size < sizeof raw.header) {
            sideband->lost = true;
            tail = head;
            break;
        }
        if (raw.header.size <= sizeof raw && raw.header.size >= 24) {
            ring_copy(&raw, ring, tail, raw.header.size);
            record_take(sideband, &raw);
        }
        tail += raw.header.size;
    }
    __atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
}

int side_by_time(const void *a, const void *b)
{
    const struct side_record *x = a, *y = b;

    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static void drain_locked(struct sideband *sideband)
{
    for (size_t i = 0; i < sideband->n_rings; i++)
        ring_drain(sideband, &sideband->rings[i]);
    if (!sideband->batch.n && !sideband->lost)
        return;
    if (sideband->batch.n)
        qsort(sideband->batch.items, sideband->batch.n, sizeof *sideband->batch.items,
              side_by_time);
    for (struct side_listener *l = sideband->listeners; l; l = l->next)
        l->take(l->arg, sideband->batch.items, sideband->batch.n, sideband->lost);
    sideband->batch.n = 0;
    sideband->lost = false;
}

void sideband_drain(struct sideband *sideband)
{
    sideband_sync(sideband, NULL, NULL);
}

void sideband_sync(struct sideband *sideband, void (*fn)(void *arg), void *arg)
{
    sideband_lock(sideband);
    drain_locked(sideband);
    if (fn)
        fn(arg);
    sideband_unlock(sideband);
}

static void ring_readable(void *arg, uint32_t events)
{
    (void)events;
    sideband_drain(arg);
}

static void rings_close(struct sideband *sideband)
{
    struct side_ring *rings;
    size_t n;

    sideband_lock(sideband);
    rings = sideband->rings;
    n = sideband->n_rings;
    sideband->rings = NULL;
    sideband->n_rings = 0;
    sideband_unlock(sideband);
    for (size_t i = 0; i < n; i++)
        ring_close(&rings[i], sideband->state->loop);
    free(rings);
}

/* With setup held. A CPU that goes offline meanwhile is no reason to fail. */
static int rings_open(struct sideband *sideband)
{
    const struct backend_state *state = sideband->state;
    struct side_ring *rings;
    struct cpus online;
    size_t n = 0;
    int rc = 0;

    cpus_init(&online);
    state->host->cpus_online(state->host_state, &online);
    rings = calloc(cpus_count(&online) + 1, sizeof *rings);
    if (!rings)
        rc = -ENOMEM;
    for (int cpu = cpus_next(&online, 0); !rc && cpu >= 0; cpu = cpus_next(&online, cpu + 1)) {
        rc = ring_open(&rings[n], (unsigned)cpu);
        if (!rc)
            n++;
        else if (rc == -ENODEV)
            rc = 0;
    }
    cpus_free(&online);
    if (!rc && !n)
        rc = -ENODEV;
    sideband_lock(sideband);
    sideband->rings = rings;
    sideband->n_rings = n;
    sideband_unlock(sideband);
    if (rc)
        rings_close(sideband);
    return rc;
}

/* With setup held: a failed watch means draining only when somebody asks; a loss is told then. */
static void rings_watch(struct sideband *sideband)
{
    const struct loop *loop = sideband->state->loop;

    for (size_t i = 0; i < sideband->n_rings; i++) {
        struct side_ring *ring = &sideband->rings[i];

        if (!ring->watched)
            ring->watched = !loop->watch(loop->ctx, ring->fd, EPOLLIN, ring_readable, sideband);
    }
}

int sideband_listen(struct sideband *sideband, struct side_listener *listener)
{
    int rc = 0;

    pthread_mutex_lock(&sideband->setup);
    if (!sideband->n_rings)
        rc = rings_open(sideband);
    if (!rc) {
        sideband_lock(sideband);
        drain_locked(sideband);
        listener->next = sideband->listeners;
        sideband->listeners = listener;
        sideband_unlock(sideband);
        if (listener->watched)
            rings_watch(sideband);
    }
    pthread_mutex_unlock(&sideband->setup);
    return rc;
}

void sideband_ignore(struct sideband *sideband, struct side_listener *listener)
{
    bool last;

    pthread_mutex_lock(&sideband->setup);
    sideband_lock(sideband);
    for (struct side_listener **at = &sideband->listeners; *at; at = &(*at)->next) {
        if (*at == listener) {
            *at = listener->next;
            break;
        }
    }
    last = !sideband->listeners;
    sideband_unlock(sideband);
    if (last)
        rings_close(sideband);
    pthread_mutex_unlock(&sideband->setup);
}

/* An event whose CPU went offline is dead for good, so the ring is made anew. */
void sideband_cpu(struct sideband *sideband, unsigned cpu, bool online)
{
    struct side_ring ring, old = {.fd = -1};
    struct side_ring *bigger;

    pthread_mutex_lock(&sideband->setup);
    if (!online || !sideband->n_rings || ring_open(&ring, cpu)) {
        pthread_mutex_unlock(&sideband->setup);
        return;
    }
    sideband_lock(sideband);
    drain_locked(sideband);
    size_t i = 0;
    while (i < sideband->n_rings && sideband->rings[i].cpu != cpu)
        i++;
    if (i < sideband->n_rings) {
        old = sideband->rings[i];
        sideband->rings[i] = ring;
    } else if ((bigger = realloc(sideband->rings, (i + 1) * sizeof *bigger))) {
        sideband->rings = bigger;
        sideband->rings[i] = ring;
        sideband->n_rings++;
    } else {
        old = ring;
    }
    sideband->lost = true;
    drain_locked(sideband);
    bool watched = false;
    for (struct side_listener *l = sideband->listeners; l; l = l->next)
        watched |= l->watched;
    sideband_unlock(sideband);
    if (old.fd >= 0)
        ring_close(&old, sideband->state->loop);
    if (watched)
        rings_watch(sideband);
    pthread_mutex_unlock(&sideband->setup);
}
