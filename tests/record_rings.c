/*
 * Ring buffers: full, wrapped many times, half full, drained while counters open and close, on a
 * CPU that comes online later, and records of CPUs that are not sampled.
 */
#include "tests/record_test.h"

#include "backends/perf/count/counter.h"
#include "backends/perf/record/sampling.h"
#include "core/base/clock.h"

#include <linux/perf_event.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>

/* A ring of one page overflows: the number of lost records is exact. goes_on: more samples follow,
 * and the earlier losses are not counted again. */
void test_losses(bool goes_on)
{
    struct target target = target_begin();
    struct run run = {.n = 0};

    ask(&target, 'c', 1);
    run_plan(&run, &target);
    if (recorder_begin_with(&run, page) && run_attach(&run)) {
        ask(&target, 'p', 1000);
        perf_stop(run.counter);
        drain(&run, true);
        check(lost_of(&run) > 800 && samples_of(&run, 0) + lost_of(&run) == value_at(&run, 0),
              "lost samples are counted exactly", ": %lu + %lu of %lu", samples_of(&run, 0),
              lost_of(&run), (unsigned long)value_at(&run, 0));
        if (goes_on) {
            perf_start(run.counter, &err);
            ask(&target, 'p', 30);
            perf_stop(run.counter);
            drain(&run, true);
            check(samples_of(&run, 0) + lost_of(&run) == value_at(&run, 0),
                  "and none of them twice", ": %lu + %lu of %lu", samples_of(&run, 0),
                  lost_of(&run), (unsigned long)value_at(&run, 0));
        }
    }
    run_end(&run);
    target_end(&target);
}

/* Drains a small ring that wraps many times. */
void test_around(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};

    run_plan(&run, &target);
    run.plan.chain_user = true;
    run.plan.max_frames = 3;
    if (recorder_begin_with(&run, 8 * page) && run_attach(&run)) {
        for (int i = 0; i < 60; i++) {
            ask(&target, 'c', (unsigned long)i % 2);
            ask(&target, 'p', 40);
            if (i % 3 == 0)
                drain(&run, false);
        }
        perf_stop(run.counter);
        drain(&run, true);
        check(samples_of(&run, 0) + lost_of(&run) == value_at(&run, 0) &&
                  samples_of(&run, 0) >= 2300,
              "records around the end of a ring", ": %lu + %lu of %lu", samples_of(&run, 0),
              lost_of(&run), (unsigned long)value_at(&run, 0));
        check(in_order(&run), "in order over CPUs and drains", "");
    }
    run_end(&run);
    target_end(&target);
}

void test_young(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    uint64_t newest = 0, begin;

    run_plan(&run, &target);
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 50);
        begin = monotonic_ns();
        drain(&run, false);
        EACH(&run, record)
        newest = record_time(record);
        check(newest + 10000000 <= monotonic_ns() && newest < begin,
              "records younger than 10 ms stay in the ring", "");
        drain(&run, true);
        check(samples_of(&run, 0) >= 50, "unless all are drained", ": %lu", samples_of(&run, 0));
    }
    run_end(&run);
    target_end(&target);
}

void test_ready(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    int rounds;

    run_plan(&run, &target);
    if (recorder_begin_with(&run, 4 * page) && run_attach(&run)) {
        ready = 0;
        ask(&target, 'c', 0);
        ask(&target, 'p', 20);
        pump(0);
        check(ready == 0, "a ring less than half full does not wake the loop", ": %u", ready);
        ask(&target, 'p', 200);
        rounds = pump(50);
        check(ready >= 1 && rounds < 8, "a ring half full does, but not for each record",
              ": %u in %d rounds", ready, rounds);
    }
    run_end(&run);
    target_end(&target);
}

/* Records of a freed counter keep its id; a new counter has another id. */
void test_freed(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long first, second, of_second = 0;

    run_plan(&run, &target);
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 40);
        perf_stop(run.counter);
        first = value_at(&run, 0);
        perf_free(run.counter);
        run.counter = NULL;
        run.plan.set_number = SET + 1;
        if (run_attach(&run)) {
            ask(&target, 'p', 30);
            perf_stop(run.counter);
            second = value_at(&run, 0);
            drain(&run, true);
            EACH(&run, record)
            of_second +=
                record->type == RECORD_SAMPLE &&
                ((const struct record_sample *)(const void *)record)->id == LOG_ID(SET + 1, 0);
            check(samples_of(&run, 0) == first && of_second == second,
                  "samples of a freed counter keep their id", ": %lu of %lu, %lu of %lu",
                  samples_of(&run, 0), first, of_second, second);
            check(HASH_COUNT(run.recorder->ids) == run.recorder->n_cpus && run.recorder->origins &&
                      !run.recorder->origins->next,
                  "and its ids are removed after the drain", ": %u ids",
                  HASH_COUNT(run.recorder->ids));
        }
    }
    run_end(&run);
    target_end(&target);
}

static void *drain_thread(void *arg)
{
    struct run *run = arg;

    while (!__atomic_load_n(&run->over, __ATOMIC_ACQUIRE))
        drain(run, false);
    return NULL;
}

/* Opens and closes counters while one thread drains. */
void test_concurrent(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long counted = 0, samples = 0;
    pthread_t thread;

    run_plan(&run, &target);
    if (recorder_begin_with(&run, RING)) {
        pthread_create(&thread, NULL, drain_thread, &run);
        for (unsigned i = 0; i < 40; i++) {
            run.plan.set_number = SET + i;
            run.plan.deadline_ns = monotonic_ns() + 60000000000u;
            if (perf_attach(&state, &run.plan, &run.counter, &err))
                break;
            perf_start(run.counter, &err);
            ask(&target, 'p', 20);
            perf_stop(run.counter);
            counted += value_at(&run, 0);
            perf_free(run.counter);
            run.counter = NULL;
        }
        __atomic_store_n(&run.over, true, __ATOMIC_RELEASE);
        pthread_join(thread, NULL);
        drain(&run, true);
        for (unsigned i = 0; i < 40; i++)
            EACH(&run, record)
        samples += record->type == RECORD_SAMPLE &&
                   ((const struct record_sample *)(const void *)record)->id == LOG_ID(SET + i, 0);
        check(samples == counted && counted >= 800 && in_order(&run),
              "no sample is missing while counters come and go", ": %lu of %lu", samples, counted);
        check(HASH_COUNT(run.recorder->ids) == 0 && !run.recorder->origins,
              "and all ids are removed", ": %u", HASH_COUNT(run.recorder->ids));
    }
    run_end(&run);
    target_end(&target);
}

void test_late_cpu(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned before = open_fds();

    missing_cpu = 1;
    ask(&target, 'c', 1);
    run_plan(&run, &target);
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 40);
        missing_cpu = -1;
        recorders_add_cpu(&state, 1, output_redirect_cpu);
        recorders_add_cpu(&state, 1, output_redirect_cpu);
        ask(&target, 'p', 30);
        perf_stop(run.counter);
        drain(&run, true);
        check(run.recorder->n_rings == 2 && samples_of(&run, 0) >= 30 && samples_of(&run, 0) < 40 &&
                  value_at(&run, 0) >= 70,
              "a CPU that comes online is recorded from then on", ": %lu of %lu",
              samples_of(&run, 0), (unsigned long)value_at(&run, 0));
    }
    missing_cpu = -1;
    run_end(&run);
    check(open_fds() == before, "and its ring is closed with the others", "");
    target_end(&target);
}

static unsigned long renamed(const struct run *run, const struct target *target)
{
    unsigned long n = 0;

    EACH(run, record)
    {
        const struct record_comm *comm = (const void *)record;

        n += record->type == RECORD_COMM && comm->pid == (uint32_t)target->pid &&
             !strcmp(comm->name, "renamed");
    }
    return n;
}

/* One CPU is sampled. Process names come from all CPUs, also from one that was offline. */
void test_everywhere(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    struct recorder_facts facts;
    unsigned before = open_fds();

    ask(&target, 'c', 1);
    run_plan(&run, &target);
    run.plan.target = (struct target_ref){.kind = TARGET_CPU, .cpu = 0, .cgroup_fd = -1};
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'n', 0);
        perf_stop(run.counter);
        ask(&target, 'n', 0);
        drain(&run, true);
        check(renamed(&run, &target) == 1,
              "a name set on another CPU is recorded while the counter runs", ": %lu",
              renamed(&run, &target));
        perf_start(run.counter, &err);
        ioctl(recorder_ring(run.recorder, 1)->fd, PERF_EVENT_IOC_DISABLE, 0);
        recorders_add_cpu(&state, 1, output_redirect_cpu);
        ask(&target, 'n', 0);
        drain(&run, true);
        perf_recorder_facts(run.recorder, &facts);
        check(renamed(&run, &target) == 2 && facts.descriptors == run.recorder->n_rings + 1,
              "and again after that CPU was offline", ": %lu, %u descriptors",
              renamed(&run, &target), facts.descriptors);
    }
    run_end(&run);
    check(open_fds() == before, "and all is closed", "");
    target_end(&target);
}
