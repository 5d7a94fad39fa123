/*
 * The census: its table of tasks, lists from /proc, records, and decisions. Reads only files of
 * /proc that do not block while a task executes a program.
 */
#include "backends/perf/attach/census.h"
#include "backends/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    LATE_RECORD_TRIES = 40,
    LATE_RECORD_US = 100,
    THREAD_RUNS_NS = 300000,    /* longest CPU time of the creation of a thread */
    PROCESS_RUNS_NS = 20000000, /* longest CPU time of a fork, which copies memory */
    TASK_PATH_BYTES = 64,
    TASK_START_BYTES = 256, /* contains the lines Name, Umask and State of status */
    RECORDS_MAX = 1000000
};

static void census_receive(void *arg, const struct side_record *record, uint32_t about)
{
    struct census *census = arg;

    (void)about;
    if (record->head.type == RECORD_LOST || census->incoming.n >= RECORDS_MAX ||
        vec_push(&census->incoming, *record))
        census->lost = true;
}

/* Sets `shortage` if rc is a lack of memory or descriptors. */
static void census_note_failure(struct census *census, int rc)
{
    if (is_shortage(rc))
        census->shortage = rc;
}

int census_open(struct census *census, struct backend_state *state, const struct plan *plan,
                struct err *err)
{
    char path[40];

    *census = (struct census){.state = state, .plan = plan};
    TAILQ_INIT(&census->tasks);
    census->listener = (struct side_listener){.receive = census_receive, .arg = census};
    snprintf(path, sizeof path, "/proc/%d/task", plan->target.pid);
    census->task_dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    census_note_failure(census, census->task_dir < 0 ? -errno : 0);
    if (plan->descendants)
        census_listen(census);
    return err_shortage(err, census->shortage);
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
    struct census_task *task;

    HASH_CLEAR(hh, census->by_tid);
    while ((task = TAILQ_FIRST(&census->tasks))) {
        TAILQ_REMOVE(&census->tasks, task, along);
        free(task->groups);
        free(task);
    }
    census->records.n = 0;
    census->n_processes = census->left_out = 0;
    census->undecided = false;
    census->list_begin_ns = monotonic_ns();
    if (census->listening) {
        sideband_enter(census->state->sideband);
        census->lost = false;
        sideband_leave(census->state->sideband);
    }
}

void census_close(struct census *census)
{
    if (census->listening)
        sideband_unlisten(census->state->sideband, &census->listener);
    census->listening = false;
    census_clear(census);
    free(census->incoming.items);
    free(census->records.items);
    if (census->task_dir >= 0)
        close(census->task_dir);
}

/* Returns the newest task with this TID, or NULL. */
static struct census_task *census_find(const struct census *census, pid_t tid)
{
    struct census_task *task;

    HASH_FIND_INT(census->by_tid, &tid, task);
    return task;
}

/* Adds a copy of *like as the newest task with its TID. On ENOMEM sets `shortage`, and may return
 * NULL. */
static struct census_task *census_add(struct census *census, const struct census_task *like)
{
    struct census_task *task = malloc(sizeof *task), *before = census_find(census, like->tid);

    if (!task) {
        census->shortage = -ENOMEM;
        return NULL;
    }
    *task = *like;
    if (before)
        HASH_DEL(census->by_tid, before);
    HASH_ADD_INT(census->by_tid, tid, task);
    TAILQ_INSERT_TAIL(&census->tasks, task, along);
    census_note_failure(census, hash_has(task) ? 0 : -ENOMEM);
    return task;
}

/* Calls admit() for a process and stores the resulting state of its tasks. Returns 0, or P11 if the
 * target has too many descendants. */
static int census_admit(struct census *census, pid_t pid, enum task_state *state, struct err *err)
{
    const struct plan *plan = census->plan;
    int answer = plan->admit ? plan->admit(plan->admit_arg, pid) : 1;

    *state = answer > 0 ? TASK_WAITING : answer < 0 ? TASK_OUT_ALONE : TASK_OUT;
    census->left_out += answer < 0;
    if (++census->n_processes > plan->max_covered && plan->max_covered)
        return err_set(err, P11,
                       "process %d has more than %u descendants (max_covered_per_pmc, which also "
                       "counts those that you may not observe): attach to a process below it",
                       target_number(&plan->target), plan->max_covered);
    return 0;
}

/* Applies a FORK record. Returns false if its creator is not known (yet). */
static bool census_fork(struct census *census, const struct side_record *record)
{
    const struct plan *plan = census->plan;
    const pid_t pid = (pid_t)record->pid, tid = (pid_t)record->tid, maker = (pid_t)record->ptid;
    struct census_task *creator = census_find(census, maker);
    const struct census_task *known = census_find(census, tid);

    if (!creator && (pid != plan->target.pid || pid == tid))
        return false;
    if (!creator) /* missing in the list, or dead */
        creator =
            census_add(census, &(struct census_task){.tid = maker, .pid = pid, .admit_done = true});
    if (!creator)
        return true;
    /* A thread creates children one by one: later children were started after the open. */
    if (creator->state == TASK_OPEN && record->time_ns > creator->open_end_ns &&
        (!creator->inherits_from_ns || record->time_ns < creator->inherits_from_ns))
        creator->inherits_from_ns = record->time_ns;
    if (pid != creator->pid && !plan->descendants)
        return true;
    if (known && !known->creator && !known->dead)
        return true; /* listed: it existed before anything was opened */
    census_add(census, &(struct census_task){.tid = tid,
                                             .pid = pid,
                                             .creator = creator,
                                             .admit_done = pid != tid,
                                             .created_ns = record->time_ns});
    return true;
}

/* Applies all records. Rings are read CPU by CPU, so the record of a creator may come after that of
 * its child: repeats until no further record can be applied. */
static void census_apply(struct census *census)
{
    size_t before, kept;

    do {
        before = census->records.n;
        kept = 0;
        for (size_t i = 0; i < before; i++) {
            const struct side_record *record = &census->records.items[i];
            struct census_task *task;

            if (record->head.type != RECORD_FORK && record->time_ns < census->list_begin_ns)
                continue; /* before the list was made */
            if (record->head.type == RECORD_COMM) {
                unsigned threads = 0;

                /* At an exec all other threads exit, and the thread that executes gets the TID of
                 * the first thread. */
                if (!census_find(census, (pid_t)record->tid))
                    continue;
                TAILQ_FOREACH (task, &census->tasks, along)
                    threads += task->pid == (pid_t)record->pid;
                census->undecided |= threads > 1;
            } else if (record->head.type == RECORD_EXIT) {
                task = census_find(census, (pid_t)record->tid);
                if (task && record->time_ns > task->created_ns)
                    task->dead = true;
            } else if (!census_fork(census, record))
                census->records.items[kept++] = *record;
        }
        census->records.n = kept;
    } while (kept && kept < before);
}

/* Sets the state of a newcomer from its creator's. */
static void newcomer_decide(struct census_task *task)
{
    struct census_task *creator = task->creator;

    task->events_from = NULL;
    switch (creator->state) {
    case TASK_OPEN:
        if (task->created_ns < creator->open_begin_ns)
            task->state = TASK_WAITING;
        else if (creator->inherits_from_ns && task->created_ns > creator->inherits_from_ns)
            task->state = TASK_INHERITED;
        else
            task->state = TASK_UNSURE;
        task->events_from = creator;
        break;
    case TASK_INHERITED:
    case TASK_UNSURE:
        task->state = creator->state;
        task->events_from = creator->events_from;
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

int census_update(struct census *census, struct err *err)
{
    struct census_task *task;

    if (!census->listening)
        return 0;
    sideband_enter(census->state->sideband);
    census->undecided |= census->lost;
    census->lost = false;
    for (size_t i = 0; i < census->incoming.n; i++)
        census_note_failure(census, vec_push(&census->records, census->incoming.items[i]));
    census->incoming.n = 0;
    sideband_leave(census->state->sideband);
    census_apply(census);
    int rc = err_shortage(err, census->shortage);
    /* Newcomers that are opened, gone, or left out by admit() keep their states. */
    TAILQ_FOREACH (task, &census->tasks, along) {
        const bool out = task->state == TASK_OUT || task->state == TASK_OUT_ALONE;

        if (rc || !task->creator || task->state == TASK_OPEN || task->state == TASK_GONE ||
            (out && task->admit_done && task->pid == task->tid))
            continue;
        newcomer_decide(task);
        if (task->state == TASK_WAITING && !task->admit_done && !task->dead) {
            task->admit_done = true;
            rc = census_admit(census, task->pid, &task->state, err);
        }
    }
    return rc;
}

static int by_time(const void *a, const void *b)
{
    const struct side_record *first = a, *second = b;

    return first->time_ns < second->time_ns ? -1 : first->time_ns > second->time_ns;
}

/* Records that came before covered_new() are still in `incoming`, not sorted across CPUs. */
bool census_cover(struct covered *covered, const void *arg)
{
    const struct census *census = arg;
    const struct census_task *task;

    TAILQ_FOREACH (task, &census->tasks, along)
        if ((task->state == TASK_OPEN || task->state == TASK_INHERITED) && !task->dead)
            covered_add_thread(covered, (uint32_t)task->pid, (uint32_t)task->tid);
    if (census->incoming.n)
        qsort(census->incoming.items, census->incoming.n, sizeof *census->incoming.items, by_time);
    for (size_t i = 0; i < census->incoming.n; i++)
        covered_apply_record(covered, &census->incoming.items[i]);
    return census->listening && !census->lost;
}

/* ---- /proc ---- */

/* Stores a path for openat() with task_dir: relative for the target's tasks, absolute for others.
 */
static void task_path(const struct census *census, pid_t pid, pid_t tid, const char *file,
                      char path[static TASK_PATH_BYTES])
{
    int n = 0;

    if (pid != census->plan->target.pid)
        n = snprintf(path, TASK_PATH_BYTES, "/proc/%d/task/", pid);
    snprintf(path + n, TASK_PATH_BYTES - (size_t)n, "%d/%s", tid, file);
}

bool census_task_exists(const struct census *census, pid_t pid, pid_t tid)
{
    char path[TASK_PATH_BYTES];

    task_path(census, pid, tid, "", path);
    return !faccessat(census->task_dir, path, F_OK, 0);
}

/* Reads the first bytes of a file of a task in one read(2), and adds a NUL. Returns 0 or -errno. A
 * lack of descriptors or memory is noted. */
static int task_start(struct census *census, const struct census_task *task, const char *file,
                      char text[static TASK_START_BYTES])
{
    char path[TASK_PATH_BYTES];
    ssize_t n = -1;
    int fd, rc;

    task_path(census, task->pid, task->tid, file, path);
    fd = openat(census->task_dir, path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        n = read(fd, text, TASK_START_BYTES - 1);
    rc = n < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    text[n < 0 ? 0 : n] = '\0';
    census_note_failure(census, rc);
    return rc;
}

/* Stores the threads of a process in an array (free it). Returns their number. */
static size_t threads_of(struct census *census, pid_t pid, pid_t **tids)
{
    const bool own = pid == census->plan->target.pid;
    char path[TASK_PATH_BYTES];
    size_t n = 0;
    int rc;

    snprintf(path, sizeof path, "/proc/%d/task", pid);
    rc = proc_list_numbers(census->task_dir, own ? NULL : path, tids, &n);
    census_note_failure(census, rc);
    return rc < 0 ? 0 : n;
}

/* Returns true after the deadline: the attach fails, so further lists are useless. */
static bool is_late(const struct census *census)
{
    return census->plan->deadline_ns && monotonic_ns() >= census->plan->deadline_ns;
}

void census_add_listed(struct census *census, pid_t tid, pid_t pid, enum task_state state)
{
    if (!census_find(census, tid))
        census_add(census, &(struct census_task){
                               .tid = tid, .pid = pid, .state = state, .admit_done = true});
}

/* Adds the threads of one process, and with descendants the children of each thread. These are
 * added at the end of the list, so that census_list() visits them later. */
static int list_process(struct census *census, const struct census_task *leader, struct err *err)
{
    pid_t *tids = NULL;
    size_t n = threads_of(census, leader->pid, &tids);
    int rc = 0;

    for (size_t i = 0; i < n && !rc && !is_late(census); i++) {
        char path[TASK_PATH_BYTES], *text, *at, *end;

        census_add_listed(census, tids[i], leader->pid, leader->state);
        if (!census->plan->descendants)
            continue;
        task_path(census, leader->pid, tids[i], "children", path);
        text = proc_text_at(census->task_dir, path);
        census_note_failure(census, text ? 0 : -errno);
        for (at = text; at && !rc; at = end) {
            const pid_t child = (pid_t)strtol(at, &end, 10);
            enum task_state state;

            if (end == at || child <= 0)
                break;
            if (census_find(census, child))
                continue;
            rc = census_admit(census, child, &state, err);
            if (!rc)
                census_add_listed(census, child, child, state);
        }
        free(text);
    }
    free(tids);
    return rc ? rc : err_shortage(err, census->shortage);
}

int census_list(struct census *census, struct err *err)
{
    const pid_t pid = census->plan->target.pid;
    struct census_task *task;
    int rc = 0;

    census->n_processes = 1;
    if (census->plan->target.kind == TARGET_THREAD) {
        census_add_listed(census, census->plan->target.tid, pid, TASK_WAITING);
        return 0;
    }
    census_add_listed(census, pid, pid, TASK_WAITING);
    /* list_process() appends, so the loop also visits the tasks that it adds. */
    TAILQ_FOREACH (task, &census->tasks, along)
        if (!rc && task->tid == task->pid && task->state != TASK_OUT)
            rc = list_process(census, task, err);
    return rc;
}

/* Waits for the records of unknown threads of each process. If one does not come, the first list
 * has missed the thread, or its creator is blocked just before it writes the record. */
void census_list_again(struct census *census)
{
    const struct census_task *leader;

    TAILQ_FOREACH (leader, &census->tasks, along) {
        const pid_t pid = leader->pid;
        pid_t *tids = NULL;
        size_t n;

        if (leader->tid != pid || leader->state == TASK_OUT || is_late(census))
            continue;
        n = threads_of(census, pid, &tids);
        for (size_t i = 0; i < n; i++) {
            bool known = census_find(census, tids[i]);

            for (int k = 0; !known && k < LATE_RECORD_TRIES && census->listening; k++) {
                known = census_update(census, NULL) || census_find(census, tids[i]) ||
                        !census_task_exists(census, pid, tids[i]);
                if (!known)
                    usleep(LATE_RECORD_US);
            }
            census->undecided |= !known;
        }
        if (!census->listening && !census->plan->descendants)
            census->undecided |= n != HASH_COUNT(census->by_tid);
        free(tids);
    }
}

/*
 * A task in state S or T is not in a fork: a fork only waits uninterruptibly. A task that has used
 * enough CPU time since the first call has finished a fork that was running then.
 */
bool census_check_fork(struct census *census, struct census_task *task)
{
    const uint64_t enough_ns = census->plan->descendants ? PROCESS_RUNS_NS : THREAD_RUNS_NS;
    char text[TASK_START_BYTES];
    const int rc = task_start(census, task, "status", text);
    const char *state = proc_field(text, "State");
    bool busy = state && strchr("RD", *state);

    if (busy) {
        task_start(census, task, "schedstat", text);
        const uint64_t ran_ns = strtoull(text, NULL, 10);

        if (!task->ran_ns)
            task->ran_ns = ran_ns;
        busy = ran_ns - task->ran_ns <= enough_ns;
    }
    if (!busy)
        task->inherits_from_ns = monotonic_ns();
    return !proc_is_gone(rc);
}
