/*
 * ENABLE and DISABLE reach the copies that exist. A copy that is being made at that moment may have
 * taken its state from before, and the kernel, which swaps equal contexts, can hand that state on
 * to its creator and so to all born later. A child is given its copies under the mutex of
 * its creator's context, and opening any event on the creator waits for that mutex: so switch, open
 * and close a dummy on every task, and switch again.
 */
#include "backends/perf/count/switch.h"

#include "backends/perf/record/sampling.h"
#include "backends/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    ROUNDS_MAX = 4
};

/* The witness is on no longer than what it watches, so that it never shows a loss that was none. */
static int groups_switch(const struct counter *counter, bool on)
{
    unsigned long request = on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;
    int rc = 0;

    for (unsigned i = 0; i < counter->n_groups; i++) {
        const int *fds = counter_fds(counter, i);
        int witness = fds[FD_WITNESS(counter->shape.members)];

        if (!on && witness >= 0)
            ioctl(witness, request, 0);
        if (ioctl(fds[0], request, 0))
            rc = -EIO;
        for (unsigned k = counter->shape.together; k < counter->shape.members; k++)
            if (ioctl(fds[k], request, 0))
                rc = -EIO;
        if (on && witness >= 0)
            ioctl(witness, request, 0);
    }
    return rc;
}

static int by_number(const void *a, const void *b)
{
    return *(const pid_t *)a - *(const pid_t *)b;
}

static bool is_lack(int rc)
{
    return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE;
}

static void add_process(void *arg, pid_t pid)
{
    struct tids *pids = arg;

    if (vec_push(&pids->list, pid))
        pids->failed = -ENOMEM;
}

static void add_threads(struct tids *tids, pid_t pid)
{
    char path[40];
    pid_t *threads = NULL;
    size_t n = 0;
    int rc;

    snprintf(path, sizeof path, "/proc/%d/task", pid);
    rc = proc_numbers(AT_FDCWD, path, &threads, &n);
    for (size_t i = 0; !rc && i < n; i++)
        rc = vec_push(&tids->list, threads[i]);
    free(threads);
    if (is_lack(rc)) /* else the process is gone */
        tids->failed = rc;
}

void counter_tids(const struct counter *counter, struct tids *tids)
{
    struct tids pids = {.list = {.n = 0}};

    tids->list.n = 0;
    if (counter->target.kind == TARGET_THREAD)
        add_process(tids, counter->target.tid);
    else
        perf_processes(counter, add_process, &pids);
    if (pids.failed)
        tids->failed = pids.failed;
    for (size_t i = 0; i < pids.list.n; i++)
        add_threads(tids, pids.list.items[i]);
    free(pids.list.items);
    if (tids->list.n)
        qsort(tids->list.items, tids->list.n, sizeof(pid_t), by_number);
}

/*
 * Waits until no task in `now`, but not in `before`, is just giving copies to a child. 1; 0: there
 * is none of them; or -ENOMEM, -EMFILE, -ENFILE.
 */
static int tids_settle(const struct tids *now, const struct tids *before)
{
    struct perf_event_attr attr;
    bool any = false;

    sampling_dummy_attr(&attr);
    for (size_t i = 0; i < now->list.n; i++) {
        const pid_t tid = now->list.items[i];

        if (before->list.n &&
            bsearch(&tid, before->list.items, before->list.n, sizeof tid, by_number))
            continue;
        int fd = event_open(&attr, tid, -1, -1, 0);
        any = true;
        if (is_lack(fd))
            return fd;
        if (fd == -ETIME) /* it makes no child; and what else may keep us waiting is not known */
            break;
        event_close(&fd);
    }
    return any;
}

int counter_switch(struct counter *counter, bool on)
{
    struct tids lists[2] = {{.list = {.n = 0}}, {.list = {.n = 0}}};
    int rc = groups_switch(counter, on), any = 1;

    if (counter->target.kind != TARGET_PROCESS)
        return rc;
    /* A task born meanwhile may have been born wrong, and make children itself. */
    for (int round = 0; round < ROUNDS_MAX && !rc && any > 0; round++) {
        struct tids *now = &lists[round % 2];

        counter_tids(counter, now);
        any = now->failed ? now->failed : tids_settle(now, &lists[(round + 1) % 2]);
        rc = any > 0 ? groups_switch(counter, on) : any;
    }
    free(lists[0].list.items);
    free(lists[1].list.items);
    return rc;
}
