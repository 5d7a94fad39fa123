/*
 * The Linux host backend on a real kernel, as root: PIDs between namespaces, rights to observe,
 * restored credentials, cgroups, watches. Prints "ok NAME" or "not ok NAME" for each check.
 */
#include "tests/host_test.h"

#include "backends/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int n_failures;

bool check(bool good, const char *name)
{
    n_failures += !good;
    printf("%s %s\n", good ? "ok" : "not ok", name);
    return good;
}

int failures(void)
{
    return n_failures;
}

void failures_add(int n)
{
    n_failures += n;
}

/* The descriptors that the host watches, and the calls of the sink. */
static struct {
    int epoll;
    struct {
        void (*fn)(void *arg, uint64_t tag);
        void *arg;
        uint64_t tag;
    } watch[1024];
    unsigned exits, cpu_calls, last_cpu;
    uint64_t last_tag;
    bool last_online;
} seen;

static int loop_watch(void *ctx, int fd, uint32_t events, void (*fn)(void *, uint64_t), void *arg,
                      uint64_t tag)
{
    (void)ctx;
    seen.watch[fd].fn = fn;
    seen.watch[fd].arg = arg;
    seen.watch[fd].tag = tag;
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(seen.epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static bool loop_unwatch(void *ctx, int fd)
{
    (void)ctx;
    return !epoll_ctl(seen.epoll, EPOLL_CTL_DEL, fd, NULL);
}

static void loop_run(int ms)
{
    struct epoll_event event;
    while (epoll_wait(seen.epoll, &event, 1, ms) == 1)
        seen.watch[event.data.fd].fn(seen.watch[event.data.fd].arg, seen.watch[event.data.fd].tag);
}

/* Runs the loop until *calls is at least n, for about a minute at most. */
static void loop_until(const unsigned *calls, unsigned n)
{
    for (int i = 0; i < 3000 && *calls < n; i++)
        loop_run(20);
}

static void sink_exited(void *ctx, uint64_t tag)
{
    (void)ctx;
    seen.exits++;
    seen.last_tag = tag;
}

static void sink_cpu(void *ctx, unsigned cpu, bool online)
{
    (void)ctx;
    seen.cpu_calls++;
    seen.last_cpu = cpu;
    seen.last_online = online;
}

static const struct loop loop = {.watch = loop_watch, .unwatch = loop_unwatch};
const struct sink sink = {.process_exited = sink_exited, .cpu_changed = sink_cpu};
const struct host *const host = &linux_host;
struct host_state *state;
struct err err;
_Atomic pid_t *notes;

bool text_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return good;
}

void nap_ms(unsigned ms)
{
    usleep(ms * 1000);
}

void note_wait(enum note_index note)
{
    while (!notes[note])
        nap_ms(1);
}

static unsigned fds_open(void)
{
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

pid_t spawn(unsigned long flags, int (*fn)(void *), void *arg)
{
    pid_t pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(fn(arg));
    }
    return pid;
}

void spawn_test(unsigned long flags, int (*fn)(void *))
{
    int status = 0;
    int before = n_failures;
    fflush(stdout);
    n_failures = 0; /* the child exits with its failures only */
    pid_t pid = spawn(flags, fn, NULL);
    n_failures = before;
    waitpid(pid, &status, 0);
    failures_add(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

int sleeper(void *arg)
{
    (void)arg;
    for (;;)
        pause();
    return 0;
}

void make_zombie(pid_t pid)
{
    kill(pid, SIGKILL);
    waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT);
}

void reap(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

enum err_id named(pid_t tid, uint64_t number, bool thread, struct process **out)
{
    err = (struct err){0};
    *out = NULL;
    int rc = host->process_open(state, tid, number, thread, out, &err);
    return rc < 0 ? err.id : ERR_NONE;
}

enum err_id named_id(pid_t tid, uint64_t number, bool thread)
{
    struct process *process;
    enum err_id id = named(tid, number, thread, &process);
    host->process_free(process);
    return id;
}

bool means(pid_t tid, uint64_t number, bool thread, pid_t pid, pid_t task)
{
    struct process *process;
    if (named(tid, number, thread, &process) != ERR_NONE)
        return false;
    bool good = host->process_pid(process) == pid && host->process_tid(process) == task &&
                host->process_alive(process);
    host->process_free(process);
    return good;
}

void descriptors_limit(unsigned n)
{
    static struct rlimit before;
    struct rlimit now;
    getrlimit(RLIMIT_NOFILE, &now);
    if (!before.rlim_cur)
        before = now;
    now.rlim_cur = n ? n : before.rlim_cur;
    setrlimit(RLIMIT_NOFILE, &now);
}

static void *thread_body(void *arg)
{
    (void)arg;
    notes[THREAD] = (pid_t)syscall(SYS_gettid);
    for (;;)
        pause();
    return NULL;
}

int threaded(void *leader_stays)
{
    pthread_t thread;
    pthread_create(&thread, NULL, thread_body, NULL);
    note_wait(THREAD);
    notes[THREAD_READY] = 1;
    if (!leader_stays)
        syscall(SYS_exit, 0);
    return sleeper(NULL);
}

static bool leader_is_dead(pid_t pid)
{
    struct proc_stat stat;

    return proc_stat(pid, pid, &stat) == 0 && proc_stat_dead(&stat);
}

pid_t threaded_start(bool leader_stays)
{
    notes[THREAD] = 0;
    notes[THREAD_READY] = 0;
    pid_t pid = spawn(0, threaded, leader_stays ? (void *)&loop : NULL);
    note_wait(THREAD_READY);
    while (!leader_stays && !leader_is_dead(pid))
        nap_ms(1);
    return pid;
}

static void test_watch(void)
{
    struct process *process, *quiet, *adopted = NULL;
    struct buf out = {0};
    pid_t pid = threaded_start(false);
    seen.exits = 0;
    named(getpid(), (uint64_t)pid, false, &process);
    named(getpid(), (uint64_t)pid, false, &quiet);
    host->process_watch(process, 42);
    host->process_watch(quiet, 43);
    host->process_unwatch(quiet);
    loop_run(20);
    check(seen.exits == 0, "no call while a thread lives");
    kill(pid, SIGKILL);
    loop_until(&seen.exits, 1);
    loop_run(20);
    check(seen.exits == 1 && seen.last_tag == 42 && !host->process_alive(process),
          "one call when all threads are dead");
    host->process_watch(quiet, 44);
    loop_until(&seen.exits, 2);
    check(seen.exits == 2 && seen.last_tag == 44, "and for one that is dead already");

    uint64_t key = host->process_key(process);
    check(key == host->process_key(quiet), "one key for one process");
    host->process_print(process, &out);
    host->process_forget(process);
    check(host->process_adopt(state, buf_text(&out), &adopted) == 0 &&
              host->process_key(adopted) == key && host->process_pid(adopted) == pid &&
              host->process_adopt(state, "0 1 0 0 0 0", &process) == -EINVAL &&
              host->process_adopt(state, "nonsense", &process) == -EINVAL,
          "printed and adopted");
    buf_free(&out);
    waitpid(pid, NULL, 0);
    host->process_free(adopted);
    host->process_free(quiet);
}

static bool list_is(void (*get)(struct host_state *, struct cpus *), const char *path)
{
    struct cpus cpus = {0};
    struct buf out = {0};
    char *text = proc_text(path);
    text[strcspn(text, "\n")] = '\0';
    get(state, &cpus);
    cpus_print(&cpus, &out);
    bool same = strcmp(buf_text(&out), text) == 0;
    buf_free(&out);
    cpus_free(&cpus);
    free(text);
    return same;
}

/* Mounts a fake list of CPUs over the kernel's, and sends a real uevent. */
static int hotplug_body(void *arg)
{
    (void)arg;
    const char *list = "/sys/devices/system/cpu/online";
    char path[] = "/tmp/pmcfs-online-XXXXXX";
    int fd = mkstemp(path);
    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    bool made =
        fd >= 0 && write(fd, "0,4095\n", 7) == 7 && mount(path, list, NULL, MS_BIND, NULL) == 0;
    unlink(path);
    seen.cpu_calls = 0;
    text_write("/sys/devices/system/cpu/cpu0/uevent", "online");
    loop_until(&seen.cpu_calls, 1);
    loop_run(100);
    check(made && seen.cpu_calls >= 1 && seen.last_cpu == 4095 && seen.last_online &&
              list_is(host->cpus_online, list),
          "a CPU that comes online is reported");
    return failures();
}

/* Tries again, because this program may lose its CPU between two clocks. */
static bool clocks_agree(void)
{
    for (unsigned tries = 0; tries < 20; tries++) {
        uint64_t ns = host->now_ns(state);
        uint64_t tsc = host->tsc(state);
        nap_ms(50);
        ns = host->now_ns(state) - ns;
        tsc = host->tsc(state) - tsc;
        double ratio = tsc ? (double)tsc / (double)ns * 1e9 / (double)host->tsc_hz(state) : 1;
        if (ns < 50000000)
            return false;
        if (ratio > 0.99 && ratio < 1.01)
            return true;
    }
    return false;
}

static void test_machine(void)
{
    struct buf out = {0};
    check(list_is(host->cpus_possible, "/sys/devices/system/cpu/possible") &&
              list_is(host->cpus_online, "/sys/devices/system/cpu/online"),
          "lists of CPUs");
    spawn_test(CLONE_NEWNS, hotplug_body);
    host->cpu_name(state, &out);
    printf("# %s, tsc %llu Hz\n", buf_text(&out), (unsigned long long)host->tsc_hz(state));
    check(out.len > 0, "the processor has a name");
    buf_free(&out);
    bool agree = false;
    for (int i = 0; i < 20 && !agree; i++) /* other tasks may run between the two reads */
        agree = clocks_agree();
    check(agree && host->realtime_ns(state) / 1000000000 > 1600000000, "clocks and their rate");
}

static int userns_try(void *unused)
{
    (void)unused;
    return unshare(CLONE_NEWUSER) != 0;
}

int main(void)
{
    int status;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (geteuid() != 0) {
        printf("needs root\n");
        return 77;
    }
    notes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    seen.epoll = epoll_create1(EPOLL_CLOEXEC);
    unsigned fds = fds_open();
    if (!check(host->open(&loop, &sink, &state, &err) == 0, "open")) {
        printf("# %s\n", err.text);
        return 1;
    }
    test_machine();
    test_numbers();
    test_pid_namespaces();
    test_reuse();
    test_watch();
    test_records();
    if (waitpid(spawn(0, userns_try, NULL), &status, 0) < 0 || status != 0) {
        host->close(state);
        printf("no user namespaces here: rights, groups and the rest were not tested\n");
        return failures() != 0 ? 1 : 77;
    }
    actors_start();
    test_rights();
    test_six_rows();
    test_all_pairs();
    test_hidden();
    test_restored();
    test_threads();
    test_helper_hangs();
    test_groups();
    test_exiting();
    test_keys();
    actors_stop();
    host->close(state);
    check(fds_open() == fds, "no descriptor is left");
    return failures() != 0;
}
