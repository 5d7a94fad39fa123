/*
 * What the parts of the simulated PMU share. Only the PMU is simulated: processes, clock and rights
 * are the host's, so a mount behaves as on a machine with such a PMU, and a test with a fake clock
 * computes every value in its head.
 */
#pragma once

#include "backends/sim/shape.h"
#include "core/backend.h"

struct backend_state {
    const struct host *host;
    struct host_state *host_state;
    const struct loop *loop; /* NULL: nothing happens by itself */
    const struct sink *sink;
    struct shape shape;
    unsigned n_counters; /* atomic; sim_backend.close asserts 0 */
    uint64_t last_number; /* of a counter; atomic */
    struct counter *forgotten;
};
