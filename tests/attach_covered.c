/*
 * Covered tasks: threads and descendants, existing and new, admitted, left out, or dropped by the
 * kernel; a single thread; a CPU.
 */
#include "tests/attach_test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

void test_threads(void)
{
    struct target target = target_begin();
    struct plan plan = plan_for(&target);
    struct counter *counter;
    struct counter_facts facts = {0};
    long off, before, own;

    ask(&target, "t 8\n");
    counter = attach_started(&plan);
    ask(&target, "t 8\n");
    before = value(counter);
    own = ask(&target, "w\n");
    off = ask(&target, "x 4\n") + own;
    off = value(counter) - before - off;
    perf_counter_facts(counter, &facts);
    check(off == 0 && own == 17 * PAGES && facts.threads == 9 && !facts.raced,
          "threads at attach, later and ended", ": %ld of %ld, off by %ld", own, 17L * PAGES, off);
    check(perf_read_cost(counter) == 9 && perf_covers(counter, target.pid) &&
              !perf_covers(counter, 1),
          "cost and covers", "");
    before = value(counter);
    kill(target.pid, SIGKILL);
    waitid(P_PID, (id_t)target.pid, &(siginfo_t){0}, WEXITED | WNOWAIT);
    check(value(counter) == before, "a dead target keeps its count", "");
    perf_stop(counter);
    check(!perf_start(counter, &err), "switching a dead target", "");
    perf_free(counter);
    target_end(&target);
}

pid_t child_of(pid_t pid)
{
    char path[64], text[64] = "";
    int fd;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
        text[0] = '\0';
    close(fd);
    return atoi(text);
}

static int admit_not_me(void *arg, pid_t pid)
{
    return pid == *(pid_t *)arg ? -EPERM : 1;
}

void test_descendants(void)
{
    struct target target = target_begin();
    struct plan plan = plan_for(&target);
    struct counter *counter;
    struct counter_facts facts = {0};
    long off;

    ask(&target, "f 3\n");
    ask(&target, "t 2\n");
    plan.descendants = true;
    counter = attach_started(&plan);
    ask(&target, "f 2\n");
    ask(&target, "c 3\n"); /* the first three processes create a thread each */
    ask(&target, "w\n");   /* page faults of a new process, which copies pages at its start */
    agrees(counter, &target, "w\n", &off);
    check(off == 0, "descendants, present and later", ": off by %ld", off);
    pid_t child = child_of(target.pid);
    perf_counter_facts(counter, &facts);
    check(facts.covered == 6 && perf_covers(counter, child) && !perf_covers(counter, getpid()),
          "covered processes", ": %u", facts.covered);
    pump(0);
    check(gone == 0, "not gone while they live", "");
    kill(target.pid, SIGKILL);
    waitpid(target.pid, NULL, 0);
    for (int i = 0; i < 20 && !gone; i++)
        pump(50);
    perf_counter_facts(counter, &facts);
    check(gone == 1 && facts.covered == 0, "gone when the last one is dead", ": %u, %u covered",
          gone, facts.covered);
    gone = 0;
    perf_free(counter);
    fclose(target.to);
    fclose(target.from);

    target = target_begin();
    ask(&target, "f 3\n");
    child = child_of(target.pid);
    plan = plan_for(&target);
    plan.descendants = true;
    plan.admit = admit_not_me;
    plan.admit_arg = &child;
    counter = attach_started(&plan);
    ask(&target, "w\n");
    agrees(counter, &target, "w\n", &off);
    perf_counter_facts(counter, &facts);
    check(off == -PAGES && facts.left_out == 1, "a descendant left out", ": off by %ld", off);
    perf_free(counter);
    plan.max_covered = 2;
    check(perf_attach(&state, &plan, &counter, &err) == -EDQUOT && err.id == P11,
          "too many descendants", "");
    target_end(&target);
}

static unsigned admissions;

/* Admits the process *arg when it is listed, but not when it is checked again after its open. */
static int admit_once(void *arg, pid_t pid)
{
    return pid == *(pid_t *)arg && admissions++ ? -EPERM : 1;
}

void test_admitted_once(void)
{
    struct target target = target_begin();
    struct plan plan = plan_for(&target);
    struct counter_facts facts = {0};
    unsigned before;
    long off;

    ask(&target, "f 3\n");
    pid_t child = child_of(target.pid);
    plan.descendants = true;
    plan.admit = admit_once;
    plan.admit_arg = &child;
    admissions = 0;
    before = open_fds();
    struct counter *counter = attach_started(&plan);
    ask(&target, "w\n");
    agrees(counter, &target, "w\n", &off);
    perf_counter_facts(counter, &facts);
    check(off == -PAGES && facts.left_out == 1 && facts.covered == 3 &&
              !perf_covers(counter, child),
          "a descendant that was opened too late is left out", ": off by %ld, %u left out", off,
          facts.left_out);
    perf_free(counter);
    check(open_fds() == before, "and its descriptors are closed", "");
    target_end(&target);
}

/* Starts a process whose child reads a byte from `go`, then executes the program as another user.
 * If this user may not read the program, the kernel removes the child's events. */
static pid_t dropper_begin(const char *path, int go)
{
    pid_t pid = fork();

    if (pid == 0) {
        char byte;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pid = fork();
        if (pid == 0) {
            if (read(go, &byte, 1) == 1 && !setgid(65534) && !setuid(65534))
                execl(path, "attach", "sleep", (char *)NULL);
            _exit(127);
        }
        waitpid(pid, NULL, 0);
        _exit(0);
    }
    return pid;
}

/* Starts a process that reads bytes from `go`: at the first, third… it runs a short program, which
 * is a zombie until the next byte, at which it is reaped. */
static pid_t spawner_begin(int go)
{
    pid_t pid = fork();
    char byte;

    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(go, &byte, 1) == 1) {
        pid = fork();
        if (pid == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(127);
        }
        if (read(go, &byte, 1) == 1)
            waitpid(pid, NULL, 0);
    }
    _exit(0);
}

/* Reads the counter without waiting, again and again for at least 60 s, until the read returns rc.
 * Returns false if it never does, or if a descendant has lost its events. */
static bool read_returns(struct counter *counter, int rc)
{
    struct reading reading;

    for (int i = 0; i < 12000; i++) {
        if (perf_read(counter, &reading, false) == rc)
            return rc || !reading.descendant_lost;
        usleep(5000);
    }
    return false;
}

/* A descendant with an EXIT record soon after its exec is suspected of having lost its events.
 * While it is a zombie, only /proc shows that it has exited. */
void test_suspect(void)
{
    struct target target = {.pid = 0};
    struct reading reading;
    int go[2];

    if (pipe2(go, O_CLOEXEC))
        exit(2);
    target.pid = spawner_begin(go[0]);
    struct plan plan = plan_for(&target);
    plan.descendants = true;
    struct counter *counter = attach_started(&plan);
    check(read_returns(counter, 0), "nobody is suspected", "");
    check(write(go[1], "x", 1) == 1 && read_returns(counter, -EAGAIN),
          "a read that may not wait does not read /proc", "");
    check(write(go[1], "x", 1) == 1 && read_returns(counter, 0),
          "a process that its parent has waited for is known to have exited", "");
    check(write(go[1], "x", 1) == 1 && read_returns(counter, -EAGAIN),
          "the next zombie is suspected, too", "");
    for (int i = 0; i < 60000 && perf_read(counter, &reading, false); i++) {
        check(!perf_read(counter, &reading, true) && !reading.descendant_lost,
              "a read that may wait reads /proc", "");
        usleep(1000);
    }
    check(!perf_read(counter, &reading, false) && !reading.descendant_lost,
          "and then the exit is known", "");
    perf_free(counter);
    kill(target.pid, SIGKILL);
    waitpid(target.pid, NULL, 0);
    close(go[0]);
    close(go[1]);
}

static bool copy_program(const char *path, mode_t mode)
{
    char text[65536];
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    ssize_t n = 0;

    while (from >= 0 && to >= 0 && (n = read(from, text, sizeof text)) > 0)
        if (write(to, text, (size_t)n) != n)
            break;
    bool ok = from >= 0 && to >= 0 && n == 0 && !fchmod(to, mode);
    close(from);
    close(to);
    return ok;
}

void test_lost_events(mode_t mode, bool loses)
{
    char dir[] = "/tmp/attach-XXXXXX", path[64];
    struct target target = {.pid = 0};
    struct reading reading = {0};
    struct counter_facts facts = {0};
    int go[2];

    if (!mkdtemp(dir) || chmod(dir, 0755) || pipe2(go, O_CLOEXEC))
        exit(2);
    snprintf(path, sizeof path, "%s/program", dir);
    check(copy_program(path, mode), "a program", "");
    target.pid = dropper_begin(path, go[0]);
    while (!child_of(target.pid))
        usleep(1000);
    struct plan plan = plan_for(&target);
    plan.descendants = true;
    struct counter *counter = attach_started(&plan);
    perf_read(counter, &reading, true);
    check(!reading.descendant_lost, "nothing is lost yet", "");
    if (write(go[1], "x", 1) != 1)
        exit(2);
    for (int i = 0; i < (loses ? 12000 : 40) && !reading.descendant_lost; i++) {
        usleep(5000);
        perf_read(counter, &reading, true);
    }
    perf_counter_facts(counter, &facts);
    check(reading.descendant_lost == loses && facts.covered == (loses ? 1 : 2),
          loses ? "a child whose events were removed is reported" : "a usual exec is not",
          ": %u covered", facts.covered);
    perf_read(counter, &reading, true);
    check(reading.descendant_lost == loses, "and again", "");
    perf_free(counter);
    kill(target.pid, SIGKILL);
    waitpid(target.pid, NULL, 0);
    close(go[0]);
    close(go[1]);
    unlink(path);
    rmdir(dir);
}
