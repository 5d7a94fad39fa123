/*
 * A recorder as one line of text, and back: "rings BYTES CPU:FD:STAND-IN… ids
 * KERNEL:LOG:PERIOD:PLACE…" (the ids of counters that are closed already, whose samples may lie in
 * the rings still; the others come back with their counters). Rings that were
 * forgotten in this process are still mapped, and are used again: without any mapping the records
 * would go, and kernels (6.18) charge the locked memory of a second one, and never give that back.
 */
#include "backends/perf/recorder.h"

#include "backends/perf/attach/task_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void perf_recorder_print(const struct recorder *recorder, struct buf *out)
{
    buf_printf(out, "rings %" PRIu64, recorder->ring_bytes);
    for (unsigned i = 0; i < recorder->n_rings; i++) {
        const struct ring *ring = &recorder->rings[i];

        buf_printf(out, " %u:%d:%d", ring->cpu, ring->fd, ring->stand_in);
    }
    buf_str(out, " ids");
    for (const struct id *id = recorder->ids; id; id = id->hh.next)
        if (!id->origin->counter && id->origin != &recorder->everywhere && id->kind == ID_EVENT)
            buf_printf(out, " %" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%u", id->kernel, id->origin->set,
                       id->says_period ? 0 : id->origin->period, id->place);
}

/* ---- mappings that were left ---- */

static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;
static struct left {
    struct left *next;
    int fd;
    void *page;
    uint64_t bytes;
} * lefts;

static void ring_leave(const struct ring *ring)
{
    struct left *left = malloc(sizeof *left);

    if (!left)
        return;
    pthread_mutex_lock(&left_lock);
    *left = (struct left){lefts, ring->fd, ring->page, ring->size};
    lefts = left;
    pthread_mutex_unlock(&left_lock);
}

/* NULL: it is not mapped. */
static void *ring_left(int fd, uint64_t bytes)
{
    struct left **at, *left;
    void *page = NULL;

    pthread_mutex_lock(&left_lock);
    for (at = &lefts; (left = *at) && left->fd != fd;)
        at = &left->next;
    if (left && left->bytes == bytes) {
        page = left->page;
        *at = left->next;
        free(left);
    }
    pthread_mutex_unlock(&left_lock);
    return page;
}

void perf_recorder_forget(struct recorder *recorder)
{
    for (unsigned i = 0; i < recorder->n_rings; i++)
        ring_leave(&recorder->rings[i]);
    recorder_forget(recorder);
}

static int ring_again(struct ring *ring, unsigned cpu, int fd, uint64_t bytes)
{
    void *page = ring_left(fd, bytes);

    if (!page)
        return ring_map(ring, cpu, fd, bytes);
    ring_found(ring, cpu, fd, page, bytes);
    return 0;
}

static int id_add(struct recorder *recorder, uint64_t kernel, uint64_t set, uint64_t period,
                  unsigned place)
{
    struct origin *origin = calloc(1, sizeof *origin);

    if (!origin)
        return -ENOMEM;
    *origin = (struct origin){.next = recorder->origins,
                              .recorder = recorder,
                              .closed_ns = census_now_ns(),
                              .set = set,
                              .period = period};
    recorder->origins = origin;
    return recorder_add_id(recorder, &(struct id){.kernel = kernel,
                                                  .origin = origin,
                                                  .place = (uint8_t)place,
                                                  .says_period = !period});
}

static int ids_scan(struct recorder *recorder, const char *text)
{
    uint64_t kernel, set, period;
    unsigned place;
    int used, rc = strncmp(text, " ids", 4) ? -EINVAL : 0;

    for (text += 4; !rc && sscanf(text, " %" SCNu64 ":%" SCNu64 ":%" SCNu64 ":%u%n", &kernel, &set,
                                  &period, &place, &used) == 4;
         text += used)
        rc = id_add(recorder, kernel, set, period, place);
    return rc ? rc : *text ? -EINVAL : 0;
}

static int rings_scan(struct recorder *recorder, const char *text)
{
    unsigned cpu;
    int fd, stand_in, used, rc = 0;

    for (; !rc && sscanf(text, " %u:%d:%d%n", &cpu, &fd, &stand_in, &used) == 3; text += used) {
        struct ring *ring = &recorder->rings[recorder->n_rings];

        if (recorder->n_rings == recorder->n_cpus)
            return -EINVAL;
        rc = ring_again(ring, cpu, fd, recorder->ring_bytes);
        if (rc)
            return rc;
        ring->stand_in = stand_in;
        recorder->n_stand_ins += stand_in >= 0;
        recorder->n_rings++;
    }
    return recorder->n_rings ? ids_scan(recorder, text) : -EINVAL;
}

int perf_recorder_adopt(struct backend_state *state, const struct recorder_plan *plan,
                        const char *printed, struct recorder **out)
{
    struct recorder *recorder = recorder_make(state, plan);
    int used = 0, rc;

    *out = NULL;
    if (!recorder)
        return -ENOMEM;
    rc = sscanf(printed, "rings %" SCNu64 "%n", &recorder->ring_bytes, &used) == 1 ? 0 : -EINVAL;
    if (!rc)
        rc = rings_scan(recorder, printed + used);
    if (rc) {
        perf_recorder_forget(recorder);
        return rc;
    }
    recorder_begin(recorder);
    *out = recorder;
    return 0;
}
