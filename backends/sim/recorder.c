/*
 * Samples of simulated counters. They are created when the recorder is drained: their number
 * follows from the counts since the last drain, their times are spread evenly over that interval.
 * The same clock gives the same records.
 */
#include "backends/sim/sim.h"
#include "core/log/record.h"

#include <errno.h>
#include <stdlib.h>

#define MAX_FREQ   100000
#define MAX_FRAMES 127
#define MAX_DUE    10000 /* per event and drain; more samples are lost, as with a full buffer */
#define STEPS      100   /* time steps between two drains */

#define USER_TEXT   UINT64_C(0x10000000000)
#define KERNEL_TEXT UINT64_C(0xffffffff81000000)

struct recorder {
    struct backend_state *state;
    LIST_ENTRY(recorder) of_state;
    uint64_t number;
    uint64_t bytes;
    uint64_t last_ns; /* time of the last drain, or of the creation */
    bool forgotten;
};

/* ---- samples ---- */

/* Adds one sample. If both modes are counted, every fourth one is in the kernel. A call chain has
 * two functions in each mode. */
static void sample_put(const struct counter *counter, unsigned event, uint64_t time,
                       struct buf *out)
{
    const struct plan *plan = &counter->plan;
    const struct target_ref *target = &plan->target;
    const struct tally *tally = &counter->tally[event];
    const bool task = target_is_task(target);
    const bool kernel = tally->kernel && (!tally->user || tally->sampled % 4 == 3);
    const uint64_t place = tally->sampled % 16 * 4096 + 4;
    const struct record_sample sample = {
        .id = LOG_ID(plan->set_number, event),
        .ip = place + (kernel ? KERNEL_TEXT : USER_TEXT),
        .pid = task ? (uint32_t)target->pid : 0,
        .tid = task ? (uint32_t)(target->tid ? target->tid : target->pid) : 0,
        .time = time,
        .cpu = target->kind == TARGET_CPU ? target->cpu
                                          : (unsigned)cpus_next(&counter->state->pmu.online, 0),
        .period =
            plan->period ? plan->period : counter_value(counter, event) / (tally->sampled + 1)};
    unsigned n = 0, left = plan->max_frames;
    uint64_t frame[6];

    if (kernel && plan->chain_kernel && left > 0) {
        frame[n++] = FRAME_KERNEL;
        frame[n++] = sample.ip;
        if (--left > 0 && left--)
            frame[n++] = KERNEL_TEXT;
    }
    if (plan->chain_user && left > 0) {
        frame[n++] = FRAME_USER;
        frame[n++] = kernel ? USER_TEXT + 0x100 : sample.ip;
        if (--left > 0)
            frame[n++] = USER_TEXT;
    }
    record_add_sample(out, &sample, kernel ? RECORD_KERNEL : RECORD_USERMODE,
                      plan->chain_user || plan->chain_kernel ? frame : NULL, n);
}

/* Adds the samples of one counter in one of STEPS time steps. Step 0 adds none: it drops samples
 * beyond MAX_DUE and records the loss. */
static void samples_step(struct counter *counter, unsigned step, uint64_t time, struct buf *out)
{
    const struct plan *plan = &counter->plan;

    for (unsigned i = 0; i < plan->n; i++) {
        struct tally *tally = &counter->tally[i];
        const uint64_t due =
            (plan->period > 0 ? counter_value(counter, i) / plan->period
                              : counter->running_ns / 1000 * plan->freq / 1000000) -
            tally->sampled;

        if (step == 0 && due > MAX_DUE) {
            record_add_lost(out, time, LOG_ID(counter->plan.set_number, i), due - MAX_DUE);
            tally->sampled += due - MAX_DUE;
        }
        for (uint64_t n = step == 0 ? 0 : due / (STEPS - step + 1); n > 0; n--) {
            sample_put(counter, i, time, out);
            tally->sampled++;
        }
    }
}

uint64_t sim_drain(struct recorder *recorder, bool all, const struct intake *intake)
{
    struct backend_state *state = recorder->state;
    struct counter *counter;
    struct buf records = {0};

    (void)all;
    pthread_mutex_lock(&state->lock);
    const uint64_t from = recorder->last_ns, now = sim_now(state);
    for (unsigned step = 0; step <= STEPS; step++)
        LIST_FOREACH (counter, &state->counters, of_state) {
            if (counter->plan.recorder != recorder || !counter->plan.sampling)
                continue;
            if (step == 0)
                counter_update(counter, now);
            samples_step(counter, step, from + (now - from) * step / STEPS, &records);
        }
    recorder->last_ns = now;
    pthread_mutex_unlock(&state->lock);
    for (size_t at = 0; at < records.len;) {
        const struct record *record = (const struct record *)(records.data + at);

        intake->put(intake->arg, record);
        at += record->size;
    }
    buf_free(&records);
    return now;
}

/* ---- life ---- */

/* Reports one descriptor per CPU, as for the kernel's buffers. */
void sim_recorder_facts(const struct recorder *recorder, struct recorder_facts *out)
{
    const unsigned cpus = cpus_count(&recorder->state->pmu.online);

    *out = (struct recorder_facts){.descriptors = cpus, .bytes = cpus * recorder->bytes};
}

int sim_recorder_new(struct backend_state *state, const struct recorder_plan *plan,
                     struct recorder **out, struct err *err)
{
    const unsigned cpus = cpus_count(&state->pmu.online);
    int rc = descriptors_check(cpus, plan->fds_left, plan->fds_quota, plan->fds_limit_name,
                               "a buffer for each CPU ", err);

    if (rc != 0)
        return rc;
    struct recorder *recorder = calloc(1, sizeof *recorder);
    if (!recorder)
        return err_nomem(err);
    recorder->state = state;
    recorder->bytes = plan->bytes;
    pthread_mutex_lock(&state->lock);
    recorder->last_ns = sim_now(state);
    recorder->number = ++state->last_number;
    LIST_INSERT_HEAD(&state->recorders, recorder, of_state);
    pthread_mutex_unlock(&state->lock);
    *out = recorder;
    return 0;
}

void sim_recorder_free(struct recorder *recorder)
{
    if (!recorder)
        return;
    struct backend_state *state = recorder->state;
    pthread_mutex_lock(&state->lock);
    LIST_REMOVE(recorder, of_state);
    pthread_mutex_unlock(&state->lock);
    free(recorder);
}

void sim_sample_limits(struct backend_state *state, struct sample_limits *out)
{
    (void)state;
    *out = (struct sample_limits){.max_freq = MAX_FREQ, .max_frames = MAX_FRAMES};
}

/* ---- adoption by a later worker, by number ---- */

void sim_recorder_print(const struct recorder *recorder, struct buf *out)
{
    buf_u64(out, recorder->number);
}

void sim_recorder_forget(struct recorder *recorder)
{
    recorder->forgotten = true;
}

int sim_recorder_adopt(struct backend_state *state, const struct recorder_plan *plan,
                       const char *printed, struct recorder **out)
{
    const uint64_t number = strtoull(printed, NULL, 10);
    struct recorder *recorder;

    (void)plan;
    pthread_mutex_lock(&state->lock);
    LIST_FOREACH (recorder, &state->recorders, of_state)
        if (recorder->forgotten && recorder->number == number)
            break;
    if (recorder)
        recorder->forgotten = false;
    pthread_mutex_unlock(&state->lock);
    *out = recorder;
    return recorder ? 0 : -EINVAL;
}
