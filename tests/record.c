/*
 * Records of real events of real processes without FUSE: attach, start, work, drain, and compare
 * the records with the work of the target. Prints "ok NAME" or "not ok NAME: …"; the exit status is
 * 1 if a check failed. This file has main(), and recorders that are adopted or refused.
 */
#include "tests/record_test.h"

#include "backends/perf/probe/probe.h"
#include "backends/perf/record/sampling.h"
#include "backends/perf/record/sideband.h"
#include "core/base/arena.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

size_t page;

static unsigned mappings(void)
{
    char line[512];
    unsigned n = 0;
    FILE *file = fopen("/proc/self/maps", "re");

    while (file && fgets(line, sizeof line, file))
        n += strstr(line, "[perf_event]") != NULL;
    if (file)
        fclose(file);
    return n;
}

/* A text that is damaged after its rings is refused; their descriptors and mappings stay. fd and
 * bytes are of a ring that exists. */
static void adopt_damaged(uint64_t bytes, int fd)
{
    struct recorder_plan plan = {.bytes = RING, .tag = 7};
    struct recorder *recorder;
    char text[100];
    unsigned fds = open_fds(), mapped = mappings();

    snprintf(text, sizeof text, "rings %llu 0:%d odd", (unsigned long long)bytes, fd);
    check(perf_recorder_adopt(&state, &plan, text, &recorder) == -EINVAL && !recorder &&
              open_fds() == fds && mapped > 0 && mappings() == mapped,
          "what could not be adopted is left as it was", ": %u mappings of %u", mappings(), mapped);
}

/* hidden: a CPU that is possible only after the counter was opened, or -1. */
static void test_adopt(int hidden)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    struct recorder_plan again = {.bytes = RING, .tag = 7};
    struct counter_facts facts;
    struct buf recorder = {0}, counter = {0};
    unsigned fds;
    int rc, ring;

    impossible_cpu = hidden;
    ask(&target, 'c', 0);
    run_plan(&run, &target);
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 40);
        drain(&run, true);
        ask(&target, 'p', 40);
        fds = open_fds();
        impossible_cpu = -1;
        perf_print(run.counter, &counter);
        perf_recorder_print(run.recorder, &recorder);
        ring = run.recorder->rings[0].fd;
        again.bytes = run.recorder->ring_bytes;
        perf_forget(run.counter);
        perf_recorder_forget(run.recorder);
        adopt_damaged(again.bytes, ring);
        ask(&target, 'p', 40);
        rc = perf_recorder_adopt(&state, &again, buf_text(&recorder), &run.recorder);
        run.plan.recorder = run.recorder;
        run.counter = NULL;
        rc = rc ? rc : perf_adopt(&state, &run.plan, buf_text(&counter), &run.counter);
        check(!rc && open_fds() == fds, "adopted", ": %d, %s", rc, buf_text(&recorder));
        if (!rc) {
            perf_counter_facts(run.counter, &facts);
            check(facts.threads == 1, "with the groups of one thread", "");
            ask(&target, 'p', 40);
            perf_stop(run.counter);
            drain(&run, true);
            check(samples_of(&run, 0) == value_at(&run, 0) && samples_of(&run, 0) >= 160,
                  "and no record is missing or there twice", ": %lu of %lu", samples_of(&run, 0),
                  (unsigned long)value_at(&run, 0));
        }
    }
    impossible_cpu = -1;
    run_end(&run);
    buf_free(&recorder);
    buf_free(&counter);
    target_end(&target);
}

static void test_refused(void)
{
    struct recorder_plan plan = {.bytes = RING, .tag = 7, .fds_left = 1, .fds_quota = 100};
    struct target target = target_begin();
    struct run run = {.n = 0};

    check(perf_recorder_new(&state, &plan, &run.recorder, &err) && err.id == P10,
          "more rings than there are descriptors", ": %s", err.text);
    plan.fds_quota = 1;
    check(perf_recorder_new(&state, &plan, &run.recorder, &err) && err.id == P11,
          "more than the quota has", ": %s", err.text);
    run_plan(&run, &target);
    if (recorder_begin_with(&run, RING)) {
        run.plan.fds_quota = 1;
        check(perf_attach(&state, &run.plan, &run.counter, &err) && err.id == P11,
              "a task takes a descriptor for each CPU", ": %s", err.text);
        run.plan.fds_quota = 2;
        check(!perf_attach(&state, &run.plan, &run.counter, &err), "and no more", ": %s", err.text);
    }
    run_end(&run);
    target_end(&target);
}

static void little_memory(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2];
    struct recorder_plan plan = {.bytes = 64 << 20, .tag = 7, .fds_left = 100, .fds_quota = 100};
    struct recorder_facts facts = {.bytes = 0};
    struct recorder *recorder = NULL;

    syscall(SYS_capget, &head, caps);
    caps[CAP_IPC_LOCK / 32].effective &= ~(1u << CAP_IPC_LOCK % 32);
    syscall(SYS_capset, &head, caps);
    setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){0, 0});
    /* Memory locked by other processes of this user counts too: not even a page may be left. */
    if (!perf_recorder_new(&state, &plan, &recorder, &err))
        perf_recorder_facts(recorder, &facts);
    check(recorder ? facts.descriptors == recorder->n_rings && facts.bytes < 64 << 20
                   : err.id == P14 && strstr(err.text, "CAP_IPC_LOCK"),
          "with little memory to lock rings are smaller, or the sentence says why",
          ": %lu bytes, %s", (unsigned long)facts.bytes, err.text);
    perf_recorder_free(recorder);
}

static void test_little_memory(void)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        failed = 0;
        little_memory();
        _exit(failed != 0);
    }
    waitpid(pid, &status, 0);
    failed += status != 0;
}

/* The check for registers in samples is repeated if it failed for lack of descriptors. */
static void test_few_descriptors(void)
{
    struct rlimit limit, none;
    uint64_t without;

    getrlimit(RLIMIT_NOFILE, &limit);
    none = (struct rlimit){.rlim_max = limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    without = sampling_registers();
    setrlimit(RLIMIT_NOFILE, &limit);
    check(without == 0, "no descriptor, no registers", "");
    check(sampling_registers() != 0, "they are there afterwards", "");
}

int main(int argc, char **argv)
{
    unsigned before;

    page = (size_t)sysconf(_SC_PAGESIZE);
    if (argc > 1 && !strcmp(argv[1], "target")) {
        target_main();
        return 0;
    }
    alarm(600);
    signal(SIGPIPE, SIG_IGN);
    loop_make();
    state.pmus = pmus_new("");
    state.sideband = sideband_new(&state);
    arena_fd(); /* opens the descriptor of the arena, so that `before` includes it */
    before = open_fds();
    test_few_descriptors();
    test_losses(false);
    test_losses(true);
    test_around();
    test_young();
    test_ready();
    test_freed();
    test_concurrent();
    if (hardware_here())
        test_hardware();
    if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
        test_late_cpu();
        test_everywhere();
    }
    test_adopt(-1);
    test_adopt(1);
    test_refused();
    test_little_memory();
    check(open_fds() == before, "no descriptor is left", ": %u, %u before", open_fds(), before);
    check(state.n_counters == 0, "no counter is left", "");
    sideband_free(state.sideband);
    pmus_free(state.pmus);
    return failed != 0;
}
