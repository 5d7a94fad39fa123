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
    const struct loop *loop; /* NULL: nothing happens by itself */
    const struct sink *sink;
    struct shape shape;
    uint64_t last_number; /* of a counter */
    LIST_HEAD(, counter) counters;
};

/* One for all of the simulated machine: its counters, its buffers and what they hold. */
extern pthread_mutex_t sim_lock;

static inline uint64_t sim_now(const struct backend_state *state)
{
    return state->host->now_ns(state->host_state);
}
