/*
 * Opening and closing what tells of every CPU.
 */
#include "backends/perf/record/track.h"

#include "backends/perf/probe/open.h"
#include "backends/perf/record/sampling.h"

#include <errno.h>
#include <linux/perf_event.h>

static void teller_close(struct recorder *recorder, struct ring *ring)
{
    if (ring->teller >= 0)
        __atomic_sub_fetch(&recorder->n_tellers, 1, __ATOMIC_RELAXED);
    event_close(&ring->teller);
}

/* A CPU that is away is no reason to fail. */
static int teller_open(struct recorder *recorder, struct ring *ring)
{
    struct perf_event_attr attr;
    int fd, rc;

    teller_close(recorder, ring);
    sampling_ring_attr(&attr, recorder->ring_bytes);
    sampling_sideband(&attr);
    if (recorder->side)
        attr.mmap = attr.mmap2 = 0;
    attr.disabled = 0;
    fd = event_open(&attr, -1, (int)ring->cpu, -1, 0);
    if (fd < 0)
        return fd == -ENODEV ? 0 : fd;
    rc = recorder_redirect(recorder, fd, ring->cpu);
    if (rc) {
        event_close(&fd);
        return rc;
    }
    ring->teller = fd;
    __atomic_add_fetch(&recorder->n_tellers, 1, __ATOMIC_RELAXED);
    return 0;
}

static void tellers_close(struct recorder *recorder)
{
    for (unsigned i = 0; i < recorder->n_rings; i++)
        teller_close(recorder, &recorder->rings[i]);
}

/* What they tell is told as of the set that runs. */
static int tellers_open(struct recorder *recorder, uint64_t set)
{
    int rc = 0;

    pthread_mutex_lock(&recorder->lock);
    recorder->everywhere.set = set;
    recorder->tracked = true;
    pthread_mutex_unlock(&recorder->lock);
    for (unsigned i = 0; i < recorder->n_rings && !rc; i++)
        rc = teller_open(recorder, &recorder->rings[i]);
    if (rc)
        tellers_close(recorder);
    return rc;
}

int track_begin(struct recorder *recorder, uint64_t set)
{
    int rc = recorder->n_tracks ? 0 : tellers_open(recorder, set);

    recorder->n_tracks += !rc;
    return rc;
}

void track_end(struct recorder *recorder)
{
    if (!--recorder->n_tracks)
        tellers_close(recorder);
}

void track_cpu(struct recorder *recorder, struct ring *ring)
{
    if (recorder->n_tracks)
        teller_open(recorder, ring);
}
