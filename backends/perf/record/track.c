/*
 * Switching what tells of every CPU.
 */
#include "backends/perf/record/track.h"

#include "backends/perf/probe/open.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>

static int ring_teller(const struct ring *ring)
{
    return ring->stand_in >= 0 ? ring->stand_in : ring->fd;
}

/* -1: its CPU went again. */
static int stand_in_open(const struct recorder *recorder, const struct ring *ring)
{
    int fd = ring_event(recorder, ring->cpu);

    if (fd >= 0 && recorder_redirect(recorder, fd, ring->cpu))
        event_close(&fd);
    return fd < 0 ? -1 : fd;
}

/* No other event writes with this id, so it need not be known before. */
static int ring_track(struct recorder *recorder, struct ring *ring)
{
    struct id id = {.origin = &recorder->everywhere, .cpu = ring->cpu, .kind = ID_EVENT};
    int rc;

    if (ioctl(ring_teller(ring), PERF_EVENT_IOC_ID, &id.kernel))
        return -errno;
    pthread_mutex_lock(&recorder->lock);
    rc = recorder_add_id(recorder, &id);
    pthread_mutex_unlock(&recorder->lock);
    if (!rc && ioctl(ring_teller(ring), PERF_EVENT_IOC_ENABLE, 0))
        rc = -errno;
    return rc;
}

static void rings_untrack(const struct recorder *recorder)
{
    for (unsigned i = 0; i < recorder->n_rings; i++)
        ioctl(ring_teller(&recorder->rings[i]), PERF_EVENT_IOC_DISABLE, 0);
}

/* What they tell is told as of the set that runs. */
static int rings_track(struct recorder *recorder, uint64_t set)
{
    int rc = 0;

    pthread_mutex_lock(&recorder->lock);
    recorder->everywhere.set = set;
    pthread_mutex_unlock(&recorder->lock);
    for (unsigned i = 0; i < recorder->n_rings && !rc; i++)
        rc = ring_track(recorder, &recorder->rings[i]);
    if (rc)
        rings_untrack(recorder);
    return rc;
}

int track_begin(struct recorder *recorder, uint64_t set)
{
    int rc = recorder->n_tracks ? 0 : rings_track(recorder, set);

    recorder->n_tracks += !rc;
    return rc;
}

void track_forget(struct recorder *recorder)
{
    recorder->n_tracks--;
}

void track_end(struct recorder *recorder)
{
    track_forget(recorder);
    if (!recorder->n_tracks)
        rings_untrack(recorder);
}

void track_cpu(struct recorder *recorder, struct ring *ring, bool back)
{
    const bool had = ring->stand_in >= 0;

    if (back) {
        event_close(&ring->stand_in);
        ring->stand_in = stand_in_open(recorder, ring);
        __atomic_add_fetch(&recorder->n_stand_ins, (unsigned)((ring->stand_in >= 0) - had),
                           __ATOMIC_RELAXED);
    }
    if (recorder->n_tracks)
        ring_track(recorder, ring);
}
