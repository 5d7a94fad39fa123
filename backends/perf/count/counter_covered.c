/*
 * The processes that a counter covers: its target, and with descendants those below it, as the
 * sideband has told of them; and whether one of those lost its events to the exec of a privileged
 * program: the records tell which may have (descendants.c), /proc whether it lives.
 */
#include "backends/perf/count/counter.h"
#include "backends/proc.h"

#include <errno.h>
#include <signal.h>

enum {
    HURRIED_SUSPECTS = 8 /* a read without patience asks about so many */
};

/* What came by now is told, and until side_leave() no more. */
static void side_enter(const struct counter *counter)
{
    if (counter->listening)
        sideband_enter(counter->state->sideband);
}

static void side_leave(const struct counter *counter)
{
    if (counter->listening)
        sideband_leave(counter->state->sideband);
}

bool counter_cover(struct counter *counter, void (*fill)(struct covered *covered, void *arg),
                   void *arg)
{
    struct sideband *sideband = counter->state->sideband;

    counter->covered = covered_new(counter->target.pid);
    if (!counter->covered)
        return false;
    counter->listener = (struct side_listener){.take = covered_take, .arg = counter->covered};
    counter->listening = sideband && !sideband_listen(sideband, &counter->listener);
    side_enter(counter);
    covered_begin(counter->covered);
    fill(counter->covered, arg);
    if (!counter->listening)
        covered_doubt(counter->covered);
    side_leave(counter);
    return true;
}

void perf_processes(const struct counter *counter, void (*fn)(void *arg, pid_t pid), void *arg)
{
    if (counter->covered) {
        side_enter(counter);
        covered_each(counter->covered, fn, arg);
        side_leave(counter);
    } else if (counter_scope_is_process(counter)) {
        fn(arg, counter->target.pid);
    }
}

unsigned counter_n_covered(const struct counter *counter)
{
    unsigned n = counter_scope_is_process(counter);

    if (counter->covered) {
        side_enter(counter);
        n = covered_count(counter->covered);
        side_leave(counter);
    }
    return n;
}

bool perf_covers(struct counter *counter, pid_t pid)
{
    bool covers = counter_scope_is_process(counter) && pid == counter->target.pid;

    if (covers || !counter->covered)
        return covers;
    side_enter(counter);
    covers = covered_has(counter->covered, pid);
    side_leave(counter);
    return covers;
}

enum life {
    LIFE_GOES_ON,
    LIFE_ENDS, /* it cannot be seen yet how it is */
    LIFE_IS_OVER
};

/*
 * The first thread's, as /proc says. Between its EXIT record and its end it is PF_EXITING. /proc
 * may have to be waited for: without patience only one that is there no more is known.
 */
static enum life life_of(pid_t pid, bool patient)
{
    struct proc_stat stat;

    if (kill(pid, 0) < 0 && errno == ESRCH)
        return LIFE_IS_OVER;
    if (!patient)
        return LIFE_ENDS;
    int rc = proc_stat(pid, 0, &stat);
    if (rc < 0)
        return proc_is_gone(rc) ? LIFE_IS_OVER : LIFE_ENDS;
    return proc_stat_dead(&stat) ? LIFE_IS_OVER : stat.exiting ? LIFE_ENDS : LIFE_GOES_ON;
}

bool counter_lives(pid_t pid)
{
    return life_of(pid, true) == LIFE_GOES_ON;
}

/* They are looked at without the sideband's lock; of one that is dead by then a second EXIT is told
 * before it is judged. */
int counter_dropped(const struct counter *counter, bool patient, bool *dropped)
{
    struct covered *covered = counter->covered;
    enum life life = LIFE_ENDS;
    unsigned asked = 0;
    pid_t pid = 0;

    for (;;) {
        side_enter(counter);
        if (life != LIFE_ENDS)
            covered_judge(covered, pid, life == LIFE_GOES_ON);
        pid = covered_next_suspect(covered, pid);
        *dropped = covered_dropped(covered);
        side_leave(counter);
        if (!pid || *dropped)
            return 0;
        life = life_of(pid, patient);
        if (!patient && (life == LIFE_ENDS || ++asked > HURRIED_SUSPECTS))
            return -EAGAIN;
    }
}
