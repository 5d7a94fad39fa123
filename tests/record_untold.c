/*
 * Samples that are missing without a word. The kernel leaves some out once in a long while; here
 * events are without a ring for a moment, so that it counts them and writes nothing.
 */
#include "tests/record_test.h"

#include <linux/perf_event.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>

/* Faults that are counted and nothing else. */
static void ask_unheard(const struct run *run, struct target *target, unsigned long faults)
{
    const struct counter *counter = run->counter;

    for (unsigned i = 0; i < counter->n_groups; i++)
        ioctl(counter_fds(counter, i)[0], PERF_EVENT_IOC_SET_OUTPUT, -1L);
    ask(target, 'p', faults);
    for (unsigned i = 0; i < counter->n_groups; i++)
        recorder_redirect(run->recorder, counter_fds(counter, i)[0],
                          (unsigned)counter->tasks[i].cpu);
}

/* On a CPU that another machine has for so long that no clock ticks, it is not known for now
 * whether the kernel has a loss to tell. */
static void drain_stopped(struct run *run)
{
    perf_stop(run->counter);
    for (unsigned i = 0; i < 20 && run->recorder->settle.due; i++)
        drain(run, true);
}

static bool all_is_told(const struct run *run, uint64_t counted)
{
    return samples_of(run, 0) + lost_of(run) == counted;
}

static void check_told(struct run *run, unsigned long least, const char *name)
{
    uint64_t counted = value_at(run, 0);

    check(all_is_told(run, counted) && lost_of(run) >= least && lost_of(run) < least + 20, name,
          ": %lu samples, %lu lost, %lu counted", samples_of(run, 0), lost_of(run),
          (unsigned long)counted);
}

/* Stopped, drained, started again. */
void test_untold(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};

    run_plan(&run, &target);
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 40);
        ask_unheard(&run, &target, 30);
        ask(&target, 'p', 40);
        drain(&run, true);
        check(!lost_of(&run), "what is missing is not told while more may come", "");
        drain_stopped(&run);
        check_told(&run, 30, "samples that the kernel kept to itself are told as lost");
        drain(&run, true);
        check_told(&run, 30, "once");
        perf_start(run.counter, &err);
        ask(&target, 'p', 40);
        ask_unheard(&run, &target, 10);
        perf_stop(run.counter);
        drain(&run, false);
        drain_stopped(&run);
        check_told(&run, 40, "those of the next run, too");
        check(in_order(&run), "in order of time", "");
    }
    run_end(&run);
    target_end(&target);
}

/* Those of a counter that is closed, while another goes on. */
void test_untold_of_two(void)
{
    struct target target = target_begin(), other = target_begin();
    struct run run = {.n = 0};
    struct counter *first;
    uint64_t counted;

    run_plan(&run, &target);
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask_unheard(&run, &target, 30);
        first = run.counter;
        run.plan.target.pid = other.pid;
        if (run_attach(&run)) {
            counted = value_at(&(struct run){.counter = first}, 0);
            perf_free(first);
            ask(&other, 'p', 25);
            drain(&run, true);
            check(!lost_of(&run), "of a counter that is gone nothing is told while others run", "");
            drain_stopped(&run);
            counted += value_at(&run, 0);
            check(all_is_told(&run, counted) && lost_of(&run) >= 30 && samples_of(&run, 0) >= 25,
                  "and all behind them", ": %lu and %lu of %lu", samples_of(&run, 0), lost_of(&run),
                  (unsigned long)counted);
        }
    }
    run_end(&run);
    target_end(&target);
    target_end(&other);
}

/* Here nobody can know how many samples there must be. */
void test_untold_of_a_period(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};

    run_plan(&run, &target);
    run.plan.period = 10;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask_unheard(&run, &target, 300);
        ask(&target, 'p', 300);
        drain_stopped(&run);
        check(!lost_of(&run) && samples_of(&run, 0) >= 29,
              "of a process where not each occurrence is a sample nothing is said",
              ": %lu, %lu lost", samples_of(&run, 0), lost_of(&run));
    }
    run_end(&run);
    target_end(&target);
}

/* On one CPU, so that there is one rest of a period. */
void test_untold_of_a_threads_period(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    cpu_set_t first;

    CPU_ZERO(&first);
    CPU_SET(0, &first);
    sched_setaffinity(target.pid, sizeof first, &first);
    run_plan(&run, &target);
    run.plan.target.kind = TARGET_THREAD;
    run.plan.target.tid = target.pid;
    run.plan.period = 10;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 95);
        ask_unheard(&run, &target, 300);
        ask(&target, 'p', 98);
        drain_stopped(&run);
        uint64_t counted = value_at(&run, 0);
        check(lost_of(&run) >= 29 && samples_of(&run, 0) >= 18 && all_is_told(&run, counted / 10),
              "of one thread it is known how many periods there were", ": %lu and %lu of %lu / 10",
              samples_of(&run, 0), lost_of(&run), (unsigned long)counted);
    }
    run_end(&run);
    target_end(&target);
}

/* More than was counted is told as lost where names and mappings are lost as well. */
void test_untold_after_losses(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};

    run_plan(&run, &target);
    if (recorder_begin_with(&run, page) && run_attach(&run)) {
        ask(&target, 'p', 3000);
        for (unsigned i = 0; i < 20; i++)
            ask(&target, 'n', 0);
        drain_stopped(&run);
        check(samples_of(&run, 0) + lost_of(&run) >= value_at(&run, 0) && lost_of(&run) > 2000,
              "what the kernel tells stays as it is", ": %lu and %lu of %lu", samples_of(&run, 0),
              lost_of(&run), (unsigned long)value_at(&run, 0));
        unsigned long begun = samples_of(&run, 0) + lost_of(&run), lost = lost_of(&run);
        uint64_t counted = value_at(&run, 0);
        perf_start(run.counter, &err);
        ask_unheard(&run, &target, 30);
        drain_stopped(&run);
        check(samples_of(&run, 0) + lost_of(&run) - begun == value_at(&run, 0) - counted &&
                  lost_of(&run) >= lost + 30,
              "and hides nothing of the next run", ": %lu more lost", lost_of(&run) - lost);
    }
    run_end(&run);
    target_end(&target);
}

/* Forgotten and adopted: the sums are not known. */
void test_untold_adopted(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    struct recorder_plan again = {.bytes = RING, .tag = 7};
    struct buf recorder, counter;

    buf_init(&recorder, NULL, 0);
    buf_init(&counter, NULL, 0);
    run_plan(&run, &target);
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 40);
        drain(&run, true);
        ask_unheard(&run, &target, 30);
        perf_print(run.counter, &counter);
        perf_recorder_print(run.recorder, &recorder);
        again.bytes = run.recorder->ring_bytes;
        perf_forget(run.counter);
        perf_recorder_forget(run.recorder);
        bool ok = check(!perf_recorder_adopt(&state, &again, buf_text(&recorder), &run.recorder),
                        "adopted", ": %s", buf_text(&recorder));
        run.counter = NULL;
        run.plan.recorder = run.recorder;
        if (ok && check(!perf_adopt(&state, &run.plan, buf_text(&counter), &run.counter),
                        "and its counter", "")) {
            drain_stopped(&run);
            check(!lost_of(&run), "without the sums nothing is claimed", ": %lu", lost_of(&run));
            uint64_t before = lost_of(&run);
            perf_start(run.counter, &err);
            ask_unheard(&run, &target, 10);
            drain_stopped(&run);
            check(lost_of(&run) >= before + 10 && lost_of(&run) < before + 20, "and what comes is",
                  ": %lu more", lost_of(&run) - before);
        }
    }
    run_end(&run);
    buf_free(&recorder);
    buf_free(&counter);
    target_end(&target);
}
