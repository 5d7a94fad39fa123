/*
 * Time is cut into slices of 10 ms: at the end of each the task is switched out, and throttling
 * ends. A sample is taken when an event's value reaches the next multiple of the period, or at each
 * multiple of 1/freq of its time.
 */
#include "backends/sim/tape.h"

#include "backends/sim/sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTION_BYTES 0x1000
#define FUNCTIONS      16
#define NS_PER_S       UINT64_C(1000000000)

void tape_init(struct tape *tape, struct backend_state *state, const struct plan *plan)
{
    const struct target_ref *target = &plan->target;
    const bool task = target->kind == TARGET_PROCESS || target->kind == TARGET_THREAD;
    static uint64_t sources;

    *tape = (struct tape){.recorder = plan->recorder,
                          .shape = &state->shape,
                          .set = plan->set,
                          .period = plan->period,
                          .freq = plan->freq,
                          .sampling = plan->sampling,
                          .chain_user = plan->chain_user,
                          .chain_kernel = plan->chain_kernel,
                          .steps = plan->steps,
                          .lasts = plan->lasts,
                          .depth = plan->depth,
                          .pid = task ? (uint32_t)target->pid : 0,
                          .tid = (uint32_t)(target->kind == TARGET_THREAD ? target->tid
                                            : task                        ? target->pid
                                                                          : 0),
                          .cpu = target->kind == TARGET_CPU ? (int)target->cpu : -1,
                          .factor = 1,
                          .source = __atomic_add_fetch(&sources, 1, __ATOMIC_RELAXED),
                          .n = plan->n};
}

static unsigned cpu_at(const struct tape *tape, uint64_t time)
{
    const struct cpus *online = &tape->shape->online;
    uint64_t skip = time / SIM_SLICE_NS % cpus_count(online);
    int cpu = cpus_next(online, 0);

    if (tape->cpu >= 0)
        return (unsigned)tape->cpu;
    while (skip-- > 0)
        cpu = cpus_next(online, cpu + 1);
    return (unsigned)cpu;
}

/* ---- samples ---- */

static uint64_t interval_ns(const struct tape *tape)
{
    return tape->freq < NS_PER_S ? NS_PER_S / tape->freq : 1;
}

/* Samples that an event has taken when it has run so long. */
static uint64_t samples_at(const struct tape *tape, unsigned event, uint64_t running)
{
    if (tape->period > 0)
        return tally_value(&tape->tally[event], running) / tape->period;
    return tape->freq > 0 ? running / interval_ns(tape) : 0;
}

/* The time on, after `low` and not after `high`, at which the k-th is taken. */
static uint64_t sample_time(const struct tape *tape, unsigned event, uint64_t k, uint64_t low,
                            uint64_t high)
{
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;

        if (samples_at(tape, event, middle) >= k)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* Every fourth is of the kernel where both modes are counted. */
static bool sample_is_kernels(const struct tally *tally, uint64_t k)
{
    return tally->kernel && (!tally->user || k % 4 == 3);
}

static uint64_t text_address(uint64_t function, uint64_t k)
{
    return SIM_TEXT + function % FUNCTIONS * FUNCTION_BYTES + k * 4 % 256;
}

/* What called what: the last function calls one of the others. */
static unsigned frames_make(const struct tape *tape, uint64_t k, bool kernel, uint64_t frame[8])
{
    unsigned n = 0, left = tape->depth;

    if (kernel && tape->chain_kernel && left > 0) {
        frame[n++] = FRAME_KERNEL;
        frame[n++] = SIM_KERNEL + text_address(k, k) - SIM_TEXT;
        left--;
        if (left > 0 && left--)
            frame[n++] = SIM_KERNEL + SIM_TEXT_BYTES;
    }
    if (tape->chain_user && left > 0) {
        frame[n++] = FRAME_USER;
        frame[n++] = text_address(k, k);
        left--;
        if (left > 0)
            frame[n++] = text_address(FUNCTIONS - 1, 0);
    }
    return n;
}

static bool sample_put(const struct tape *tape, unsigned event, uint64_t k, uint64_t time,
                       uint64_t period)
{
    const bool kernel = sample_is_kernels(&tape->tally[event], k);
    const bool chains = tape->chain_user || tape->chain_kernel;
    const unsigned cpu = cpu_at(tape, time);
    const struct record_sample sample = {.id = LOG_ID(tape->set, event),
                                         .ip = kernel ? SIM_KERNEL + text_address(k, k) - SIM_TEXT
                                                      : text_address(k, k),
                                         .pid = tape->pid,
                                         .tid = tape->tid,
                                         .time = time,
                                         .cpu = cpu,
                                         .period = period};
    uint64_t frame[8];
    const unsigned n = chains ? frames_make(tape, k, kernel, frame) : 0;

    record_add_sample(recorder_open(tape->recorder), &sample,
                      kernel ? RECORD_KERNEL : RECORD_USERMODE, chains ? frame : NULL, n);
    return recorder_shut(tape->recorder, cpu);
}

static void throttle_put(const struct tape *tape, unsigned event, uint64_t time, bool on)
{
    const uint64_t id = LOG_ID(tape->set, event);
    const struct record_throttle record = {
        .head = {.type = on ? RECORD_THROTTLE : RECORD_UNTHROTTLE, .size = sizeof record},
        .time = time,
        .id = id,
        .stream = id,
        .tail = {.pid = tape->pid, .tid = tape->tid, .time = time, .id = id},
    };

    buf_add(recorder_open(tape->recorder), &record, sizeof record);
    recorder_shut(tape->recorder, cpu_at(tape, time));
}

/* A stretch of time within one slice; low and high are the time on at its ends. */
struct stretch {
    uint64_t from, low, high, before;
};

/* When an event that has run so long did so. */
static uint64_t wall_time(const struct tape *tape, const struct stretch *stretch, uint64_t running)
{
    return stretch->from + running * tape->factor - stretch->before;
}

/* No more of this event in this slice? */
static bool throttle(struct tape *tape, unsigned event, uint64_t time)
{
    const uint64_t most = tape->shape->throttle;

    if (most == 0 || tape->taken[event] < most)
        return false;
    if (!tape->throttled[event])
        throttle_put(tape, event, time, true);
    tape->throttled[event] = true;
    return true;
}

static uint64_t sample_period(const struct tape *tape, unsigned event, uint64_t at)
{
    const struct tally *tally = &tape->tally[event];

    if (tape->period > 0)
        return tape->period;
    return tally_value(tally, at) - tally_value(tally, at - interval_ns(tape));
}

/* Samples of one event; a drain puts those of several in order. */
static void event_samples(struct tape *tape, unsigned event, const struct stretch *stretch)
{
    const uint64_t last = samples_at(tape, event, stretch->high);

    for (uint64_t k = samples_at(tape, event, stretch->low) + 1; k <= last; k++) {
        const uint64_t at = sample_time(tape, event, k, stretch->low, stretch->high);
        const uint64_t time = wall_time(tape, stretch, at);

        if (throttle(tape, event, time))
            return;
        tape->taken[event]++;
        if (!sample_put(tape, event, k, time, sample_period(tape, event, at))) {
            recorder_lose(tape->recorder, cpu_at(tape, time), last - k);
            return;
        }
    }
}

/* ---- steps ---- */

/* What was counted on this CPU; NULL: no memory. */
static uint64_t *values_on(struct tape *tape, unsigned cpu)
{
    const size_t n = (cpu + 1) * (size_t)tape->n, had = tape->n_cpus * (size_t)tape->n;

    if (cpu >= tape->n_cpus) {
        uint64_t *more = realloc(tape->on_cpu, n * sizeof *more);

        if (!more)
            return NULL;
        memset(more + had, 0, (n - had) * sizeof *more);
        tape->on_cpu = more;
        tape->n_cpus = cpu + 1;
    }
    return tape->on_cpu + cpu * (size_t)tape->n;
}

static void values_put(struct tape *tape, uint64_t time, uint64_t on, unsigned misc)
{
    const unsigned cpu = cpu_at(tape, time - 1); /* the slice that ends */
    uint64_t told[1 + SET_MAX] = {tape->source}, *here = values_on(tape, cpu);

    if (!here)
        return;
    for (unsigned i = 0; i < tape->n; i++) {
        const uint64_t value = tally_value(&tape->tally[i], on / tape->factor);

        told[1 + i] = here[i] += value - tape->stepped[i];
        tape->stepped[i] = value;
    }
    record_add_note(recorder_open(tape->recorder), &(struct note){.type = RECORD_VALUES,
                                                                  .misc = misc,
                                                                  .time = time,
                                                                  .pid = tape->pid,
                                                                  .tid = tape->tid,
                                                                  .cpu = cpu,
                                                                  .id = LOG_ID(tape->set, 0),
                                                                  .n = 1 + tape->n,
                                                                  .value = told});
    recorder_shut(tape->recorder, cpu);
}

/* ---- time ---- */

static void slice_enter(struct tape *tape, uint64_t time)
{
    const uint64_t slice = time / SIM_SLICE_NS;

    if (slice == tape->slice)
        return;
    tape->slice = slice;
    memset(tape->taken, 0, sizeof tape->taken);
    for (unsigned i = 0; i < tape->n; i++) {
        if (tape->throttled[i])
            throttle_put(tape, i, time, false);
        tape->throttled[i] = false;
    }
}

void tape_run(struct tape *tape, uint64_t from, uint64_t until, uint64_t before)
{
    if (!tape->recorder)
        return;
    while (from < until) {
        const uint64_t end = (from / SIM_SLICE_NS + 1) * SIM_SLICE_NS;
        const uint64_t to = end < until ? end : until;
        const uint64_t after = before + (to - from);

        slice_enter(tape, from);
        for (unsigned i = 0; tape->sampling && i < tape->n; i++)
            event_samples(tape, i,
                          &(struct stretch){.from = from,
                                            .low = before / tape->factor,
                                            .high = after / tape->factor,
                                            .before = before});
        if (tape->steps && to == end)
            values_put(tape, to, after, 0);
        before = after;
        from = to;
    }
}

void tape_begin(struct tape *tape, uint64_t time, bool executed)
{
    const unsigned cpu = cpu_at(tape, time);
    const struct map_facts map = {.pid = tape->pid,
                                  .tid = tape->tid,
                                  .start = SIM_TEXT,
                                  .length = SIM_TEXT_BYTES,
                                  .protection = 5,
                                  .flags = 2,
                                  .path = SIM_PROGRAM};

    if (!tape->recorder || tape->pid == 0)
        return;
    if (executed) {
        record_add_comm(recorder_open(tape->recorder), time, tape->pid, tape->tid, "simulated",
                        RECORD_EXECUTED);
        recorder_shut(tape->recorder, cpu);
    }
    if (executed || tape->sampling) {
        record_add_map(recorder_open(tape->recorder), time, &map, RECORD_USERMODE);
        recorder_shut(tape->recorder, cpu);
    }
}

void tape_end(struct tape *tape, uint64_t time, uint64_t on)
{
    if (!tape->recorder || tape->pid == 0)
        return;
    if (tape->steps || tape->lasts)
        values_put(tape, time, on, RECORD_LAST | RECORD_EXACT);
    record_add_task(recorder_open(tape->recorder), RECORD_EXIT, time, tape->pid, 1, tape->tid, 1);
    recorder_shut(tape->recorder, cpu_at(tape, time));
}

void tape_free(struct tape *tape)
{
    free(tape->on_cpu);
}

/* ---- for a later worker ---- */
