/*
 * Recorders: opening and watching their rings, creation, and CPUs that come online. Also a recorder
 * as one line of text for a reload, "rings BYTES TAKEN CPU:FD…".
 */
#include "backends/perf/record/recorder.h"

#include "backends/perf/probe/open.h"
#include "backends/perf/probe/probe.h"
#include "backends/perf/record/sampling.h"
#include "backends/perf/record/sideband.h"

#include "core/base/arena.h"
#include "core/base/vec.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- readiness ---- */

/* Called each time another half of a ring was written: epoll reports EPOLLIN once for that. The
 * recorder may be freed already; the engine ignores an unknown tag. */
static void ring_ready(void *arg, uint64_t tag)
{
    const struct backend_state *state = arg;

    if (state->sink->drain_due)
        state->sink->drain_due(state->sink->ctx, tag);
}

/* Errors are ignored: the engine also drains recorders from time to time. */
static void ring_watch(const struct recorder *recorder, const struct ring *ring)
{
    const struct loop *loop = recorder->state->loop;

    if (loop && loop->watch)
        loop->watch(loop->ctx, ring->fd, EPOLLIN, ring_ready, recorder->state, recorder->tag);
}

static void rings_watch(struct recorder *recorder)
{
    for (unsigned i = 0; i < recorder->n_rings; i++)
        ring_watch(recorder, &recorder->rings[i]);
}

static void rings_unwatch(const struct recorder *recorder)
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

/* Without the permission for events of a CPU, the owner is an event on pmcfs's first thread on that
 * CPU. It works the same, except for POLLHUP when that thread exits. */
int ring_event(const struct recorder *recorder, unsigned cpu)
{
    struct perf_event_attr attr;

    sampling_ring_attr(&attr, recorder->ring_bytes);
    sampling_sideband(&attr);
    attr.mmap_data = recorder->data_maps;
    if (recorder->is_sideband)
        attr.mmap = attr.mmap2 = 0;
    int fd = event_open(&attr, -1, (int)cpu, -1, 0);
    if (!recorder->is_sideband && (fd == -EACCES || fd == -EPERM))
        fd = event_open(&attr, getpid(), (int)cpu, -1, 0);
    return fd;
}

/* Makes the supervisor map the ring too (bytes > 0), or unmap it. Returns true if it was mapped
 * already. Not for the sideband, whose rings each worker opens again. */
static bool ring_keep(const struct recorder *recorder, int fd, uint64_t bytes)
{
    const struct loop *loop = recorder->state->loop;

    return loop && loop->keep_mapped && !recorder->is_sideband &&
           loop->keep_mapped(loop->ctx, fd, bytes ? page_bytes() + bytes : 0);
}

/* Maps the ring of the event fd, or uses the mapping `left` if that is not NULL. ring must be an
 * element of recorder->rings. Returns 0 or -errno. */
static int ring_map(const struct recorder *recorder, struct ring *ring, unsigned cpu, int fd,
                    void *left)
{
    const uint64_t bytes = recorder->ring_bytes;
    struct ring_taken *all =
        arena_at(recorder->taken_block, recorder->n_cpus * sizeof(struct ring_taken));
    char *map = left;
    bool same = true;

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
    ring->released = ring->tail = ring->page->data_tail;
    ring->loss_head = ring->page->data_head;
    ring->loss_possible = ring->loss_head != 0; /* an adopted ring may have lost records */
    if (all) {
        struct ring_taken *taken = ring->taken = &all[ring - recorder->rings];

        ring->n_taken = taken->position == ring->tail ? taken->count : taken->before;
        /* If the tail is 0 but another position was stored, the counted ring is lost, with at least
         * one record in it. */
        same = ring->tail > 0 || !taken->position || !taken->before;
        if (!same)
            ring->n_taken = taken->count + 1;
        *taken = (struct ring_taken){ring->tail, ring->n_taken, ring->n_taken};
    }
    /* While a ring has no mapping, the kernel undoes all redirections to it. */
    ring->outlived = ring_keep(recorder, fd, bytes) && same;
    return 0;
}

static int ring_open(const struct recorder *recorder, struct ring *ring, unsigned cpu)
{
    int fd = ring_event(recorder, cpu);
    int rc = fd < 0 ? fd : ring_map(recorder, ring, cpu, fd, NULL);

    if (rc)
        event_close(&fd);
    return rc;
}

static void rings_destroy(const struct recorder *recorder, unsigned n)
{
    struct ring *rings = recorder->rings;

    while (n-- > 0) {
        munmap(rings[n].page, page_bytes() + rings[n].size);
        ring_keep(recorder, rings[n].fd, 0);
        event_close(&rings[n].stand_in);
        close(rings[n].fd);
    }
}

/* Changes the number with the lock, so that a drain sees all new rings or none. */
static void rings_set_number(struct recorder *recorder, unsigned n)
{
    pthread_mutex_lock(&recorder->lock);
    __atomic_store_n(&recorder->n_rings, n, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&recorder->lock);
}

void rings_close(struct recorder *recorder)
{
    const unsigned n = recorder->n_rings;

    rings_unwatch(recorder);
    rings_set_number(recorder, 0);
    rings_destroy(recorder, n);
}

/* Opens a ring for every online CPU. Skips a CPU that goes offline during that. */
static int rings_try(struct recorder *recorder)
{
    struct cpus online = {0};
    unsigned n = 0;
    int rc = 0;

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
        rings_destroy(recorder, n);
    else
        rings_set_number(recorder, n);
    return rc;
}

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

/* ---- recorders ---- */

/* Frees a recorder with its rings, except the block in the arena. */
static void recorder_release(struct recorder *recorder)
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

struct recorder *recorder_make(struct backend_state *state, const struct recorder_plan *plan)
{
    struct recorder *recorder = calloc(1, sizeof *recorder);
    struct cpus possible = {0};

    if (!recorder)
        return NULL;
    recorder->state = state;
    recorder->tag = plan->tag;
    recorder->data_maps = plan->data_maps;
    recorder->largest_record = RECORD_USUAL;
    recorder->ring_origin = (struct origin){.descendants = true, .threads = true};
    pthread_mutex_init(&recorder->lock, NULL);
    pthread_mutex_lock(&state->setup);
    LIST_INSERT_HEAD(&state->recorders, recorder, along);
    pthread_mutex_unlock(&state->setup);
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
    struct perf_event_attr attr;
    struct cpus online = {0};
    int rc;

    *out = NULL;
    if (!recorder)
        return err_nomem(err);
    recorder->taken_block = arena_alloc(recorder->n_cpus * sizeof(struct ring_taken));
    state->host->cpus_online(state->host_state, &online);
    unsigned long need = cpus_count(&online);
    cpus_free(&online);
    if (need > plan->fds_quota) {
        rc = err_set(err, P11,
                     "the record buffers need %lu file descriptors, and the quota has %lu left "
                     "(%s): detach targets or use fewer events",
                     need, plan->fds_quota, plan->fds_limit_name);
    } else if (need > plan->fds_left) {
        rc = err_set(err, P10,
                     "the record buffers need %lu file descriptors, and %lu are left: raise "
                     "LimitNOFILE= of pmcfs.service",
                     need, plan->fds_left);
    } else {
        pthread_mutex_lock(&state->setup);
        rc = rings_open(recorder, plan->bytes);
        pthread_mutex_unlock(&state->setup);
        sampling_ring_attr(&attr, page_bytes());
        if (rc == -EPERM || rc == -ENOMEM)
            rc = err_set(err, P14,
                         "cannot lock memory for the record buffer of another CPU (%s): give pmcfs "
                         "CAP_IPC_LOCK, or raise kernel.perf_event_mlock_kb",
                         err_errno_name(rc));
        else if (rc)
            rc = why_refused(
                err, &(struct why){.code = -rc, .attr = &attr, .event = "the buffer of records"});
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

/*
 * ---- reload ----
 *
 * Rings that were forgotten in this process are still mapped, and these mappings are used again.
 * Without any mapping the kernel would discard the records; and kernels (6.18) charge locked memory
 * for a second mapping and never uncharge it. Ids of counters that are closed already are unknown
 * after a reload.
 */

void perf_recorder_print(const struct recorder *recorder, struct buf *out)
{
    buf_printf(out, "rings %" PRIu64 " %" PRIu64, recorder->ring_bytes, recorder->taken_block);
    for (unsigned i = 0; i < recorder->n_rings; i++) {
        const struct ring *ring = &recorder->rings[i];

        buf_printf(out, " %u:%d", ring->cpu, ring->fd);
    }
}

/* Rings whose mappings were left by perf_recorder_forget(). No lock: used only while no request
 * runs. */
static VEC(struct ring) forgotten;

void perf_recorder_forget(struct recorder *recorder)
{
    for (unsigned i = 0; i < recorder->n_rings; i++)
        (void)!vec_push(&forgotten, recorder->rings[i]);
    rings_unwatch(recorder);
    recorder->n_rings = 0; /* so that recorder_release() does not close them */
    recorder_release(recorder);
}

/* Maps the rings of the text "CPU:FD…", or uses the mapping of a ring that was forgotten. */
static int rings_scan(struct recorder *recorder, const char *text)
{
    unsigned cpu;
    int fd, used, rc = 0;

    for (; !rc && sscanf(text, " %u:%d%n", &cpu, &fd, &used) == 2; text += used) {
        void *map = NULL;

        if (!fd_keep(fd))
            return -EBADF;
        if (recorder->n_rings == recorder->n_cpus)
            return -EINVAL;
        for (size_t i = 0; i < forgotten.n && !map; i++)
            if (forgotten.items[i].fd == fd && forgotten.items[i].size == recorder->ring_bytes) {
                map = forgotten.items[i].page;
                forgotten.items[i] = forgotten.items[--forgotten.n];
            }
        rc = ring_map(recorder, &recorder->rings[recorder->n_rings], cpu, fd, map);
        recorder->n_rings += !rc;
    }
    return rc ? rc : recorder->n_rings && !*text ? 0 : -EINVAL;
}

int perf_recorder_adopt(struct backend_state *state, const struct recorder_plan *plan,
                        const char *printed, struct recorder **out)
{
    struct recorder *recorder = recorder_make(state, plan);
    int used = 0, rc;

    *out = NULL;
    if (!recorder)
        return -ENOMEM;
    rc = sscanf(printed, "rings %" SCNu64 " %" SCNu64 "%n", &recorder->ring_bytes,
                &recorder->taken_block, &used) == 2
             ? 0
             : -EINVAL;
    arena_keep(recorder->taken_block, recorder->n_cpus * sizeof(struct ring_taken));
    if (!rc)
        rc = rings_scan(recorder, printed + used);
    if (rc) {
        perf_recorder_forget(recorder);
        return rc;
    }
    rings_watch(recorder);
    *out = recorder;
    return 0;
}

/* ---- CPUs that come online ---- */

/* A CPU that was offline has a ring, which still works; only the event that owns it is dead. A
 * recorder without rings (the sideband without listeners) needs none. */
void recorders_add_cpu(struct backend_state *state, unsigned cpu,
                       void (*came)(const struct origin *origin, unsigned cpu))
{
    struct recorder *recorder;

    pthread_mutex_lock(&state->setup);
    LIST_FOREACH (recorder, &state->recorders, along) {
        const unsigned n = recorder->n_rings;
        struct ring *ring = recorder_ring(recorder, cpu);
        const bool back = ring != NULL;

        if (!ring) {
            ring = &recorder->rings[n];
            if (!n || n == recorder->n_cpus || ring_open(recorder, ring, cpu))
                continue;
            rings_set_number(recorder, n + 1); /* until now nothing reads the new element */
            pthread_mutex_lock(&recorder->lock);
            for (const struct origin *origin = recorder->origins; origin; origin = origin->next)
                if (!origin->closed_ns)
                    came(origin, cpu);
            pthread_mutex_unlock(&recorder->lock);
            ring_watch(recorder, ring);
        }
        track_cpu_online(recorder, ring, back);
    }
    pthread_mutex_unlock(&state->setup);
}
