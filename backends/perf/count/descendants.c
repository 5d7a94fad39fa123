/*
 * A table of tasks (core/log/tasks.h), of whose processes the sideband calls covered_take().
 */
#include "backends/perf/count/descendants.h"

#include "backends/perf/count/counter.h"
#include "backends/proc.h"
#include "core/base/ids.h"
#include "core/log/tasks.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

enum {
    DROP_NS = 100000000, /* from the exec to the EXIT: it may lose its CPU in between */
    HURRIED_SUSPECTS = 8 /* a read without patience asks about so many */
};

struct covered {
    struct sideband *sideband; /* NULL: it tells nothing. Its lock protects what follows */
    struct side_listener listener;
    struct tasks tasks; /* a process's one value: when it executed last */
    uint32_t target;    /* what its own exec takes off is told by a guard (end_events.h) */
    bool filling; /* by fill(): nothing is chosen yet */
    bool doubt, dropped;
    struct ids suspects; /* the EXIT of their first thread came soon after an exec */
};

/* What came by now is told, and until covered_leave() no more. */
static void covered_enter(const struct covered *covered)
{
    if (covered->sideband)
        sideband_enter(covered->sideband);
}

static void covered_leave(const struct covered *covered)
{
    if (covered->sideband)
        sideband_leave(covered->sideband);
}

/* The sideband calls about those that are covered or suspected. */
static void covered_choose(struct covered *covered, uint32_t pid, uint64_t since_ns)
{
    if (!covered->sideband || covered->filling)
        return;
    if (!tasks_process(&covered->tasks, pid) && !ids_find(&covered->suspects, pid))
        sideband_unchoose(covered->sideband, &covered->listener, pid);
    else
        covered->doubt |=
            !sideband_choose(covered->sideband, &covered->listener, pid, since_ns);
}

static void covered_take(void *arg, const struct side_record *record, uint32_t about);

struct covered *covered_new(struct sideband *sideband, const struct counter *counter,
                            void (*fill)(struct covered *covered, const void *arg), const void *arg)
{
    struct covered *covered = calloc(1, sizeof *covered);
    const struct logged_process *process;
    uint64_t suspect = 0;

    if (!covered)
        return NULL;
    covered->target = (uint32_t)counter->target.pid;
    covered->listener =
        (struct side_listener){.take = covered_take, .arg = covered, .chooses = true};
    ids_init(&covered->suspects);
    tasks_init(&covered->tasks);
    covered->tasks.n_values = 1;
    if (sideband && !sideband_listen(sideband, &covered->listener))
        covered->sideband = sideband;
    covered->doubt = !covered->sideband;
    covered->filling = true;
    fill(covered, arg);
    covered->filling = false;
    TAILQ_FOREACH (process, &covered->tasks.by_news, by_news)
        covered_choose(covered, process->pid, 0);
    while (ids_next(&covered->suspects, suspect, &suspect))
        covered_choose(covered, (uint32_t)suspect, 0);
    covered_leave(covered);
    return covered;
}

void covered_free(struct covered *covered)
{
    if (!covered)
        return;
    if (covered->sideband)
        sideband_ignore(covered->sideband, &covered->listener);
    tasks_free(&covered->tasks);
    free(covered->suspects.slots); /* some may stand */
    free(covered);
}

void covered_doubt(struct covered *covered)
{
    covered->doubt = true;
}

void covered_thread(struct covered *covered, uint32_t pid, uint32_t tid)
{
    covered->doubt |= !tasks_thread(&covered->tasks, pid, tid, 0);
}

bool covered_has(struct covered *covered, pid_t pid)
{
    covered_enter(covered);
    const bool has = covered->doubt || tasks_process(&covered->tasks, (uint32_t)pid);
    covered_leave(covered);
    return has;
}

void covered_each(struct covered *covered, void (*fn)(void *arg, pid_t pid), void *arg)
{
    const struct logged_process *process;

    covered_enter(covered);
    TAILQ_FOREACH (process, &covered->tasks.by_news, by_news)
        fn(arg, (pid_t)process->pid);
    covered_leave(covered);
}

/* ---- records ---- */

/* True: it was suspected. */
static bool suspect_end(struct covered *covered, uint32_t pid)
{
    return ids_remove(&covered->suspects, pid) != NULL;
}

/* The end of a process's first thread. A second one proves that the first was none. Else it is seen
 * at the process itself: one that is dead by then ended with its first. */
static void take_end(struct covered *covered, const struct side_record *record)
{
    const struct logged_process *process = tasks_process(&covered->tasks, record->pid);

    if (suspect_end(covered, record->pid))
        covered->dropped = true;
    else if (process && process->value[0] && record->time_ns - process->value[0] < DROP_NS)
        covered->doubt |= !ids_add(&covered->suspects, record->pid, covered);
}

static void take_exec(struct covered *covered, const struct side_record *record)
{
    struct logged_process *process = tasks_process(&covered->tasks, record->pid);

    if (!process)
        return;
    process->value[0] = record->time_ns;
    covered_thread(covered, record->pid, record->tid);
}

/* A number that comes up again as another's process is not ours any more; and the one
 * that had it ended with its first EXIT. */
static void take_reuse(struct covered *covered, uint32_t pid)
{
    struct logged_process *process = tasks_process(&covered->tasks, pid);

    suspect_end(covered, pid);
    if (process)
        tasks_drop(&covered->tasks, process);
}

static void covered_take(void *arg, const struct side_record *record, uint32_t about)
{
    struct covered *covered = arg;
    const bool leads = record->pid == record->tid;

    switch (record->head.type) {
    case RECORD_LOST:
        covered->doubt = true;
        return;
    case RECORD_COMM:
        take_exec(covered, record);
        return;
    case RECORD_FORK:
        if (leads && about == record->pid)
            take_reuse(covered, record->pid);
        else if (tasks_process(&covered->tasks, record->ppid))
            covered->doubt |= !tasks_take(&covered->tasks, &record->head);
        break;
    default:
        if (leads && record->pid != covered->target)
            take_end(covered, record);
        if (tasks_process(&covered->tasks, record->pid))
            covered->doubt |= !tasks_take(&covered->tasks, &record->head);
    }
    if (leads)
        covered_choose(covered, record->pid, record->time_ns);
}

void covered_record(struct covered *covered, const struct side_record *record)
{
    uint32_t about[2];

    side_about(record, about);
    if (about[0])
        covered_take(covered, record, about[0]);
    covered_take(covered, record, about[1]);
}

/* ---- the exec of a privileged program ---- */

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

bool process_lives(pid_t pid)
{
    return life_of(pid, true) == LIFE_GOES_ON;
}

/* They are looked at without the sideband's lock; of one that is dead by then a second EXIT is told
 * before it is judged. */
int covered_dropped(struct covered *covered, bool patient, bool *dropped)
{
    enum life life = LIFE_ENDS;
    unsigned asked = 0;
    uint64_t pid = 0;

    for (;;) {
        covered_enter(covered);
        if (life != LIFE_ENDS && suspect_end(covered, (uint32_t)pid))
            covered->dropped |= life == LIFE_GOES_ON;
        covered_choose(covered, (uint32_t)pid, 0);
        const bool more = ids_next(&covered->suspects, pid, &pid);
        *dropped = covered->dropped;
        covered_leave(covered);
        if (!more || *dropped)
            return 0;
        life = life_of((pid_t)pid, patient);
        if (!patient && (life == LIFE_ENDS || ++asked > HURRIED_SUSPECTS))
            return -EAGAIN;
    }
}
