/*
 * A flexible group is on the hardware when it fits beside what is pinned there, and never takes
 * anything from it. So the largest one that runs tells how many counters are left. It is given
 * ten milliseconds, for what belongs to the task that happens to run is not the CPU's.
 */
#include "backends/perf/probe/probe.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    LOOKS = 16,
    LOOK_NS = 500000
};

/* Was the group on the hardware at any moment? Enabled as a whole, so that no part of it runs
 * alone. */
static bool trial_runs(const struct trial *trial)
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

/* Does a group of n general events, and a fixed one, run? -1: it cannot even be opened. */
static int general_fit(const struct pmu *pmu, unsigned cpu, unsigned n, int fixed)
{
    struct trial trial = {.tid = -1, .cpu = (int)cpu};
    struct perf_event_attr attr;
    int runs = -1;

    probe_filler(pmu, &attr);
    attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    bool open = trial_fill(&trial, &attr, n) == n;
    if (open && fixed >= 0) {
        probe_generic(pmu, pmu->fixed_event[fixed], &attr);
        attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
        open = trial_add(&trial, &attr) == 0;
    }
    if (open)
        runs = trial_runs(&trial);
    trial_clear(&trial);
    return runs;
}

static unsigned general_free(const struct pmu *pmu, unsigned cpu)
{
    unsigned n = pmu->general;
    int runs = 0;

    for (; n && (runs = general_fit(pmu, cpu, n, -1)) == 0; n--)
        ;
    return runs < 0 ? pmu->general : n;
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
    const struct pmu *pmu = pmus_of_class(state->pmus, class_index);
    const unsigned general = pmu->general;
    unsigned free_rows, held;
    uint64_t foreign;

    if (!general)
        return 0;
    free_rows = general_free(pmu, cpu);
    held = (unsigned)__builtin_popcountll(own & (((uint64_t)1 << general) - 1));
    foreign = last_rows(general, own, general > free_rows + held ? general - free_rows - held : 0);
    for (unsigned i = 0; i < pmu->fixed; i++) {
        uint64_t bit = (uint64_t)1 << (general + i);

        if (!(own & bit) && general_fit(pmu, cpu, free_rows, (int)i) == 0)
            foreign |= bit;
    }
    return foreign;
}
