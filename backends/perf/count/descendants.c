/*
 * Covered processes are a table of tasks (core/log/tasks.h). The sideband calls covered_receive()
 * with the records of these processes.
 */
#include "backends/perf/count/counter.h"

#include "backends/proc.h"
#include "core/base/vec.h"
#include "core/log/tasks.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

enum {
    DROP_NS = 100000000, /* longest time from the COMM record of an exec to the EXIT record of the
                            removed events; the task may lose its CPU */
    HURRIED_SUSPECTS = 8 /* suspects that a read without patience checks */
};

struct covered {
    struct sideband *sideband; /* or NULL: no records. Its lock protects the other fields */
    struct side_listener listener;
    struct tasks tasks; /* the one value of a process: time of its last exec */
    uint32_t target;    /* PID; an exec guard reports the loss of its events (end_events.c) */
    bool filling;       /* fill() runs: sideband_choose() is called after it */
    bool incomplete;    /* processes may be missing */
    bool lost_events;
    struct ids suspects; /* processes with an EXIT of the first thread soon after an exec */
};

/* Delivers pending records, then locks out further ones until covered_leave(). */
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

/* Makes the sideband deliver records of this process if the process is covered or a suspect, else
 * not. since_ns: as for sideband_choose(). */
static void covered_choose(struct covered *covered, uint32_t pid, uint64_t since_ns)
{
    if (!covered->sideband || covered->filling)
        return;
    if (!tasks_process(&covered->tasks, pid) && !ids_find(&covered->suspects, pid))
        sideband_unchoose(covered->sideband, &covered->listener, pid);
    else
        covered->incomplete |=
            !sideband_choose(covered->sideband, &covered->listener, pid, since_ns);
}

static void covered_receive(void *arg, const struct side_record *record, uint32_t about);

struct covered *covered_new(struct sideband *sideband, const struct counter *counter,
                            bool (*fill)(struct covered *covered, const void *arg), const void *arg)
{
    struct covered *covered = calloc(1, sizeof *covered);
    const struct logged_process *process;
    uint64_t suspect = 0;

    if (!covered)
        return NULL;
    covered->target = (uint32_t)counter->target.pid;
    covered->listener =
        (struct side_listener){.receive = covered_receive, .arg = covered, .chooses = true};
    tasks_init(&covered->tasks);
    covered->tasks.n_values = 1;
    if (sideband && !sideband_listen(sideband, &covered->listener))
        covered->sideband = sideband;
    covered->incomplete = !covered->sideband;
    covered->filling = true;
    if (!fill(covered, arg))
        covered->incomplete = true;
    covered->filling = false;
    TAILQ_FOREACH (process, &covered->tasks.by_update, by_update)
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
        sideband_unlisten(covered->sideband, &covered->listener);
    tasks_free(&covered->tasks);
    free(covered->suspects.entries); /* suspects can be left in it */
    free(covered);
}

void covered_add_thread(struct covered *covered, uint32_t pid, uint32_t tid)
{
    covered->incomplete |= !tasks_thread(&covered->tasks, pid, tid, 0);
}

bool covered_has(struct covered *covered, pid_t pid)
{
    covered_enter(covered);
    const bool has = covered->incomplete || tasks_process(&covered->tasks, (uint32_t)pid);
    covered_leave(covered);
    return has;
}

void covered_each(struct covered *covered, void (*fn)(void *arg, pid_t pid), void *arg)
{
    const struct logged_process *process;

    covered_enter(covered);
    TAILQ_FOREACH (process, &covered->tasks.by_update, by_update)
        fn(arg, (pid_t)process->pid);
    covered_leave(covered);
}

/* ---- records ---- */

/* receive() of the listener: applies a record about process `about` (see struct side_listener). */
static void covered_receive(void *arg, const struct side_record *record, uint32_t about)
{
    struct covered *covered = arg;
    struct logged_process *process = tasks_process(&covered->tasks, record->pid);
    const bool leads = record->pid == record->tid;

    switch (record->head.type) {
    case RECORD_LOST:
        covered->incomplete = true;
        return;
    case RECORD_COMM: /* an exec */
        if (process) {
            process->value[0] = record->time_ns;
            covered_add_thread(covered, record->pid, record->tid);
        }
        return;
    case RECORD_FORK:
        if (leads && about == record->pid) {
            /* The PID was reused: the old process is gone, and its EXIT record was a real exit. */
            ids_remove(&covered->suspects, record->pid);
            if (process)
                tasks_drop(&covered->tasks, process);
        } else if (tasks_process(&covered->tasks, record->ppid)) {
            covered->incomplete |= !tasks_apply(&covered->tasks, &record->head);
        }
        break;
    default:
        /* An EXIT of the first thread soon after an exec: the process exited, or lost its events. A
         * second EXIT record proves that the first one was a loss; else covered_lost_events()
         * checks if the process is alive. */
        if (leads && record->pid != covered->target) {
            if (ids_remove(&covered->suspects, record->pid))
                covered->lost_events = true;
            else if (process && process->value[0] && record->time_ns - process->value[0] < DROP_NS)
                covered->incomplete |= !ids_add(&covered->suspects, record->pid, covered);
        }
        if (process)
            covered->incomplete |= !tasks_apply(&covered->tasks, &record->head);
    }
    if (leads)
        covered_choose(covered, record->pid, record->time_ns);
}

void covered_apply_record(struct covered *covered, const struct side_record *record)
{
    uint32_t about[2];

    side_about(record, about);
    if (about[0])
        covered_receive(covered, record, about[0]);
    covered_receive(covered, record, about[1]);
}

/* ---- exec of a privileged program ---- */

enum life {
    LIFE_RUNNING,
    LIFE_UNKNOWN, /* exiting, or not known */
    LIFE_OVER
};

/*
 * Returns the state of the first thread of a process, from /proc. A thread is PF_EXITING between
 * its EXIT record and its death. As a read of /proc may block, without patience the result is only
 * LIFE_OVER or LIFE_UNKNOWN.
 */
static enum life life_of(pid_t pid, bool patient)
{
    struct proc_stat stat;

    if (kill(pid, 0) < 0 && errno == ESRCH)
        return LIFE_OVER;
    if (!patient)
        return LIFE_UNKNOWN;
    int rc = proc_stat(pid, 0, &stat);
    if (rc < 0)
        return proc_is_gone(rc) ? LIFE_OVER : LIFE_UNKNOWN;
    return proc_stat_dead(&stat) ? LIFE_OVER : stat.exiting ? LIFE_UNKNOWN : LIFE_RUNNING;
}

bool process_lives(pid_t pid)
{
    return life_of(pid, true) == LIFE_RUNNING;
}

/* Checks the suspects without the sideband's lock. covered_enter() delivers a second EXIT record of
 * a suspect before its state is used. */
int covered_lost_events(struct covered *covered, bool patient, bool *lost)
{
    enum life life = LIFE_UNKNOWN;
    unsigned n_checked = 0;
    uint64_t pid = 0;

    for (;;) {
        covered_enter(covered);
        if (life != LIFE_UNKNOWN && ids_remove(&covered->suspects, pid))
            covered->lost_events |= life == LIFE_RUNNING;
        covered_choose(covered, (uint32_t)pid, 0);
        const bool more = ids_next(&covered->suspects, pid, &pid);
        *lost = covered->lost_events;
        covered_leave(covered);
        if (!more || *lost)
            return 0;
        life = life_of((pid_t)pid, patient);
        if (!patient && (life == LIFE_UNKNOWN || ++n_checked > HURRIED_SUSPECTS))
            return -EAGAIN;
    }
}
