/*
 * For the tests of the perf backend on real processes: results, the host functions of the backend,
 * and target processes.
 */
#include "tests/perf_test.h"

#include "backends/perf/record/sideband.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

unsigned failed;
bool verbose;
struct err err;

bool check(bool ok, const char *name, const char *format, ...)
{
    va_list args;

    printf("%s %s", ok ? "ok" : "not ok", name);
    if (!ok || verbose) {
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
    }
    printf("\n");
    fflush(stdout);
    failed += !ok;
    return ok;
}

int missing_cpu = -1, impossible_cpu = -1;

static void fake_possible(struct host_state *unused, struct cpus *out)
{
    (void)unused;
    for (unsigned i = 0; i < (unsigned)sysconf(_SC_NPROCESSORS_CONF); i++)
        if ((int)i != impossible_cpu)
            cpus_add(out, i);
}

static void fake_online(struct host_state *unused, struct cpus *out)
{
    (void)unused;
    for (unsigned i = 0; i < (unsigned)sysconf(_SC_NPROCESSORS_ONLN); i++)
        if ((int)i != missing_cpu)
            cpus_add(out, i);
}

static const struct host fake_host = {
    .name = "fake", .cpus_possible = fake_possible, .cpus_online = fake_online};

static struct watched {
    int fd;
    void (*fn)(void *arg, uint64_t tag);
    void *arg;
    uint64_t tag;
} watched[256];
static int epoll = -1;
unsigned ready, gone;

static int fake_watch(void *ctx, int fd, uint32_t events, void (*fn)(void *, uint64_t), void *arg,
                      uint64_t tag)
{
    (void)ctx;
    for (unsigned i = 1; i < 256; i++) {
        if (!watched[i].fn) {
            struct epoll_event event = {.events = events, .data.u32 = i};

            watched[i] = (struct watched){fd, fn, arg, tag};
            return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
        }
    }
    return -ENOMEM;
}

static bool fake_unwatch(void *ctx, int fd)
{
    bool was = false;

    (void)ctx;
    epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
    for (unsigned i = 1; i < 256; i++) {
        if (watched[i].fn && watched[i].fd == fd) {
            watched[i].fn = NULL;
            was = true;
        }
    }
    return was;
}

int pump(int ms)
{
    struct epoll_event event;
    int i = 0;

    for (; i < 64 && epoll_wait(epoll, &event, 1, ms) == 1; i++) {
        struct watched one = watched[event.data.u32];

        if (one.fn && event.events & EPOLLHUP)
            fake_unwatch(NULL, one.fd);
        if (one.fn)
            one.fn(one.arg, one.tag);
    }
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
    gone += tag == 7;
}

static const struct loop fake_loop = {.watch = fake_watch, .unwatch = fake_unwatch};
static const struct sink fake_sink = {.drain_due = fake_ready, .counter_gone = fake_gone};
struct backend_state state = {.host = &fake_host, .loop = &fake_loop, .sink = &fake_sink};

bool loop_make(void)
{
    epoll = epoll_create1(EPOLL_CLOEXEC);
    return epoll >= 0;
}

unsigned open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    for (struct dirent *d = readdir(dir); d; d = readdir(dir))
        n += d->d_name[0] != '.';
    closedir(dir);
    return n;
}

long answer(struct target *target)
{
    char line[64] = "";

    return fgets(line, sizeof line, target->from) ? atol(line) : -1;
}

struct target target_start(const char *program)
{
    struct target target;
    int to[2], from[2];

    if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
        exit(2);
    target.pid = fork();
    if (target.pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        execl("/proc/self/exe", program, "target", (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    target.to = fdopen(to[1], "w");
    target.from = fdopen(from[0], "r");
    answer(&target);
    return target;
}

void target_end(struct target *target)
{
    kill(target->pid, SIGKILL);
    waitpid(target->pid, NULL, 0);
    fclose(target->to);
    fclose(target->from);
}
