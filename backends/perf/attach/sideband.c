/*
 * The sideband is a recorder (recorder.h) whose rings' own events tell of every CPU. Two locks:
 * setup (opening and closing, system calls) is taken before lock (records and listeners, memory
 * only), both before the recorder's.
 */
#include "backends/perf/attach/sideband.h"

#include "backends/perf/drain.h"
#include "backends/perf/recorder.h"

#include "core/base/vec.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    RING_PAGES = 16
};

struct sideband {
    struct backend_state *state;
    pthread_mutex_t setup;
    pthread_mutex_t lock;
    struct side_listener *listeners;
    struct recorder *recorder; /* while there are listeners */
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
    assert(!sideband->listeners && !sideband->recorder);
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

static void batch_add(struct sideband *sideband, const struct side_record *record)
{
    if (vec_push(&sideband->batch, *record))
        sideband->lost = true;
}

static void side_put(void *arg, const struct record *record)
{
    struct sideband *sideband = arg;
    const struct record_task *task = (const void *)record;
    const struct record_comm *comm = (const void *)record;

    if (record->type == RECORD_LOST)
        sideband->lost = true;
    else if (record->type == RECORD_COMM && record->misc & RECORD_EXECUTED)
        batch_add(sideband, &(struct side_record){.time_ns = record_time(record),
                                                  .type = SIDE_EXEC,
                                                  .pid = (pid_t)comm->pid,
                                                  .tid = (pid_t)comm->tid});
    else if (record->type == RECORD_FORK || record->type == RECORD_EXIT)
        batch_add(sideband, &(struct side_record){
                                .time_ns = task->time,
                                .type = record->type == RECORD_FORK ? SIDE_FORK : SIDE_EXIT,
                                .pid = (pid_t)task->pid,
                                .tid = (pid_t)task->tid,
                                .ppid = (pid_t)task->ppid,
                                .ptid = (pid_t)task->ptid});
}

int side_by_time(const void *a, const void *b)
{
    const struct side_record *x = a, *y = b;

    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static void drain_locked(struct sideband *sideband)
{
    const struct intake intake = {.put = side_put, .arg = sideband};

    if (sideband->recorder)
        recorder_take(sideband->recorder, &intake);
    if (!sideband->batch.n && !sideband->lost)
        return;
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

int sideband_listen(struct sideband *sideband, struct side_listener *listener)
{
    struct recorder *recorder = NULL;
    int rc = 0;

    pthread_mutex_lock(&sideband->setup);
    if (!sideband->recorder)
        rc = recorder_everywhere(sideband->state, RING_PAGES * (uint64_t)sysconf(_SC_PAGESIZE),
                                 &recorder);
    if (!rc) {
        sideband_lock(sideband);
        if (recorder)
            sideband->recorder = recorder;
        drain_locked(sideband);
        listener->next = sideband->listeners;
        sideband->listeners = listener;
        sideband_unlock(sideband);
    }
    pthread_mutex_unlock(&sideband->setup);
    return rc;
}

void sideband_ignore(struct sideband *sideband, struct side_listener *listener)
{
    struct recorder *last = NULL;

    pthread_mutex_lock(&sideband->setup);
    sideband_lock(sideband);
    for (struct side_listener **at = &sideband->listeners; *at; at = &(*at)->next) {
        if (*at == listener) {
            *at = listener->next;
            break;
        }
    }
    if (!sideband->listeners) {
        last = sideband->recorder;
        sideband->recorder = NULL;
    }
    sideband_unlock(sideband);
    perf_recorder_free(last);
    pthread_mutex_unlock(&sideband->setup);
}

void sideband_lose(struct sideband *sideband)
{
    sideband_lock(sideband);
    sideband->lost = true;
    drain_locked(sideband);
    sideband_unlock(sideband);
}
