/*
 * The table of tasks, records, and the decision. What /proc says is in task_list_proc.c.
 */
#include "backends/perf/attach/task_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    RECORDS_MAX = 1000000
};

static void census_take(void *arg, const struct side_record *record, uint32_t about)
{
    struct census *census = arg;

    (void)about;
    if (record->head.type == RECORD_LOST || census->incoming.n >= RECORDS_MAX ||
        vec_push(&census->incoming, *record))
        census->lost = true;
}

void census_note(struct census *census, int rc)
{
    if (rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE)
        census->failed = rc;
}

int census_saw_all(const struct census *census, struct err *err)
{
    if (!census->failed)
        return 0;
    if (census->failed == -ENOMEM)
        return err_set(err, E32, "no memory for the list of threads");
    return err_set(err, P10,
                   "no file descriptor was left to list the threads of process %d: raise "
                   "LimitNOFILE= of pmcfs.service",
                   target_said(&census->plan->target));
}

int census_open(struct census *census, struct backend_state *state, const struct plan *plan,
                struct err *err)
{
    char path[40];

    *census = (struct census){.state = state, .plan = plan};
    TAILQ_INIT(&census->tasks);
    census->listener = (struct side_listener){.take = census_take, .arg = census};
    snprintf(path, sizeof path, "/proc/%d/task", plan->target.pid);
    census->task_dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    census_note(census, census->task_dir < 0 ? -errno : 0);
    if (plan->descendants)
        census_listen(census);
    return census_saw_all(census, err);
}

void census_listen(struct census *census)
{
    struct sideband *sideband = census->state->sideband;

    if (!sideband || census->listening || sideband_listen(sideband, &census->listener))
        return;
    census->listening = true;
    sideband_leave(sideband);
}

void census_clear(struct census *census)
{
    struct task *task;

    HASH_CLEAR(hh, census->by_tid);
    while ((task = TAILQ_FIRST(&census->tasks))) {
        TAILQ_REMOVE(&census->tasks, task, along);
        free(task->groups);
        free(task);
    }
    census->records.n = 0;
    census->looked_at = census->left_out = 0;
    census->undecided = false;
    census->begun_ns = monotonic_ns();
    if (census->listening) {
        sideband_enter(census->state->sideband);
        census->lost = false;
        sideband_leave(census->state->sideband);
    }
}

void census_close(struct census *census)
{
    if (census->listening)
        sideband_ignore(census->state->sideband, &census->listener);
    census->listening = false;
    census_clear(census);
    free(census->incoming.items);
    free(census->records.items);
    if (census->task_dir >= 0)
        close(census->task_dir);
}

struct task *census_find(const struct census *census, pid_t tid)
{
    struct task *task;

    HASH_FIND_INT(census->by_tid, &tid, task);
    return task;
}

struct task *census_add(struct census *census, const struct task *like)
{
    struct task *task = malloc(sizeof *task), *before = census_find(census, like->tid);

    if (!task) {
        census->failed = -ENOMEM;
        return NULL;
    }
    *task = *like;
    if (before)
        HASH_DEL(census->by_tid, before);
    HASH_ADD_INT(census->by_tid, tid, task);
    TAILQ_INSERT_TAIL(&census->tasks, task, along);
    census_note(census, hash_has(task) ? 0 : -ENOMEM);
    return task;
}

int census_ask(struct census *census, pid_t pid, enum task_state *state, struct err *err)
{
    const struct plan *plan = census->plan;
    int answer = plan->admit ? plan->admit(plan->admit_arg, pid) : 1;

    *state = answer > 0 ? TASK_WAITING : answer < 0 ? TASK_OUT_ALONE : TASK_OUT;
    census->left_out += answer < 0;
    if (++census->looked_at > plan->max_covered && plan->max_covered)
        return err_set(err, P11,
                       "process %d has more than %u descendants (max_covered_per_pmc, which also "
                       "counts those that you may not observe): attach to a process below it",
                       target_said(&plan->target), plan->max_covered);
    return 0;
}

/* What its creator makes after this child was begun after the opening. */
static void creator_told(struct task *creator, uint64_t time_ns)
{
    if (creator->state == TASK_OPEN && time_ns > creator->end_ns &&
        (!creator->through_ns || time_ns < creator->through_ns))
        creator->through_ns = time_ns;
}

/*
 * A FORK record that makes a task of the target, or of something below it. False: its creator is
 * not known, perhaps not yet.
 */
static bool take_fork(struct census *census, const struct side_record *record)
{
    const struct plan *plan = census->plan;
    const pid_t pid = (pid_t)record->pid, tid = (pid_t)record->tid, maker = (pid_t)record->ptid;
    struct task *creator = census_find(census, maker);
    const struct task *known = census_find(census, tid);

    if (!creator && (pid != plan->target.pid || pid == tid))
        return false;
    if (!creator) /* the list has skipped it, or it is dead */
        creator = census_add(census, &(struct task){.tid = maker, .pid = pid, .asked = true});
    if (!creator)
        return true;
    creator_told(creator, record->time_ns);
    if (pid != creator->pid && !plan->descendants)
        return true;
    if (known && !known->creator && !known->dead)
        return true; /* listed, so that it was there before anything was opened */
    census_add(census, &(struct task){.tid = tid,
                                      .pid = pid,
                                      .creator = creator,
                                      .asked = pid != tid,
                                      .born_ns = record->time_ns});
    return true;
}

/* An exec ends all other threads, and the one that made it takes the leader's number. */
static void take_exec(struct census *census, const struct side_record *record)
{
    const struct task *task;
    unsigned threads = 0;

    if (!census_find(census, (pid_t)record->tid))
        return;
    TAILQ_FOREACH (task, &census->tasks, along)
        threads += task->pid == (pid_t)record->pid;
    census->undecided |= threads > 1;
}

static void take_exit(const struct census *census, const struct side_record *record)
{
    struct task *task = census_find(census, (pid_t)record->tid);

    if (task && record->time_ns > task->born_ns)
        task->dead = true;
}

/* Forks that have no place yet may find one with the next: they are read CPU by CPU. */
static void take_records(struct census *census)
{
    size_t before, kept;

    do {
        before = census->records.n;
        kept = 0;
        for (size_t i = 0; i < before; i++) {
            const struct side_record *record = &census->records.items[i];

            if (record->head.type != RECORD_FORK && record->time_ns < census->begun_ns)
                continue; /* the list knows */
            if (record->head.type == RECORD_COMM)
                take_exec(census, record);
            else if (record->head.type == RECORD_EXIT)
                take_exit(census, record);
            else if (!take_fork(census, record))
                census->records.items[kept++] = *record;
        }
        census->records.n = kept;
    } while (kept && kept < before);
}

static enum task_state decide_by_time(const struct task *task, const struct task *creator)
{
    if (task->born_ns < creator->begin_ns)
        return TASK_WAITING;
    return creator->through_ns && task->born_ns > creator->through_ns ? TASK_INHERITED
                                                                      : TASK_UNSURE;
}

static void decide(struct task *task)
{
    struct task *creator = task->creator;

    task->root = NULL;
    switch (creator->state) {
    case TASK_OPEN:
        task->state = decide_by_time(task, creator);
        task->root = creator;
        break;
    case TASK_INHERITED:
    case TASK_UNSURE:
        task->state = creator->state;
        task->root = creator->root;
        break;
    case TASK_OUT:
        task->state = TASK_OUT;
        break;
    case TASK_OUT_ALONE:
        task->state = task->pid == task->tid ? TASK_WAITING : TASK_OUT_ALONE;
        break;
    case TASK_WAITING:
    case TASK_GONE:
        task->state = TASK_WAITING;
        break;
    }
}

/* Opened, gone, or left out by itself: nothing that is found out later changes that. */
static bool is_final(const struct task *task)
{
    const bool out = task->state == TASK_OUT || task->state == TASK_OUT_ALONE;

    return task->state == TASK_OPEN || task->state == TASK_GONE ||
           (out && task->asked && task->pid == task->tid);
}

static int census_decide(struct census *census, struct err *err)
{
    struct task *task;
    int rc = 0;

    TAILQ_FOREACH (task, &census->tasks, along) {
        if (rc || !task->creator || is_final(task))
            continue;
        decide(task);
        if (task->state == TASK_WAITING && !task->asked && !task->dead) {
            task->asked = true;
            rc = census_ask(census, task->pid, &task->state, err);
        }
    }
    return rc;
}

static void census_fetch(struct census *census)
{
    sideband_enter(census->state->sideband);
    census->undecided |= census->lost;
    census->lost = false;
    for (size_t i = 0; i < census->incoming.n; i++)
        census_note(census, vec_push(&census->records, census->incoming.items[i]));
    census->incoming.n = 0;
    sideband_leave(census->state->sideband);
}

int census_update(struct census *census, struct err *err)
{
    if (!census->listening)
        return 0;
    census_fetch(census);
    take_records(census);
    return census->failed ? census_saw_all(census, err) : census_decide(census, err);
}

static int by_time(const void *a, const void *b)
{
    const struct side_record *first = a, *second = b;

    return first->time_ns < second->time_ns ? -1 : first->time_ns > second->time_ns;
}

/* Records that the set would have been given before it was filled are in `incoming` still, those of
 * one CPU after those of another. */
void census_cover(struct covered *covered, const void *arg)
{
    const struct census *census = arg;
    const struct task *task;

    TAILQ_FOREACH (task, &census->tasks, along)
        if ((task->state == TASK_OPEN || task->state == TASK_INHERITED) && !task->dead)
            covered_thread(covered, (uint32_t)task->pid, (uint32_t)task->tid);
    if (census->incoming.n)
        qsort(census->incoming.items, census->incoming.n, sizeof *census->incoming.items, by_time);
    for (size_t i = 0; i < census->incoming.n; i++)
        covered_record(covered, &census->incoming.items[i]);
    if (census->lost || !census->listening)
        covered_doubt(covered);
}
