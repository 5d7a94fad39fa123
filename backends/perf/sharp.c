/*
 * Opening a thread that is making children at this very moment, so that it is known from which
 * child on they have inherited.
 *
 * The oracle: reading a group fails with ECHILD while a living inherited child has fewer members
 * than the original. A leader L is opened, then the counter's own group, then siblings of L one
 * after the other, L being read after each. ECHILD after the first: a child came in between,
 * perhaps with half of the counter's group: close all and try again. ECHILD after a later one: the
 * first child to inherit was begun between the last two siblings, thus after the counter's group
 * was complete. With no FORK record of this thread in that step the child is the next one to be
 * told, else try again.
 */
#include "backends/perf/attach.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

enum {
    PROBES = 40,      /* siblings of L */
    BUSY_PROBES = 12, /* the first ones follow each other at once */
    PAUSE_NS = 4000,  /* then the steps grow by this */
    SHARP_TRIES = 60,
    ORACLE_TRIES = 20,
    COPYING_NS = 20000,   /* what making a thread takes at most, nearly always */
    CLOCK_SLACK_NS = 500, /* the kernel's NMI-safe clock may differ a little from ours */
};

static pthread_once_t oracle_once = PTHREAD_ONCE_INIT;
static bool oracle_works;

struct probe {
    int fds[PROBES];
    unsigned n;
};

static void probe_close(struct probe *probe)
{
    while (probe->n > 0)
        event_close(&probe->fds[--probe->n]);
}

/* 0, or -errno; -EINVAL also while the leader rides on a child. */
static int probe_add(struct probe *probe, const struct shape *shape, pid_t tid)
{
    int fd = event_open(SHAPE_PROBE(shape), tid, -1, probe->n ? probe->fds[0] : -1, 0);

    if (fd < 0)
        return fd;
    probe->fds[probe->n++] = fd;
    return 0;
}

/* Is there a living child that has inherited L, but not all its siblings? */
static bool probe_tells_child(const struct probe *probe)
{
    uint64_t text[PROBES + 3];

    return read(probe->fds[0], text, sizeof text) < 0 && errno == ECHILD;
}

static void pause_ns(uint64_t ns)
{
    uint64_t until = census_now_ns() + ns;

    while (census_now_ns() < until)
        ;
}

enum sharp {
    SHARP_AGAIN,
    SHARP_DECIDED,
    SHARP_QUIET
};

/* The steps after the counter's group is open. */
static enum sharp sharp_steps(struct attach *attach, struct task *task, struct probe *probe)
{
    uint64_t begin, end = 0, quiet = 0;

    while (probe->n < PROBES) {
        if (probe->n > BUSY_PROBES)
            pause_ns((uint64_t)(probe->n - BUSY_PROBES) * PAUSE_NS);
        begin = census_now_ns();
        if (probe_add(probe, &attach->shape, task->tid))
            return SHARP_AGAIN;
        bool child = probe_tells_child(probe);
        end = census_now_ns();
        if (child && probe->n == 2)
            return SHARP_AGAIN;
        if (child) {
            task->begin_ns = quiet - CLOCK_SLACK_NS;
            task->end_ns = end + CLOCK_SLACK_NS;
            return SHARP_DECIDED;
        }
        quiet = begin;
    }
    task->begin_ns = quiet - CLOCK_SLACK_NS;
    task->end_ns = end + CLOCK_SLACK_NS;
    return SHARP_QUIET;
}

static void *child_wait(void *arg)
{
    sem_wait(arg);
    return NULL;
}

static bool oracle_ask(void)
{
    struct perf_event_attr attr = {
        .size = sizeof attr,
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_DUMMY,
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .disabled = 1,
        .inherit = 1,
        .inherit_thread = 1,
        .read_format =
            PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
    };
    struct shape shape = {.attr = (struct perf_event_attr[3]){attr, attr, attr}};
    struct probe probe = {.n = 0};
    bool works = false;
    pthread_t child;
    sem_t done;

    sem_init(&done, 0, 0);
    if (!probe_add(&probe, &shape, 0) && !pthread_create(&child, NULL, child_wait, &done)) {
        works = !probe_add(&probe, &shape, 0) && probe_tells_child(&probe);
        sem_post(&done);
        pthread_join(child, NULL);
    }
    probe_close(&probe);
    sem_destroy(&done);
    return works;
}

/*
 * Kernels before autumn 2023 add up groups that do not match, and say nothing. One answer is
 * enough; a refusal may also come from the leader's riding on the child.
 */
static void oracle_try(void)
{
    for (int i = 0; i < ORACLE_TRIES && !oracle_works; i++)
        oracle_works = oracle_ask();
}

/* Without the oracle: whoever is told of a good while after the opening has inherited, most likely.
 */
static int open_blunt(struct attach *attach, size_t i)
{
    struct task *task = &attach->census.tasks[i];
    int rc;

    attach_close_task(attach, task);
    rc = attach_open_task(attach, i);
    task->end_ns += COPYING_NS;
    task->sharp = true;
    attach->raced = true;
    return rc;
}

static int sharp_try(struct attach *attach, size_t i, enum sharp *answer)
{
    struct probe probe = {.n = 0};
    struct task *task = &attach->census.tasks[i];
    int rc = probe_add(&probe, &attach->shape, task->tid);

    *answer = SHARP_AGAIN;
    if (rc == -ESRCH) {
        task->state = TASK_GONE;
        return 0;
    }
    if (rc)
        return attach_refused(attach, rc, SHAPE_PROBE(&attach->shape));
    rc = attach_open_task(attach, i);
    if (!rc && task->state == TASK_OPEN)
        *answer = sharp_steps(attach, task, &probe);
    task->sharp = *answer == SHARP_DECIDED;
    probe_close(&probe);
    if (rc || task->state != TASK_OPEN)
        return rc;
    rc = census_update(&attach->census, attach->err);
    task = &attach->census.tasks[i];
    if (!rc && *answer != SHARP_AGAIN &&
        census_birth_between(&attach->census, task->tid, task->begin_ns, task->end_ns))
        *answer = SHARP_AGAIN;
    return rc;
}

int attach_open_sharp(struct attach *attach, size_t i)
{
    enum sharp answer = SHARP_AGAIN;
    int rc = 0;

    attach->reopened++;
    pthread_once(&oracle_once, oracle_try);
    if (!oracle_works)
        return open_blunt(attach, i);
    for (int n = 0; n < SHARP_TRIES && !rc && answer == SHARP_AGAIN; n++) {
        attach_close_task(attach, &attach->census.tasks[i]);
        rc = attach_in_time(attach);
        if (!rc)
            rc = sharp_try(attach, i, &answer);
        if (attach->census.tasks[i].state == TASK_GONE)
            break;
    }
    return rc;
}
