/*
 * Opening the rings, watching them, and the table of ids. The loop may still call back after a
 * recorder was freed (which happens without the engine's lock), so what it is given is a serial,
 * looked up in a list of those alive.
 */
#include "backends/perf/recorder.h"

#include "backends/perf/attach/group.h"
#include "backends/perf/output.h"
#include "backends/perf/probe/why.h"
#include "backends/perf/sampling.h"
#include "backends/perf/attach/sideband.h"
#include "backends/perf/track.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Taken in this order; then a recorder's setup, then its lock. The second is a leaf. */
static pthread_mutex_t lives_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recorders_lock = PTHREAD_MUTEX_INITIALIZER;
static struct recorder *recorders;
static uintptr_t last_serial;

/* ---- readiness ---- */

static struct ring *ring_of_serial(uintptr_t serial, struct recorder **of)
{
    for (struct recorder *recorder = recorders; recorder; recorder = recorder->next) {
        unsigned n = __atomic_load_n(&recorder->n_rings, __ATOMIC_ACQUIRE);

        for (unsigned i = 0; i < n; i++) {
            if (recorder->rings[i].serial == serial) {
                *of = recorder;
                return &recorder->rings[i];
            }
        }
    }
    return NULL;
}

/* poll says EPOLLIN once each time another half of a ring was written: nothing is to be armed. */
static void ring_ready(void *arg, uint32_t events)
{
    struct recorder *recorder = NULL;
    struct sideband *sideband = NULL;
    const struct sink *sink = NULL;
    uint64_t tag = 0;

    pthread_mutex_lock(&recorders_lock);
    struct ring *ring = ring_of_serial((uintptr_t)arg, &recorder);
    if (ring) {
        const struct loop *loop = recorder->state->loop;

        if (recorder->side)
            sideband = recorder->state->sideband;
        else
            sink = recorder->state->sink;
        tag = recorder->tag;
        if ((events & (EPOLLHUP | EPOLLERR)) && ring->watched) {
            ring->watched = false; /* it would be said for ever */
            loop->unwatch(loop->ctx, ring->fd);
        }
    }
    pthread_mutex_unlock(&recorders_lock);
    if (sideband)
        sideband_drain(sideband);
    else if (sink && sink->ready)
        sink->ready(sink->ctx, tag);
}

/* Without a watch it is drained from time to time all the same. */
static void ring_watch(const struct recorder *recorder, struct ring *ring)
{
    const struct loop *loop = recorder->state->loop;

    pthread_mutex_lock(&recorders_lock);
    ring->serial = ++last_serial;
    ring->watched = loop && loop->watch &&
                    !loop->watch(loop->ctx, ring->fd, EPOLLIN, ring_ready, (void *)ring->serial);
    pthread_mutex_unlock(&recorders_lock);
}

static void recorder_enlist(struct recorder *recorder)
{
    pthread_mutex_lock(&lives_lock);
    pthread_mutex_lock(&recorders_lock);
    recorder->next = recorders;
    recorders = recorder;
    pthread_mutex_unlock(&recorders_lock);
    pthread_mutex_unlock(&lives_lock);
}

/* Nothing is told any more when this returned. */
static void recorder_unlist(struct recorder *recorder)
{
    const struct loop *loop = recorder->state->loop;

    pthread_mutex_lock(&lives_lock);
    pthread_mutex_lock(&recorders_lock);
    for (struct recorder **at = &recorders; *at; at = &(*at)->next) {
        if (*at == recorder) {
            *at = recorder->next;
            break;
        }
    }
    for (unsigned i = 0; i < recorder->n_rings; i++)
        if (recorder->rings[i].watched)
            loop->unwatch(loop->ctx, recorder->rings[i].fd);
    pthread_mutex_unlock(&recorders_lock);
    pthread_mutex_unlock(&lives_lock);
}

/* ---- rings ---- */

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/*
 * Without the right to look at a whole CPU the ring belongs to a dummy on our own first thread
 * there: it serves as well, but says EPOLLHUP when that thread has ended.
 */
int ring_event(const struct recorder *recorder, unsigned cpu)
{
    struct perf_event_attr attr;
    int fd;

    sampling_ring_attr(&attr, recorder->ring_bytes);
    sampling_sideband(&attr);
    if (recorder->side)
        attr.mmap = attr.mmap2 = 0;
    fd = event_open(&attr, -1, (int)cpu, -1, 0);
    return !recorder->side && (fd == -EACCES || fd == -EPERM) ? event_open(&attr, getpid(), (int)cpu, -1, 0) : fd;
}

void ring_found(struct ring *ring, unsigned cpu, int fd, void *map, uint64_t bytes)
{
    *ring = (struct ring){
        .cpu = cpu,
        .fd = fd,
        .stand_in = -1,
        .page = map,
        .data = (char *)map + page_bytes(),
        .size = bytes,
    };
    ring->told = ring->tail = ring->page->data_tail;
    ring->doubt_head = ring->page->data_head;
    ring->doubt = ring->doubt_head != 0; /* of an adopted ring it is not known */
}

int ring_map(struct ring *ring, unsigned cpu, int fd, uint64_t bytes)
{
    char *map = mmap(NULL, page_bytes() + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (map == MAP_FAILED)
        return -errno;
    ring_found(ring, cpu, fd, map, bytes);
    return 0;
}

static int ring_open(const struct recorder *recorder, struct ring *ring, unsigned cpu)
{
    int fd = ring_event(recorder, cpu);
    int rc = fd < 0 ? fd : ring_map(ring, cpu, fd, recorder->ring_bytes);

    if (rc && fd >= 0)
        close(fd);
    return rc;
}

static void rings_close(struct recorder *recorder)
{
    while (recorder->n_rings > 0) {
        struct ring *ring = &recorder->rings[--recorder->n_rings];

        munmap(ring->page, page_bytes() + ring->size);
        event_close(&ring->stand_in);
        close(ring->fd);
    }
}

/* For every CPU that is online; one that goes meanwhile is no reason to fail. */
static int rings_open(struct recorder *recorder)
{
    struct cpus online;
    int rc = 0;

    cpus_init(&online);
    recorder->state->host->cpus_online(recorder->state->host_state, &online);
    for (int cpu = cpus_next(&online, 0); !rc && cpu >= 0; cpu = cpus_next(&online, cpu + 1)) {
        if (recorder->n_rings == recorder->n_cpus)
            break;
        rc = ring_open(recorder, &recorder->rings[recorder->n_rings], (unsigned)cpu);
        if (!rc)
            recorder->n_rings++;
        else if (rc == -ENODEV)
            rc = 0;
    }
    cpus_free(&online);
    if (!rc && !recorder->n_rings)
        rc = -ENODEV;
    if (rc)
        rings_close(recorder);
    return rc;
}

/* Where locked memory is short all rings get smaller, down to a page. */
static int rings_fit(struct recorder *recorder, uint64_t bytes)
{
    int rc = -EPERM;

    recorder->ring_bytes = page_bytes();
    while (recorder->ring_bytes * 2 <= bytes)
        recorder->ring_bytes *= 2;
    for (;;) {
        rc = rings_open(recorder);
        if ((rc != -EPERM && rc != -ENOMEM) || recorder->ring_bytes <= page_bytes())
            return rc;
        recorder->ring_bytes /= 2;
    }
}

static int rings_refused(int rc, struct err *err)
{
    struct perf_event_attr attr;

    if (rc == -EPERM || rc == -ENOMEM)
        return err_set(err, P14,
                       "no memory may be locked for the records of another CPU (%s): give pmcfs "
                       "CAP_IPC_LOCK, or raise kernel.perf_event_mlock_kb",
                       err_errno_name(rc));
    sampling_ring_attr(&attr, page_bytes());
    return why_refused(err,
                       &(struct why){.code = -rc, .attr = &attr, .event = "the buffer of records"});
}

static int recorder_fits(const struct recorder *recorder, const struct recorder_plan *plan,
                         struct err *err)
{
    struct cpus online;
    unsigned long need;

    cpus_init(&online);
    recorder->state->host->cpus_online(recorder->state->host_state, &online);
    need = cpus_count(&online);
    cpus_free(&online);
    if (need > plan->fds_quota)
        return err_set(err, P11,
                       "the buffers of records need %lu descriptors, quota has %lu left "
                       "(%s)",
                       need, plan->fds_quota, plan->fds_limit);
    if (need > plan->fds_free)
        return err_set(err, P10, "the buffers of records need %lu descriptors, pmcfs has %lu left",
                       need, plan->fds_free);
    return 0;
}

static void recorder_release(struct recorder *recorder)
{
    while (recorder->origins) {
        struct origin *origin = recorder->origins;

        assert(!origin->counter);
        recorder->origins = origin->next;
        free(origin);
    }
    pthread_mutex_destroy(&recorder->setup);
    pthread_mutex_destroy(&recorder->lock);
    free(recorder->rings);
    recorder_drop_ids(recorder);
    free(recorder->scratch);
    free(recorder);
}

/* Without rings. NULL: no memory. */
struct recorder *recorder_make(struct backend_state *state, const struct recorder_plan *plan)
{
    struct recorder *recorder = calloc(1, sizeof *recorder);
    struct cpus possible;

    if (!recorder)
        return NULL;
    recorder->state = state;
    recorder->tag = plan->tag;
    recorder->everywhere = (struct origin){
        .recorder = recorder, .closed_ns = UINT64_MAX, .descendants = true, .threads = true};
    pthread_mutex_init(&recorder->setup, NULL);
    pthread_mutex_init(&recorder->lock, NULL);
    cpus_init(&possible);
    state->host->cpus_possible(state->host_state, &possible);
    recorder->n_cpus = cpus_count(&possible);
    cpus_free(&possible);
    recorder->rings = calloc(recorder->n_cpus + 1, sizeof *recorder->rings);
    recorder->scratch = malloc(RECORD_SPACE);
    if (recorder->rings && recorder->scratch)
        return recorder;
    recorder_release(recorder);
    return NULL;
}

void recorder_begin(struct recorder *recorder)
{
    recorder_enlist(recorder);
    for (unsigned i = 0; i < recorder->n_rings; i++)
        ring_watch(recorder, &recorder->rings[i]);
}

int perf_recorder_new(struct backend_state *state, const struct recorder_plan *plan,
                      struct recorder **out, struct err *err)
{
    struct recorder *recorder = recorder_make(state, plan);
    int rc;

    *out = NULL;
    if (!recorder)
        return err_set(err, E32, "no memory for the buffers of records");
    rc = recorder_fits(recorder, plan, err);
    if (!rc) {
        rc = rings_fit(recorder, plan->bytes);
        if (rc)
            rc = rings_refused(rc, err);
    }
    if (rc) {
        recorder_release(recorder);
        return rc;
    }
    recorder_begin(recorder);
    *out = recorder;
    return 0;
}

int recorder_everywhere(struct backend_state *state, uint64_t bytes, struct recorder **out)
{
    struct recorder *recorder = recorder_make(state, &(struct recorder_plan){.tag = 0});
    int rc;

    if (!recorder)
        return -ENOMEM;
    recorder->side = true;
    rc = rings_fit(recorder, bytes);
    if (!rc)
        rc = track_always(recorder);
    if (rc) {
        rings_close(recorder);
        recorder_release(recorder);
        return rc;
    }
    recorder_begin(recorder);
    *out = recorder;
    return 0;
}

void perf_recorder_free(struct recorder *recorder)
{
    if (!recorder)
        return;
    recorder_unlist(recorder);
    rings_close(recorder);
    recorder_release(recorder);
}

void recorder_forget(struct recorder *recorder)
{
    recorder_unlist(recorder);
    recorder_release(recorder);
}

void perf_recorder_facts(const struct recorder *recorder, struct recorder_facts *out)
{
    unsigned n = __atomic_load_n(&recorder->n_rings, __ATOMIC_ACQUIRE);

    *out = (struct recorder_facts){
        .descriptors = n + __atomic_load_n(&recorder->n_stand_ins, __ATOMIC_RELAXED),
        .bytes = n * (recorder->ring_bytes + page_bytes()),
    };
}

struct ring *recorder_ring(const struct recorder *recorder, unsigned cpu)
{
    for (unsigned i = 0; i < recorder->n_rings; i++)
        if (recorder->rings[i].cpu == cpu)
            return &recorder->rings[i];
    return NULL;
}

int recorder_redirect(const struct recorder *recorder, int fd, unsigned cpu)
{
    const struct ring *ring = recorder_ring(recorder, cpu);

    return ring && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, (long)ring->fd) ? -errno : 0;
}

static void ring_came(struct recorder *recorder, unsigned cpu)
{
    struct ring ring, *place = &recorder->rings[recorder->n_rings];

    if (recorder->n_rings == recorder->n_cpus || ring_open(recorder, &ring, cpu))
        return;
    pthread_mutex_lock(&recorder->lock);
    *place = ring;
    __atomic_store_n(&recorder->n_rings, recorder->n_rings + 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&recorder->lock);
    for (struct origin *origin = recorder->origins; origin; origin = origin->next)
        output_cpu(origin, cpu);
    ring_watch(recorder, place);
    track_cpu(recorder, place, false);
}

/* A ring whose CPU went away goes on serving when it is back: only its own event is dead. */
static void recorder_cpu(struct recorder *recorder, unsigned cpu)
{
    struct ring *ring;

    pthread_mutex_lock(&recorder->setup);
    ring = recorder_ring(recorder, cpu);
    if (ring)
        track_cpu(recorder, ring, true);
    else
        ring_came(recorder, cpu);
    pthread_mutex_unlock(&recorder->setup);
}

void recorders_cpu(struct backend_state *state, unsigned cpu)
{
    pthread_mutex_lock(&lives_lock);
    for (struct recorder *recorder = recorders; recorder; recorder = recorder->next)
        if (recorder->state == state)
            recorder_cpu(recorder, cpu);
    pthread_mutex_unlock(&lives_lock);
}
