/*
 * Samples: one for each event or period, of clocks, switches, tracepoints and sets, with call
 * chains.
 */
#include "tests/record_test.h"

#include <stdio.h>

/* Every page fault of every thread is one sample, in order, with its thread and its period. */
void test_every_fault(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long samples, good = 0;

    run_plan(&run, &target);
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 200);
        ask(&target, 'c', 1);
        ask(&target, 'p', 100);
        ask(&target, 't', 50);
        perf_stop(run.counter);
        drain(&run, true);
        samples = samples_of(&run, 0);
        check(samples == value_at(&run, 0) && samples >= 350, "each fault is one sample",
              ": %lu samples, %lu faults", samples, (unsigned long)value_at(&run, 0));
        EACH(&run, record)
        {
            const struct record_sample *s = (const void *)record;

            good += record->type == RECORD_SAMPLE && record->size == SAMPLE_SHORT &&
                    s->pid == (uint32_t)target.pid && s->cpu < 64 && s->period == 1 && s->ip;
        }
        check(good == samples, "with process, CPU, address and period", ": %lu of %lu", good,
              samples);
        check(in_order(&run), "in order of time", "");
        check(count_type(&run, RECORD_FORK) == 1 && count_type(&run, RECORD_EXIT) == 1,
              "and the thread's birth and end are told", ": %lu, %lu",
              count_type(&run, RECORD_FORK), count_type(&run, RECORD_EXIT));
    }
    run_end(&run);
    target_end(&target);
}

void test_period(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long samples, expected, periods = 0;

    run_plan(&run, &target);
    run.plan.period = 10;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'c', 0);
        ask(&target, 'p', 1005);
        perf_stop(run.counter);
        drain(&run, true);
        samples = samples_of(&run, 0);
        expected = value_at(&run, 0) / 10;
        /* Each thread on each CPU has a period of its own. */
        check(samples <= expected && samples + 2 >= expected, "one sample in ten faults",
              ": %lu samples, %lu expected", samples, expected);
        EACH(&run, record)
        periods += record->type == RECORD_SAMPLE &&
                   ((const struct record_sample *)(const void *)record)->period == 10;
        check(periods == samples, "each with its period", ": %lu of %lu", periods, samples);
    }
    run_end(&run);
    target_end(&target);
}

void test_clock(bool freq)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long samples, expected;
    uint64_t sum = 0;

    run_plan(&run, &target);
    plan_events[0].event = &events[CLOCK];
    run.plan.period = freq ? 0 : 100000;
    run.plan.freq = freq ? 5000 : 0;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'b', 100000);
        perf_stop(run.counter);
        drain(&run, true);
        samples = samples_of(&run, 0);
        EACH(&run, record)
        if (record->type == RECORD_SAMPLE)
            sum += ((const struct record_sample *)(const void *)record)->period;
        expected = value_at(&run, 0) / (freq ? 200000 : 100000);
        check(samples * 10 > expected * 7 && samples < expected + expected / 3 + 3,
              freq ? "a clock at a frequency" : "a clock with a period", ": %lu, about %lu",
              samples, expected);
        check(sum > value_at(&run, 0) / 2 && sum < value_at(&run, 0) * 3 / 2,
              "its periods add up to about its time", ": %lu of %lu", (unsigned long)sum,
              (unsigned long)value_at(&run, 0));
    }
    run_end(&run);
    target_end(&target);
}

void test_switches(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};

    run_plan(&run, &target);
    plan_events[0].event = &events[SWITCHES];
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 's', 100);
        perf_stop(run.counter);
        drain(&run, true);
        check(samples_of(&run, 0) == value_at(&run, 0) && samples_of(&run, 0) >= 50,
              "each switch is one sample", ": %lu of %lu", samples_of(&run, 0),
              (unsigned long)value_at(&run, 0));
    }
    run_end(&run);
    target_end(&target);
}

static bool tracepoint_here(void)
{
    static const char *const place[] = {
        "/sys/kernel/tracing/events/syscalls/sys_enter_getppid/id",
        "/sys/kernel/debug/tracing/events/syscalls/sys_enter_getppid/id"};

    for (unsigned i = 0; i < 2; i++) {
        FILE *file = fopen(place[i], "re");
        unsigned long id = 0;

        if (file && fscanf(file, "%lu", &id) == 1)
            events[GETPPID].code[1] = id;
        if (file)
            fclose(file);
    }
    return events[GETPPID].code[1];
}

void test_tracepoint(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};

    if (!tracepoint_here()) {
        printf("# no tracefs: a tracepoint is not tried\n");
        target_end(&target);
        return;
    }
    run_plan(&run, &target);
    plan_events[0].event = &events[GETPPID];
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'y', 77);
        perf_stop(run.counter);
        drain(&run, true);
        check(samples_of(&run, 0) == 77, "each hit of a tracepoint is one sample", ": %lu",
              samples_of(&run, 0));
    }
    run_end(&run);
    target_end(&target);
}

void test_set(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};

    run_plan(&run, &target);
    plan_events[1] = (struct plan_event){&events[SWITCHES], true, true};
    run.plan.n = 2;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 60);
        ask(&target, 's', 20);
        perf_stop(run.counter);
        drain(&run, true);
        check(samples_of(&run, 0) == value_at(&run, 0) &&
                  samples_of(&run, 1) == value_at(&run, 1) && value_at(&run, 0) >= 60 &&
                  value_at(&run, 1) >= 10,
              "the events of a set are told apart", ": %lu of %lu, %lu of %lu", samples_of(&run, 0),
              (unsigned long)value_at(&run, 0), samples_of(&run, 1),
              (unsigned long)value_at(&run, 1));
    }
    run_end(&run);
    target_end(&target);
}

void test_chain(bool user)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long good = 0, samples;

    run_plan(&run, &target);
    run.plan.chain_user = user;
    run.plan.chain_kernel = !user;
    run.plan.depth = 4;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 500);
        perf_stop(run.counter);
        drain(&run, true);
        samples = samples_of(&run, 0);
        EACH(&run, record)
        {
            const struct record_sample *s = (const void *)record;
            uint64_t context = user ? FRAME_USER : FRAME_KERNEL;

            good += record->type == RECORD_SAMPLE && record->size > SAMPLE_SHORT &&
                    record->size == SAMPLE_SHORT + 8 + 8 * s->n_frames && s->n_frames <= 5 &&
                    s->period == 1 && (s->n_frames == 0 || s->frame[0] == context);
        }
        check(samples >= 500 && good == samples,
              user ? "call chains of the user alone" : "call chains of the kernel alone",
              ": %lu of %lu", good, samples);
    }
    run_end(&run);
    target_end(&target);
}
