/*
 * perf_event_open(2): from the code words of a struct event to a perf_event_attr, and the call with
 * a time limit. The kernel blocks the call while the target executes a program, and the observed
 * user can make that last for ever (the exec closes a file whose server does not answer). Only a
 * signal interrupts the wait, so each thread has a timer that sends one.
 */
#include "backends/perf/probe/open.h"

#include "core/base/clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void code_to_attr(const struct event *event, bool user, bool kernel, struct perf_event_attr *attr)
{
    uint64_t flags = event->code[CODE_FLAGS];

    memset(attr, 0, sizeof(*attr));
    attr->size = sizeof(*attr);
    attr->type = (uint32_t)event->code[CODE_TYPE];
    attr->config = event->code[CODE_CONFIG];
    attr->config1 = event->code[CODE_CONFIG1]; /* a breakpoint's address */
    attr->config2 = event->code[CODE_CONFIG2]; /* a breakpoint's length */
#ifdef PERF_ATTR_SIZE_VER8
    attr->config3 = event->code[CODE_CONFIG3];
#endif
    attr->precise_ip = event->code[CODE_PRECISE] & 3;
    attr->bp_type = (uint32_t)event->code[CODE_BP_TYPE];
    attr->exclude_guest = (flags & CODE_EXCLUDE_GUEST) != 0;
    if (flags & CODE_NO_EXCLUDE)
        return;
    attr->exclude_user = !user;
    attr->exclude_kernel = !kernel;
    attr->exclude_hv = !kernel;
}

void attr_bind(struct perf_event_attr *attr, uint32_t type)
{
    if (attr->type == PERF_TYPE_HARDWARE || attr->type == PERF_TYPE_HW_CACHE)
        attr->config |= (uint64_t)type << 32;
}

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum {
    SECOND = 1000000000,
    OPEN_NS = 200000000, /* default limit */
    AGAIN_NS = 10000000  /* repeat: a signal just before the wait does not interrupt it */
};

/* The timer of a thread that opens events. Such threads live as long as the program. */
static __thread struct {
    timer_t timer;
    bool made;
    uint64_t until_ns;
} open_timer;

static void on_timer(int signal_number)
{
    (void)signal_number;
}

/* Arms the timer of this thread, or disarms it (0). */
static void timer_arm(uint64_t until_ns)
{
    const struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(until_ns / SECOND), .tv_nsec = (long)(until_ns % SECOND)},
        .it_interval = {.tv_nsec = until_ns ? AGAIN_NS : 0},
    };

    if (!open_timer.made) {
        struct sigaction action = {.sa_handler = on_timer};
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG};

        /* Without SA_RESTART, so that the signal interrupts perf_event_open(2). Nothing else uses
         * SIGURG, and every thread sets the same action. */
        sigaction(SIGURG, &action, NULL);
        event.sigev_notify_thread_id = gettid();
        open_timer.made = timer_create(CLOCK_MONOTONIC, &event, &open_timer.timer) == 0;
    }
    if (open_timer.made)
        timer_settime(open_timer.timer, TIMER_ABSTIME, &when, NULL);
}

void event_set_deadline(uint64_t until_ns)
{
    timer_arm(until_ns);
    open_timer.until_ns = until_ns;
}

void event_extend_deadline(void)
{
    const uint64_t now_ns = monotonic_ns();

    if (open_timer.until_ns < now_ns + OPEN_NS)
        event_set_deadline(now_ns + 2 * OPEN_NS);
}

int event_open(const struct perf_event_attr *attr, pid_t pid, int cpu, int group,
               unsigned long flags)
{
    const bool waits = pid > 0 && !(flags & PERF_FLAG_PID_CGROUP);
    uint64_t until_ns = open_timer.until_ns;
    int fd;

    if (waits) { /* each call gets at least one period of the timer */
        const uint64_t now_ns = monotonic_ns();
        until_ns = !until_ns                      ? now_ns + OPEN_NS
                   : until_ns < now_ns + AGAIN_NS ? now_ns + AGAIN_NS
                                                  : until_ns;
    }
    if (waits && !open_timer.until_ns)
        timer_arm(until_ns);
    do {
        fd = (int)syscall(SYS_perf_event_open, attr, pid, cpu, group, flags | PERF_FLAG_FD_CLOEXEC);
        if (fd < 0)
            fd = -errno;
    } while (fd == -EINTR && (!waits || monotonic_ns() < until_ns));
    if (waits && !open_timer.until_ns)
        timer_arm(0);
    return fd == -EINTR ? -ETIME : fd; /* interrupted after the limit */
}

void event_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}
