/*
 * Steps at the switches of threads: they add up to the count.
 */
#include "tests/record_test.h"

#include <stdio.h>
#include <sys/utsname.h>

/* Steps of the first event, all threads and processes. */
static uint64_t steps_sum(const struct run *run, unsigned long *n, unsigned long *lasts)
{
    uint64_t sum = 0;

    EACH(run, record)
    if (record->type == RECORD_SWITCH) {
        const struct record_note *note = (const void *)record;

        sum += note->value[0];
        ++*n;
        *lasts += (record->misc & RECORD_LAST) != 0;
    }
    return sum;
}

/* Older kernels do not tell the last step of a thread, or only a lower bound of all. */
static bool steps_are_exact(void)
{
    struct utsname name;
    unsigned major = 0, minor = 0;

    uname(&name);
    return sscanf(name.release, "%u.%u", &major, &minor) == 2 && (major << 8 | minor) >= 0x612;
}

void test_steps(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long n = 0, lasts = 0;
    uint64_t sum, value;

    run_plan(&run, &target);
    run.plan.sampling = false;
    run.plan.period = 0;
    run.plan.steps = run.plan.lasts = run.plan.descendants = true;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 40);
        ask(&target, 'c', 1);
        ask(&target, 'p', 30);
        ask(&target, 'c', 0);
        ask(&target, 't', 100);
        ask(&target, 'f', 60);
        ask(&target, 's', 20);
        perf_stop(run.counter);
        drain(&run, true);
        sum = steps_sum(&run, &n, &lasts);
        value = value_at(&run, 0);
        check(value >= 230 && (sum == value || (!steps_are_exact() && sum >= 70 && sum < value)) &&
                  n >= 5,
              "steps add up to the count", ": %lu of %lu in %lu steps", (unsigned long)sum,
              (unsigned long)value, n);
        if (steps_are_exact())
            check(lasts == 2, "a thread's and a child's last step is told", ": %lu", lasts);
        check(in_order(&run) && count_type(&run, RECORD_FORK) == 2 &&
                  count_type(&run, RECORD_EXIT) == 2 && count_type(&run, RECORD_SAMPLE) == 0,
              "with births and ends, in order, and no samples", ": %d, %lu, %lu, %lu",
              in_order(&run), count_type(&run, RECORD_FORK), count_type(&run, RECORD_EXIT),
              count_type(&run, RECORD_SAMPLE));
    }
    run_end(&run);
    target_end(&target);
}

void test_steps_of_hardware(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long n = 0, lasts = 0;
    uint64_t sum;

    run_plan(&run, &target);
    plan_events[0] = (struct plan_event){&events[INSTRUCTIONS], true, false};
    run.plan.sampling = false;
    run.plan.period = 0;
    run.plan.steps = run.plan.lasts = true;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'i', 1000000);
        ask(&target, 'c', 1);
        ask(&target, 'i', 1000000);
        ask(&target, 't', 10);
        perf_stop(run.counter);
        drain(&run, true);
        sum = steps_sum(&run, &n, &lasts);
        check(value_at(&run, 0) >= 4000000 && sum <= value_at(&run, 0) &&
                  count_type(&run, RECORD_FORK) == 1 && count_type(&run, RECORD_EXIT) == 1,
              "with the steps asked for the count is the same", ": %lu in %lu steps of %lu",
              (unsigned long)sum, n, (unsigned long)value_at(&run, 0));
        check(sum + value_at(&run, 0) / 100 >= value_at(&run, 0), "and the steps add up to it",
              ": %lu in %lu steps of %lu", (unsigned long)sum, n, (unsigned long)value_at(&run, 0));
    }
    run_end(&run);
    target_end(&target);
}
