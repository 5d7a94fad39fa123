/*
 * A flexible group is on the hardware when it fits beside what is pinned there, and never takes
 * anything from it. So the largest one that runs tells how many counters are left. It is given
 * ten milliseconds, for what belongs to the task that happens to run is not the CPU's.
 */
#include "backends/perf/probe/foreign.h"

#include "backends/perf/probe/open.h"
#include "backends/perf/probe/pmu.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    LOOKS = 16,
    LOOK_NS = 500000
};

struct trial {
    const struct pmu *pmu;
    unsigned cpu;
    unsigned n;
    int fd[PMU_ROWS];
};

static bool trial_add(struct trial *trial, uint64_t type, uint64_t config)
{
    struct perf_event_attr attr = {
        .size = sizeof attr,
        .type = (uint32_t)type,
        .config = config,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        .disabled = trial->n == 0,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    int fd = event_open(&attr, -1, (int)trial->cpu, trial->n ? trial->fd[0] : -1, 0);

    if (fd < 0)
        return false;
    trial->fd[trial->n++] = fd;
    return true;
}

static void trial_end(struct trial *trial)
{
    while (trial->n)
        event_close(&trial->fd[--trial->n]);
}

/* Was the group on the hardware at any moment? Enabled as a whole, so that no part of it runs
 * alone. */
static bool trial_runs(struct trial *trial)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    struct {
        uint64_t value, enabled_ns, running_ns;
    } seen = {.running_ns = 0};

    if (ioctl(trial->fd[0], PERF_EVENT_IOC_ENABLE, 0))
        return false;
    for (unsigned i = 0; i < LOOKS; i++) {
        if (read(trial->fd[0], &seen, sizeof seen) != sizeof seen || seen.running_ns)
            break;
        nanosleep(&pause, NULL);
    }
    return seen.running_ns > 0;
}

/* -1: not even opened. */
static int general_fit(struct trial *trial, unsigned n, int fixed)
{
    const struct pmu *pmu = trial->pmu;
    uint64_t type = pmu->extended ? (uint64_t)pmu->type << 32 : 0;
    bool open = true;
    int runs;

    for (unsigned i = 0; i < n && open; i++)
        open = trial_add(trial, pmu->filler_type, pmu->filler_config);
    if (open && fixed >= 0)
        open = trial_add(trial, PERF_TYPE_HARDWARE, pmu->fixed_event[fixed] | type);
    runs = open ? trial_runs(trial) : -1;
    trial_end(trial);
    return runs;
}

static unsigned general_free(struct trial *trial)
{
    unsigned n = trial->pmu->general;
    int runs = 0;

    for (; n && (runs = general_fit(trial, n, -1)) == 0; n--)
        ;
    return runs < 0 ? trial->pmu->general : n;
}

/* The last of them: rows are given away from the first. */
static uint64_t last_rows(unsigned n_rows, uint64_t own, unsigned missing)
{
    uint64_t rows = 0;

    for (unsigned row = n_rows; row-- > 0 && missing;) {
        uint64_t bit = (uint64_t)1 << row;

        if (own & bit)
            continue;
        rows |= bit;
        missing--;
    }
    return rows;
}

uint64_t perf_foreign(struct backend_state *state, unsigned class_index, unsigned cpu, uint64_t own)
{
    struct trial trial = {.cpu = cpu};
    unsigned free_rows, held, general;
    uint64_t foreign;

    for (unsigned i = 0; i < state->pmus->n && !trial.pmu; i++)
        if (state->pmus->list[i].class_index == class_index && state->pmus->list[i].general)
            trial.pmu = &state->pmus->list[i];
    if (!trial.pmu)
        return 0;
    general = trial.pmu->general;
    free_rows = general_free(&trial);
    held = (unsigned)__builtin_popcountll(own & (((uint64_t)1 << general) - 1));
    foreign = last_rows(general, own, general > free_rows + held ? general - free_rows - held : 0);
    for (unsigned i = 0; i < trial.pmu->fixed; i++) {
        uint64_t bit = (uint64_t)1 << (general + i);

        if (!(own & bit) && general_fit(&trial, free_rows, (int)i) == 0)
            foreign |= bit;
    }
    return foreign;
}
