/*
 * The sideband: the listeners of a fork, exec or exit record, and covered sets after a lost record
 * or a reused PID.
 */
#include "tests/attach_test.h"

#include "backends/perf/record/sideband.h"
#include "core/base/clock.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct calls {
    uint32_t pid; /* process whose records are `own`; records of all others are `others` */
    unsigned own, others, births, ends, lost;
};

static void count_call(void *arg, const struct side_record *record, uint32_t about)
{
    struct calls *calls = arg;

    if (record->head.type == RECORD_LOST) {
        calls->lost++;
        return;
    }
    if (about != calls->pid) {
        calls->others++;
        return;
    }
    calls->own++;
    calls->births += record->head.type == RECORD_FORK && record->ppid == about;
    calls->ends += record->head.type == RECORD_EXIT && record->tid == about;
}

/* Forks n children one after the other, each of which exits immediately. Returns the last PID. */
static pid_t children(unsigned n)
{
    pid_t pid = 0;

    for (unsigned i = 0; i < n; i++) {
        pid = fork();
        if (pid == 0)
            _exit(0);
        waitpid(pid, NULL, 0);
    }
    return pid;
}

/* Like children(), but reads their records in between, so that no ring buffer overflows. */
static void children_read(unsigned n)
{
    for (unsigned i = 0; i < n; i += 5) {
        children(5);
        sideband_enter(state.sideband);
        sideband_leave(state.sideband);
    }
}

/* Starts a child that waits until `go` is closed, then forks n children and exits. */
static pid_t parent_begin(int go[2], unsigned n)
{
    if (pipe(go))
        exit(2);
    const pid_t pid = fork();
    if (pid)
        return pid;
    close(go[1]);
    char byte;
    if (read(go[0], &byte, 1) == 0)
        children(n);
    _exit(0);
}

static void parent_go(pid_t pid, const int go[2])
{
    close(go[0]);
    close(go[1]);
    waitpid(pid, NULL, 0);
}

/* Checks which records two listeners get, one of which chooses the process late. Returns false, so
 * that the caller repeats it, if other processes of the host made a ring buffer overflow. */
static bool choices_are_right(void)
{
    struct sideband *sideband = state.sideband;
    struct calls calls = {0}, late = {0};
    struct side_listener listener = {.receive = count_call, .arg = &calls, .chooses = true};
    struct side_listener other = {.receive = count_call, .arg = &late, .chooses = true};
    int go[2];

    calls.pid = late.pid = (uint32_t)parent_begin(go, 3);
    const uint64_t begun_ns = monotonic_ns();
    if (sideband_listen(sideband, &listener))
        exit(2);
    check(sideband_choose(sideband, &listener, calls.pid, 0), "a process is chosen", "");
    sideband_leave(sideband);
    children_read(100);
    parent_go((pid_t)calls.pid, go);
    sideband_enter(sideband);
    if (calls.lost)
        goto out;
    check(calls.others == 0 && calls.births == 3 && calls.ends == 1 && calls.own == 4,
          "a listener is called about the processes that it has chosen only",
          ": %u births, %u ends, %u in all, %u others", calls.births, calls.ends, calls.own,
          calls.others);
    sideband_leave(sideband);
    if (sideband_listen(sideband, &other))
        exit(2);
    if (calls.lost)
        goto ignore;
    check(sideband_choose(sideband, &other, calls.pid, monotonic_ns()) && !late.own,
          "no older record than requested is delivered", "");
    sideband_unchoose(sideband, &other, calls.pid);
    check(sideband_choose(sideband, &other, calls.pid, begun_ns) && late.births == 3 &&
              late.ends == 1 && !late.others,
          "a listener that chooses late is called with what was read before", "");
    sideband_unchoose(sideband, &other, calls.pid);
    sideband_unchoose(sideband, &other, calls.pid);
    check(calls.own == 4, "and no other listener is", "");
ignore:
    sideband_leave(sideband);
    sideband_unlisten(sideband, &other);
    sideband_enter(sideband);
out:
    sideband_leave(sideband);
    sideband_unlisten(sideband, &listener);
    return !calls.lost;
}

void test_choices(void)
{
    for (unsigned tries = 1; !choices_are_right(); tries++)
        if (tries == 20) {
            check(false, "in one of 20 attempts no ring buffer overflows", "");
            return;
        }
}

/* Checks which records a late listener gets if there are more than are kept for it: the newest, not
 * the oldest. Returns false, so that the caller repeats it, if other processes of the host may have
 * replaced the newest, too. */
static bool late_choices_are_right(bool is_last_try)
{
    struct calls calls = {0}, late = {0};
    struct side_listener listener = {.receive = count_call, .arg = &calls, .chooses = true};
    struct side_listener other = {.receive = count_call, .arg = &late, .chooses = true};
    int go[2];

    calls.pid = late.pid = (uint32_t)parent_begin(go, 2);
    const uint64_t begun_ns = monotonic_ns();
    if (sideband_listen(state.sideband, &listener))
        exit(2);
    sideband_leave(state.sideband);
    children_read(2000);
    parent_go((pid_t)calls.pid, go);
    if (sideband_listen(state.sideband, &other))
        exit(2);
    sideband_choose(state.sideband, &other, late.pid, begun_ns);
    const bool good = late.births == 2 && late.ends == 1;
    if (good || is_last_try)
        check(good, "the latest records are kept", ": %u births, %u ends", late.births, late.ends);
    sideband_leave(state.sideband);
    children_read(2000);
    sideband_enter(state.sideband);
    sideband_unchoose(state.sideband, &other, late.pid);
    late.births = late.ends = 0;
    sideband_choose(state.sideband, &other, late.pid, begun_ns);
    check(!late.births && !late.ends, "older ones are not", "");
    sideband_leave(state.sideband);
    sideband_unlisten(state.sideband, &other);
    sideband_unlisten(state.sideband, &listener);
    return good;
}

void test_choices_late(void)
{
    for (unsigned tries = 1; !late_choices_are_right(tries == 20) && tries < 20; tries++)
        ;
}

static struct counter *covering(struct target *target)
{
    struct plan plan = plan_for(target);

    plan.descendants = true;
    return attach_started(&plan);
}

/* The exit record of a process was lost, and another process reuses its PID. */
void test_reused_number(void)
{
    struct target target = target_begin();
    struct side_record birth = {.head = {.type = RECORD_FORK}, .ppid = 1, .ptid = 1};

    ask(&target, "f 3\n");
    struct counter *counter = covering(&target);
    const pid_t child = child_of(target.pid);
    struct counter_facts before, after;
    perf_counter_facts(counter, &before);
    check(child && perf_covers(counter, child), "a child is covered", "");
    birth.pid = birth.tid = (uint32_t)child;
    birth.time_ns = monotonic_ns();
    sideband_enter(state.sideband);
    covered_apply_record(counter->covered, &birth);
    sideband_leave(state.sideband);
    perf_counter_facts(counter, &after);
    check(!perf_covers(counter, child) && after.covered == before.covered - 1,
          "a number that is used again is not the descendant's", ": %u, %u covered", before.covered,
          after.covered);
    perf_free(counter);
    target_end(&target);
}

/* Forks n children on every CPU, because a loss is reported in the ring where it happened, before
 * its next record. */
static void children_everywhere(unsigned n)
{
    cpu_set_t all, one;

    if (sched_getaffinity(0, sizeof all, &all))
        exit(2);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        children(n);
    }
    sched_setaffinity(0, sizeof all, &all);
}

void test_lost_records(void)
{
    struct target target = target_begin();
    struct counter *counter = covering(&target);
    struct counter_facts facts;

    check(!perf_covers(counter, getpid()), "a stranger is not covered", "");
    children_everywhere(3000); /* without reading any ring */
    perf_counter_facts(counter, &facts);
    check(facts.covered == 1, "the target is", ": %u", facts.covered);
    children_everywhere(1);
    check(perf_covers(counter, getpid()), "after a loss of records any process may be a descendant",
          "");
    perf_free(counter);
    target_end(&target);
}
