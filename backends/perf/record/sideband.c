/*
 * The sideband and tracking. One table has the listeners of each process, so the cost of a record
 * depends only on the number of its own listeners. The setup lock is held while rings are opened
 * and closed; the recorder's lock protects records and listeners.
 */
#include "backends/perf/record/sideband.h"

#include "backends/perf/probe/open.h"
#include "backends/perf/record/recorder.h"

#include <assert.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    RING_PAGES = 16,
    LATEST = 1024, /* records stored for listeners that choose their process later */
    DEPTH_MAX = 32 /* nested calls of choice_catch_up(): one for each generation */
};

/* A process that at least one listener has chosen. */
struct side_process {
    UT_hash_handle hh;
    uint32_t pid;
    LIST_HEAD(, side_choice) choices;
};

struct side_choice {
    UT_hash_handle hh;
    uint64_t key[2]; /* address of the listener, PID */
    struct side_listener *listener;
    LIST_ENTRY(side_choice) of_process, of_listener;
    struct side_process *process;
};

/* A stored record. Records are numbered from 1; number n is at latest[n % LATEST]. */
struct latest {
    struct side_record record;
    uint32_t about;
    uint64_t next; /* number of the next record in its chain */
};

/* Numbers of the first and last record whose `about` has the same hash. The chain is empty if
 * `newest` is not stored any more. */
struct latest_chain {
    uint64_t oldest, newest;
};

struct sideband {
    struct recorder *recorder; /* without rings while it has no listener */
    LIST_HEAD(, side_listener) listeners, choosers;
    struct side_process *processes;
    struct side_choice *choices;
    unsigned depth; /* recursion depth of choice_catch_up() */
    uint64_t n_latest;
    struct latest latest[LATEST];
    struct latest_chain chain[LATEST];
};

void perf_drain_sideband(struct backend_state *state)
{
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
    sideband->recorder->is_sideband = true;
    return sideband;
}

void sideband_free(struct sideband *sideband)
{
    if (!sideband)
        return;
    assert(LIST_EMPTY(&sideband->listeners) && LIST_EMPTY(&sideband->choosers));
    assert(!sideband->processes && !sideband->recorder->n_rings);
    perf_recorder_free(sideband->recorder);
    free(sideband);
}

/* ---- the listeners of each process ---- */

static struct side_process *side_process_find(const struct sideband *sideband, uint32_t pid)
{
    struct side_process *process;

    HASH_FIND(hh, sideband->processes, &pid, sizeof pid, process);
    return process;
}

static struct side_choice *side_choice_find(const struct sideband *sideband,
                                            const struct side_listener *listener, uint32_t pid)
{
    const uint64_t key[2] = {(uintptr_t)listener, pid};
    struct side_choice *choice;

    HASH_FIND(hh, sideband->choices, key, sizeof key, choice);
    return choice;
}

static void choice_free(struct sideband *sideband, struct side_choice *choice)
{
    struct side_process *process = choice->process;

    HASH_DEL(sideband->choices, choice);
    LIST_REMOVE(choice, of_process);
    LIST_REMOVE(choice, of_listener);
    free(choice);
    if (!LIST_EMPTY(&process->choices))
        return;
    HASH_DEL(sideband->processes, process);
    free(process);
}

/* ---- the latest records ---- */

static struct latest *latest_at(struct sideband *sideband, uint64_t number)
{
    return &sideband->latest[number % LATEST];
}

static struct latest_chain *latest_chain(struct sideband *sideband, uint32_t about)
{
    return &sideband->chain[about % LATEST];
}

/* Returns true if the record with this number is stored. */
static bool latest_has(const struct sideband *sideband, uint64_t number)
{
    return number && number + LATEST > sideband->n_latest;
}

/* Stores a record. The record that it overwrites is the oldest of its chain. */
static void latest_put(struct sideband *sideband, const struct side_record *record, uint32_t about)
{
    const uint64_t number = sideband->n_latest + 1;
    struct latest *latest = latest_at(sideband, number);
    struct latest_chain *chain = latest_chain(sideband, about);

    if (number > LATEST)
        latest_chain(sideband, latest->about)->oldest = latest->next;
    sideband->n_latest = number;
    *latest = (struct latest){.record = *record, .about = about};
    if (latest_has(sideband, chain->newest))
        latest_at(sideband, chain->newest)->next = number;
    else
        chain->oldest = number;
    chain->newest = number;
}

/* Delivers stored records about a process to a listener that has just chosen it; a LOST record
 * instead if calls are nested too deep. */
static void choice_catch_up(struct sideband *sideband, struct side_listener *listener, uint32_t pid,
                            uint64_t since_ns)
{
    const struct latest_chain chain = *latest_chain(sideband, pid);

    if (!latest_has(sideband, chain.newest))
        return;
    if (sideband->depth == DEPTH_MAX) {
        listener->receive(listener->arg, &(struct side_record){.head = {.type = RECORD_LOST}}, 0);
        return;
    }
    sideband->depth++;
    for (uint64_t number = chain.oldest;; number = latest_at(sideband, number)->next) {
        const struct latest *latest = latest_at(sideband, number);

        if (latest->about == pid && latest->record.time_ns > since_ns)
            listener->receive(listener->arg, &latest->record, pid);
        if (number == chain.newest)
            break;
    }
    sideband->depth--;
}

bool sideband_choose(struct sideband *sideband, struct side_listener *listener, uint32_t pid,
                     uint64_t since_ns)
{
    struct side_process *process = side_process_find(sideband, pid);

    if (side_choice_find(sideband, listener, pid))
        return true;
    struct side_choice *choice = calloc(1, sizeof *choice);
    if (!choice)
        return false;
    choice->listener = listener;
    choice->key[0] = (uintptr_t)listener;
    choice->key[1] = pid;
    if (!process && (process = calloc(1, sizeof *process))) {
        process->pid = pid;
        HASH_ADD(hh, sideband->processes, pid, sizeof pid, process);
        if (!hash_has(process)) {
            free(process);
            process = NULL;
        }
    }
    if (process)
        HASH_ADD(hh, sideband->choices, key, sizeof choice->key, choice);
    if (!process || !hash_has(choice)) {
        if (process && LIST_EMPTY(&process->choices)) {
            HASH_DEL(sideband->processes, process);
            free(process);
        }
        free(choice);
        return false;
    }
    choice->process = process;
    LIST_INSERT_HEAD(&process->choices, choice, of_process);
    LIST_INSERT_HEAD(&listener->choices, choice, of_listener);
    if (since_ns)
        choice_catch_up(sideband, listener, pid, since_ns);
    return true;
}

void sideband_unchoose(struct sideband *sideband, struct side_listener *listener, uint32_t pid)
{
    struct side_choice *choice = side_choice_find(sideband, listener, pid);

    if (choice)
        choice_free(sideband, choice);
}

static void side_deliver(struct sideband *sideband, const struct side_record *record)
{
    const struct side_listener *listener;
    uint32_t about[2];

    side_about(record, about);
    LIST_FOREACH (listener, &sideband->listeners, along)
        listener->receive(listener->arg, record, about[1]);
    if (record->head.type == RECORD_LOST) {
        LIST_FOREACH (listener, &sideband->choosers, along)
            listener->receive(listener->arg, record, 0);
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        const struct side_process *process =
            about[i] ? side_process_find(sideband, about[i]) : NULL;
        struct side_choice *choice = process ? LIST_FIRST(&process->choices) : NULL, *next;

        for (; choice; choice = next) { /* receive() may change only the choices of its listener */
            next = LIST_NEXT(choice, of_process);
            choice->listener->receive(choice->listener->arg, record, about[i]);
        }
    }
    latest_put(sideband, record, about[1]);
}

/* ---- records ---- */

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
    side_deliver(arg, &side);
}

void sideband_enter(struct sideband *sideband)
{
    const struct intake intake = {.put = side_put, .arg = sideband};

    pthread_mutex_lock(&sideband->recorder->lock);
    recorder_pass(sideband->recorder, UINT64_MAX, &intake);
}

void sideband_leave(struct sideband *sideband)
{
    pthread_mutex_unlock(&sideband->recorder->lock);
}

int sideband_listen(struct sideband *sideband, struct side_listener *listener)
{
    struct recorder *recorder = sideband->recorder;
    int rc = 0;

    pthread_mutex_lock(&recorder->state->setup);
    if (!recorder->n_rings) {
        rc = rings_open(recorder, RING_PAGES * (uint64_t)sysconf(_SC_PAGESIZE));
        if (!rc && (rc = track_begin(recorder, 0)))
            rings_close(recorder);
    }
    if (!rc) {
        sideband_enter(sideband);
        if (listener->chooses)
            LIST_INSERT_HEAD(&sideband->choosers, listener, along);
        else
            LIST_INSERT_HEAD(&sideband->listeners, listener, along);
    }
    pthread_mutex_unlock(&recorder->state->setup);
    return rc;
}

void sideband_unlisten(struct sideband *sideband, struct side_listener *listener)
{
    struct recorder *recorder = sideband->recorder;

    pthread_mutex_lock(&recorder->state->setup);
    sideband_enter(sideband);
    LIST_REMOVE(listener, along);
    for (struct side_choice *choice; (choice = LIST_FIRST(&listener->choices));)
        choice_free(sideband, choice);
    bool last = LIST_EMPTY(&sideband->listeners) && LIST_EMPTY(&sideband->choosers);
    if (last)
        recorder_drop_ids(recorder, NULL);
    sideband_leave(sideband);
    if (last) {
        track_forget(recorder);
        rings_close(recorder);
    }
    pthread_mutex_unlock(&recorder->state->setup);
}

void sideband_deliver_loss(struct sideband *sideband)
{
    sideband_enter(sideband);
    side_deliver(sideband, &(struct side_record){.head = {.type = RECORD_LOST}});
    sideband_leave(sideband);
}

/* ---- tracking ---- */

/* Returns the descriptor of the event of the ring's CPU: the ring's own, or what replaces it after
 * the CPU was offline. */
static int ring_live_fd(const struct ring *ring)
{
    return ring->stand_in >= 0 ? ring->stand_in : ring->fd;
}

/* Registers the id of the event of a ring, and enables the event. Returns 0 or -errno. */
static int ring_track(struct recorder *recorder, struct ring *ring)
{
    struct event_id id = {.origin = &recorder->ring_origin, .cpu = ring->cpu, .kind = ID_EVENT};

    if (ioctl(ring_live_fd(ring), PERF_EVENT_IOC_ID, &id.kernel_id))
        return -errno;
    pthread_mutex_lock(&recorder->lock);
    int rc = recorder_add_id(recorder, &id);
    pthread_mutex_unlock(&recorder->lock);
    if (!rc && ioctl(ring_live_fd(ring), PERF_EVENT_IOC_ENABLE, 0))
        rc = -errno;
    return rc;
}

static void rings_untrack(const struct recorder *recorder)
{
    for (unsigned i = 0; i < recorder->n_rings; i++)
        ioctl(ring_live_fd(&recorder->rings[i]), PERF_EVENT_IOC_DISABLE, 0);
}

int track_begin(struct recorder *recorder, uint64_t set)
{
    int rc = 0;

    if (!recorder->n_tracks) {
        pthread_mutex_lock(&recorder->lock);
        recorder->ring_origin.set_number = set;
        pthread_mutex_unlock(&recorder->lock);
        for (unsigned i = 0; i < recorder->n_rings && !rc; i++)
            rc = ring_track(recorder, &recorder->rings[i]);
        if (rc)
            rings_untrack(recorder);
    }
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

void track_cpu_online(struct recorder *recorder, struct ring *ring, bool back)
{
    const bool had = ring->stand_in >= 0;

    if (back) {
        event_close(&ring->stand_in);
        ring->stand_in = ring_event(recorder, ring->cpu);
        if (ring->stand_in < 0) /* the CPU went offline again */
            ring->stand_in = -1;
        else if (recorder_redirect(recorder, ring->stand_in, ring->cpu))
            event_close(&ring->stand_in);
        __atomic_add_fetch(&recorder->n_stand_ins, (unsigned)((ring->stand_in >= 0) - had),
                           __ATOMIC_RELAXED);
    }
    if (recorder->n_tracks)
        ring_track(recorder, ring);
}
