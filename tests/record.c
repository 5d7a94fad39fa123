/*
 * Records of real events on real processes, without FUSE: attach, start, work, drain, and compare
 * what the records say with what the target did. Prints "ok NAME" or "not ok NAME: …"; exit status
 * 1 when one is not ok.
 */
#pragma GCC diagnostic ignored "-Wformat-zero-length" /* a check with nothing to add */

#include "backends/perf/census.h"
#include "backends/perf/code.h"
#include "backends/perf/counter.h"
#include "backends/perf/group.h"
#include "backends/perf/pmu.h"
#include "backends/perf/recorder.h"
#include "backends/perf/sampling.h"
#include "backends/perf/tracepoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
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
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    SET = 5,
    RING = 256 * 1024
};

static unsigned failed, passed;

__attribute__((format(printf, 3, 4))) static bool check(bool ok, const char *name,
                                                        const char *format, ...)
{
    va_list args;

    printf("%s %s", ok ? "ok" : "not ok", name);
    if (!ok) {
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
    }
    printf("\n");
    fflush(stdout);
    failed += !ok;
    passed += ok;
    return ok;
}

/* ---- the target: told one letter and a number, it answers when it has done so */

static size_t page;

static void touch(unsigned long pages)
{
    char *p =
        mmap(NULL, pages * page + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    madvise(p, pages * page + page, MADV_NOHUGEPAGE);
    for (unsigned long i = 0; i < pages; i++)
        p[i * page] = 1;
    munmap(p, pages * page + page);
}

static void burn(unsigned long us)
{
    uint64_t until = census_now_ns() + us * 1000;

    while (census_now_ns() < until)
        ;
}

static void *touch_thread(void *arg)
{
    touch((unsigned long)(uintptr_t)arg);
    return NULL;
}

static void on_cpu(unsigned long cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void map_program(void)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    munmap(mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0), page);
    close(fd);
}

static void target_do(char what, unsigned long n)
{
    pthread_t thread;
    pid_t pid;

    switch (what) {
    case 'p': /* page faults */
        touch(n);
        break;
    case 't': /* … of a new thread */
        pthread_create(&thread, NULL, touch_thread, (void *)(uintptr_t)n);
        pthread_join(thread, NULL);
        break;
    case 'f': /* … of a child */
        pid = fork();
        if (pid == 0) {
            touch(n);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
        break;
    case 's': /* switches */
        while (n-- > 0)
            usleep(1);
        break;
    case 'b':
        burn(n);
        break;
    case 'c':
        on_cpu(n);
        break;
    case 'i': /* some instructions */
        for (volatile unsigned long i = n; i > 0; i--)
            ;
        break;
    case 'y': /* system calls */
        while (n-- > 0)
            getppid();
        break;
    case 'm':
        map_program();
        break;
    case 'n':
        prctl(PR_SET_NAME, "renamed");
        break;
    default:
        break;
    }
}

static void target_main(void)
{
    char what;
    unsigned long n;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(60);
    printf("0\n");
    fflush(stdout);
    while (scanf(" %c %lu", &what, &n) == 2) {
        struct rusage before, after;

        if (what == 'e')
            execl("/proc/self/exe", "record", "target", (char *)NULL);
        getrusage(RUSAGE_SELF, &before);
        target_do(what, n);
        getrusage(RUSAGE_SELF, &after);
        printf("%ld\n", after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt);
        fflush(stdout);
    }
}

struct target {
    pid_t pid;
    FILE *to, *from;
};

static long answer(struct target *target)
{
    char line[64] = "";

    return fgets(line, sizeof line, target->from) ? atol(line) : -1;
}

static long ask(struct target *target, char what, unsigned long n)
{
    fprintf(target->to, "%c %lu\n", what, n);
    fflush(target->to);
    return answer(target);
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
        execl("/proc/self/exe", "record", "target", (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    target.to = fdopen(to[1], "w");
    target.from = fdopen(from[0], "r");
    answer(&target);
    /* Once each, so that nothing is done for the first time later. */
    ask(&target, 'p', 3);
    ask(&target, 's', 3);
    return target;
}

static void target_end(struct target *target)
{
    kill(target->pid, SIGKILL);
    waitpid(target->pid, NULL, 0);
    fclose(target->to);
    fclose(target->from);
}

/* ---- the machine, as far as the backend asks */

static void fake_possible(struct host_state *state, struct cpus *out)
{
    (void)state;
    for (unsigned i = 0; i < (unsigned)sysconf(_SC_NPROCESSORS_CONF); i++)
        cpus_add(out, i);
}

static int missing_cpu = -1; /* one that is said to be offline */

static void fake_online(struct host_state *state, struct cpus *out)
{
    (void)state;
    for (unsigned i = 0; i < (unsigned)sysconf(_SC_NPROCESSORS_ONLN); i++)
        if ((int)i != missing_cpu)
            cpus_add(out, i);
}

static const struct host fake_host = {
    .name = "fake", .cpus_possible = fake_possible, .cpus_online = fake_online};

static struct watched {
    int fd;
    void (*fn)(void *arg, uint32_t events);
    void *arg;
} watched[256];
static int epoll;
static unsigned ready;

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

/* Rounds of the loop until nothing is told; how many. */
static int pump(int ms)
{
    struct epoll_event event;
    int i = 0;

    for (; i < 64 && epoll_wait(epoll, &event, 1, ms) == 1; i++)
        if (watched[event.data.u32].fn)
            watched[event.data.u32].fn(watched[event.data.u32].arg, event.events);
    return i;
}

static void fake_ready(void *ctx, uint64_t tag)
{
    (void)ctx;
    ready += tag == 7;
}

static void fake_gone(void *ctx, uint64_t tag)
{
    (void)ctx;
    (void)tag;
}

static const struct loop fake_loop = {.watch = fake_watch, .unwatch = fake_unwatch};
static const struct sink fake_sink = {.ready = fake_ready, .gone = fake_gone};
static struct class_info fake_class = {.name = "software", .width = 64};
static struct backend_state state = {.host = &fake_host,
                                     .loop = &fake_loop,
                                     .sink = &fake_sink,
                                     .classes = &fake_class,
                                     .n_classes = 1};

/* ---- one recorder, one counter, what came out */

static struct event events[] = {
    {.written = (char *)"page-faults", .scale = 1, .code = {PERF_TYPE_SOFTWARE, 2}},
    {.written = (char *)"cpu-clock", .scale = 1, .code = {PERF_TYPE_SOFTWARE, 0}},
    {.written = (char *)"context-switches", .scale = 1, .code = {PERF_TYPE_SOFTWARE, 3}},
    {.written = (char *)"instructions",
     .scale = 1,
     .code = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, [CODE_FLAGS] = CODE_HARDWARE}},
    {.written = (char *)"cycles",
     .scale = 1,
     .code = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, [CODE_FLAGS] = CODE_HARDWARE}},
    {.written = (char *)"syscalls:sys_enter_getppid", .scale = 1, .code = {PERF_TYPE_TRACEPOINT}},
};
enum {
    FAULTS,
    CLOCK,
    SWITCHES,
    INSTRUCTIONS,
    CYCLES,
    GETPPID
};
static struct plan_event plan_events[SET_MAX];
static struct err err;

struct run {
    struct recorder *recorder;
    struct counter *counter;
    struct plan plan;
    char *bytes; /* records, one after the other */
    size_t n, size;
    unsigned malformed;
    bool over; /* atomic: draining ends */
};

static void take(void *arg, const struct record *record)
{
    struct run *run = arg;

    run->malformed += !record_fits(record, record->size);

    if (run->n + record->size > run->size) {
        run->size = 2 * (run->n + record->size);
        run->bytes = realloc(run->bytes, run->size);
    }
    memcpy(run->bytes + run->n, record, record->size);
    run->n += record->size;
}

static void drain(struct run *run, bool all)
{
    perf_drain(run->recorder, all, &(struct intake){.put = take, .arg = run});
}

static const struct record *first_record(const struct run *run)
{
    return run->n ? (const void *)run->bytes : NULL;
}

static const struct record *next_record(const struct run *run, const struct record *record)
{
    const char *next = (const char *)record + record->size;

    return next < run->bytes + run->n ? (const void *)next : NULL;
}

#define EACH(run, record)                                                                          \
    for (const struct record *record = first_record(run); record; record = next_record(run, record))

static unsigned long count_type(const struct run *run, enum record_type type)
{
    unsigned long n = 0;

    EACH(run, record)
    n += record->type == type;
    return n;
}

/* Samples of the event at this place. */
static unsigned long samples_of(const struct run *run, unsigned place)
{
    unsigned long n = 0;

    EACH(run, record)
    n += record->type == RECORD_SAMPLE &&
         ((const struct record_sample *)(const void *)record)->id == LOG_ID(SET, place);
    return n;
}

static unsigned long lost_of(const struct run *run)
{
    unsigned long n = 0;

    EACH(run, record)
    if (record->type == RECORD_LOST)
        n += ((const struct record_lost *)(const void *)record)->lost;
    return n;
}

static bool in_order(const struct run *run)
{
    uint64_t last = 0;
    bool ok = true;

    EACH(run, record)
    {
        ok &= record_time(record) >= last;
        last = record_time(record);
    }
    return ok;
}

static uint64_t value_at(const struct run *run, unsigned place)
{
    struct reading now;

    return perf_read(run->counter, &now) ? UINT64_MAX : now.value[place];
}

static void run_plan(struct run *run, struct target *target)
{
    run->plan = (struct plan){
        .events = plan_events,
        .n = 1,
        .fds_free = 10000,
        .fds_quota = 10000,
        .max_covered = 10000,
        .tag = 7,
        .deadline_ns = census_now_ns() + 5000000000u,
        .target = {.kind = TARGET_PROCESS, .pid = target ? target->pid : 0, .cgroup_fd = -1},
        .set = SET,
        .sampling = true,
        .period = 1,
    };
    plan_events[0] = (struct plan_event){&events[FAULTS], true, true};
}

static bool recorder_begin_with(struct run *run, uint64_t bytes)
{
    struct recorder_plan plan = {.bytes = bytes, .tag = 7, .fds_free = 100, .fds_quota = 100};

    if (!check(!perf_recorder_new(&state, &plan, &run->recorder, &err), "a recorder", ": %s",
               err.text))
        return false;
    run->plan.recorder = run->recorder;
    return true;
}

static bool run_attach(struct run *run)
{
    int rc = perf_attach(&state, &run->plan, &run->counter, &err);

    if (!rc)
        rc = perf_start(run->counter, &err);
    return check(!rc, "attached and started", ": %s", err.text);
}

static void run_end(struct run *run)
{
    if (run->malformed)
        check(false, "well-formed records", ": %u are not", run->malformed);
    if (run->counter)
        perf_free(run->counter);
    perf_recorder_free(run->recorder);
    free(run->bytes);
    *run = (struct run){.n = 0};
}

static unsigned open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    for (struct dirent *d = readdir(dir); d; d = readdir(dir))
        n += d->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* ---- tests */

/* Every page fault of every thread is one sample, in order, with its thread and its period. */
static void test_every_fault(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long samples, good = 0;

    run_plan(&run, &target);
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 200);
        ask(&target, 'c', 1);
        ask(&target, 'p', 100);
        ask(&target, 't', 50);
        perf_stop(run.counter);
        drain(&run, true);
        samples = samples_of(&run, 0);
        check(samples == value_at(&run, 0) && samples >= 350, "each fault is one sample",
              ": %lu samples, %lu faults", samples, (unsigned long)value_at(&run, 0));
        EACH(&run, record)
        {
            const struct record_sample *s = (const void *)record;

            good += record->type == RECORD_SAMPLE && record->size == SAMPLE_SHORT &&
                    s->pid == (uint32_t)target.pid && s->cpu < 64 && s->period == 1 && s->ip;
        }
        check(good == samples, "with process, CPU, address and period", ": %lu of %lu", good,
              samples);
        check(in_order(&run), "in order of time", "");
        check(count_type(&run, RECORD_FORK) == 1 && count_type(&run, RECORD_EXIT) == 1,
              "and the thread's birth and end are told", ": %lu, %lu",
              count_type(&run, RECORD_FORK), count_type(&run, RECORD_EXIT));
    }
    run_end(&run);
    target_end(&target);
}

static void test_period(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long samples, expected, periods = 0;

    run_plan(&run, &target);
    run.plan.period = 10;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'c', 0);
        ask(&target, 'p', 1005);
        perf_stop(run.counter);
        drain(&run, true);
        samples = samples_of(&run, 0);
        expected = value_at(&run, 0) / 10;
        /* Each thread on each CPU has a period of its own. */
        check(samples <= expected && samples + 2 >= expected, "one sample in ten faults",
              ": %lu samples, %lu expected", samples, expected);
        EACH(&run, record)
        periods += record->type == RECORD_SAMPLE &&
                   ((const struct record_sample *)(const void *)record)->period == 10;
        check(periods == samples, "each with its period", ": %lu of %lu", periods, samples);
    }
    run_end(&run);
    target_end(&target);
}

static void test_clock(bool freq)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long samples, expected;
    uint64_t sum = 0;

    run_plan(&run, &target);
    plan_events[0].event = &events[CLOCK];
    run.plan.period = freq ? 0 : 100000;
    run.plan.freq = freq ? 5000 : 0;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'b', 100000);
        perf_stop(run.counter);
        drain(&run, true);
        samples = samples_of(&run, 0);
        EACH(&run, record)
        if (record->type == RECORD_SAMPLE)
            sum += ((const struct record_sample *)(const void *)record)->period;
        expected = value_at(&run, 0) / (freq ? 200000 : 100000);
        check(samples * 10 > expected * 7 && samples < expected + expected / 3 + 3,
              freq ? "a clock at a frequency" : "a clock with a period", ": %lu, about %lu",
              samples, expected);
        check(sum > value_at(&run, 0) / 2 && sum < value_at(&run, 0) * 3 / 2,
              "its periods add up to about its time", ": %lu of %lu", (unsigned long)sum,
              (unsigned long)value_at(&run, 0));
    }
    run_end(&run);
    target_end(&target);
}

static void test_switches(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};

    run_plan(&run, &target);
    plan_events[0].event = &events[SWITCHES];
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 's', 100);
        perf_stop(run.counter);
        drain(&run, true);
        check(samples_of(&run, 0) == value_at(&run, 0) && samples_of(&run, 0) >= 50,
              "each switch is one sample", ": %lu of %lu", samples_of(&run, 0),
              (unsigned long)value_at(&run, 0));
    }
    run_end(&run);
    target_end(&target);
}

static bool tracepoint_here(void)
{
    static const char *const place[] = {
        "/sys/kernel/tracing/events/syscalls/sys_enter_getppid/id",
        "/sys/kernel/debug/tracing/events/syscalls/sys_enter_getppid/id"};

    for (unsigned i = 0; i < 2; i++) {
        FILE *file = fopen(place[i], "re");
        unsigned long id = 0;

        if (file && fscanf(file, "%lu", &id) == 1)
            events[GETPPID].code[1] = id;
        if (file)
            fclose(file);
    }
    return events[GETPPID].code[1];
}

static void test_tracepoint(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};

    if (!tracepoint_here()) {
        printf("# no tracefs: a tracepoint is not tried\n");
        target_end(&target);
        return;
    }
    run_plan(&run, &target);
    plan_events[0].event = &events[GETPPID];
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'y', 77);
        perf_stop(run.counter);
        drain(&run, true);
        check(samples_of(&run, 0) == 77, "each hit of a tracepoint is one sample", ": %lu",
              samples_of(&run, 0));
    }
    run_end(&run);
    target_end(&target);
}

static void test_set(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};

    run_plan(&run, &target);
    plan_events[1] = (struct plan_event){&events[SWITCHES], true, true};
    run.plan.n = 2;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 60);
        ask(&target, 's', 20);
        perf_stop(run.counter);
        drain(&run, true);
        check(samples_of(&run, 0) == value_at(&run, 0) &&
                  samples_of(&run, 1) == value_at(&run, 1) && value_at(&run, 0) >= 60 &&
                  value_at(&run, 1) >= 10,
              "the events of a set are told apart", ": %lu of %lu, %lu of %lu", samples_of(&run, 0),
              (unsigned long)value_at(&run, 0), samples_of(&run, 1),
              (unsigned long)value_at(&run, 1));
    }
    run_end(&run);
    target_end(&target);
}

static void test_children(bool descendants)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long of_child = 0;

    run_plan(&run, &target);
    run.plan.descendants = descendants;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'f', 64);
        ask(&target, 't', 32);
        perf_stop(run.counter);
        drain(&run, true);
        EACH(&run, record)
        of_child +=
            record->type == RECORD_SAMPLE &&
            ((const struct record_sample *)(const void *)record)->pid != (uint32_t)target.pid;
        check(samples_of(&run, 0) == value_at(&run, 0) && (of_child >= 64) == descendants,
              descendants ? "children are sampled" : "children are left out",
              ": %lu samples of %lu, %lu of the child", samples_of(&run, 0),
              (unsigned long)value_at(&run, 0), of_child);
        check(count_type(&run, RECORD_FORK) == (descendants ? 2 : 1) &&
                  count_type(&run, RECORD_EXIT) == (descendants ? 2 : 1),
              "births and ends are told of who is covered", ": %lu, %lu",
              count_type(&run, RECORD_FORK), count_type(&run, RECORD_EXIT));
    }
    run_end(&run);
    target_end(&target);
}

static void test_facts(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long maps = 0, names = 0, execs = 0;

    run_plan(&run, &target);
    run.plan.period = 1000000;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'm', 0);
        ask(&target, 'n', 0);
        ask(&target, 'e', 0);
        perf_stop(run.counter);
        drain(&run, true);
        EACH(&run, record)
        {
            const struct record_map *map = (const void *)record;
            const struct record_comm *comm = (const void *)record;

            maps += record->type == RECORD_MAP && strstr(map->path, "/record") &&
                    map->pid == (uint32_t)target.pid && map->length >= page;
            names += record->type == RECORD_COMM && !strcmp(comm->name, "renamed");
            execs += record->type == RECORD_COMM && record->misc & RECORD_EXECUTED;
        }
        check(maps >= 2 && names == 1 && execs == 1, "mappings, names and execs are told",
              ": %lu, %lu, %lu", maps, names, execs);
    }
    run_end(&run);
    target_end(&target);
}

static void test_chain(bool user)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long good = 0, samples;

    run_plan(&run, &target);
    run.plan.chain_user = user;
    run.plan.chain_kernel = !user;
    run.plan.depth = 4;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 500);
        perf_stop(run.counter);
        drain(&run, true);
        samples = samples_of(&run, 0);
        EACH(&run, record)
        {
            const struct record_sample *s = (const void *)record;
            uint64_t context = user ? FRAME_USER : FRAME_KERNEL;

            good += record->type == RECORD_SAMPLE && record->size > SAMPLE_SHORT &&
                    record->size == SAMPLE_SHORT + 8 + 8 * s->n_frames && s->n_frames <= 5 &&
                    s->period == 1 && (s->n_frames == 0 || s->frame[0] == context);
        }
        check(samples >= 500 && good == samples,
              user ? "call chains of the user alone" : "call chains of the kernel alone",
              ": %lu of %lu", good, samples);
    }
    run_end(&run);
    target_end(&target);
}

/* A ring of one page cannot hold them: what is missing is told, to the last one. */
static void test_losses(bool later)
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
        if (later) {
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

/* Many times around a small ring, drained while it goes on. */
static void test_around(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};

    run_plan(&run, &target);
    run.plan.chain_user = true;
    run.plan.depth = 3;
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

static void test_young(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    uint64_t newest = 0, begin;

    run_plan(&run, &target);
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 50);
        begin = census_now_ns();
        drain(&run, false);
        EACH(&run, record)
        newest = record_time(record);
        check(newest + 10000000 <= census_now_ns() && newest < begin,
              "what is young stays where it is", "");
        drain(&run, true);
        check(samples_of(&run, 0) >= 50, "but when all is asked for", ": %lu", samples_of(&run, 0));
    }
    run_end(&run);
    target_end(&target);
}

static void test_ready(void)
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
        check(ready == 0, "a ring less than half full says nothing", ": %u", ready);
        ask(&target, 'p', 200);
        rounds = pump(50);
        check(ready >= 1 && rounds < 8, "a ring half full wants to be drained, once",
              ": %u in %d rounds", ready, rounds);
    }
    run_end(&run);
    target_end(&target);
}

/* What a freed counter had written is taken under its name; a new one has its own. */
static void test_freed(void)
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
        run.plan.set = SET + 1;
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
                  "samples of a freed counter keep their name", ": %lu of %lu, %lu of %lu",
                  samples_of(&run, 0), first, of_second, second);
            check(run.recorder->n_ids == run.recorder->n_cpus && run.recorder->origins &&
                      !run.recorder->origins->next,
                  "then it is forgotten", ": %zu ids", run.recorder->n_ids);
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

/* Counters come and go while one thread drains. */
static void test_concurrent(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long counted = 0, samples = 0;
    pthread_t thread;

    run_plan(&run, &target);
    if (recorder_begin_with(&run, RING)) {
        pthread_create(&thread, NULL, drain_thread, &run);
        for (unsigned i = 0; i < 40; i++) {
            run.plan.set = SET + i;
            run.plan.deadline_ns = census_now_ns() + 5000000000u;
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
              "counters come and go while it is drained", ": %lu of %lu", samples, counted);
        check(run.recorder->n_ids == 0 && !run.recorder->origins, "and all is forgotten", ": %zu",
              run.recorder->n_ids);
    }
    run_end(&run);
    target_end(&target);
}

static void test_exec(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    const struct record *first;

    run_plan(&run, &target);
    run.plan.at_exec = true;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 40);
        drain(&run, true);
        check(run.n == 0, "nothing is told before the exec", ": %zu bytes", run.n);
        ask(&target, 'e', 0);
        ask(&target, 'p', 40);
        perf_stop(run.counter);
        drain(&run, true);
        first = first_record(&run);
        check(first && samples_of(&run, 0) >= 40 && samples_of(&run, 0) == value_at(&run, 0) &&
                  count_type(&run, RECORD_COMM) >= 1 && count_type(&run, RECORD_MAP) >= 1,
              "all is told from it on", ": %lu of %lu", samples_of(&run, 0),
              (unsigned long)value_at(&run, 0));
    }
    run_end(&run);
    target_end(&target);
}

static void test_cpu(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long of_target = 0, of_other_cpu = 0;

    ask(&target, 'c', 1);
    run_plan(&run, NULL);
    run.plan.target = (struct target_ref){.kind = TARGET_CPU, .cpu = 1, .cgroup_fd = -1};
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 50);
        perf_stop(run.counter);
        drain(&run, true);
        EACH(&run, record)
        if (record->type == RECORD_SAMPLE) {
            const struct record_sample *s = (const void *)record;

            of_target += s->pid == (uint32_t)target.pid;
            of_other_cpu += s->cpu != 1;
        }
        check(of_target >= 50 && !of_other_cpu && samples_of(&run, 0) == value_at(&run, 0),
              "a CPU's samples are those of its tasks", ": %lu of the target, %lu of other CPUs",
              of_target, of_other_cpu);
    }
    run_end(&run);
    target_end(&target);
}

/* The unified hierarchy, wherever it is mounted. */
static bool cgroup_make(char path[256])
{
    FILE *mounts = fopen("/proc/self/mounts", "re");
    char line[512], place[200];
    bool made = false;

    while (mounts && !made && fgets(line, sizeof line, mounts))
        if (sscanf(line, "%*s %199s cgroup2 ", place) == 1 && strstr(line, " cgroup2 ")) {
            snprintf(path, 256, "%s/record-test-%d", place, getpid());
            made = mkdir(path, 0755) == 0;
        }
    if (mounts)
        fclose(mounts);
    return made;
}

static void cgroup_join(const char *path, pid_t pid)
{
    char file[300];
    FILE *procs;

    snprintf(file, sizeof file, "%s/cgroup.procs", path);
    procs = fopen(file, "we");
    if (procs) {
        fprintf(procs, "%d\n", pid);
        fclose(procs);
    }
}

static void test_cgroup(void)
{
    struct target target = target_begin(), other = target_begin();
    struct run run = {.n = 0};
    unsigned long of_others = 0;
    char path[256];

    if (!cgroup_make(path)) {
        printf("# no cgroup v2: it is not tried\n");
        target_end(&target);
        target_end(&other);
        return;
    }
    cgroup_join(path, target.pid);
    run_plan(&run, NULL);
    run.plan.target = (struct target_ref){
        .kind = TARGET_CGROUP, .cgroup_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&other, 'p', 100);
        ask(&target, 'c', 0);
        ask(&target, 'p', 50);
        ask(&target, 'c', 1);
        ask(&target, 'f', 50);
        perf_stop(run.counter);
        drain(&run, true);
        EACH(&run, record)
        of_others +=
            record->type == RECORD_SAMPLE &&
            ((const struct record_sample *)(const void *)record)->pid == (uint32_t)other.pid;
        check(samples_of(&run, 0) >= 100 && !of_others && samples_of(&run, 0) == value_at(&run, 0),
              "a cgroup's samples are those of its tasks", ": %lu of %lu, %lu of others",
              samples_of(&run, 0), (unsigned long)value_at(&run, 0), of_others);
    }
    close(run.plan.target.cgroup_fd);
    run_end(&run);
    target_end(&target);
    target_end(&other);
    rmdir(path);
}

/* Steps of the first event, all threads and processes. */
static uint64_t steps_sum(const struct run *run, unsigned long *n, unsigned long *lasts)
{
    uint64_t sum = 0;

    EACH(run, record)
    if (record->type == RECORD_SWITCH) {
        const struct record_note *note = (const void *)record;

        sum += note->value[0];
        ++*n;
        *lasts += (record->misc & RECORD_LAST) != 0;
    }
    return sum;
}

/* Older kernels do not tell the last step of a thread, or only a lower bound of all. */
static bool steps_are_exact(void)
{
    struct utsname name;
    unsigned major = 0, minor = 0;

    uname(&name);
    return sscanf(name.release, "%u.%u", &major, &minor) == 2 && (major << 8 | minor) >= 0x612;
}

static void test_steps(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long n = 0, lasts = 0;
    uint64_t sum, value;

    run_plan(&run, &target);
    run.plan.sampling = false;
    run.plan.period = 0;
    run.plan.steps = run.plan.lasts = run.plan.descendants = true;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 40);
        ask(&target, 'c', 1);
        ask(&target, 'p', 30);
        ask(&target, 'c', 0);
        ask(&target, 't', 100);
        ask(&target, 'f', 60);
        ask(&target, 's', 20);
        perf_stop(run.counter);
        drain(&run, true);
        sum = steps_sum(&run, &n, &lasts);
        value = value_at(&run, 0);
        check(value >= 230 && (sum == value || (!steps_are_exact() && sum >= 70 && sum < value)) &&
                  n >= 5,
              "steps add up to the count", ": %lu of %lu in %lu steps", (unsigned long)sum,
              (unsigned long)value, n);
        if (steps_are_exact())
            check(lasts == 2, "a thread's and a child's last step is told", ": %lu", lasts);
        check(in_order(&run) && count_type(&run, RECORD_FORK) == 2 &&
                  count_type(&run, RECORD_EXIT) == 2 && count_type(&run, RECORD_SAMPLE) == 0,
              "with births and ends, in order, and no samples", ": %d, %lu, %lu, %lu",
              in_order(&run), count_type(&run, RECORD_FORK), count_type(&run, RECORD_EXIT),
              count_type(&run, RECORD_SAMPLE));
    }
    run_end(&run);
    target_end(&target);
}

/* ---- the processor's own counters, where it has some */

static bool hardware_here(void)
{
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = PERF_TYPE_HARDWARE,
                                   .config = PERF_COUNT_HW_INSTRUCTIONS,
                                   .sample_period = 100000,
                                   .exclude_kernel = 1};
    int fd = event_open(&attr, 0, -1, -1, 0);
    bool here = fd >= 0;

    event_close(&fd);
    return here;
}

/* The test's machine (tests/guest): counts exactly, but not every overflow interrupts. */
static bool emulator_here(void)
{
    char name[64] = "";
    int fd = open("/proc/device-tree/compatible", O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && read(fd, name, sizeof name - 1) < 0)
        name[0] = '\0';
    if (fd >= 0)
        close(fd);
    return !strcmp(name, "linux,dummy-virt");
}

static uint64_t periods_of(const struct run *run, unsigned place)
{
    uint64_t sum = 0;

    EACH(run, record)
    {
        const struct record_sample *s = (const void *)record;

        if (record->type == RECORD_SAMPLE && s->id == LOG_ID(SET, place))
            sum += s->period;
    }
    return sum;
}

static void test_overflow(unsigned what, bool freq)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    uint64_t value, sum, users = 0;
    unsigned long samples;
    bool emulated = what == INSTRUCTIONS && emulator_here();

    run_plan(&run, &target);
    plan_events[0] = (struct plan_event){&events[what], true, false};
    run.plan.period = freq ? 0 : 100000;
    run.plan.freq = freq ? 2000 : 0;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'c', 0);
        ask(&target, 'i', 8000000);
        ask(&target, 'c', 1);
        ask(&target, 'i', 8000000);
        ask(&target, 't', 1);
        perf_stop(run.counter);
        drain(&run, true);
        value = value_at(&run, 0);
        sum = periods_of(&run, 0);
        samples = samples_of(&run, 0);
        EACH(&run, record)
        users += record->type == RECORD_SAMPLE && (record->misc & RECORD_MODE) == RECORD_USERMODE;
        /*
         * What one CPU has of a period when it stops is not sampled; a frequency is found out. An
         * emulated processor misses most overflows but those of cycles.
         */
        check(sum <= value + value / 50 && samples >= (freq || emulated ? 5 : 100) &&
                  (emulated || sum + 6 * 100000 + (freq ? value / 3 : 0) >= value),
              freq ? "an overflow at a frequency" : "each overflow is one sample",
              " of %s: %lu samples say %lu of %lu, %lu throttled, %lu lost", events[what].written,
              samples, (unsigned long)sum, (unsigned long)value, count_type(&run, RECORD_THROTTLE),
              lost_of(&run));
        check((users == samples || emulated) && in_order(&run), "in user mode, in order",
              ": %lu of %lu", (unsigned long)users, samples);
    }
    run_end(&run);
    target_end(&target);
}

/* Each samples by itself, both on hardware, pinned as one group; on two CPUs one witness. */
static void test_overflow_set(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    struct reading now;

    run_plan(&run, &target);
    plan_events[0] = (struct plan_event){&events[INSTRUCTIONS], true, false};
    plan_events[1] = (struct plan_event){&events[CYCLES], true, false};
    run.plan.n = 2;
    run.plan.period = 200000;
    run.plan.descendants = true;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'c', 0);
        ask(&target, 'i', 5000000);
        ask(&target, 'c', 1);
        ask(&target, 'i', 5000000);
        ask(&target, 'f', 10);
        perf_read(run.counter, &now);
        perf_stop(run.counter);
        drain(&run, true);
        perf_read(run.counter, &now);
        check(samples_of(&run, 0) >= 50 && samples_of(&run, 1) >= 50 &&
                  periods_of(&run, 0) <= now.value[0] &&
                  periods_of(&run, 0) + 6 * 200000 >= now.value[0],
              "events of a set overflow each for itself", ": %lu, %lu; %lu of %lu",
              samples_of(&run, 0), samples_of(&run, 1), (unsigned long)periods_of(&run, 0),
              (unsigned long)now.value[0]);
        check(now.running_ns <= now.covered_ns + 1000000 &&
                  now.running_ns + now.covered_ns / 20 >= now.covered_ns &&
                  now.enabled_ns <= now.covered_ns + now.covered_ns / 20 + 1000000,
              "and ran all the time they should have", ": %lu of %lu, enabled %lu",
              (unsigned long)now.running_ns, (unsigned long)now.covered_ns,
              (unsigned long)now.enabled_ns);
    }
    run_end(&run);
    target_end(&target);
}

/* All of a CPU's counters, pinned: who has one of them loses it. */
static void counters_take(int fds[6], int cpu)
{
    struct perf_event_attr attr = {
        .size = sizeof attr, .type = PERF_TYPE_RAW, .config = 8, .pinned = 1};

    for (unsigned i = 0; i < 6; i++)
        fds[i] = event_open(&attr, -1, cpu, -1, 0);
}

static void test_lost_hardware(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    struct reading lost, found;
    int fds[6];

    ask(&target, 'c', 0);
    run_plan(&run, &target);
    plan_events[0] = (struct plan_event){&events[INSTRUCTIONS], true, false};
    run.plan.period = 100000;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'i', 1000000);
        ask(&target, 't', 10);
        perf_read(run.counter, &found);
        counters_take(fds, 0);
        ask(&target, 'i', 1000000);
        perf_read(run.counter, &lost);
        check(lost.off && lost.covered_ns > lost.running_ns + lost.covered_ns / 4 &&
                  lost.value[0] < found.value[0] * 5 / 4,
              "hardware lost on one CPU is seen", ": off %d, %lu of %lu ns", lost.off,
              (unsigned long)lost.running_ns, (unsigned long)lost.covered_ns);
        for (unsigned i = 0; i < 6; i++)
            event_close(&fds[i]);
        perf_read(run.counter, &lost);
        ask(&target, 'i', 2000000);
        perf_read(run.counter, &found);
        check(!found.off && found.value[0] > lost.value[0] + 4000000,
              "and comes back with the next read", ": off %d, %lu more", found.off,
              (unsigned long)(found.value[0] - lost.value[0]));
    }
    run_end(&run);
    target_end(&target);
}

static void test_steps_of_hardware(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long n = 0, lasts = 0;
    uint64_t sum;

    run_plan(&run, &target);
    plan_events[0] = (struct plan_event){&events[INSTRUCTIONS], true, false};
    run.plan.sampling = false;
    run.plan.period = 0;
    run.plan.steps = run.plan.lasts = true;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'i', 1000000);
        ask(&target, 'c', 1);
        ask(&target, 'i', 1000000);
        ask(&target, 't', 10);
        perf_stop(run.counter);
        drain(&run, true);
        sum = steps_sum(&run, &n, &lasts);
        check(value_at(&run, 0) >= 4000000 && sum <= value_at(&run, 0) &&
                  count_type(&run, RECORD_FORK) == 1 && count_type(&run, RECORD_EXIT) == 1,
              "with the steps asked for the count is the same", ": %lu in %lu steps of %lu",
              (unsigned long)sum, n, (unsigned long)value_at(&run, 0));
        check(sum + value_at(&run, 0) / 100 >= value_at(&run, 0), "and the steps add up to it",
              ": %lu in %lu steps of %lu", (unsigned long)sum, n, (unsigned long)value_at(&run, 0));
    }
    run_end(&run);
    target_end(&target);
}

static void test_thread(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};

    run_plan(&run, &target);
    run.plan.target.kind = TARGET_THREAD;
    run.plan.target.tid = target.pid;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 40);
        ask(&target, 't', 500);
        perf_stop(run.counter);
        drain(&run, true);
        check(samples_of(&run, 0) == value_at(&run, 0) && samples_of(&run, 0) >= 40 &&
                  samples_of(&run, 0) < 500 && !count_type(&run, RECORD_FORK),
              "one thread alone is sampled", ": %lu of %lu", samples_of(&run, 0),
              (unsigned long)value_at(&run, 0));
    }
    run_end(&run);
    target_end(&target);
}

static void test_late_cpu(void)
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
        recorders_cpu(&state, 1);
        recorders_cpu(&state, 1);
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

static void test_adopt(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    struct recorder_plan again = {.bytes = RING, .tag = 7};
    struct buf recorder, counter;
    unsigned fds;
    int rc;

    buf_init(&recorder, NULL, 0);
    buf_init(&counter, NULL, 0);
    run_plan(&run, &target);
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 40);
        drain(&run, true);
        ask(&target, 'p', 40);
        fds = open_fds();
        perf_print(run.counter, &counter);
        perf_recorder_print(run.recorder, &recorder);
        perf_forget(run.counter);
        perf_recorder_forget(run.recorder);
        ask(&target, 'p', 40);
        rc = perf_recorder_adopt(&state, &again, buf_text(&recorder), &run.recorder);
        run.plan.recorder = run.recorder;
        run.counter = NULL;
        rc = rc ? rc : perf_adopt(&state, &run.plan, buf_text(&counter), &run.counter);
        check(!rc && open_fds() == fds, "adopted", ": %d, %s", rc, buf_text(&recorder));
        if (!rc) {
            ask(&target, 'p', 40);
            perf_stop(run.counter);
            drain(&run, true);
            check(samples_of(&run, 0) == value_at(&run, 0) && samples_of(&run, 0) >= 160,
                  "and no record is missing or there twice", ": %lu of %lu", samples_of(&run, 0),
                  (unsigned long)value_at(&run, 0));
        }
    }
    run_end(&run);
    buf_free(&recorder);
    buf_free(&counter);
    target_end(&target);
}

static void test_refused(void)
{
    struct recorder_plan plan = {.bytes = RING, .tag = 7, .fds_free = 1, .fds_quota = 100};
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
    struct recorder_plan plan = {.bytes = 64 << 20, .tag = 7, .fds_free = 100, .fds_quota = 100};
    struct recorder_facts facts = {.bytes = 0};
    struct recorder *recorder = NULL;

    syscall(SYS_capget, &head, caps);
    caps[CAP_IPC_LOCK / 32].effective &= ~(1u << CAP_IPC_LOCK % 32);
    syscall(SYS_capset, &head, caps);
    setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){0, 0});
    /* What others of this user have locked counts too: perhaps there is not even a page. */
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

int main(int argc, char **argv)
{
    unsigned before;

    page = (size_t)sysconf(_SC_PAGESIZE);
    if (argc > 1 && !strcmp(argv[1], "target")) {
        target_main();
        return 0;
    }
    alarm(120);
    signal(SIGPIPE, SIG_IGN);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    state.pmus = pmus_new("");
    state.sideband = sideband_new(&state);
    tracefs_where(&state, &(bool){false}); /* is held open */
    before = open_fds();
    test_every_fault();
    test_period();
    test_clock(false);
    test_clock(true);
    test_switches();
    test_tracepoint();
    test_set();
    test_children(true);
    test_children(false);
    test_facts();
    test_chain(true);
    test_chain(false);
    test_losses(false);
    test_losses(true);
    test_around();
    test_young();
    test_ready();
    test_freed();
    test_concurrent();
    test_exec();
    test_thread();
    test_cgroup();
    test_steps();
    if (hardware_here()) {
        test_overflow(INSTRUCTIONS, false);
        test_overflow(CYCLES, false);
        test_overflow(INSTRUCTIONS, true);
        test_overflow(CYCLES, true);
        test_overflow_set();
        test_steps_of_hardware();
        if (emulator_here())
            test_lost_hardware();
    }
    if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
        test_cpu();
        test_late_cpu();
    }
    test_adopt();
    test_refused();
    test_little_memory();
    check(open_fds() == before, "no descriptor is left", ": %u, %u before", open_fds(), before);
    check(state.n_counters == 0, "no counter is left", "");
    sideband_free(state.sideband);
    pmus_free(state.pmus);
    return failed != 0;
}
