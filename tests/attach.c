/*
 * Exact attach, shown on real processes without FUSE: what a counter says is compared with what the
 * threads of a target counted themselves (page faults, getrusage). `attach target` is that target.
 * Prints "ok NAME" or "not ok NAME: …"; exit status 1 when one is not ok.
 */
#pragma GCC diagnostic ignored "-Wformat-zero-length" /* a check with nothing to add */

#include "backends/perf/census.h"
#include "backends/perf/check.h"
#include "backends/perf/code.h"
#include "backends/perf/counter.h"
#include "backends/perf/recorder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    WORKERS_MAX = 700,
    PAGES = 4,
    STACK_BYTES = 65536,
    RACES = 200,
    RACE_THREADS = 200,
    RACE_PROCESSES = 40
};

/* ---- the target: workers are threads or processes, each told what to do through its slot */

struct slot {
    sem_t go;
    char what; /* w: work, x: end, c: make a thread of your own */
    bool live, process;
    pid_t tid;
    long faults; /* that it counted itself */
    char *pages;
};

struct shared {
    sem_t done;
    struct slot slot[WORKERS_MAX];
    unsigned n;     /* made */
    unsigned ready; /* have touched all that they touch but for work */
} * shared;

static long own_faults(void)
{
    struct rusage use;

    getrusage(RUSAGE_THREAD, &use);
    return use.ru_minflt + use.ru_majflt;
}

/* Of all threads, those that have ended included. */
static long process_faults(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return use.ru_minflt + use.ru_majflt;
}

static void work(struct slot *slot)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = slot->pages;
    long before = own_faults();

    for (size_t i = 0; i < PAGES; i++)
        *(volatile char *)(pages + i * page) = 1;
    slot->faults += own_faults() - before;
}

/* Pages given back before the count, so that touching them faults again. */
static void unwork(struct slot *slot)
{
    madvise(slot->pages, PAGES * (size_t)sysconf(_SC_PAGESIZE), MADV_DONTNEED);
}

static void worker_make(bool process);

static void *worker(void *arg)
{
    struct slot *slot = arg;

    slot->tid = (pid_t)syscall(SYS_gettid);
    work(slot);
    unwork(slot);
    slot->faults = 0;
    sem_post(&slot->go);
    sem_wait(&slot->go);
    __atomic_fetch_add(&shared->ready, 1, __ATOMIC_SEQ_CST);
    for (;;) {
        sem_wait(&slot->go);
        if (slot->what == 'w')
            work(slot), unwork(slot);
        else if (slot->what == 'c')
            worker_make(false);
        else
            break;
        sem_post(&shared->done);
    }
    slot->live = false;
    sem_post(&shared->done);
    return NULL;
}

static void worker_make(bool process)
{
    unsigned at = __atomic_fetch_add(&shared->n, 1, __ATOMIC_SEQ_CST);
    struct slot *slot = &shared->slot[at % WORKERS_MAX];
    pthread_attr_t attr;
    pthread_t thread;

    sem_init(&slot->go, 1, 0);
    slot->process = process;
    slot->pages = mmap(NULL, PAGES * (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    slot->live = true;
    if (process) {
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            worker(slot);
            _exit(0);
        }
        return;
    }
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, worker, slot))
        _exit(3);
    pthread_attr_destroy(&attr);
}

/* Tell all live workers (or the first `most`), wait, and give what they counted. */
static long tell(char what, unsigned most)
{
    unsigned told = 0, n = shared->n;
    long faults = 0;

    for (unsigned i = 0; i < n && told < most; i++) {
        if (!shared->slot[i].live)
            continue;
        shared->slot[i].what = what;
        sem_post(&shared->slot[i].go);
        told++;
    }
    while (told-- > 0)
        sem_wait(&shared->done);
    for (unsigned i = 0; i < n; i++) {
        faults += shared->slot[i].faults;
        shared->slot[i].faults = 0;
    }
    return faults;
}

static void settle(void)
{
    for (int i = 0; i < 5000 && __atomic_load_n(&shared->ready, __ATOMIC_SEQ_CST) <
                                    __atomic_load_n(&shared->n, __ATOMIC_SEQ_CST);
         i++)
        usleep(1000);
    usleep(2000);
}

static int target_main(void)
{
    struct slot self = {.live = false};
    char line[64];
    unsigned n, us;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(30);
    self.pages = mmap(NULL, PAGES * (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shared, 0, sizeof *shared);
    sem_init(&shared->done, 1, 0);
    work(&self), unwork(&self);
    printf("0\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        long faults = 0;

        n = us = 0;
        if (sscanf(line + 1, "%u %u", &n, &us) < 0)
            n = 0;
        switch (line[0]) {
        case 't':
        case 'f': /* threads, processes */
            while (n-- > 0)
                worker_make(line[0] == 'f');
            settle();
            break;
        case 's':
        case 'p': /* threads, processes: one every few microseconds, after answering */
            printf("0\n");
            fflush(stdout);
            while (n-- > 0) {
                struct timespec a, b;

                clock_gettime(CLOCK_MONOTONIC, &a);
                worker_make(line[0] == 'p');
                do
                    clock_gettime(CLOCK_MONOTONIC, &b);
                while ((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec < us * 1000L);
            }
            settle();
            break;
        case 'w': /* everybody works */
            self.faults = 0;
            faults = tell('w', WORKERS_MAX);
            work(&self), unwork(&self);
            faults += self.faults;
            break;
        case 'm': /* the main thread alone */
            self.faults = 0;
            work(&self), unwork(&self);
            faults = self.faults;
            break;
        case 'x':
        case 'c': /* n workers end; each of n makes a thread */
            faults = process_faults();
            tell(line[0], n);
            settle();
            faults = process_faults() - faults;
            break;
        case 'e':
            execl("/proc/self/exe", "attach", "target", (char *)NULL);
            _exit(4);
        default:
            break;
        }
        printf("%ld\n", faults);
        fflush(stdout);
    }
    return 0;
}

/* ---- the machine, as far as the backend asks */

static void fake_online(struct host_state *state, struct cpus *out)
{
    (void)state;
    for (unsigned i = 0; i < (unsigned)sysconf(_SC_NPROCESSORS_ONLN); i++)
        cpus_add(out, i);
}

static const struct host fake_host = {
    .name = "fake", .cpus_possible = fake_online, .cpus_online = fake_online};

static struct watched {
    int fd;
    void (*fn)(void *arg, uint32_t events);
    void *arg;
} watched[256];
static int epoll;
static unsigned gone;

static int fake_watch(void *ctx, int fd, uint32_t events, void (*fn)(void *, uint32_t), void *arg)
{
    (void)ctx;
    for (unsigned i = 1; i < 256; i++) {
        if (!watched[i].fn) {
            struct epoll_event event = {.events = events, .data.u32 = i};

            watched[i] = (struct watched){fd, fn, arg};
            return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
        }
    }
    return -ENOMEM;
}

static void fake_unwatch(void *ctx, int fd)
{
    (void)ctx;
    epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
    for (unsigned i = 1; i < 256; i++)
        if (watched[i].fn && watched[i].fd == fd)
            watched[i].fn = NULL;
}

static void pump(int ms)
{
    struct epoll_event event;

    for (int i = 0; i < 64 && epoll_wait(epoll, &event, 1, ms) == 1; i++)
        if (watched[event.data.u32].fn)
            watched[event.data.u32].fn(watched[event.data.u32].arg, event.events);
}

static void fake_gone(void *ctx, uint64_t tag)
{
    (void)ctx;
    gone += tag == 7;
}

static const struct loop fake_loop = {.watch = fake_watch, .unwatch = fake_unwatch};
static const struct sink fake_sink = {.gone = fake_gone};
static struct class_info fake_class = {.name = "software", .width = 64};
static struct backend_state state = {.host = &fake_host,
                                     .loop = &fake_loop,
                                     .sink = &fake_sink,
                                     .classes = &fake_class,
                                     .n_classes = 1};

/* ---- driving a target */

struct target {
    pid_t pid;
    FILE *to, *from;
};

__attribute__((format(printf, 2, 3))) static long ask(struct target *target, const char *format,
                                                      ...)
{
    char line[64] = "";
    va_list args;

    va_start(args, format);
    vfprintf(target->to, format, args);
    va_end(args);
    fflush(target->to);
    return fgets(line, sizeof line, target->from) ? atol(line) : -1;
}

static long answer(struct target *target)
{
    char line[64] = "";

    return fgets(line, sizeof line, target->from) ? atol(line) : -1;
}

static struct target target_begin(void)
{
    struct target target;
    int to[2], from[2];

    if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
        exit(2);
    target.pid = fork();
    if (target.pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        execl("/proc/self/exe", "attach", "target", (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    target.to = fdopen(to[1], "w");
    target.from = fdopen(from[0], "r");
    answer(&target);
    return target;
}

static void target_end(struct target *target)
{
    kill(target->pid, SIGKILL);
    waitpid(target->pid, NULL, 0);
    fclose(target->to);
    fclose(target->from);
}

static bool always_alive(void *arg)
{
    return kill(*(pid_t *)arg, 0) == 0;
}

static struct event events[] = {
    {.written = (char *)"page-faults", .scale = 1, .code = {PERF_TYPE_SOFTWARE, 2}},
    {.written = (char *)"task-clock", .scale = 1, .code = {PERF_TYPE_SOFTWARE, 1}},
    {.written = (char *)"no-such", .scale = 1, .code = {99, 1}},
};
static struct plan_event plan_events[] = {
    {&events[0], true, true},
    {&events[1], true, true},
    {&events[2], true, true},
};

static struct plan plan_for(struct target *target)
{
    return (struct plan){
        .events = plan_events,
        .n = 1,
        .fds_free = 10000,
        .fds_quota = 10000,
        .max_covered = 10000,
        .tag = 7,
        .deadline_ns = census_now_ns() + 5000000000u,
        .target = {.kind = TARGET_PROCESS,
                   .pid = target->pid,
                   .alive = always_alive,
                   .alive_arg = &target->pid,
                   .cgroup_fd = -1},
    };
}

static struct err err;

static struct counter *attach_started(const struct plan *plan)
{
    struct counter *counter = NULL;

    if (perf_attach(&state, plan, &counter, &err) || perf_start(counter, &err))
        printf("# %s %s\n", err_table[err.id].id, err.text);
    return counter;
}

static long value(struct counter *counter)
{
    struct reading reading;

    return counter && !perf_read(counter, &reading) ? (long)reading.value[0] : -1;
}

/* What the counter says about a piece of work, and what the target does. */
static bool agrees(struct counter *counter, struct target *target, const char *what, long *off)
{
    long before = value(counter), own = ask(target, "%s", what), after = value(counter);

    *off = after - before - own;
    return own > 0 && *off == 0;
}

static unsigned failed;

__attribute__((format(printf, 3, 4))) static void check(bool ok, const char *name,
                                                        const char *format, ...)
{
    va_list args;

    failed += !ok;
    printf("%s %s", ok ? "ok" : "not ok", name);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
}

static unsigned open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* ---- the behaviours */

static void count_sample(void *arg, const struct record *record)
{
    const struct record_lost *lost = (const void *)record;

    if (record->type == RECORD_SAMPLE)
        ++*(long *)arg;
    else if (record->type == RECORD_LOST)
        *(long *)arg += (long)lost->lost;
}

/* Is every page fault that was counted a sample, or known to be lost? */
static bool is_recorded(struct recorder *recorder, struct counter *counter)
{
    long samples = 0, counted;

    perf_stop(counter);
    counted = value(counter);
    perf_drain(recorder, true, &(struct intake){.put = count_sample, .arg = &samples});
    if (samples != counted)
        printf("# %ld samples of %ld\n", samples, counted);
    return samples == counted;
}

/* recorder NULL: it only counts. */
static void test_race(unsigned us, unsigned races, bool processes, struct recorder *recorder)
{
    unsigned exact = 0, raced = 0, wrong = 0, opened = 0;
    uint64_t took = 0, worst = 0;
    long off;

    for (unsigned i = 0; i < races; i++) {
        struct target target = target_begin();
        struct plan plan = plan_for(&target);
        struct counter *counter = NULL;
        struct counter_facts facts;

        plan.descendants = processes;
        plan.recorder = recorder;
        plan.sampling = recorder != NULL;
        plan.period = 1;
        ask(&target, processes ? "p %u %u\n" : "s %u %u\n",
            processes ? RACE_PROCESSES : RACE_THREADS, us);
        usleep((i * 37) % 2000);
        uint64_t begin = census_now_ns();
        if (!perf_attach(&state, &plan, &counter, &err)) {
            uint64_t ns = census_now_ns() - begin;
            took += ns;
            worst = ns > worst ? ns : worst;
            perf_start(counter, &err);
            answer(&target);
            if (processes)
                ask(&target, "w\n"); /* what a new process copies at its first steps */
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
            wrong++;
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

/* Switched while threads are born: nobody of them stays behind in the old state. */
static void test_switch_race(void)
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

static void test_threads(void)
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
    perf_facts_of(counter, &facts);
    check(off == 0 && own == 17 * PAGES && facts.threads == 9 && !facts.raced,
          "threads at attach, later and ended", ": %ld of %ld, off by %ld", own, 17L * PAGES, off);
    check(perf_cost(counter) == 9 && perf_covers(counter, target.pid) && !perf_covers(counter, 1),
          "cost and covers", "");
    before = value(counter);
    kill(target.pid, SIGKILL);
    usleep(20000);
    check(value(counter) == before, "a dead target keeps its count", "");
    perf_stop(counter);
    check(!perf_start(counter, &err), "switching a dead target", "");
    perf_free(counter);
    target_end(&target);
}

static pid_t child_of(pid_t pid)
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

static void test_descendants(void)
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
    ask(&target, "c 3\n"); /* the first three (processes) make a thread each */
    ask(&target, "w\n");   /* what a new process copies at its first steps */
    agrees(counter, &target, "w\n", &off);
    check(off == 0, "descendants, present and later", ": off by %ld", off);
    pid_t child = child_of(target.pid);
    perf_facts_of(counter, &facts);
    check(facts.covered == 6 && perf_covers(counter, child) && !perf_covers(counter, getpid()),
          "covered processes", ": %u", facts.covered);
    pump(0);
    check(gone == 0, "not gone while they live", "");
    kill(target.pid, SIGKILL);
    waitpid(target.pid, NULL, 0);
    for (int i = 0; i < 20 && !gone; i++)
        pump(50);
    perf_facts_of(counter, &facts);
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
    perf_facts_of(counter, &facts);
    check(off == -PAGES && facts.left_out == 1, "a descendant left out", ": off by %ld", off);
    perf_free(counter);
    plan.max_covered = 2;
    check(perf_attach(&state, &plan, &counter, &err) == -EDQUOT && err.id == P11,
          "too many descendants", "");
    target_end(&target);
}

/* Yes when listed; then a privileged program is executed: no. */
static unsigned admissions;
static int admit_once(void *arg, pid_t pid)
{
    return pid == *(pid_t *)arg && admissions++ ? -EPERM : 1;
}

static void test_admitted_once(void)
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
    perf_facts_of(counter, &facts);
    check(off == -PAGES && facts.left_out == 1 && facts.covered == 3 &&
              !perf_covers(counter, child),
          "a descendant that was opened too late is left out", ": off by %ld, %u left out", off,
          facts.left_out);
    perf_free(counter);
    check(open_fds() == before, "and its descriptors are closed", "");
    target_end(&target);
}

/* A child of this process which executes a program that is not readable, so that the kernel drops
 * it. */
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

static void test_dropped(mode_t mode, bool drops)
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
    usleep(20000);
    struct plan plan = plan_for(&target);
    plan.descendants = true;
    struct counter *counter = attach_started(&plan);
    perf_read(counter, &reading);
    check(!reading.dropped, "not dropped yet", "");
    if (write(go[1], "x", 1) != 1)
        exit(2);
    for (int i = 0; i < 40 && !reading.dropped; i++) {
        usleep(5000);
        perf_read(counter, &reading);
    }
    perf_facts_of(counter, &facts);
    check(reading.dropped == drops && facts.covered == (drops ? 1 : 2),
          drops ? "a child that was dropped is told" : "an exec like any other is not",
          ": %u covered", facts.covered);
    perf_read(counter, &reading);
    check(reading.dropped == drops, "and again", "");
    perf_free(counter);
    kill(target.pid, SIGKILL);
    waitpid(target.pid, NULL, 0);
    close(go[0]);
    close(go[1]);
    unlink(path);
    rmdir(dir);
}

static void test_thread(void)
{
    struct target target = target_begin();
    struct plan plan = plan_for(&target);
    struct counter *counter;
    long off;

    plan.target.kind = TARGET_THREAD;
    plan.target.tid = target.pid;
    counter = attach_started(&plan);
    ask(&target, "t 4\n");
    ask(&target, "m\n");
    agrees(counter, &target, "m\n", &off);
    check(off == 0, "one thread only", ": off by %ld", off);
    agrees(counter, &target, "w\n", &off);
    check(off == -4 * PAGES, "its later threads are not counted", ": off by %ld", off);
    pump(0);
    check(gone == 0, "thread not gone", "");
    kill(target.pid, SIGKILL);
    for (int i = 0; i < 20 && !gone; i++)
        pump(50);
    check(gone == 1, "thread gone", "");
    gone = 0;
    perf_free(counter);
    target_end(&target);
}

static void test_cpu(void)
{
    struct target none = {.pid = getpid()};
    struct plan plan = plan_for(&none);
    struct counter *counter;
    struct reading reading = {0};

    plan.target = (struct target_ref){.kind = TARGET_CPU, .cpu = 0, .cgroup_fd = -1};
    counter = attach_started(&plan);
    usleep(20000);
    perf_read(counter, &reading);
    check(reading.enabled_ns > 15000000 && !perf_covers(counter, getpid()), "cpu target", "");
    perf_free(counter);
    plan.target.cpu = 4000;
    int rc = perf_attach(&state, &plan, &counter, &err);
    check(rc == -ENXIO && err.id == E37, "no such cpu", ": %s", err.text);
}

static void test_set(void)
{
    struct target target = target_begin();
    struct plan plan = plan_for(&target);
    struct counter *counter;
    struct reading a = {0}, b = {0}, c = {0};
    long own;

    ask(&target, "t 4\n");
    plan.n = 2;
    counter = attach_started(&plan);
    own = ask(&target, "w\n");
    perf_read(counter, &a);
    check((long)a.value[0] == own && a.value[1] > 0 && a.estimate[0] == a.value[0] &&
              a.covered_ns == a.enabled_ns && a.enabled_ns == a.running_ns,
          "a set of two", ": %llu %llu", (unsigned long long)a.value[0],
          (unsigned long long)a.value[1]);
    perf_stop(counter);
    ask(&target, "t 2\n");
    perf_read(counter, &a);
    ask(&target, "w\n");
    perf_read(counter, &b);
    check(a.value[0] == b.value[0] && a.enabled_ns == b.enabled_ns, "stopped stands still", "");
    perf_start(counter, &err);
    own = ask(&target, "w\n");
    perf_read(counter, &c);
    check((long)(c.value[0] - b.value[0]) == own && c.enabled_ns > b.enabled_ns,
          "started again continues", ": %ld of %ld", (long)(c.value[0] - b.value[0]), own);
    perf_free(counter);
    plan.n = 3;
    int rc = perf_attach(&state, &plan, &counter, &err);
    check(rc == -EOPNOTSUPP && !counter, "a refused member has a sentence", ": %s %s",
          err_table[err.id].id, err.text);
    plan.n = 1;
    plan.fds_free = 3;
    rc = perf_attach(&state, &plan, &counter, &err);
    check(rc == -EMFILE && err.id == P10, "descriptors", ": %s", err.text);
    plan.fds_free = ULONG_MAX;
    plan.fds_quota = 6;
    rc = perf_attach(&state, &plan, &counter, &err);
    check(rc == -EDQUOT && err.id == P11 && strstr(err.text, "needs 7 descriptors, quota has 6"),
          "a quota", ": %s", err.text);
    plan.fds_quota = 7;
    rc = perf_attach(&state, &plan, &counter, &err);
    check(!rc, "only what stays counts against it", ": %s", err.text);
    if (!rc)
        perf_free(counter);
    plan.fds_free = 7 + 10;
    rc = perf_attach(&state, &plan, &counter, &err);
    check(rc == -EMFILE && err.id == P10, "what is open for a while counts, too", ": %s", err.text);
    check(!perf_check_set(&state, plan_events, 2, false, &err), "check_set takes two", "");
    rc = perf_check_set(&state, plan_events, 3, false, &err);
    check(rc == -EOPNOTSUPP, "check_set refuses", ": %s %s", err_table[err.id].id, err.text);
    target_end(&target);
    plan.fds_free = 100;
    rc = perf_attach(&state, &plan, &counter, &err);
    check(rc == -ESRCH, "a dead target", ": %s", err.text);
}

/* The x86 time stamp counter stands for an event that takes a counter of the processor. */
static void test_hardware(void)
{
    struct target target = target_begin();
    struct plan plan = plan_for(&target);
    struct event tsc = {.written = (char *)"msr/tsc/", .scale = 1};
    struct plan_event set[] = {{&events[0], true, true}, {&tsc, true, true}};
    struct counter *counter;
    struct reading a = {0};
    FILE *type = fopen("/sys/bus/event_source/devices/msr/type", "re");
    unsigned number = 0;

    if (type && fscanf(type, "%u", &number) == 1) {
        tsc.code[CODE_TYPE] = number;
        tsc.code[CODE_FLAGS] = CODE_HARDWARE | CODE_NO_EXCLUDE;
        plan.events = set;
        plan.n = 2;
        ask(&target, "t 2\n");
        counter = attach_started(&plan);
        long own = ask(&target, "w\n");
        int rc = perf_read(counter, &a);
        check(!rc && (long)a.value[0] == own && a.value[1] > a.running_ns / 4 && !a.off &&
                  perf_cost(counter) == 6 && a.covered_ns > 0 &&
                  (int64_t)(a.covered_ns - a.running_ns) < 1000000,
              "with a witness of time", ": %llu covered, %llu running",
              (unsigned long long)a.covered_ns, (unsigned long long)a.running_ns);
        perf_free(counter);
    }
    if (type)
        fclose(type);
    target_end(&target);
}

/* Without fork records: it works, and says so when it could not be exact. */
static void test_blind(void)
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
    perf_facts_of(counter, &facts);
    check(off == 0 && !facts.raced, "without a sideband", "");
    perf_free(counter);
    plan.deadline_ns = 1;
    state.sideband = sideband;
    int rc = perf_attach(&state, &plan, &counter, &err);
    check(rc == -EAGAIN && err.id == P13 && !counter, "too late", ": %s", err.text);
    target_end(&target);
}

static void test_exec(void)
{
    struct target target = target_begin();
    struct plan plan = plan_for(&target);
    struct counter *counter;
    struct reading a = {0}, b = {0};
    long own;

    plan.at_exec = true;
    counter = attach_started(&plan);
    ask(&target, "m\n");
    perf_read(counter, &a);
    ask(&target, "e\n");
    ask(&target, "m\n");
    long before = value(counter);
    own = ask(&target, "m\n");
    perf_read(counter, &b);
    check(!a.enabled_ns && !a.value[0] && b.enabled_ns && (long)b.value[0] - before == own,
          "start at exec", ": %llu faults with the exec", (unsigned long long)before);
    perf_stop(counter);
    before = value(counter);
    ask(&target, "m\n");
    check(value(counter) == before && !perf_start(counter, &err) && ask(&target, "m\n") > 0 &&
              value(counter) > before,
          "stop and start after the exec", "");
    perf_free(counter);
    target_end(&target);
}

static void test_adopt(void)
{
    struct target target = target_begin();
    struct plan plan = plan_for(&target);
    struct counter *counter, *again = NULL;
    struct counter_facts old, new = {0};
    struct buf text, second;
    unsigned fds;
    long off, before;

    ask(&target, "t 3\n");
    ask(&target, "f 2\n");
    plan.descendants = true;
    plan.n = 2;
    counter = attach_started(&plan);
    agrees(counter, &target, "w\n", &off);
    before = value(counter);
    perf_facts_of(counter, &old);
    buf_init(&text, NULL, 0);
    buf_init(&second, NULL, 0);
    perf_print(counter, &text);
    fds = open_fds();
    perf_forget(counter);
    check(!perf_adopt(&state, &plan, buf_text(&text), &again) && open_fds() == fds, "adopt", ": %s",
          buf_text(&text));
    if (again) {
        perf_print(again, &second);
        perf_facts_of(again, &new);
        check(!strcmp(buf_text(&text), buf_text(&second)), "prints the same again", "");
        off = value(again) - before;
        check(off == 0, "keeps its count", ": off by %ld", off);
        agrees(again, &target, "w\n", &off);
        check(off == 0 && old.covered == new.covered &&old.descriptors == new.descriptors,
              "goes on with the same numbers", ": off by %ld", off);
        ask(&target, "f 1\n");
        perf_facts_of(again, &new);
        check(new.covered == old.covered + 1, "and follows new children", ": %u", new.covered);
        kill(target.pid, SIGKILL);
        waitpid(target.pid, NULL, 0);
        for (int i = 0; i < 20 && !gone; i++)
            pump(50);
        check(gone == 1, "and tells the end", "");
        perf_free(again);
    }
    gone = 0;
    check(perf_adopt(&state, &plan, "perf 2 1 0 0 1 1 - 5 -1 900,901,-1,-1", &again) < 0 && !again,
          "a text of closed descriptors is refused", "");
    buf_free(&text);
    buf_free(&second);
    target_end(&target);
}

int main(int argc, char **argv)
{
    struct recorder_plan recorder_plan = {.bytes = 1 << 20, .fds_free = 1000, .fds_quota = 1000};
    struct recorder *recorder = NULL;
    unsigned before, races = argc > 1 ? (unsigned)atoi(argv[1]) : RACES;

    if (argc > 1 && !strcmp(argv[1], "target"))
        return target_main();
    if (argc > 1 && !strcmp(argv[1], "sleep"))
        return (int)sleep(3);
    alarm(120);
    signal(SIGPIPE, SIG_IGN);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    state.sideband = sideband_new(&state);
    before = open_fds();
    test_threads();
    test_descendants();
    test_admitted_once();
    test_dropped(0711, true);
    test_dropped(0755, false);
    test_thread();
    test_cpu();
    test_set();
    test_hardware();
    test_blind();
    test_exec();
    test_adopt();
    test_switch_race();
    test_race(20, races, false, NULL);
    test_race(300, races / 10, false, NULL);
    test_race(20, races / 10, true, NULL);
    if (!perf_recorder_new(&state, &recorder_plan, &recorder, &err)) {
        test_race(20, races / 4, false, recorder);
        test_race(20, races / 10, true, recorder);
        perf_recorder_free(recorder);
    }
    check(open_fds() == before, "no descriptor is left", ": %u, %u before", open_fds(), before);
    check(state.n_counters == 0, "no counter is left", "");
    sideband_free(state.sideband);
    return failed != 0;
}
