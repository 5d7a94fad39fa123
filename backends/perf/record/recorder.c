/*
 * Opening the rings, and watching them.
 */
#include "backends/perf/record/recorder.h"

#include "backends/perf/probe/open.h"
#include "backends/perf/probe/why.h"
#include "backends/perf/record/sampling.h"
#include "backends/perf/record/track.h"

#include "core/base/arena.h"

#include <assert.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- readiness ---- */

/* poll says EPOLLIN once each time another half of a ring was written: nothing is to be armed. The
 * recorder may be gone: the engine knows the tag then no more. */
static void ring_ready(void *arg, uint64_t tag)
{
    const struct backend_state *state = arg;

    if (state->sink->ready)
        state->sink->ready(state->sink->ctx, tag);
}

/* Without a watch it is drained from time to time all the same. */
static void ring_watch(const struct recorder *recorder, const struct ring *ring)
{
    const struct loop *loop = recorder->state->loop;

    if (loop && loop->watch)
        loop->watch(loop->ctx, ring->fd, EPOLLIN, recorder->ready, recorder->state, recorder->tag);
}

void rings_watch(struct recorder *recorder)
{
    for (unsigned i = 0; i < recorder->n_rings; i++)
        ring_watch(recorder, &recorder->rings[i]);
}

void rings_unwatch(const struct recorder *recorder)
{
    const struct loop *loop = recorder->state->loop;

    for (unsigned i = 0; loop && loop->unwatch && i < recorder->n_rings; i++)
        loop->unwatch(loop->ctx, recorder->rings[i].fd);
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
    attr.mmap_data = recorder->data_maps;
    if (recorder->side)
        attr.mmap = attr.mmap2 = 0;
    fd = event_open(&attr, -1, (int)cpu, -1, 0);
    if (!recorder->side && (fd == -EACCES || fd == -EPERM))
        fd = event_open(&attr, getpid(), (int)cpu, -1, 0);
    return fd;
}

static int ring_map(struct ring *ring, unsigned cpu, int fd, void *left, uint64_t bytes)
{
    char *map = left;

    if (!map)
        map = mmap(NULL, page_bytes() + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    *ring = (struct ring){
        .cpu = cpu,
        .fd = fd,
        .stand_in = -1,
        .page = (void *)map,
        .data = map + page_bytes(),
        .size = bytes,
    };
    ring->told = ring->tail = ring->page->data_tail;
    ring->doubt_head = ring->page->data_head;
    ring->doubt = ring->doubt_head != 0; /* of an adopted ring it is not known */
    return 0;
}

/* The sideband's begins anew with each worker. */
static bool ring_hold(const struct recorder *recorder, int fd, uint64_t bytes)
{
    const struct loop *loop = recorder->state->loop;

    return loop && loop->hold && !recorder->side &&
           loop->hold(loop->ctx, fd, bytes ? page_bytes() + bytes : 0);
}

/* What was taken out of this one before is known. False: it is another than that. */
static bool ring_count(const struct recorder *recorder, struct ring *ring)
{
    struct ring_taken *all =
        arena_at(recorder->taken_block, recorder->n_cpus * sizeof(struct ring_taken));

    if (!all)
        return true;
    ring->taken = &all[ring - recorder->rings];
    ring->n = ring->taken->position == ring->tail ? ring->taken->count : ring->taken->before;
    /* The kernel was told of some, and this one's has not been told. */
    const bool same = ring->tail > 0 || !ring->taken->position || !ring->taken->before;
    if (!same)
        ring->n = ring->taken->count + 1; /* what was in it is lost, one at least */
    *ring->taken = (struct ring_taken){ring->tail, ring->n, ring->n};
    return same;
}

int ring_take_on(const struct recorder *recorder, struct ring *ring, unsigned cpu, int fd,
                 void *left)
{
    int rc = ring_map(ring, cpu, fd, left, recorder->ring_bytes);

    if (rc)
        return rc;
    /* Where it was not mapped for a moment, the kernel redirects nothing to it any more. */
    const bool same = ring_count(recorder, ring);
    ring->outlived = ring_hold(recorder, fd, ring->size) && same;
    return 0;
}

static int ring_open(const struct recorder *recorder, struct ring *ring, unsigned cpu)
{
    int fd = ring_event(recorder, cpu);
    int rc = fd < 0 ? fd : ring_take_on(recorder, ring, cpu, fd, NULL);

    if (rc)
        event_close(&fd);
    return rc;
}

static void rings_end(const struct recorder *recorder, unsigned n)
{
    struct ring *rings = recorder->rings;

    while (n-- > 0) {
        munmap(rings[n].page, page_bytes() + rings[n].size);
        ring_hold(recorder, rings[n].fd, 0);
        event_close(&rings[n].stand_in);
        close(rings[n].fd);
    }
}

/* A drain sees all of them or none. */
static void rings_set(struct recorder *recorder, unsigned n)
{
    pthread_mutex_lock(&recorder->lock);
    __atomic_store_n(&recorder->n_rings, n, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&recorder->lock);
}

void rings_close(struct recorder *recorder)
{
    const unsigned n = recorder->n_rings;

    rings_unwatch(recorder);
    rings_set(recorder, 0);
    rings_end(recorder, n);
}

/* For every CPU that is online; one that goes meanwhile is no reason to fail. */
static int rings_try(struct recorder *recorder)
{
    struct cpus online;
    unsigned n = 0;
    int rc = 0;

    cpus_init(&online);
    recorder->state->host->cpus_online(recorder->state->host_state, &online);
    for (int cpu = cpus_next(&online, 0); !rc && cpu >= 0; cpu = cpus_next(&online, cpu + 1)) {
        if (n == recorder->n_cpus)
            break;
        rc = ring_open(recorder, &recorder->rings[n], (unsigned)cpu);
        n += !rc;
        if (rc == -ENODEV)
            rc = 0;
    }
    cpus_free(&online);
    if (!rc && !n)
        rc = -ENODEV;
    if (rc)
        rings_end(recorder, n);
    else
        rings_set(recorder, n);
    return rc;
}

/* Where locked memory is short all rings get smaller, down to a page. */
int rings_open(struct recorder *recorder, uint64_t bytes)
{
    int rc;

    recorder->ring_bytes = page_bytes();
    while (recorder->ring_bytes * 2 <= bytes)
        recorder->ring_bytes *= 2;
    while (((rc = rings_try(recorder)) == -EPERM || rc == -ENOMEM) &&
           recorder->ring_bytes > page_bytes())
        recorder->ring_bytes /= 2;
    rings_watch(recorder);
    return rc;
}

static int rings_refused(int rc, struct err *err)
{
    struct perf_event_attr attr;

    if (rc == -EPERM || rc == -ENOMEM)
        return err_set(err, P14,
                       "cannot lock memory for the record buffer of another CPU (%s): give pmcfs "
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
                       "the record buffers need %lu file descriptors, and the quota has %lu left "
                       "(%s): detach targets or use fewer events",
                       need, plan->fds_quota, plan->fds_limit);
    if (need > plan->fds_free)
        return err_set(err, P10,
                       "the record buffers need %lu file descriptors, and %lu are left: raise "
                       "LimitNOFILE= of pmcfs.service",
                       need, plan->fds_free);
    return 0;
}

void recorder_release(struct recorder *recorder)
{
    pthread_mutex_lock(&recorder->state->setup);
    if (recorder->n_rings)
        rings_close(recorder);
    LIST_REMOVE(recorder, along);
    pthread_mutex_unlock(&recorder->state->setup);
    recorder_drop_ids(recorder, NULL);
    recorder_purge(recorder, UINT64_MAX);
    assert(!recorder->origins);
    pthread_mutex_destroy(&recorder->lock);
    free(recorder->rings);
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
    recorder->data_maps = plan->data_maps;
    recorder->ready = ring_ready;
    recorder->largest = RECORD_USUAL;
    recorder->everywhere = (struct origin){.descendants = true, .threads = true};
    pthread_mutex_init(&recorder->lock, NULL);
    pthread_mutex_lock(&state->setup);
    LIST_INSERT_HEAD(&state->recorders, recorder, along);
    pthread_mutex_unlock(&state->setup);
    cpus_init(&possible);
    state->host->cpus_possible(state->host_state, &possible);
    recorder->n_cpus = cpus_count(&possible);
    cpus_free(&possible);
    recorder->rings = calloc(recorder->n_cpus + 1, sizeof *recorder->rings);
    recorder->scratch = malloc(RECORD_SPACE);
    if (recorder->n_cpus > 0 && recorder->rings && recorder->scratch)
        return recorder;
    recorder_release(recorder);
    return NULL;
}

int perf_recorder_new(struct backend_state *state, const struct recorder_plan *plan,
                      struct recorder **out, struct err *err)
{
    struct recorder *recorder = recorder_make(state, plan);
    int rc;

    *out = NULL;
    if (!recorder)
        return err_set(err, E32, "no memory for the record buffers");
    recorder->taken_block = arena_alloc(recorder->n_cpus * sizeof(struct ring_taken));
    rc = recorder_fits(recorder, plan, err);
    if (!rc) {
        pthread_mutex_lock(&state->setup);
        rc = rings_open(recorder, plan->bytes);
        pthread_mutex_unlock(&state->setup);
        rc = rc ? rings_refused(rc, err) : 0;
    }
    if (rc) {
        perf_recorder_free(recorder);
        return rc;
    }
    *out = recorder;
    return 0;
}

void perf_recorder_free(struct recorder *recorder)
{
    if (!recorder)
        return;
    arena_free(recorder->taken_block, recorder->n_cpus * sizeof(struct ring_taken));
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

/* Its place is not looked at before there is one more. */
static void ring_came(struct recorder *recorder, unsigned cpu,
                      void (*came)(const struct origin *origin, unsigned cpu))
{
    const unsigned n = recorder->n_rings;
    struct ring *ring = &recorder->rings[n];

    if (n == recorder->n_cpus || ring_open(recorder, ring, cpu))
        return;
    rings_set(recorder, n + 1);
    pthread_mutex_lock(&recorder->lock);
    for (const struct origin *origin = recorder->origins; origin; origin = origin->next)
        if (!origin->closed_ns)
            came(origin, cpu);
    pthread_mutex_unlock(&recorder->lock);
    ring_watch(recorder, ring);
    track_cpu(recorder, ring, false);
}

/* The ring of a CPU that went away goes on serving when it is back: only its own event is dead. The
 * sideband's recorder has no ring while it has no listener. */
static void recorder_cpu(struct recorder *recorder, unsigned cpu,
                         void (*came)(const struct origin *origin, unsigned cpu))
{
    struct ring *ring = recorder_ring(recorder, cpu);

    if (ring)
        track_cpu(recorder, ring, true);
    else if (recorder->n_rings)
        ring_came(recorder, cpu, came);
}

void recorders_cpu(struct backend_state *state, unsigned cpu,
                   void (*came)(const struct origin *origin, unsigned cpu))
{
    struct recorder *recorder;

    pthread_mutex_lock(&state->setup);
    LIST_FOREACH (recorder, &state->recorders, along)
        recorder_cpu(recorder, cpu, came);
    pthread_mutex_unlock(&state->setup);
}
