/*
 * How many counters there are, and which event fits where. The kernel as an oracle (reference:
 * groups of enabled, flexible events are checked against the real counters when they are opened,
 * other users or not). A leader must be enabled for that.
 */
#include "backends/perf/probe/probe.h"

#include "backends/perf/probe/open.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GROUP_MAX 64

static void *parked_run(void *arg)
{
    struct parked *parked = arg;

    parked->tid = (pid_t)syscall(SYS_gettid);
    sem_post(&parked->ready);
    while (sem_wait(&parked->leave) < 0)
        ;
    return NULL;
}

bool parked_start(struct parked *parked)
{
    sem_init(&parked->ready, 0, 0);
    sem_init(&parked->leave, 0, 0);
    if (!probe_thread(&parked->thread, parked_run, parked))
        return false;
    while (sem_wait(&parked->ready) < 0)
        ;
    return true;
}

void parked_stop(struct parked *parked)
{
    sem_post(&parked->leave);
    pthread_join(parked->thread, NULL);
    sem_destroy(&parked->ready);
    sem_destroy(&parked->leave);
}

/* A group on a parked thread, growing while the kernel accepts. */
struct group {
    pid_t tid;
    unsigned n;
    int fd[GROUP_MAX];
};

static bool group_add(struct group *group, const struct perf_event_attr *attr)
{
    struct perf_event_attr copy = *attr;

    if (group->n == GROUP_MAX)
        return false;
    copy.disabled = 0;
    int fd = event_open(&copy, group->tid, -1, group->n > 0 ? group->fd[0] : -1, 0);
    if (fd < 0)
        return false;
    group->fd[group->n++] = fd;
    return true;
}

static unsigned group_fill(struct group *group, const struct perf_event_attr *attr, unsigned max)
{
    unsigned added = 0;

    while (added < max && group_add(group, attr))
        added++;
    return added;
}

static void group_clear(struct group *group)
{
    while (group->n > 0)
        close(group->fd[--group->n]);
}

/* General counters first; then the generic events that still fit have a counter of their own. */
void probe_counters(struct pmu *pmu)
{
    static const uint64_t fixed[] = {PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS,
                                     PERF_COUNT_HW_REF_CPU_CYCLES};
    struct perf_event_attr attr;
    struct parked parked;

    if (!parked_start(&parked))
        return;
    struct group group = {.tid = parked.tid};
    probe_filler(pmu, &attr);
    pmu->general = group_fill(&group, &attr, GROUP_MAX - PMU_FIXED);
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        probe_generic(pmu, fixed[i], &attr);
        if (group_add(&group, &attr))
            pmu->fixed_event[pmu->fixed++] = fixed[i];
    }
    group_clear(&group);
    parked_stop(&parked);
}

/* The own counter of attr: its index among pmu->fixed, or -1. The group holds every general
 * counter. */
static int find_fixed(const struct pmu *pmu, struct group *group,
                      const struct perf_event_attr *attr)
{
    struct perf_event_attr filler, own;
    int found = -1;

    probe_filler(pmu, &filler);
    group_fill(group, &filler, pmu->general);
    bool has = group_add(group, attr);
    group_clear(group);
    for (unsigned i = 0; has && found < 0 && i < pmu->fixed; i++) {
        probe_generic(pmu, pmu->fixed_event[i], &own);
        group_fill(group, &filler, pmu->general);
        group_add(group, &own);
        if (!group_add(group, attr))
            found = (int)i;
        group_clear(group);
    }
    return found;
}

/* How many general counters one attr takes; its own counter, if it has one, is filled first. */
static unsigned general_cost(const struct pmu *pmu, struct group *group,
                             const struct perf_event_attr *attr, int fixed)
{
    struct perf_event_attr filler, own;
    unsigned beside = 0;

    if (fixed >= 0) {
        probe_generic(pmu, pmu->fixed_event[fixed], &own);
        group_add(group, &own);
    }
    bool fits = group_add(group, attr);
    probe_filler(pmu, &filler);
    if (fits)
        beside = group_fill(group, &filler, pmu->general);
    group_clear(group);
    return fits && beside < pmu->general ? pmu->general - beside : 0;
}

static uint64_t low_bits(unsigned n)
{
    return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
}

void probe_rows(const struct pmu *pmu, const struct perf_event_attr *attr, uint64_t *rows,
                unsigned *needed)
{
    struct perf_event_attr copy = *attr;
    struct parked parked;

    *rows = 0;
    *needed = 0;
    if (pmu->general + pmu->fixed == 0 || !parked_start(&parked))
        return;
    struct group group = {.tid = parked.tid};
    copy.sample_period = 0;
    int fixed = find_fixed(pmu, &group, &copy);
    unsigned cost = general_cost(pmu, &group, &copy, fixed);
    unsigned alone = group_fill(&group, &copy, pmu->general + pmu->fixed);
    group_clear(&group);
    parked_stop(&parked);

    alone = fixed >= 0 && alone > 0 ? alone - 1 : alone;
    *needed = cost > 1 && fixed < 0 ? cost : 1;
    if (cost == 1)
        *rows = low_bits(alone < pmu->general ? alone : pmu->general);
    else if (cost > 1 && fixed < 0)
        *rows = low_bits(pmu->general);
    if (fixed >= 0)
        *rows |= (uint64_t)1 << (pmu->general + (unsigned)fixed);
    if (!*rows)
        *needed = 0;
}
