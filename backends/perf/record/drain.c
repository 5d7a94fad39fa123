/*
 * Takes records out of all rings of a recorder in order of time.
 *
 * The kernel writes a LOST record only together with the next record that fits. If a ring was so
 * full that records may be lost, and no record came since, a drain of all records opens a clock
 * event on that CPU that writes one sample.
 */
#include "backends/perf/record/recorder.h"

#include "backends/perf/probe/open.h"
#include "backends/perf/record/sampling.h"

#include "core/base/clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    YOUNG_NS = 10000000,   /* younger records stay: another CPU may still be writing earlier ones */
    HASTY_NS = 200000,     /* used instead of YOUNG_NS if a ring is more than half full */
    RELEASE_BYTES = 16384, /* bytes taken before data_tail is set */
    CLOCK_NS = 10000,      /* the shortest period of a clock event */
    CLOCK_SPIN_NS = 100000, /* nearly always enough; then sleeps, as the clock may need the CPU */
    CLOCK_WAIT_NS = 1000000000, /* long, because a virtual CPU can be paused */
    CLOCK_WAIT_US = 100
};

/* ---- one ring ---- */

/* Sets next_ns, the time of the oldest unread record of the ring, if there is one. */
static void ring_set_next_ns(struct ring *ring)
{
    if (ring->tail >= ring->head)
        return;
    const struct record *head = (const void *)(ring->data + (ring->tail & (ring->size - 1)));
    if (head->size < sizeof *head || head->size % 8 || head->size > ring->head - ring->tail) {
        ring->tail = ring->head; /* not a record of the kernel: skip all the rest */
        return;
    }
    ring->next_ns = kernel_record_time(ring, ring->tail);
}

/* Lets the kernel overwrite the records that were taken. Stores their number for the next worker,
 * and notes if records may have been lost before. */
static void ring_release(const struct recorder *recorder, struct ring *ring)
{
    if (ring->tail == ring->released)
        return;
    if (ring->taken) {
        __atomic_store_n(&ring->taken->before, ring->taken->count, __ATOMIC_RELEASE);
        __atomic_store_n(&ring->taken->position, ring->tail, __ATOMIC_RELEASE);
        __atomic_store_n(&ring->taken->count, ring->n_taken, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_SEQ_CST);
    /* Read after the store: the ring could fill up and lose records between them. */
    uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_SEQ_CST);
    if (head - ring->released + recorder->largest_record > ring->size) {
        ring->loss_possible = true;
        ring->loss_head = head;
    }
    ring->released = ring->tail;
}

/* Passes the next record, which counts as taken only afterwards: see commit_taken() in struct
 * backend. Needs ring->tail < ring->head. */
static void ring_pass(struct recorder *recorder, struct ring *ring, const struct intake *intake)
{
    uint64_t at = ring->tail & (ring->size - 1), n = 1;
    const struct record *record = (const void *)(ring->data + at);
    size_t size = record->size, first = ring->size - at < size ? ring->size - at : size;

    if (first < size || !kernel_sample_pass(recorder, record, intake)) {
        memcpy(recorder->scratch, record, first);
        memcpy(recorder->scratch + first, ring->data, size - first);
        record = (const void *)recorder->scratch;
        /* A LOST record counts as the records that were lost. */
        if (record->type == PERF_RECORD_LOST && size >= 24)
            n = ((const uint64_t *)(const void *)(record + 1))[1];
        kernel_record_pass(recorder, (void *)recorder->scratch, intake);
    }
    ring->tail += size;
    ring->n_taken += n;
    if (ring->tail - ring->released >= RELEASE_BYTES)
        ring_release(recorder, ring);
    ring_set_next_ns(ring);
}

/* ---- all rings ---- */

static void rings_read_heads(struct recorder *recorder)
{
    for (unsigned i = 0; i < recorder->n_rings; i++) {
        struct ring *ring = &recorder->rings[i];

        ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
        if (ring->head > ring->loss_head)
            ring->loss_possible = false;
        ring_set_next_ns(ring);
    }
}

static void rings_release(struct recorder *recorder)
{
    for (unsigned i = 0; i < recorder->n_rings; i++)
        ring_release(recorder, &recorder->rings[i]);
}

/* Takes the records that rings_read_heads() has seen, up to the time until_ns: all records of the
 * ring with the oldest one, up to the oldest record of the other rings, and so on. */
static void rings_pass(struct recorder *recorder, uint64_t until_ns, const struct intake *intake)
{
    recorder->passing = true;
    for (;;) {
        struct ring *oldest = NULL;
        uint64_t limit = UINT64_MAX;

        for (unsigned i = 0; i < recorder->n_rings; i++) {
            struct ring *ring = &recorder->rings[i];

            if (ring->tail >= ring->head)
                continue;
            if (!oldest || ring->next_ns < oldest->next_ns) {
                if (oldest)
                    limit = oldest->next_ns;
                oldest = ring;
            } else if (ring->next_ns < limit) {
                limit = ring->next_ns;
            }
        }
        if (!oldest || oldest->next_ns > until_ns)
            break;
        if (limit > until_ns)
            limit = until_ns;
        do
            ring_pass(recorder, oldest, intake);
        while (oldest->tail < oldest->head && oldest->next_ns <= limit);
    }
    if (intake->samples_end)
        intake->samples_end(intake->arg);
    rings_release(recorder);
    recorder->passing = false;
}

uint64_t perf_commit_taken(struct recorder *recorder)
{
    uint64_t n = 0;

    if (recorder->passing)
        rings_release(recorder);
    for (unsigned i = 0; i < recorder->n_rings; i++)
        n += recorder->rings[i].n_taken;
    return n;
}

/* ---- losses without a LOST record ---- */

/* Makes the kernel write a record, by a clock event that writes into the ring. loss_head
 * must be the present head. Returns false if the event cannot be opened, or on timeout. */
static bool ring_provoke(struct ring *ring)
{
    const uint64_t begin = monotonic_ns();
    struct perf_event_attr attr;
    bool wrote = false;

    sampling_ring_attr(&attr, ring->size);
    attr.config = PERF_COUNT_SW_CPU_CLOCK;
    attr.exclude_kernel = attr.exclude_hv = 0;
    attr.sample_period = CLOCK_NS;
    int fd = event_open(&attr, -1, (int)ring->cpu, -1, 0);
    if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, (long)ring->fd))
        event_close(&fd);
    if (fd < 0)
        return false;
    if (ioctl(fd, PERF_EVENT_IOC_ID, &ring->clock_id))
        ring->clock_id = 0;
    for (bool waits = !ioctl(fd, PERF_EVENT_IOC_REFRESH, 1); waits && !wrote;) {
        const uint64_t now = monotonic_ns();

        wrote = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE) != ring->loss_head;
        waits = now <= begin + CLOCK_WAIT_NS;
        if (!wrote && now > begin + CLOCK_SPIN_NS)
            usleep(CLOCK_WAIT_US);
    }
    ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
    event_close(&fd);
    return wrote;
}

void recorder_pass(struct recorder *recorder, uint64_t until_ns, const struct intake *intake)
{
    rings_read_heads(recorder);
    rings_pass(recorder, until_ns, intake);
}

uint64_t perf_drain(struct recorder *recorder, bool all, const struct intake *intake)
{
    pthread_mutex_lock(&recorder->lock);
    /* before the heads are read: every ring is read up to this time */
    uint64_t until_ns = monotonic_ns();
    if (all) {
        bool wrote = false;

        recorder_pass(recorder, until_ns, intake);
        for (unsigned i = 0; i < recorder->n_rings; i++) {
            struct ring *ring = &recorder->rings[i];

            if (ring->loss_possible &&
                __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE) == ring->loss_head)
                wrote |= ring_provoke(ring);
        }
        if (wrote) {
            until_ns = monotonic_ns();
            recorder_pass(recorder, until_ns, intake);
        }
    } else {
        uint64_t young = YOUNG_NS;

        rings_read_heads(recorder);
        for (unsigned i = 0; i < recorder->n_rings; i++)
            if (recorder->rings[i].head - recorder->rings[i].tail > recorder->rings[i].size / 2)
                young = HASTY_NS;
        until_ns -= young;
        rings_pass(recorder, until_ns, intake);
    }
    recorder_purge(recorder, until_ns);
    pthread_mutex_unlock(&recorder->lock);
    return until_ns;
}
