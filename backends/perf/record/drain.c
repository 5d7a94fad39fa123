/*
 * Taking records out of all rings of a recorder in order of time.
 *
 * A record of a loss is written only when a later record fits. When a ring was so full that one may
 * be due, and nothing came since, a clock on that CPU is made to write one record.
 */
#include "backends/perf/record/drain.h"

#include "backends/perf/probe/open.h"
#include "backends/perf/record/sampling.h"

#include "core/base/clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    YOUNG_NS = 10000000, /* what another CPU wrote earlier may still be on its way */
    /* In a ring that fills up faster than that: longer than any record is on its way. */
    HASTY_NS = 200000,
    TELL_BYTES = 16384,         /* the kernel is told of free room in such steps */
    CLOCK_NS = 10000,           /* the shortest period of a clock */
    CLOCK_SPIN_NS = 100000,     /* nearly always enough; then without the CPU, which it may need */
    CLOCK_WAIT_NS = 1000000000, /* a virtual CPU can be away for long */
    CLOCK_WAIT_US = 100
};

/* ---- one ring ---- */

static void ring_look(struct ring *ring)
{
    const struct record *head;

    if (ring->tail >= ring->head)
        return;
    head = (const void *)(ring->data + (ring->tail & (ring->size - 1)));
    if (head->size < sizeof *head || head->size % 8 || head->size > ring->head - ring->tail) {
        ring->tail = ring->head; /* not the kernel's writing: nothing more can be read there */
        return;
    }
    ring->next_ns = kernel_record_time(ring, ring->tail);
}

static void ring_begin(struct ring *ring)
{
    ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
    if (ring->head > ring->doubt_head)
        ring->doubt = false;
    ring_look(ring);
}

/* All that was taken may be written over. */
static void ring_tell(const struct recorder *recorder, struct ring *ring)
{
    uint64_t head;

    if (ring->tail == ring->told)
        return;
    if (ring->taken) {
        __atomic_store_n(&ring->taken->before, ring->taken->count, __ATOMIC_RELEASE);
        __atomic_store_n(&ring->taken->position, ring->tail, __ATOMIC_RELEASE);
        __atomic_store_n(&ring->taken->count, ring->n, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_SEQ_CST);
    /* looked at before, it could get full, and lose, in between */
    head = __atomic_load_n(&ring->page->data_head, __ATOMIC_SEQ_CST);
    if (head - ring->told + recorder->largest > ring->size) {
        ring->doubt = true;
        ring->doubt_head = head;
    }
    ring->told = ring->tail;
}

/* One that tells of a loss stands for those that were lost. */
static uint64_t records_of(const struct perf_event_header *record)
{
    const uint64_t *body = (const uint64_t *)(record + 1);

    return record->type == PERF_RECORD_LOST && record->size >= 24 ? body[1] : 1;
}

static void ring_take(struct recorder *recorder, struct ring *ring, const struct intake *intake)
{
    uint64_t at = ring->tail & (ring->size - 1);
    const struct record *record = (const void *)(ring->data + at);
    size_t size = record->size, first = ring->size - at < size ? ring->size - at : size;

    memcpy(recorder->scratch, record, first);
    memcpy(recorder->scratch + first, ring->data, size - first);
    ring->tail += size;
    ring->n += records_of((const void *)recorder->scratch);
    kernel_record_take(recorder, (void *)recorder->scratch, intake);
    if (ring->tail - ring->told >= TELL_BYTES)
        ring_tell(recorder, ring);
    ring_look(ring);
}

/* ---- all rings ---- */

static void rings_begin(struct recorder *recorder)
{
    for (unsigned i = 0; i < recorder->n_rings; i++)
        ring_begin(&recorder->rings[i]);
}

static bool some_ring_is_half_full(const struct recorder *recorder)
{
    for (unsigned i = 0; i < recorder->n_rings; i++)
        if (recorder->rings[i].head - recorder->rings[i].tail > recorder->rings[i].size / 2)
            return true;
    return false;
}

/* The ring with the oldest next record; *next_ns: the oldest of the others. */
static struct ring *oldest_ring(const struct recorder *recorder, uint64_t *next_ns)
{
    struct ring *oldest = NULL;

    *next_ns = UINT64_MAX;
    for (unsigned i = 0; i < recorder->n_rings; i++) {
        struct ring *ring = &recorder->rings[i];

        if (ring->tail >= ring->head)
            continue;
        if (!oldest || ring->next_ns < oldest->next_ns) {
            if (oldest)
                *next_ns = oldest->next_ns;
            oldest = ring;
        } else if (ring->next_ns < *next_ns) {
            *next_ns = ring->next_ns;
        }
    }
    return oldest;
}

static void rings_tell(struct recorder *recorder)
{
    for (unsigned i = 0; i < recorder->n_rings; i++)
        ring_tell(recorder, &recorder->rings[i]);
}

/* What was there at rings_begin() and is not younger than until_ns. */
static void rings_take(struct recorder *recorder, uint64_t until_ns, const struct intake *intake)
{
    struct ring *ring;
    uint64_t next_ns;

    recorder->taking = true;
    while ((ring = oldest_ring(recorder, &next_ns)) && ring->next_ns <= until_ns) {
        uint64_t limit = next_ns < until_ns ? next_ns : until_ns;

        do
            ring_take(recorder, ring, intake);
        while (ring->tail < ring->head && ring->next_ns <= limit);
    }
    rings_tell(recorder);
    recorder->taking = false;
}

uint64_t perf_taken(struct recorder *recorder)
{
    uint64_t n = 0;

    if (recorder->taking)
        rings_tell(recorder);
    for (unsigned i = 0; i < recorder->n_rings; i++)
        n += recorder->rings[i].n;
    return n;
}

/* ---- losses that are due ---- */

/* A clock on that CPU that writes one record into the ring. */
static int clock_open(const struct ring *ring)
{
    struct perf_event_attr attr;
    int fd;

    sampling_ring_attr(&attr, ring->size);
    attr.config = PERF_COUNT_SW_CPU_CLOCK;
    attr.exclude_kernel = attr.exclude_hv = 0;
    attr.sample_period = CLOCK_NS;
    fd = event_open(&attr, -1, (int)ring->cpu, -1, 0);
    if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, (long)ring->fd))
        event_close(&fd);
    return fd;
}

/* True: something was written since. */
static bool ring_await(const struct ring *ring)
{
    uint64_t begin = monotonic_ns(), now = begin;

    while (__atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE) == ring->doubt_head) {
        now = monotonic_ns();
        if (now > begin + CLOCK_WAIT_NS)
            return false;
        if (now > begin + CLOCK_SPIN_NS)
            usleep(CLOCK_WAIT_US);
    }
    return true;
}

static bool ring_provoke(struct ring *ring)
{
    bool wrote = false;
    int fd = clock_open(ring);

    if (fd < 0)
        return false;
    if (ioctl(fd, PERF_EVENT_IOC_ID, &ring->clock_id))
        ring->clock_id = 0;
    if (!ioctl(fd, PERF_EVENT_IOC_REFRESH, 1))
        wrote = ring_await(ring);
    ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
    event_close(&fd);
    return wrote;
}

static bool rings_provoke(struct recorder *recorder)
{
    bool any = false;

    for (unsigned i = 0; i < recorder->n_rings; i++) {
        struct ring *ring = &recorder->rings[i];

        if (ring->doubt &&
            __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE) == ring->doubt_head)
            any |= ring_provoke(ring);
    }
    return any;
}

void recorder_take(struct recorder *recorder, const struct intake *intake)
{
    rings_begin(recorder);
    rings_take(recorder, UINT64_MAX, intake);
}

int perf_drain(struct recorder *recorder, bool all, const struct intake *intake)
{
    uint64_t now = monotonic_ns(), until = now;

    pthread_mutex_lock(&recorder->lock);
    if (all) {
        recorder_take(recorder, intake);
        if (rings_provoke(recorder))
            recorder_take(recorder, intake);
    } else {
        rings_begin(recorder);
        until -= some_ring_is_half_full(recorder) ? HASTY_NS : YOUNG_NS;
        rings_take(recorder, until, intake);
    }
    recorder_purge(recorder, until);
    pthread_mutex_unlock(&recorder->lock);
    return 0;
}
