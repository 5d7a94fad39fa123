/*
 * Attach, start and stop while threads or processes are created: no event is counted twice or
 * missed.
 */
#include "tests/attach_test.h"

#include "core/base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
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

/* Stops the counter and drains the recorder. Returns whether every counted page fault is a sample
 * or counted as lost. */
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

        plan.n = recorder ? 1 : 1 + i % 2; /* every other time a set of two events */
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
            if (processes) /* page faults of a new process, which copies pages at its start */
                ask(&target, "w\n");
            bool right = agrees(counter, &target, "w\n", &off);
            perf_counter_facts(counter, &facts);
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
            wrong += err.id != P13; /* P13, the time limit, may be exceeded on a busy host */
        }
        target_end(&target);
    }
    check(!wrong,
          processes ? "attach while processes are created" : "attach while threads are created",
          "%s: every %u us: %u exact, %u raced, %u wrong of %u;"
          " %llu us on average, %llu at most, %u tasks opened",
          recorder ? ", recorded" : "", us, exact, raced, wrong, races,
          (unsigned long long)(took / races / 1000), (unsigned long long)(worst / 1000),
          opened / races);
}

/* A counter is stopped and started while threads are created: then all threads count, or none. */
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
    check(!wrong, "switched while threads are created", ": %u wrong of 40", wrong);
}

/* ---- raced and left_out ---- */

/* A target that creates a thread in each of the first `makes` calls of admit_and_make(). */
struct maker {
    struct target target;
    unsigned makes, calls;
};

static int admit_and_make(void *arg, pid_t pid)
{
    struct maker *maker = arg;

    (void)pid;
    maker->calls++;
    if (maker->makes) {
        maker->makes--;
        ask(&maker->target, "t 1\n");
    }
    return -EPERM;
}

/* Attaches without FORK records, so that a thread created during a try may have been missed, and
 * the attach is tried again. The target creates a thread in the first `makes` tries. Sets *calls to
 * the number of tries: each calls admit_and_make() once, for the only child, which is left out. */
static struct counter_facts facts_of_making(unsigned makes, unsigned *calls)
{
    struct maker maker = {.target = target_begin(), .makes = makes};
    struct plan plan = plan_for(&maker.target);
    struct sideband *sideband = state.sideband;
    struct counter_facts facts = {0};
    struct counter *counter;

    ask(&maker.target, "f 1\n");
    plan.descendants = true;
    plan.admit = admit_and_make;
    plan.admit_arg = &maker;
    state.sideband = NULL;
    counter = attach_started(&plan);
    state.sideband = sideband;
    if (counter) {
        perf_counter_facts(counter, &facts);
        perf_free(counter);
    }
    target_end(&maker.target);
    *calls = maker.calls;
    return facts;
}

/* Starts a process that waits in vfork() for its child. */
static pid_t vfork_begin(void)
{
    pid_t pid = fork();

    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (vfork() == 0)
        for (;;)
            pause();
    _exit(0);
}

void test_raced(void)
{
    struct counter_facts facts;
    struct target target = {.pid = 0};
    unsigned calls;

    facts = facts_of_making(0, &calls);
    check(!facts.raced && facts.left_out == 1 && calls == 1,
          "no thread is created: exact in one try", ": raced %d, %u left out, %u tries",
          facts.raced, facts.left_out, calls);
    facts = facts_of_making(1, &calls);
    check(!facts.raced && facts.left_out == 1 && calls == 2 && facts.threads == 2,
          "created during the first try: exact at the second, and one child left out",
          ": raced %d, %u left out, %u tries", facts.raced, facts.left_out, calls);
    facts = facts_of_making(100, &calls);
    check(facts.raced && facts.left_out == 1 && calls == 3, "created during each try: raced",
          ": raced %d, %u left out, %u tries", facts.raced, facts.left_out, calls);

    target.pid = vfork_begin();
    while (!child_of(target.pid))
        usleep(1000);
    struct plan plan = plan_for(&target);
    struct counter *counter = attach_started(&plan);
    const pid_t child = child_of(target.pid);
    if (counter)
        perf_counter_facts(counter, &facts);
    check(counter && facts.raced && facts.threads == 1,
          "a thread that may still be creating a child: raced", "");
    if (counter)
        perf_free(counter);
    if (child)
        kill(child, SIGKILL);
    waitpid(target.pid, NULL, 0);
}
