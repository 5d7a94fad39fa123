/*
 * A recorder as one line of text, and back: "rings BYTES TAKEN CPU:FD…". Rings that were
 * forgotten in this process are still mapped, and are used again: without any mapping the records
 * would go, and kernels (6.18) charge the locked memory of a second one, and never give that back.
 * What the ids of counters mean that are closed already is not known any more.
 */
#include "backends/perf/record/recorder.h"

#include "core/base/arena.h"
#include "core/base/fds.h"
#include "core/base/vec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void perf_recorder_print(const struct recorder *recorder, struct buf *out)
{
    buf_printf(out, "rings %" PRIu64 " %" PRIu64, recorder->ring_bytes, recorder->taken_block);
    for (unsigned i = 0; i < recorder->n_rings; i++) {
        const struct ring *ring = &recorder->rings[i];

        buf_printf(out, " %u:%d", ring->cpu, ring->fd);
    }
}

/* Mappings that were left, with the engine's lock. */
static VEC(struct ring) left;

void perf_recorder_forget(struct recorder *recorder)
{
    for (unsigned i = 0; i < recorder->n_rings; i++)
        (void)!vec_push(&left, recorder->rings[i]);
    rings_unwatch(recorder);
    recorder->n_rings = 0; /* they stay open */
    recorder_release(recorder);
}

/* NULL: it is not mapped. */
static void *ring_left(int fd, uint64_t bytes)
{
    for (size_t i = 0; i < left.n; i++) {
        const struct ring ring = left.items[i];

        if (ring.fd == fd && ring.size == bytes) {
            left.items[i] = left.items[--left.n];
            return ring.page;
        }
    }
    return NULL;
}

static int rings_scan(struct recorder *recorder, const char *text)
{
    unsigned cpu;
    int fd, used, rc = 0;

    for (; !rc && sscanf(text, " %u:%d%n", &cpu, &fd, &used) == 2; text += used) {
        if (!fd_keep(fd))
            return -EBADF;
        if (recorder->n_rings == recorder->n_cpus)
            return -EINVAL;
        rc = ring_take_on(recorder, &recorder->rings[recorder->n_rings], cpu, fd,
                          ring_left(fd, recorder->ring_bytes));
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
