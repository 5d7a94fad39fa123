/*
 * Exact attach to real processes without FUSE: the value of a counter is compared with the page
 * faults that the threads of a target counted (getrusage). `attach target` is the target. Prints
 * "ok NAME" or "not ok NAME: …"; the exit status is 1 if a check failed. `attach tasks`, `attach
 * race` and `attach recorded` run one part, `attach N` all parts with N races.
 */
#include "tests/attach_test.h"

#include "backends/perf/probe/probe.h"
#include "backends/perf/record/sideband.h"
#include "core/base/arena.h"
#include "core/base/clock.h"

#include <linux/perf_event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    RACES = 200
};

static bool always_alive(void *arg)
{
    return kill(*(pid_t *)arg, 0) == 0;
}

struct event events[] = {
    {.written = (char *)"page-faults", .scale = 1, .code = {PERF_TYPE_SOFTWARE, 2}},
    {.written = (char *)"task-clock", .scale = 1, .code = {PERF_TYPE_SOFTWARE, 1}},
    {.written = (char *)"no-such", .scale = 1, .code = {99, 1}},
};
struct plan_event plan_events[] = {
    {&events[0], true, true},
    {&events[1], true, true},
    {&events[2], true, true},
};

struct plan plan_for(struct target *target)
{
    return (struct plan){
        .events = plan_events,
        .n = 1,
        .fds_left = 10000,
        .fds_quota = 10000,
        .max_covered = 10000,
        .tag = 7,
        .deadline_ns = monotonic_ns() + 60000000000u,
        .target = {.kind = TARGET_PROCESS,
                   .pid = target->pid,
                   .alive = always_alive,
                   .alive_arg = &target->pid,
                   .cgroup_fd = -1},
    };
}

struct counter *attach_started(const struct plan *plan)
{
    struct counter *counter = NULL;

    if (perf_attach(&state, plan, &counter, &err) || perf_start(counter, &err))
        printf("# %s %s\n", err_table[err.id].id, err.text);
    return counter;
}

long value(struct counter *counter)
{
    struct reading reading;

    return counter && !perf_read(counter, &reading, true) ? (long)reading.value[0] : -1;
}

bool agrees(struct counter *counter, struct target *target, const char *what, long *off)
{
    long before = value(counter), own = ask(target, "%s", what), after = value(counter);

    *off = after - before - own;
    return own > 0 && *off == 0;
}

/* Returns true if `wanted`, an argument of the program, is this part or "" (all parts). */
static bool is_wanted(const char *part, const char *wanted)
{
    return !*wanted || strcmp(part, wanted) == 0;
}

static void test_tasks(unsigned races)
{
    test_threads();
    test_descendants();
    test_admitted_once();
    test_lost_events(0711, true);
    test_lost_events(0755, false);
    test_suspect();
    test_choices();
    test_choices_late();
    test_reused_number();
    test_lost_records();
    test_set();
    test_blind();
    test_adopt();
    test_adopt_cgroup();
    test_switch_race();
    test_raced();
    test_switch_without_descriptors();
    test_race(300, races / 10, false, NULL);
    test_race(20, races / 10, true, NULL);
}

static void test_recorded(unsigned races)
{
    struct recorder_plan plan = {.bytes = 1 << 20, .fds_left = 1000, .fds_quota = 1000};
    struct recorder *recorder = NULL;

    if (!check(perf_recorder_new(&state, &plan, &recorder, &err) == 0, "a recorder", ""))
        return;
    test_race(20, races / 4, false, recorder);
    test_race(20, races / 10, true, recorder);
    perf_recorder_free(recorder);
}

int main(int argc, char **argv)
{
    const char *wanted = argc > 1 && (argv[1][0] < '0' || argv[1][0] > '9') ? argv[1] : "";
    const unsigned races = argc > 1 && !*wanted ? (unsigned)atoi(argv[1]) : RACES;
    unsigned before;

    if (!strcmp(wanted, "target"))
        return target_main();
    if (!strcmp(wanted, "sleep"))
        return (int)sleep(3);
    if (!is_wanted("tasks", wanted) && !is_wanted("race", wanted) && !is_wanted("recorded", wanted))
        return 2;
    alarm(600);
    signal(SIGPIPE, SIG_IGN);
    loop_make();
    verbose = true;
    state.pmus = pmus_new("");
    state.sideband = sideband_new(&state);
    /* Opens the descriptor of the arena, which stays open, so that `before` includes it. */
    arena_free(arena_alloc(1), 1);
    before = open_fds();
    if (is_wanted("tasks", wanted))
        test_tasks(races);
    if (is_wanted("race", wanted))
        test_race(20, races, false, NULL);
    if (is_wanted("recorded", wanted))
        test_recorded(races);
    check(open_fds() == before, "no descriptor is left", ": %u, %u before", open_fds(), before);
    check(state.n_counters == 0, "no counter is left", "");
    sideband_free(state.sideband);
    return failed != 0;
}
