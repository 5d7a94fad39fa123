/*
 * The simulated PMU. Only the PMU is simulated: processes, clock and rights are the host's, so a
 * mount behaves as on a machine with such a PMU, and a test with a fake clock knows every value.
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
    pthread_mutex_t lock; /* a leaf; protects the members below and the counters and recorders */
    uint64_t last_number; /* of a counter or recorder */
    LIST_HEAD(, counter) counters;
    LIST_HEAD(, recorder) recorders;
};

static inline uint64_t sim_now(const struct backend_state *state)
{
    return state->host->now_ns(state->host_state);
}

/* recorder.c: members of struct backend, except sim_recorders_close(), which frees recorders that
 * the engine has left for a later worker. */
int sim_recorder_new(struct backend_state *state, const struct recorder_plan *plan,
                     struct recorder **out, struct err *err);
void sim_recorder_facts(const struct recorder *recorder, struct recorder_facts *out);
int sim_drain(struct recorder *recorder, bool all, const struct intake *intake);
void sim_recorder_print(const struct recorder *recorder, struct buf *out);
int sim_recorder_adopt(struct backend_state *state, const struct recorder_plan *plan,
                       const char *printed, struct recorder **out);
void sim_recorder_forget(struct recorder *recorder);
void sim_recorders_close(struct backend_state *state);
void sim_recorder_free(struct recorder *recorder);
void sim_sample_limits(struct backend_state *state, struct sample_limits *out);
