/*
 * A recorder as one line of text, and back: "rings BYTES TAKEN CPU:FD…". Rings that were
 * forgotten in this process are still mapped, and are used again: without any mapping the records
 * would go, and kernels (6.18) charge the locked memory of a second one, and never give that back.
 * What the ids of counters mean that are closed already is not known any more.
 */
#include "backends/perf/record/recorder.h"

#include "core/base/arena.h"
#include "core/base/fds.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void perf_recorder_print(const struct recorder *recorder, struct buf *out)
{
    buf_printf(out, "rings %" PRIu64 " %" PRIu64, recorder->ring_bytes, recorder->taken_block);
    for (unsigned i = 0; i < recorder->n_rings; i++) {
        const struct ring *ring = &recorder->rings[i];

        buf_printf(out, " %u:%d", ring->cpu, ring->fd);
    }
}

/* ---- mappings that were left, with the engine's lock ---- */

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
    *left = (struct left){lefts, ring->fd, ring->page, ring->size};
    lefts = left;
}

/* NULL: it is not mapped. */
static void *ring_left(int fd, uint64_t bytes)
{
    struct left **at, *left;
    void *page = NULL;

    for (at = &lefts; (left = *at) && left->fd != fd;)
        at = &left->next;
    if (left && left->bytes == bytes) {
        page = left->page;
        *at = left->next;
        free(left);
    }
    return page;
}

void perf_recorder_forget(struct recorder *recorder)
{
    for (unsigned i = 0; i < recorder->n_rings; i++)
        ring_leave(&recorder->rings[i]);
    recorder_unlist(recorder);
    rings_unwatch(recorder);
    recorder_release(recorder);
}

static int ring_again(struct ring *ring, unsigned cpu, int fd, uint64_t bytes)
{
    void *page = ring_left(fd, bytes);

    if (!page)
        return ring_map(ring, cpu, fd, bytes);
    ring_found(ring, cpu, fd, page, bytes);
    return 0;
}

static int rings_scan(struct recorder *recorder, const char *text)
{
    unsigned cpu;
    int fd, used, rc = 0;

    for (; !rc && sscanf(text, " %u:%d%n", &cpu, &fd, &used) == 2; text += used) {
        struct ring *ring = &recorder->rings[recorder->n_rings];

        if (!fd_keep(fd))
            return -EBADF;
        if (recorder->n_rings == recorder->n_cpus)
            return -EINVAL;
        rc = ring_again(ring, cpu, fd, recorder->ring_bytes);
        if (rc)
            return rc;
        ring_hold(recorder, fd, ring->size);
        ring_count(recorder, ring, recorder->n_rings);
        recorder->n_rings++;
    }
    return recorder->n_rings && !*text ? 0 : -EINVAL;
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
    recorder_enlist(recorder);
    rings_watch(recorder);
    *out = recorder;
    return 0;
}
