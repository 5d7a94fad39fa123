/*
 * Trials: groups of events that are opened only to see what the kernel accepts. They are opened on
 * an idle thread of the daemon, where the kernel checks a group against the real counters but never
 * runs it, so no other user of the counters is disturbed; or on a CPU, where an enabled group runs
 * if counters are free.
 */
#include "backends/perf/probe/probe.h"

#include "backends/perf/probe/open.h"
#include "backends/perf/probe/pmu.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    TRIAL_MAX = 64,
    CHECKS = 16,
    CHECK_NS = 500000
};

/*
 * A group. On a thread (cpu -1) it is opened enabled, because the kernel does not check a
 * disabled one against the counters; on a CPU (tid -1) it is opened disabled and enabled as a whole
 * later.
 */
struct trial {
    pid_t tid;
    int cpu;
    unsigned n;
    int fd[TRIAL_MAX];
};

static void *idle_thread_run(void *arg)
{
    struct idle_thread *idle = arg;

    idle->tid = (pid_t)syscall(SYS_gettid);
    sem_post(&idle->ready);
    for (;;)
        pause();
    return NULL;
}

bool idle_thread_start(struct idle_thread *idle)
{
    sem_init(&idle->ready, 0, 0);
    if (!probe_start_thread(&idle->thread, idle_thread_run, idle))
        return false;
    while (sem_wait(&idle->ready) < 0)
        ;
    return true;
}

void idle_thread_stop(struct idle_thread *idle)
{
    if (!idle->tid)
        return;
    pthread_cancel(idle->thread);
    pthread_join(idle->thread, NULL);
    sem_destroy(&idle->ready);
}

/* Adds an event to the group. Returns 0 or -errno. */
static int trial_add(struct trial *trial, const struct perf_event_attr *attr)
{
    struct perf_event_attr copy = *attr;

    if (trial->n == TRIAL_MAX)
        return -ENOSPC;
    copy.disabled = trial->cpu >= 0 && trial->n == 0;
    int fd = pmus_note_shortage(
        event_open(&copy, trial->tid, trial->cpu, trial->n > 0 ? trial->fd[0] : -1, 0));
    if (fd < 0)
        return fd;
    trial->fd[trial->n++] = fd;
    return 0;
}

/* Adds attr until the kernel refuses it, at most max times. Returns how often it was added. */
static unsigned trial_fill(struct trial *trial, const struct perf_event_attr *attr, unsigned max)
{
    unsigned added = 0;

    while (added < max && trial_add(trial, attr) == 0)
        added++;
    return added;
}

static void trial_clear(struct trial *trial)
{
    while (trial->n > 0)
        event_close(&trial->fd[--trial->n]);
}

/* Fills all general counters; each generic event that still fits then has a fixed counter. */
void probe_counters(const struct pmus *pmus, struct pmu *pmu)
{
    static const uint64_t fixed[] = {PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS,
                                     PERF_COUNT_HW_REF_CPU_CYCLES};
    struct perf_event_attr attr;
    struct trial trial = {.tid = pmus->idle.tid, .cpu = -1};
    probe_filler(pmu, &attr);
    pmu->n_general = trial_fill(&trial, &attr, TRIAL_MAX - PMU_FIXED);
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        probe_generic(pmu, fixed[i], &attr);
        if (trial_add(&trial, &attr) == 0)
            pmu->fixed_event[pmu->n_fixed++] = fixed[i];
    }
    trial_clear(&trial);
}

/* Returns the index of attr's fixed counter, or -1: fills all general counters, then finds the
 * fixed event next to which attr does not fit. */
static int find_fixed(const struct pmu *pmu, struct trial *trial,
                      const struct perf_event_attr *attr)
{
    struct perf_event_attr filler, own;
    int found = -1;

    probe_filler(pmu, &filler);
    trial_fill(trial, &filler, pmu->n_general);
    bool has = trial_add(trial, attr) == 0;
    trial_clear(trial);
    for (unsigned i = 0; has && found < 0 && i < pmu->n_fixed; i++) {
        probe_generic(pmu, pmu->fixed_event[i], &own);
        trial_fill(trial, &filler, pmu->n_general);
        trial_add(trial, &own);
        if (trial_add(trial, attr) < 0)
            found = (int)i;
        trial_clear(trial);
    }
    return found;
}

/* Returns how many general counters attr needs; 0: they cannot count it. fixed: the index of attr's
 * fixed counter, which is filled first, or -1. */
static unsigned general_cost(const struct pmu *pmu, struct trial *trial,
                             const struct perf_event_attr *attr, int fixed)
{
    struct perf_event_attr filler, own;
    unsigned others = 0;

    if (fixed >= 0) {
        probe_generic(pmu, pmu->fixed_event[fixed], &own);
        trial_add(trial, &own);
    }
    bool fits = trial_add(trial, attr) == 0;
    probe_filler(pmu, &filler);
    if (fits)
        others = trial_fill(trial, &filler, pmu->n_general);
    trial_clear(trial);
    return fits && others < pmu->n_general ? pmu->n_general - others : 0;
}

static uint64_t low_bits(unsigned n)
{
    return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
}

void probe_rows(const struct pmus *pmus, const struct pmu *pmu, const struct perf_event_attr *attr,
                uint64_t *rows, unsigned *needed)
{
    struct perf_event_attr copy = *attr;

    *rows = 0;
    *needed = 0;
    if (pmu->n_general + pmu->n_fixed == 0)
        return;
    struct trial trial = {.tid = pmus->idle.tid, .cpu = -1};
    copy.sample_period = 0;
    int fixed = find_fixed(pmu, &trial, &copy);
    unsigned cost = general_cost(pmu, &trial, &copy, fixed);
    unsigned alone = trial_fill(&trial, &copy, pmu->n_general + pmu->n_fixed);
    trial_clear(&trial);

    alone = fixed >= 0 && alone > 0 ? alone - 1 : alone;
    *needed = cost > 1 && fixed < 0 ? cost : 1;
    if (cost == 1)
        *rows = low_bits(alone < pmu->n_general ? alone : pmu->n_general);
    else if (cost > 1 && fixed < 0)
        *rows = low_bits(pmu->n_general);
    if (fixed >= 0)
        *rows |= (uint64_t)1 << (pmu->n_general + (unsigned)fixed);
    if (!*rows)
        *needed = 0;
}

/* ---- sets ---- */

/* Opens the set as one group, and closes it. core: type of the core PMU that counts generic events,
 * or 0. */
static int set_try(struct backend_state *state, const struct plan_event *events, unsigned n,
                   uint32_t core, bool multiplex, struct err *err)
{
    struct trial trial = {.tid = state->pmus->idle.tid, .cpu = -1};
    struct perf_event_attr attr;
    int rc = 0;

    for (int hardware = 1; hardware >= 0; hardware--) /* events that need counters first */
        for (unsigned i = 0; i < n && !rc; i++) {
            const struct event *event = events[i].event;

            if (event_is_hardware(event) != hardware)
                continue;
            code_to_attr(event, events[i].user, events[i].kernel, &attr);
            attr_bind(&attr, core);
            attr.read_format =
                PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
            rc = trial_add(&trial, &attr);
            if (rc)
                rc = why_refused(err, &(struct why){.code = -rc,
                                                    .attr = &attr,
                                                    .event = event->written,
                                                    .member = trial.n > 0,
                                                    .needs_row = hardware && !multiplex});
        }
    trial_clear(&trial);
    return rc;
}

int perf_check_set(struct backend_state *state, const struct plan_event *events, unsigned n,
                   bool multiplex, struct err *err)
{
    const struct pmus *pmus = state->pmus;
    uint64_t flags = 0;
    int rc = 0;

    if (n == 1 && !event_is_hardware(events[0].event))
        return 0;
    for (unsigned i = 0; i < n; i++)
        flags |= events[i].event->code[CODE_FLAGS];
    if (flags & CODE_CPU_ONLY)
        return 0; /* cannot be opened on a thread */
    if (!(flags & CODE_EVERY_CORE))
        return set_try(state, events, n, 0, multiplex, err);
    for (unsigned i = 0; i < pmus->n && !rc; i++)
        if (pmus->list[i].kind == PMU_CORE && pmu_is_here(&pmus->list[i]))
            rc = set_try(state, events, n, pmus->list[i].type, multiplex, err);
    return rc;
}

/*
 * ---- counters that others hold ----
 *
 * A flexible group runs on a CPU if it fits next to the pinned events there, and never evicts them.
 * So the size of the largest group that runs is the number of free counters. A group gets up to
 * 8 ms to run, because events of the task that is running at the moment do not belong to the CPU.
 */

/* Returns 1 if a group of n general events and a fixed one (-1: none) runs on the CPU within the
 * time of all checks, 0 if not, -1 if it cannot be opened. */
static int group_runs(const struct pmu *pmu, unsigned cpu, unsigned n, int fixed)
{
    const struct timespec pause = {.tv_nsec = CHECK_NS};
    struct {
        uint64_t value, enabled_ns, running_ns;
    } seen = {.running_ns = 0};
    struct trial trial = {.tid = -1, .cpu = (int)cpu};
    struct perf_event_attr attr;

    probe_filler(pmu, &attr);
    attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    bool open = trial_fill(&trial, &attr, n) == n;
    if (open && fixed >= 0) {
        probe_generic(pmu, pmu->fixed_event[fixed], &attr);
        attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
        open = trial_add(&trial, &attr) == 0;
    }
    if (open && !ioctl(trial.fd[0], PERF_EVENT_IOC_ENABLE, 0))
        for (unsigned i = 0; i < CHECKS; i++) {
            if (read(trial.fd[0], &seen, sizeof seen) != sizeof seen || seen.running_ns)
                break;
            nanosleep(&pause, NULL);
        }
    trial_clear(&trial);
    return open ? seen.running_ns > 0 : -1;
}

uint64_t perf_foreign_rows(struct backend_state *state, unsigned class_index, unsigned cpu,
                           uint64_t own)
{
    const struct pmu *pmu = pmus_of_class(state->pmus, class_index);
    const unsigned general = pmu->n_general;
    unsigned free_rows = general, held;
    uint64_t foreign = 0;
    int runs = 0;

    if (!general || pmu->kind == PMU_CORES)
        return 0;
    while (free_rows && (runs = group_runs(pmu, cpu, free_rows, -1)) == 0)
        free_rows--;
    if (runs < 0)
        free_rows = general; /* nothing can be opened there */
    held = (unsigned)__builtin_popcountll(own & (((uint64_t)1 << general) - 1));
    /* Rows are allocated from the first, so others hold the last ones that are not in `own`. */
    for (unsigned row = general; row-- > 0 && general > free_rows + held;) {
        if (own & ((uint64_t)1 << row))
            continue;
        foreign |= (uint64_t)1 << row;
        held++;
    }
    for (unsigned i = 0; i < pmu->n_fixed; i++) {
        uint64_t bit = (uint64_t)1 << (general + i);

        if (!(own & bit) && group_runs(pmu, cpu, free_rows, (int)i) == 0)
            foreign |= bit;
    }
    return foreign;
}
