/*
 * The sideband: a recorder of all CPUs for what tasks do (FORK, EXEC, EXIT), open while somebody
 * listens; each record goes to all listeners. The setup lock is held while its rings are opened and
 * closed, its recorder's lock for records and listeners.
 */
#include "backends/perf/record/sideband.h"

#include "backends/perf/record/drain.h"
#include "backends/perf/record/recorder.h"
#include "backends/perf/record/track.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    RING_PAGES = 16
};

struct sideband {
    struct recorder *recorder; /* without rings while it has no listener */
    LIST_HEAD(, side_listener) listeners;
};

static void side_ready(void *arg, uint64_t tag)
{
    const struct backend_state *state = arg;

    (void)tag;
    sideband_enter(state->sideband);
    sideband_leave(state->sideband);
}

struct sideband *sideband_new(struct backend_state *state)
{
    struct sideband *sideband = calloc(1, sizeof *sideband);

    if (sideband)
        sideband->recorder = recorder_make(state, &(struct recorder_plan){.tag = 0});
    if (!sideband || !sideband->recorder) {
        free(sideband);
        return NULL;
    }
    sideband->recorder->side = true;
    sideband->recorder->ready = side_ready;
    return sideband;
}

void sideband_free(struct sideband *sideband)
{
    if (!sideband)
        return;
    assert(LIST_EMPTY(&sideband->listeners) && !sideband->recorder->n_rings);
    perf_recorder_free(sideband->recorder);
    free(sideband);
}

static void side_tell(const struct sideband *sideband, const struct side_record *record)
{
    const struct side_listener *listener;

    LIST_FOREACH (listener, &sideband->listeners, along)
        listener->take(listener->arg, record);
}

static void side_put(void *arg, const struct record *record)
{
    const struct record_comm *comm = (const void *)record;
    struct side_record side = {.head = *record};

    if (record->type == RECORD_FORK || record->type == RECORD_EXIT) {
        memcpy(&side, record, sizeof side);
    } else if (record->type == RECORD_COMM && record->misc & RECORD_EXECUTED) {
        side.pid = comm->pid;
        side.tid = comm->tid;
    } else if (record->type != RECORD_LOST) {
        return;
    }
    side.time_ns = record_time(record);
    side_tell(arg, &side);
}

void sideband_enter(struct sideband *sideband)
{
    const struct intake intake = {.put = side_put, .arg = sideband};

    pthread_mutex_lock(&sideband->recorder->lock);
    recorder_take(sideband->recorder, &intake);
}

void sideband_leave(struct sideband *sideband)
{
    pthread_mutex_unlock(&sideband->recorder->lock);
}

/* With setup: without rings it tells nothing. */
static int side_open(struct recorder *recorder)
{
    int rc = rings_open(recorder, RING_PAGES * (uint64_t)sysconf(_SC_PAGESIZE));

    if (rc)
        return rc;
    rc = track_begin(recorder, 0);
    if (rc)
        rings_close(recorder);
    return rc;
}

int sideband_listen(struct sideband *sideband, struct side_listener *listener)
{
    struct recorder *recorder = sideband->recorder;
    int rc = 0;

    pthread_mutex_lock(&recorder->state->setup);
    if (!recorder->n_rings)
        rc = side_open(recorder);
    if (!rc) {
        sideband_enter(sideband);
        LIST_INSERT_HEAD(&sideband->listeners, listener, along);
    }
    pthread_mutex_unlock(&recorder->state->setup);
    return rc;
}

void sideband_ignore(struct sideband *sideband, struct side_listener *listener)
{
    struct recorder *recorder = sideband->recorder;
    bool last;

    pthread_mutex_lock(&recorder->state->setup);
    sideband_enter(sideband);
    LIST_REMOVE(listener, along);
    last = LIST_EMPTY(&sideband->listeners);
    if (last)
        recorder_drop_ids(recorder, NULL);
    sideband_leave(sideband);
    if (last) {
        track_forget(recorder);
        rings_close(recorder);
    }
    pthread_mutex_unlock(&recorder->state->setup);
}

void sideband_lose(struct sideband *sideband)
{
    sideband_enter(sideband);
    side_tell(sideband, &(struct side_record){.head = {.type = RECORD_LOST}});
    sideband_leave(sideband);
}
