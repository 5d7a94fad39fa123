/*
 * A table of tasks (core/log/tasks.h), and a short memory of records that could not be placed: a
 * child's record may be read from its CPU's ring before its parent's from another.
 */
#include "backends/perf/count/descendants.h"

#include "core/base/ids.h"
#include "core/log/tasks.h"

#include <stdlib.h>

enum {
    UNPLACED = 128,
    DROP_NS = 100000000 /* from the EXEC to the EXIT: it may lose its CPU in between */
};

struct covered {
    struct tasks tasks; /* a process's one value: when it executed last */
    pid_t target;
    bool begun, doubt, dropped;
    struct ids suspects; /* whose first thread's EXIT came soon after an exec */
    struct side_record unplaced[UNPLACED];
    size_t next_unplaced;
};

struct covered *covered_new(pid_t target)
{
    struct covered *covered = calloc(1, sizeof *covered);

    if (!covered)
        return NULL;
    covered->target = target;
    ids_init(&covered->suspects);
    tasks_init(&covered->tasks);
    covered->tasks.n_values = 1;
    return covered;
}

void covered_free(struct covered *covered)
{
    if (!covered)
        return;
    tasks_free(&covered->tasks);
    free(covered->suspects.slots); /* some may stand */
    free(covered);
}

void covered_begin(struct covered *covered)
{
    covered->begun = true;
}

bool covered_thread(struct covered *covered, pid_t pid, pid_t tid)
{
    return tasks_thread(&covered->tasks, (uint32_t)pid, (uint32_t)tid, 0);
}

static struct process *covered_process(const struct covered *covered, pid_t pid)
{
    return tasks_process(&covered->tasks, (uint32_t)pid);
}

bool covered_has(const struct covered *covered, pid_t pid)
{
    return covered->doubt || covered_process(covered, pid);
}

/* ---- the exec of a privileged program ---- */

/* True: it was suspected. */
static bool suspect_end(struct covered *covered, pid_t pid)
{
    return ids_remove(&covered->suspects, (uint64_t)pid) != NULL;
}

/* A second EXIT proves that the first was none. Else it is seen at the process itself: one that is
 * dead by then ended with its first. */
static void covered_suspect(struct covered *covered, const struct side_record *record)
{
    struct process *process = covered_process(covered, record->pid);

    if (record->pid != record->tid || record->pid == covered->target)
        return;
    if (record->type == SIDE_EXEC && process)
        process->value[0] = record->time_ns;
    else if (record->type == SIDE_EXIT && suspect_end(covered, record->pid))
        covered->dropped = true;
    else if (record->type == SIDE_EXIT && process && process->value[0] &&
             record->time_ns - process->value[0] < DROP_NS)
        covered->doubt |= !ids_add(&covered->suspects, (uint64_t)record->pid, covered);
}

pid_t covered_next_suspect(const struct covered *covered, pid_t after)
{
    uint64_t pid;

    return ids_next(&covered->suspects, (uint64_t)after, &pid) ? (pid_t)pid : 0;
}

void covered_judge(struct covered *covered, pid_t pid, bool lives)
{
    if (suspect_end(covered, pid))
        covered->dropped |= lives;
}

bool covered_dropped(const struct covered *covered)
{
    return covered->dropped;
}

/* ---- records ---- */

static bool tasks_tell(struct tasks *tasks, const struct side_record *record)
{
    const struct record_task task = {
        .head = {.type = record->type == SIDE_FORK ? RECORD_FORK : RECORD_EXIT},
        .pid = (uint32_t)record->pid,
        .ppid = (uint32_t)record->ppid,
        .tid = (uint32_t)record->tid,
        .ptid = (uint32_t)record->ptid,
        .time = record->time_ns,
    };

    return tasks_take(tasks, &task.head);
}

/* True: it was about a process of the set. */
static bool covered_place(struct covered *covered, const struct side_record *record)
{
    if (record->type == SIDE_EXEC) {
        covered->doubt |= covered_process(covered, record->pid) &&
                          !covered_thread(covered, record->pid, record->tid);
        return true;
    }
    if (!covered_process(covered, record->type == SIDE_FORK ? record->ppid : record->pid))
        return false;
    covered->doubt |= !tasks_tell(&covered->tasks, record);
    return true;
}

/* After a new process: what was read too early may find its place now. */
static void covered_retry(struct covered *covered)
{
    bool placed = true;

    for (int round = 0; placed && round < 4; round++) {
        placed = false;
        for (size_t i = 0; i < UNPLACED; i++) {
            struct side_record *record = &covered->unplaced[i];

            if (record->pid && covered_place(covered, record)) {
                placed = true;
                record->pid = 0;
            }
        }
    }
}

/* A number that comes up again as a process of somebody else's is not ours any more; and the one
 * that had it ended with its first EXIT. */
static void covered_reused(struct covered *covered, pid_t pid)
{
    struct process *process = covered_process(covered, pid);

    suspect_end(covered, pid);
    if (process)
        tasks_drop(&covered->tasks, process);
}

void covered_take(void *arg, const struct side_record *record)
{
    struct covered *covered = arg;

    if (record->type == SIDE_LOST)
        covered->doubt = true;
    if (record->type == SIDE_LOST || !covered->begun)
        return;
    if (record->type != SIDE_FORK)
        covered_suspect(covered, record);
    else if (record->pid == record->tid)
        covered_reused(covered, record->pid);
    if (!covered_place(covered, record))
        covered->unplaced[covered->next_unplaced++ % UNPLACED] = *record;
    else if (record->type == SIDE_FORK && record->pid == record->tid)
        covered_retry(covered);
}

void covered_doubt(struct covered *covered)
{
    covered->doubt = true;
}

void covered_each(const struct covered *covered, void (*fn)(void *arg, pid_t pid), void *arg)
{
    const struct process *process;

    TAILQ_FOREACH (process, &covered->tasks.by_news, by_news)
        fn(arg, (pid_t)process->pid);
}

unsigned covered_count(const struct covered *covered)
{
    return HASH_COUNT(covered->tasks.processes);
}
