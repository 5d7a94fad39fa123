/*
 * Attach, start and stop while threads or processes are created: no event is counted twice or
 * missed.
 */
#include "tests/attach_test.h"

#include "core/base/clock.h"

#include <stdio.h>
#include <unistd.h>

enum {
    RACE_THREADS = 200,
    RACE_PROCESSES = 40
};

static void count_sample(void *arg, const struct sample *sample)
{
    (void)sample;
    ++*(long *)arg;
}

static void count_lost(void *arg, const struct record *record)
{
    const struct record_lost *lost = (const void *)record;

    if (record->type == RECORD_LOST)
        *(long *)arg += (long)lost->lost;
}

/* Returns whether every counted page fault is a sample or counted as lost. */
static bool is_recorded(struct recorder *recorder, struct counter *counter)
{
    long samples = 0, counted;

    perf_stop(counter);
    counted = value(counter);
    perf_drain(recorder, true,
               &(struct intake){.put = count_lost, .sample = count_sample, .arg = &samples});
    if (samples != counted)
        printf("# %ld samples of %ld\n", samples, counted);
    return samples == counted;
}

void test_race(unsigned us, unsigned races, bool processes, struct recorder *recorder)
{
    unsigned exact = 0, raced = 0, wrong = 0, opened = 0;
    uint64_t took = 0, worst = 0;
    long off;

    for (unsigned i = 0; i < races; i++) {
        struct target target = target_begin();
        struct plan plan = plan_for(&target);
        struct counter *counter = NULL;
        struct counter_facts facts;

        plan.n = recorder ? 1 : 1 + i % 2; /* a set of two events */
        plan.descendants = processes;
        plan.recorder = recorder;
        plan.sampling = recorder != NULL;
        plan.period = 1;
        ask(&target, processes ? "p %u %u\n" : "s %u %u\n",
            processes ? RACE_PROCESSES : RACE_THREADS, us);
        usleep((i * 37) % 2000);
        uint64_t begin = monotonic_ns();
        if (!perf_attach(&state, &plan, &counter, &err)) {
            uint64_t ns = monotonic_ns() - begin;
            took += ns;
            worst = ns > worst ? ns : worst;
            perf_start(counter, &err);
            answer(&target);
            if (processes)
                ask(&target,
                    "w\n"); /* page faults of a new process, which copies pages at its start */
            bool right = agrees(counter, &target, "w\n", &off);
            perf_facts_of(counter, &facts);
            raced += facts.raced;
            exact += right && !facts.raced;
            wrong += !right && !facts.raced;
            opened += facts.threads;
            wrong += recorder && !is_recorded(recorder, counter);
            if (!right)
                printf("# attach %u off by %ld pages, %d a thread%s\n", i, off, PAGES,
                       facts.raced ? " (raced)" : "");
            perf_free(counter);
        } else {
            printf("# %s %s\n", err_table[err.id].id, err.text);
            wrong += err.id != P13; /* the attach did not finish within its time limit */
        }
        target_end(&target);
    }
    check(!wrong, processes ? "attach while processes are born" : "attach while threads are born",
          "%s: every %u us: %u exact, %u raced, %u wrong of %u;"
          " %llu us on average, %llu at most, %u tasks opened",
          recorder ? ", recorded" : "", us, exact, raced, wrong, races,
          (unsigned long long)(took / races / 1000), (unsigned long long)(worst / 1000),
          opened / races);
}

/* Switching while threads are created leaves no thread in the old state. */
void test_switch_race(void)
{
    unsigned wrong = 0;
    long off;

    for (unsigned i = 0; i < 20; i++) {
        struct target target = target_begin();
        struct plan plan = plan_for(&target);
        struct counter *counter = attach_started(&plan);

        ask(&target, "s %u 20\n", RACE_THREADS);
        for (int j = 0; j < 3; j++) {
            perf_stop(counter);
            perf_start(counter, &err);
        }
        perf_stop(counter);
        answer(&target);
        off = value(counter);
        ask(&target, "w\n");
        wrong += value(counter) != off;
        perf_start(counter, &err);
        wrong += !agrees(counter, &target, "w\n", &off);
        perf_free(counter);
        target_end(&target);
    }
    check(!wrong, "switched while threads are born", ": %u wrong of 40", wrong);
}
