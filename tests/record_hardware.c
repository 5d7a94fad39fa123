/*
 * Records of hardware counters, if the processor has any.
 */
#include "tests/record_test.h"

#include "backends/perf/probe/open.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <unistd.h>

bool hardware_here(void)
{
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = PERF_TYPE_HARDWARE,
                                   .config = PERF_COUNT_HW_INSTRUCTIONS,
                                   .sample_period = 100000,
                                   .exclude_kernel = 1};
    int fd = event_open(&attr, 0, -1, -1, 0);
    bool here = fd >= 0;

    event_close(&fd);
    return here;
}

/* Returns whether this is the emulated machine of tests/guest, which counts exactly but misses
 * overflow interrupts. */
static bool emulator_here(void)
{
    char name[64] = "";
    int fd = open("/proc/device-tree/compatible", O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && read(fd, name, sizeof name - 1) < 0)
        name[0] = '\0';
    if (fd >= 0)
        close(fd);
    return !strcmp(name, "linux,dummy-virt");
}

static uint64_t periods_of(const struct run *run, unsigned place)
{
    uint64_t sum = 0;

    EACH(run, record)
    {
        const struct record_sample *s = (const void *)record;

        if (record->type == RECORD_SAMPLE && s->id == LOG_ID(SET, place))
            sum += s->period;
    }
    return sum;
}

static void test_overflow(unsigned what, bool freq)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    uint64_t value, sum, users = 0;
    unsigned long samples;
    bool emulated = what == INSTRUCTIONS && emulator_here();

    run_plan(&run, &target);
    plan_events[0] = (struct plan_event){&events[what], true, false};
    run.plan.period = freq ? 0 : 100000;
    run.plan.freq = freq ? 2000 : 0;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'c', 0);
        ask(&target, 'i', 8000000);
        ask(&target, 'c', 1);
        ask(&target, 'i', 8000000);
        ask(&target, 't', 1);
        perf_stop(run.counter);
        drain(&run, true);
        value = value_at(&run, 0);
        sum = periods_of(&run, 0);
        samples = samples_of(&run, 0);
        EACH(&run, record)
        users += record->type == RECORD_SAMPLE && (record->misc & RECORD_MODE) == RECORD_USERMODE;
        /*
         * The last, incomplete period on each CPU gives no sample, and the kernel needs some time
         * to find the period of a frequency. An emulated processor misses most overflows except
         * those of cycles.
         */
        check(sum <= value + value / 50 && samples >= (freq || emulated ? 5 : 100) &&
                  (emulated || sum + 6 * 100000 + (freq ? value / 3 : 0) >= value),
              freq ? "an overflow at a frequency" : "each overflow is one sample",
              " of %s: %lu samples say %lu of %lu, %lu throttled, %lu lost", events[what].written,
              samples, (unsigned long)sum, (unsigned long)value, count_type(&run, RECORD_THROTTLE),
              lost_of(&run));
        check((users == samples || emulated) && in_order(&run), "in user mode, in order",
              ": %lu of %lu", (unsigned long)users, samples);
    }
    run_end(&run);
    target_end(&target);
}

/* Both events of a pinned hardware group are sampled, on two CPUs and in a child. */
static void test_overflow_set(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    struct reading now;

    run_plan(&run, &target);
    plan_events[0] = (struct plan_event){&events[INSTRUCTIONS], true, false};
    plan_events[1] = (struct plan_event){&events[CYCLES], true, false};
    run.plan.n = 2;
    run.plan.period = 200000;
    run.plan.descendants = true;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'c', 0);
        ask(&target, 'i', 5000000);
        ask(&target, 'c', 1);
        ask(&target, 'i', 5000000);
        ask(&target, 'f', 10);
        perf_read(run.counter, &now, true);
        perf_stop(run.counter);
        drain(&run, true);
        perf_read(run.counter, &now, true);
        check(samples_of(&run, 0) >= 50 && samples_of(&run, 1) >= 50 &&
                  periods_of(&run, 0) <= now.value[0] &&
                  periods_of(&run, 0) + 6 * 200000 >= now.value[0],
              "events of a set overflow each for itself", ": %lu, %lu; %lu of %lu",
              samples_of(&run, 0), samples_of(&run, 1), (unsigned long)periods_of(&run, 0),
              (unsigned long)now.value[0]);
        check(now.running_ns <= now.covered_ns + 1000000 &&
                  now.running_ns + now.covered_ns / 20 >= now.covered_ns &&
                  now.enabled_ns <= now.covered_ns + now.covered_ns / 20 + 1000000,
              "and ran all the time they should have", ": %lu of %lu, enabled %lu",
              (unsigned long)now.running_ns, (unsigned long)now.covered_ns,
              (unsigned long)now.enabled_ns);
    }
    run_end(&run);
    target_end(&target);
}

/* Takes all six counters of a CPU with pinned events, so that another user loses its counter. */
static void counters_take(int fds[6], int cpu)
{
    struct perf_event_attr attr = {
        .size = sizeof attr, .type = PERF_TYPE_RAW, .config = 8, .pinned = 1};

    for (unsigned i = 0; i < 6; i++)
        fds[i] = event_open(&attr, -1, cpu, -1, 0);
}

static void test_lost_hardware(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    struct reading lost, found;
    int fds[6];

    ask(&target, 'c', 0);
    run_plan(&run, &target);
    plan_events[0] = (struct plan_event){&events[INSTRUCTIONS], true, false};
    run.plan.period = 100000;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'i', 1000000);
        ask(&target, 't', 10);
        perf_read(run.counter, &found, true);
        counters_take(fds, 0);
        ask(&target, 'i', 1000000);
        perf_read(run.counter, &lost, true);
        check(lost.off_hardware && lost.covered_ns > lost.running_ns + lost.covered_ns / 4 &&
                  lost.value[0] < found.value[0] * 5 / 4,
              "hardware lost on one CPU is noticed", ": off %d, %lu of %lu ns", lost.off_hardware,
              (unsigned long)lost.running_ns, (unsigned long)lost.covered_ns);
        for (unsigned i = 0; i < 6; i++)
            event_close(&fds[i]);
        perf_read(run.counter, &lost, true);
        ask(&target, 'i', 2000000);
        perf_read(run.counter, &found, true);
        check(!found.off_hardware && found.value[0] > lost.value[0] + 4000000,
              "and comes back with the next read", ": off %d, %lu more", found.off_hardware,
              (unsigned long)(found.value[0] - lost.value[0]));
    }
    run_end(&run);
    target_end(&target);
}

void test_hardware(void)
{
    test_overflow(INSTRUCTIONS, false);
    test_overflow(CYCLES, false);
    test_overflow(INSTRUCTIONS, true);
    test_overflow(CYCLES, true);
    test_overflow_set();
    if (emulator_here())
        test_lost_hardware();
}
