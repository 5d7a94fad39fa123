/*
 * Has a covered descendant lost its events to the exec of a privileged program? The records tell
 * which may have (descendants.c); whether it lives is seen in /proc.
 */
#include "backends/perf/count/counter.h"
#include "backends/proc.h"

enum life {
    LIFE_GOES_ON,
    LIFE_ENDS, /* it cannot be seen yet how it is */
    LIFE_IS_OVER
};

/* The first thread's, as /proc says. Between its EXIT record and its end it is PF_EXITING. */
static enum life life_of(pid_t pid)
{
    struct proc_stat stat;
    int rc = proc_stat(pid, 0, &stat);

    if (rc < 0)
        return proc_is_gone(rc) ? LIFE_IS_OVER : LIFE_ENDS;
    return proc_stat_dead(&stat) ? LIFE_IS_OVER : stat.exiting ? LIFE_ENDS : LIFE_GOES_ON;
}

bool counter_lives(pid_t pid)
{
    return life_of(pid) == LIFE_GOES_ON;
}

/* They are looked at without the sideband's lock; of one that is dead by then a second EXIT is read
 * after. */
bool counter_dropped(const struct counter *counter)
{
    struct sideband *sideband = counter->state->sideband;
    pid_t pid = 0;
    bool dropped;

    if (!counter->listening)
        return covered_dropped(counter->covered);
    sideband_drain(sideband);
    for (;;) {
        enum life life;

        sideband_lock(sideband);
        pid = covered_next_suspect(counter->covered, pid);
        dropped = covered_dropped(counter->covered);
        sideband_unlock(sideband);
        if (!pid || dropped)
            return dropped;
        life = life_of(pid);
        sideband_drain(sideband);
        sideband_lock(sideband);
        if (life != LIFE_ENDS)
            covered_judge(counter->covered, pid, life == LIFE_GOES_ON);
        sideband_unlock(sideband);
    }
}
