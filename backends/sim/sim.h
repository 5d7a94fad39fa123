/*
 * What the parts of the simulated PMU share. Only the PMU is simulated: processes, clock and rights
 * are the host's, so a mount behaves as on a machine with such a PMU, and a test with a fake clock
 * computes every value in its head.
 */
#pragma once

#include "backends/sim/shape.h"
#include "core/backend.h"

#include <pthread.h>
#include <sys/queue.h>

struct backend_state {
    const struct host *host;
    struct host_state *host_state;
    struct shape shape;
    pthread_mutex_t lock; /* a leaf: what follows, and what is in it */
    uint64_t last_number; /* of a counter or recorder */
    LIST_HEAD(, counter) counters;
    LIST_HEAD(, recorder) recorders;
};

static inline uint64_t sim_now(const struct backend_state *state)
{
    return state->host->now_ns(state->host_state);
}
