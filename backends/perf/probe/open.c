/*
 * perf_event_open(2). Of a task that executes a program it waits until that is done, and the
 * observed user can make that last for ever (an exec closes a file, and its server does not
 * answer). Only a signal ends the wait: each thread has a timer that sends it one.
 */
#include "backends/perf/probe/open.h"

#include "core/base/clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum {
    SECOND = 1000000000,
    OPEN_NS = 200000000, /* where no limit was given */
    AGAIN_NS = 10000000  /* a signal that comes just before the wait does not end it */
};

/* Of threads that open events: they live as long as the program. */
static __thread struct {
    timer_t timer;
    bool made;
    uint64_t until_ns;
} patience;

static void on_timer(int signal_number)
{
    (void)signal_number;
}

/* Without SA_RESTART; no other program sends this one. */
static void handler_set(void)
{
    struct sigaction action = {.sa_handler = on_timer};

    sigaction(SIGURG, &action, NULL);
}

static void timer_make(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG};

    if (patience.made)
        return;
    pthread_once(&once, handler_set);
    event.sigev_notify_thread_id = gettid();
    patience.made = timer_create(CLOCK_MONOTONIC, &event, &patience.timer) == 0;
}

/* 0: no more. */
static void timer_arm(uint64_t until_ns)
{
    const struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(until_ns / SECOND), .tv_nsec = (long)(until_ns % SECOND)},
        .it_interval = {.tv_nsec = until_ns ? AGAIN_NS : 0},
    };

    if (patience.made)
        timer_settime(patience.timer, TIMER_ABSTIME, &when, NULL);
}

/* The signals that come from then on end no open before its own end. */
void event_patience(uint64_t until_ns)
{
    timer_make();
    timer_arm(until_ns);
    patience.until_ns = until_ns;
}

static uint64_t patience_end(void)
{
    const uint64_t least_ns = monotonic_ns() + AGAIN_NS;

    if (!patience.until_ns)
        return least_ns - AGAIN_NS + OPEN_NS;
    return patience.until_ns > least_ns ? patience.until_ns : least_ns;
}

int event_open(const struct perf_event_attr *attr, pid_t pid, int cpu, int group,
               unsigned long flags)
{
    const bool waits = pid > 0 && !(flags & PERF_FLAG_PID_CGROUP);
    const uint64_t until_ns = waits ? patience_end() : UINT64_MAX;
    int fd;

    if (waits && !patience.until_ns) {
        timer_make();
        timer_arm(until_ns);
    }
    do {
        fd = (int)syscall(SYS_perf_event_open, attr, pid, cpu, group, flags | PERF_FLAG_FD_CLOEXEC);
        if (fd < 0)
            fd = -errno;
    } while (fd == -EINTR && (!waits || monotonic_ns() < until_ns));
    if (waits && !patience.until_ns)
        timer_arm(0);
    return fd == -EINTR ? -ETIME : fd; /* the time is over */
}

void event_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}
