/*
 * Sets and their quotas, attach without fork records, and counters in a later worker.
 */
#include "tests/attach_test.h"

#include "backends/perf/probe/probe.h"

#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void test_set(void)
{
    struct target target = target_begin();
    struct plan plan = plan_for(&target);
    struct counter *counter;
    struct reading a = {0};
    long own;

    ask(&target, "t 4\n");
    plan.n = 2;
    counter = attach_started(&plan);
    own = ask(&target, "w\n");
    perf_read(counter, &a, true);
    check((long)a.value[0] == own && a.value[1] > 0 && a.estimate[0] == a.value[0] &&
              a.covered_ns == a.enabled_ns && a.enabled_ns == a.running_ns,
          "a set of two", ": %llu %llu", (unsigned long long)a.value[0],
          (unsigned long long)a.value[1]);
    ask(&target, "t 2\n");
    perf_free(counter);
    plan.n = 3;
    int rc = perf_attach(&state, &plan, &counter, &err);
    check(rc == -EOPNOTSUPP && !counter, "a set with an unknown member is refused", ": %s %s",
          err_table[err.id].id, err.text);
    plan.n = 1;
    plan.fds_left = 3;
    rc = perf_attach(&state, &plan, &counter, &err);
    check(rc == -EMFILE && err.id == P10, "descriptors", ": %s", err.text);
    plan.fds_left = ULONG_MAX;
    plan.fds_quota = 6;
    rc = perf_attach(&state, &plan, &counter, &err);
    check(rc == -EDQUOT && err.id == P11 &&
              strstr(err.text, "the target needs 7 file descriptors, and the quota has 6"),
          "a quota", ": %s", err.text);
    plan.fds_quota = 7;
    rc = perf_attach(&state, &plan, &counter, &err);
    check(!rc, "descriptors that are closed after the attach do not count against it", ": %s",
          err.text);
    if (!rc)
        perf_free(counter);
    plan.fds_left = 7 + 2;
    rc = perf_attach(&state, &plan, &counter, &err);
    check(rc == -EMFILE && err.id == P10, "but they need free descriptors", ": %s", err.text);
    check(!perf_check_set(&state, plan_events, 2, false, &err), "check_set takes two", "");
    rc = perf_check_set(&state, plan_events, 3, false, &err);
    check(rc == -EOPNOTSUPP, "check_set refuses", ": %s %s", err_table[err.id].id, err.text);
    target_end(&target);
    plan.fds_left = 100;
    rc = perf_attach(&state, &plan, &counter, &err);
    check(rc == -ESRCH, "a dead target", ": %s", err.text);
}

/* An attach without fork records, and an attach whose time limit has passed. */
void test_blind(void)
{
    struct target target = target_begin();
    struct plan plan = plan_for(&target);
    struct sideband *sideband = state.sideband;
    struct counter *counter;
    struct counter_facts facts = {0};
    long off;

    state.sideband = NULL;
    ask(&target, "t 3\n");
    counter = attach_started(&plan);
    ask(&target, "t 2\n");
    agrees(counter, &target, "w\n", &off);
    perf_counter_facts(counter, &facts);
    check(off == 0 && !facts.raced, "without a sideband", "");
    perf_free(counter);
    plan.deadline_ns = 1;
    plan.attach_ms = 77;
    state.sideband = sideband;
    int rc = perf_attach(&state, &plan, &counter, &err);
    check(rc == -EAGAIN && err.id == P13 && !counter &&
              strstr(err.text, "attach_ms (77 milliseconds): 0 of 1 "),
          "too late", ": %s", err.text);
    target_end(&target);
}

void test_adopt(void)
{
    struct target target = target_begin();
    struct plan plan = plan_for(&target);
    struct counter *counter, *again = NULL;
    struct counter_facts old, new = {0};
    struct buf text = {0}, second = {0};
    unsigned fds;
    long off, before;

    ask(&target, "t 3\n");
    ask(&target, "f 2\n");
    plan.descendants = true;
    plan.n = 2;
    counter = attach_started(&plan);
    agrees(counter, &target, "w\n", &off);
    before = value(counter);
    counter->raced = true;
    counter->left_out = 3;
    perf_counter_facts(counter, &old);
    perf_print(counter, &text);
    fds = open_fds();
    perf_forget(counter);
    check(!perf_adopt(&state, &plan, buf_text(&text), &again) && open_fds() == fds, "adopt", ": %s",
          buf_text(&text));
    if (again) {
        guards_listen(&state);
        perf_print(again, &second);
        perf_counter_facts(again, &new);
        check(!strcmp(buf_text(&text), buf_text(&second)), "prints the same again", "");
        check(new.raced &&new.left_out == 3, "keeps raced and left_out", "");
        off = value(again) - before;
        check(off == 0, "keeps its count", ": off by %ld", off);
        agrees(again, &target, "w\n", &off);
        check(off == 0 && old.covered == new.covered &&old.descriptors == new.descriptors,
              "goes on with the same numbers", ": off by %ld", off);
        ask(&target, "f 1\n");
        perf_counter_facts(again, &new);
        check(new.covered == old.covered + 1, "and follows new children", ": %u", new.covered);
        kill(target.pid, SIGKILL);
        waitpid(target.pid, NULL, 0);
        for (int i = 0; i < 20 && !gone; i++)
            pump(50);
        check(gone == 1, "and reports the exit", "");
        perf_free(again);
    }
    gone = 0;
    check(perf_adopt(&state, &plan, "perf 2 1 0 0 1 1 0 0 5 -1 900,901,-1,-1", &again) < 0 &&
              !again,
          "a text of closed descriptors is refused", "");
    buf_free(&text);
    buf_free(&second);
    target_end(&target);
}

/* Version 0.2 opened the groups of a cgroup without a clock event, and printed four times after
 * each group: such a counter can be adopted. */
void test_adopt_cgroup(void)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_SW_PAGE_FAULTS,
                                   .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED |
                                                  PERF_FORMAT_TOTAL_TIME_RUNNING};
    struct target target = target_begin();
    struct plan plan = plan_for(&target);
    struct counter *counter = NULL;
    struct {
        uint64_t value, enabled_ns, running_ns;
    } own;
    char text[128];
    struct buf printed;
    const int fd =
        (int)syscall(SYS_perf_event_open, &attr, target.pid, -1, -1, PERF_FLAG_FD_CLOEXEC);

    plan.target.kind = TARGET_CGROUP;
    plan.n = 1;
    snprintf(text, sizeof text, "perf 1 1 0 0 1 1 0 -1 0 %d -1 -1 7 8 9 10 11", fd);
    check(perf_adopt(&state, &plan, text, &counter) == -EINVAL && !counter,
          "a cgroup's text with a number too many is refused", "");
    *strrchr(text, ' ') = 0;
    check(!perf_adopt(&state, &plan, text, &counter), "a cgroup of version 0.2 is adopted", "");
    for (int i = 0; i < 2 && counter; i++) {
        ask(&target, "w\n");
        check(read(fd, &own, sizeof own) == sizeof own && own.value > 0 &&
                  value(counter) == (long)own.value,
              "its count goes on", ": %ld", value(counter));
        printed = (struct buf){0};
        perf_print(counter, &printed);
        perf_forget(counter);
        counter = NULL;
        check(!perf_adopt(&state, &plan, buf_text(&printed), &counter), "and again", ": %s",
              buf_text(&printed));
        buf_free(&printed);
    }
    if (counter)
        perf_free(counter);
    target_end(&target);
}

/* perf_start() and perf_stop() fail without a free descriptor: they could not list the threads, and
 * might leave some as they were. */
void test_switch_without_descriptors(void)
{
    struct target target = target_begin();
    struct plan plan = plan_for(&target);
    struct counter *counter = attach_started(&plan);
    struct rlimit usual, none = {0};

    getrlimit(RLIMIT_NOFILE, &usual);
    none.rlim_max = usual.rlim_max;
    check(!perf_stop(counter), "stopped", "");
    setrlimit(RLIMIT_NOFILE, &none);
    check(perf_start(counter, &err) && err.id == P10, "not started without a descriptor", ": %s",
          err.text);
    setrlimit(RLIMIT_NOFILE, &usual);
    check(!perf_start(counter, &err), "started", "");
    setrlimit(RLIMIT_NOFILE, &none);
    check(perf_stop(counter) == -EMFILE, "not stopped without a descriptor", "");
    setrlimit(RLIMIT_NOFILE, &usual);
    perf_free(counter);
    target_end(&target);
}
