/*
 * The table of tasks, records, and the decision. What /proc says is in census_list.c.
 */
#include "backends/perf/census.h"

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

uint64_t census_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool records_add(struct side_record **records, size_t *n, size_t *size,
                        const struct side_record *more, size_t n_more)
{
    if (*n + n_more > *size) {
        size_t bigger = 2 * (*n + n_more) + 64;
        struct side_record *p = bigger > RECORDS_MAX ? NULL : realloc(*records, bigger * sizeof *p);

        if (!p)
            return false;
        *records = p;
        *size = bigger;
    }
    if (n_more)
        memcpy(*records + *n, more, n_more * sizeof *more);
    *n += n_more;
    return true;
}

static void census_take(void *arg, const struct side_record *records, size_t n, bool lost)
{
    struct census *census = arg;

    census->lost |= lost || !records_add(&census->incoming, &census->n_incoming,
                                         &census->size_incoming, records, n);
}

static int census_gone(const struct census *census, struct err *err)
{
    return err_set(err, X09, "process %d has just ended", target_said(&census->plan->target));
}

int census_saw_all(const struct census *census, struct err *err)
{
    if (!census->starved)
        return 0;
    return err_set(err, P10,
                   "no descriptor was left to look at the threads of process %d: raise LimitNOFILE "
                   "of pmcfs",
                   target_said(&census->plan->target));
}

int census_open(struct census *census, struct backend_state *state, const struct plan *plan,
                struct err *err)
{
    const struct target_ref *target = &plan->target;
    char path[40];

    *census = (struct census){.state = state, .plan = plan};
    census->listener = (struct side_listener){.take = census_take, .arg = census};
    snprintf(path, sizeof path, "/proc/%d/task", target->pid);
    census->task_dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    census->starved = census->task_dir < 0 && (errno == EMFILE || errno == ENFILE);
    if (census->starved)
        return census_saw_all(census, err);
    /* Asked after the directory is held: from here on it cannot be another process. */
    if (census->task_dir < 0 || (target->alive && !target->alive(target->alive_arg))) {
        if (census->task_dir >= 0)
            close(census->task_dir);
        census->task_dir = -1;
        return census_gone(census, err);
    }
    census->listening = state->sideband && !sideband_listen(state->sideband, &census->listener);
    return 0;
}

void census_clear(struct census *census)
{
    for (size_t i = 0; i < census->n; i++)
        free(census->tasks[i].fds);
    free(census->table);
    census->table = NULL;
    census->table_size = 0;
    census->n = census->n_processes = census->n_linked = census->n_records = 0;
    census->looked_at = census->left_out = 0;
    census->undecided = false;
    if (census->listening) {
        sideband_lock(census->state->sideband);
        census->n_incoming = 0;
        census->lost = false;
        sideband_unlock(census->state->sideband);
    }
}

void census_close(struct census *census)
{
    if (census->listening)
        sideband_ignore(census->state->sideband, &census->listener);
    census->listening = false;
    census_clear(census);
    free(census->tasks);
    free(census->processes);
    free(census->incoming);
    free(census->records);
    if (census->task_dir >= 0)
        close(census->task_dir);
}

static int *table_slot(struct census *census, pid_t tid)
{
    size_t i = ((size_t)tid * 2654435761u) & (census->table_size - 1);

    while (census->table[i] >= 0 && census->tasks[census->table[i]].tid != tid)
        i = (i + 1) & (census->table_size - 1);
    return &census->table[i];
}

static bool table_grow(struct census *census)
{
    size_t size = census->table_size ? 2 * census->table_size : 256;
    int *table;

    if (2 * (census->n + 1) < census->table_size)
        return true;
    table = malloc(size * sizeof *table);
    if (!table)
        return false;
    for (size_t i = 0; i < size; i++)
        table[i] = -1;
    free(census->table);
    census->table = table;
    census->table_size = size;
    for (size_t i = 0; i < census->n; i++)
        *table_slot(census, census->tasks[i].tid) = (int)i;
    return true;
}

int census_find(struct census *census, pid_t tid)
{
    return census->table_size ? *table_slot(census, tid) : -1;
}

/* The newest task of this number; index or -1. */
int census_add(struct census *census, const struct task *task)
{
    if (census->n == census->size) {
        size_t size = census->size ? 2 * census->size : 64;
        struct task *tasks = realloc(census->tasks, size * sizeof *tasks);

        if (!tasks) {
            census->failed = true;
            return -1;
        }
        census->tasks = tasks;
        census->size = size;
    }
    if (!table_grow(census)) {
        census->failed = true;
        return -1;
    }
    *table_slot(census, task->tid) = (int)census->n;
    census->tasks[census->n] = *task;
    return (int)census->n++;
}

bool census_add_process(struct census *census, pid_t pid, enum task_state state)
{
    if (census->n_processes == census->size_processes) {
        size_t size = census->size_processes ? 2 * census->size_processes : 16;
        struct listed *p = realloc(census->processes, size * sizeof *p);

        if (!p) {
            census->failed = true;
            return false;
        }
        census->processes = p;
        census->size_processes = size;
    }
    census->processes[census->n_processes++] = (struct listed){pid, state};
    return true;
}

/* What admit() says, put into the state of a process's tasks. */
int census_ask(struct census *census, pid_t pid, enum task_state *state, struct err *err)
{
    const struct plan *plan = census->plan;
    int answer = plan->admit ? plan->admit(plan->admit_arg, pid) : 1;

    *state = answer > 0 ? TASK_WAITING : answer < 0 ? TASK_OUT_ALONE : TASK_OUT;
    census->left_out += answer < 0;
    if (++census->looked_at > plan->max_covered && plan->max_covered)
        return err_set(err, P11,
                       "process %d has more than %u descendants (max_covered_per_pmc), those "
                       "included that may not be observed",
                       target_said(&plan->target), plan->max_covered);
    return 0;
}

/* FORK records that make a task of the target, or of something below it. */
static void link_fork(struct census *census, struct side_record *record)
{
    const struct plan *plan = census->plan;
    int creator = census_find(census, record->ptid);
    int known = census_find(census, record->tid);
    bool ours = record->pid == plan->target.pid && record->pid != record->tid;

    if (creator < 0 && !ours)
        return;
    if (creator >= 0 && record->pid != census->tasks[creator].pid && !plan->descendants)
        return;
    record->ppid = 0; /* linked */
    if (known >= 0 && !census->tasks[known].born_ns && !census->tasks[known].dead)
        return; /* listed, so that it was there before anything was opened */
    if (creator < 0)
        creator = census_add(census, &(struct task){.tid = record->ptid,
                                                    .pid = plan->target.pid,
                                                    .parent = -1,
                                                    .root = -1,
                                                    .asked = true});
    if (creator >= 0)
        census_add(census, &(struct task){.tid = record->tid,
                                          .pid = record->pid,
                                          .parent = creator,
                                          .root = -1,
                                          .asked = record->pid != record->tid,
                                          .born_ns = record->time_ns});
}

/* An exec ends all other threads, and the one that made it takes the leader's number. */
static void link_exec(struct census *census, const struct side_record *record)
{
    unsigned threads = 0;

    if (census_find(census, record->tid) < 0)
        return;
    for (size_t i = 0; i < census->n; i++)
        threads += census->tasks[i].pid == record->pid;
    census->undecided |= threads > 1;
}

static void link_records(struct census *census)
{
    for (size_t i = 0; i < census->n_records; i++)
        if (census->records[i].type == SIDE_FORK && census->records[i].ppid)
            link_fork(census, &census->records[i]);
    for (; census->n_linked < census->n_records; census->n_linked++) {
        const struct side_record *record = &census->records[census->n_linked];
        int i = census_find(census, record->tid);

        if (record->type == SIDE_EXEC)
            link_exec(census, record);
        else if (record->type == SIDE_EXIT && i >= 0 && record->time_ns > census->tasks[i].born_ns)
            census->tasks[i].dead = true;
    }
}

static void find_next_births(struct census *census)
{
    for (size_t i = 0; i < census->n; i++)
        census->tasks[i].next_birth_ns = UINT64_MAX;
    for (size_t i = 0; i < census->n_records; i++) {
        const struct side_record *record = &census->records[i];
        int creator = record->type == SIDE_FORK ? census_find(census, record->ptid) : -1;
        struct task *task = creator < 0 ? NULL : &census->tasks[creator];

        if (task && task->state == TASK_OPEN && record->time_ns > task->end_ns &&
            record->time_ns < task->next_birth_ns)
            task->next_birth_ns = record->time_ns;
    }
}

static enum task_state decide_by_time(const struct task *task, const struct task *creator)
{
    if (task->born_ns < creator->begin_ns)
        return TASK_WAITING;
    if (task->born_ns > (creator->sharp ? creator->end_ns : creator->next_birth_ns))
        return TASK_INHERITED;
    return TASK_UNSURE;
}

/* creator stands before task in the array, so it has been decided already. */
static void decide(struct census *census, struct task *task)
{
    const struct task *creator = &census->tasks[task->parent];
    bool process = task->pid == task->tid;

    task->root = -1;
    switch (creator->state) {
    case TASK_OPEN:
        task->state = decide_by_time(task, creator);
        task->root = task->parent;
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
        task->state = process ? TASK_WAITING : TASK_OUT_ALONE;
        break;
    case TASK_WAITING:
    case TASK_GONE:
        task->state = TASK_WAITING;
        break;
    }
}

static int census_decide(struct census *census, struct err *err)
{
    int rc = 0;

    find_next_births(census);
    for (size_t i = 0; i < census->n && !rc; i++) {
        struct task *task = &census->tasks[i];
        bool final = task->state == TASK_OPEN || task->state == TASK_GONE ||
                     (task->asked && task->pid == task->tid && task->state != TASK_WAITING &&
                      task->state != TASK_INHERITED && task->state != TASK_UNSURE);

        if (task->parent < 0 || final)
            continue;
        decide(census, task);
        if (task->state == TASK_WAITING && !task->asked && !task->dead) {
            task->asked = true;
            rc = census_ask(census, task->pid, &task->state, err);
        }
    }
    return rc;
}

struct fetched {
    struct census *census;
    bool lost;
    bool failed;
};

static void fetch(void *arg)
{
    struct fetched *fetched = arg;
    struct census *census = fetched->census;

    fetched->failed = !records_add(&census->records, &census->n_records, &census->size_records,
                                   census->incoming, census->n_incoming);
    fetched->lost = census->lost;
    census->n_incoming = 0;
    census->lost = false;
}

int census_update(struct census *census, struct err *err)
{
    struct fetched fetched = {.census = census};
    size_t before = census->n_records;

    if (!census->listening)
        return 0;
    sideband_sync(census->state->sideband, fetch, &fetched);
    if (census->n_records > before + 1)
        qsort(census->records + before, census->n_records - before, sizeof *census->records,
              side_by_time);
    census->undecided |= fetched.lost;
    link_records(census);
    if (fetched.failed || census->failed)
        return err_set(err, E32, "no memory for the list of threads");
    return census_decide(census, err);
}

bool census_birth_between(const struct census *census, pid_t tid, uint64_t from, uint64_t to)
{
    for (size_t i = census->n_records; i-- > 0;) {
        const struct side_record *record = &census->records[i];

        if (record->type == SIDE_FORK && record->ptid == tid && record->time_ns >= from &&
            record->time_ns <= to)
            return true;
    }
    return false;
}
