/*
 * Has a covered descendant lost its events to the exec of a privileged program? The records tell
 * who may have (covered.c); whether it lives is seen in /proc.
 */
#include "backends/perf/counter.h"
#include "backends/proc.h"

#include <fcntl.h>
#include <stdio.h>

enum {
    SUSPECTS = 32
};

/* The first thread's, as /proc says. Between its EXIT record and its end it is PF_EXITING. */
static enum suspect_life life_of(pid_t pid)
{
    char path[32];
    struct proc_stat stat;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int rc = proc_stat_at(AT_FDCWD, path, &stat);
    if (rc < 0)
        return proc_is_gone(rc) ? SUSPECT_DEAD : SUSPECT_ENDS;
    if (proc_stat_dead(&stat))
        return SUSPECT_DEAD;
    return stat.exiting ? SUSPECT_ENDS : SUSPECT_LIVES;
}

bool counter_lives(pid_t pid)
{
    return life_of(pid) == SUSPECT_LIVES;
}

/*
 * The processes are looked at without the sideband's lock; of one that died by then a second EXIT
 * is read after. True: there may be more.
 */
static bool suspects_judge(const struct counter *counter, unsigned n,
                           const struct covered_suspect *list)
{
    struct sideband *sideband = counter->state->sideband;
    enum suspect_life life[SUSPECTS];
    bool decided = n == SUSPECTS;

    for (unsigned i = 0; i < n; i++) {
        life[i] = life_of(list[i].pid);
        decided &= life[i] != SUSPECT_ENDS;
    }
    sideband_drain(sideband);
    sideband_lock(sideband);
    for (unsigned i = 0; i < n; i++)
        covered_judge(counter->covered, &list[i], life[i]);
    sideband_unlock(sideband);
    return decided;
}

bool counter_dropped(const struct counter *counter)
{
    struct sideband *sideband = counter->state->sideband;
    struct covered_suspect list[SUSPECTS];
    bool more = counter->listening, dropped;

    while (more) {
        unsigned n;

        sideband_drain(sideband);
        sideband_lock(sideband);
        n = covered_suspects(counter->covered, list, SUSPECTS);
        sideband_unlock(sideband);
        more = n && suspects_judge(counter, n, list);
    }
    if (counter->listening)
        sideband_lock(sideband);
    dropped = covered_dropped(counter->covered);
    if (counter->listening)
        sideband_unlock(sideband);
    return dropped;
}
