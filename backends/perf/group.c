/*
 * Making the attrs of a group, and opening it.
 */
#include "backends/perf/group.h"

#include "backends/perf/code.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Opening may find the leader riding on a child for a moment: the kernel swaps equal contexts. */
enum {
    SWAPPED_TRIES = 16
};

int event_open(const struct perf_event_attr *attr, pid_t pid, int cpu, int group,
               unsigned long flags)
{
    long fd;

    do
        fd = syscall(SYS_perf_event_open, attr, pid, cpu, group, flags | PERF_FLAG_FD_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : (int)fd;
}

void event_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static bool plan_is_hardware(const struct plan_event *event)
{
    return event->event->code[CODE_FLAGS] & CODE_HARDWARE;
}

/* Hardware first: only a leader can be pinned. */
static void shape_order(struct shape *shape, const struct plan *plan)
{
    unsigned k = 0;

    for (int hardware = 1; hardware >= 0; hardware--)
        for (unsigned i = 0; i < plan->n; i++)
            if (plan_is_hardware(&plan->events[i]) == hardware)
                shape->order[k++] = (uint8_t)i;
    shape->hardware = plan_is_hardware(&plan->events[shape->order[0]]);
}

static void attr_dummy(struct perf_event_attr *attr)
{
    *attr = (struct perf_event_attr){
        .size = sizeof *attr,
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_DUMMY,
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .disabled = 1,
    };
}

static void shape_attrs(struct shape *shape, const struct plan *plan)
{
    bool task = plan->target.kind == TARGET_PROCESS || plan->target.kind == TARGET_THREAD;
    uint64_t times = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;

    for (unsigned i = 0; i < shape->n; i++) {
        const struct plan_event *event = &plan->events[shape->order[i]];

        code_to_attr(event->event, event->user, event->kernel, &shape->attr[i]);
    }
    for (unsigned i = shape->n; i < shape->n + 3; i++)
        attr_dummy(&shape->attr[i]);
    for (unsigned i = 0; i < shape->n + 3; i++) {
        struct perf_event_attr *attr = &shape->attr[i];

        attr->inherit = shape->inherit;
        attr->inherit_thread = shape->inherit && !plan->descendants;
        attr->read_format = times | PERF_FORMAT_GROUP;
    }
    shape->attr[0].disabled = 1;
    shape->attr[0].pinned = shape->hardware && !plan->multiplex;
    shape->attr[0].enable_on_exec = task && plan->at_exec;
    SHAPE_WITNESS(shape)->read_format = times;
    SHAPE_WITNESS(shape)->enable_on_exec = task && plan->at_exec;
    SHAPE_WATCH(shape)->watermark = 1;
}

int shape_make(struct shape *shape, const struct plan *plan, int watch_cpu)
{
    *shape = (struct shape){
        .n = plan->n,
        .stride = plan->n + 2,
        .inherit = plan->target.kind == TARGET_PROCESS,
        .watch = plan->target.kind == TARGET_THREAD ||
                 (plan->target.kind == TARGET_PROCESS && plan->descendants),
        .watch_cpu = plan->target.kind == TARGET_PROCESS ? watch_cpu : -1,
        .flags = plan->target.kind == TARGET_CGROUP ? PERF_FLAG_PID_CGROUP : 0,
    };
    shape->attr = calloc(plan->n + 3, sizeof *shape->attr);
    if (!shape->attr)
        return -ENOMEM;
    shape_order(shape, plan);
    shape_attrs(shape, plan);
    shape->per_group = shape->n + shape->hardware + shape->watch;
    return 0;
}

void shape_free(struct shape *shape)
{
    free(shape->attr);
    shape->attr = NULL;
}

void group_close(const struct shape *shape, int *fds)
{
    /* Members before the leader: else they would live on as groups of their own for a moment. */
    for (unsigned i = shape->stride; i-- > 0;)
        event_close(&fds[i]);
}

static int group_try(const struct shape *shape, pid_t pid, int cpu, int *fds, unsigned *at)
{
    for (unsigned i = 0; i < shape->stride; i++)
        fds[i] = -1;
    for (unsigned i = 0; i < shape->stride; i++) {
        bool member = i < shape->n;

        if ((i == FD_WITNESS(shape->n) && !shape->hardware) ||
            (i == FD_WATCH(shape->n) && !shape->watch))
            continue;
        fds[i] = event_open(&shape->attr[i], pid, i == FD_WATCH(shape->n) ? shape->watch_cpu : cpu,
                            member && i ? fds[0] : -1, shape->flags);
        if (fds[i] < 0) {
            int rc = fds[i];

            group_close(shape, fds);
            *at = i;
            return rc;
        }
    }
    return 0;
}

int group_open(const struct shape *shape, pid_t pid, int cpu, int *fds,
               const struct perf_event_attr **failed)
{
    unsigned at = 0;
    int rc = -EINVAL;

    for (int i = 0; i < SWAPPED_TRIES && rc == -EINVAL; i++) {
        rc = group_try(shape, pid, cpu, fds, &at);
        if (!shape->inherit || at == 0)
            break;
    }
    *failed = &shape->attr[at];
    return rc;
}
