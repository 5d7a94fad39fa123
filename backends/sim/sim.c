/*
 * The simulated PMU as a struct backend, configured by mount options.
 */
#include "backends/sim/sim.h"

#include "backends/backends.h"
#include "backends/sim/counter.h"
#include "backends/sim/events.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* The host reports deaths and CPUs never change, so neither loop nor sink is needed. */
static int sim_open(const char *options, const struct host *host, struct host_state *host_state,
                    const struct loop *loop, const struct sink *sink, struct backend_state **state,
                    struct err *err)
{
    struct backend_state *sim = calloc(1, sizeof *sim);
    int rc;

    (void)loop, (void)sink;
    if (sim == NULL)
        return err_nomem(err);
    sim->host = host;
    sim->host_state = host_state;
    rc = sim_shape_parse(&sim->shape, options, err);
    if (rc != 0) {
        free(sim);
        return rc;
    }
    pthread_mutex_init(&sim->lock, NULL);
    events_weigh(&sim->shape);
    *state = sim;
    return 0;
}

static void sim_close(struct backend_state *state)
{
    if (state == NULL)
        return;
    for (struct counter *counter; (counter = LIST_FIRST(&state->counters));) {
        assert(counter->forgotten);
        counter_free(counter);
    }
    sim_recorders_close(state);
    sim_shape_free(&state->shape);
    pthread_mutex_destroy(&state->lock);
    free(state);
}

static const struct class_info *sim_classes(struct backend_state *state, unsigned *n)
{
    *n = state->shape.n_classes;
    return state->shape.classes;
}

static void sim_facts(struct backend_state *state, struct buf *out)
{
    if (state->shape.fixed)
        buf_str(out, "fixed the last row of each hardware class counts only instructions\n");
    if (state->shape.lose_after_ms > 0)
        buf_printf(out, "lose_after_ms %" PRIu64 "\n", state->shape.lose_after_ms);
}

static void sim_cpuref(struct backend_state *state, struct buf *out)
{
    (void)state;
    buf_str(out, "simulated PMU: its events are described in events/\n");
}

static void sim_cpus(struct backend_state *state, struct cpus *possible, struct cpus *online)
{
    cpus_copy(possible, &state->shape.possible);
    cpus_copy(online, &state->shape.online);
}

const struct backend sim_backend = {
    .name = "sim",
    .open = sim_open,
    .close = sim_close,
    .classes = sim_classes,
    .facts = sim_facts,
    .cpuref = sim_cpuref,
    .simulated_cpus = true,
    .cpus = sim_cpus,
    .recorder_new = sim_recorder_new,
    .recorder_facts = sim_recorder_facts,
    .drain = sim_drain,
    .recorder_print = sim_recorder_print,
    .recorder_adopt = sim_recorder_adopt,
    .recorder_forget = sim_recorder_forget,
    .recorder_free = sim_recorder_free,
    .sample_limits = sim_sample_limits,
    .is_qualifier = sim_is_qualifier,
    .resolve = events_resolve,
    .check_set = events_check_set,
    .list = events_list,
    .describe = events_describe,
    .attach = counter_attach,
    .start = counter_start,
    .stop = counter_stop,
    .read = counter_read,
    .cost = counter_cost,
    .facts_of = counter_facts,
    .processes = counter_processes,
    .covers = counter_covers,
    .print = counter_print,
    .adopt = counter_adopt,
    .forget = counter_forget,
    .free = counter_free,
};
