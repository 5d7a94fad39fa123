/*
 * Hash tables of processes and threads, updated by FORK, COMM, EXIT and MAP records.
 */
#include "core/log/tasks.h"

#include <string.h>

enum {
    NAME_BYTES = 64,  /* limit of a name, including the NUL */
    STALE_MAX = 65536 /* limit of processes; exits may be lost */
};

void tasks_init(struct tasks *tasks)
{
    *tasks = (struct tasks){.processes = NULL};
    TAILQ_INIT(&tasks->by_update);
}

struct logged_process *tasks_process(const struct tasks *tasks, uint32_t pid)
{
    struct logged_process *process;

    HASH_FIND(hh, tasks->processes, &pid, sizeof(pid), process);
    return process;
}

struct task *tasks_find(const struct tasks *tasks, uint32_t tid)
{
    struct task *task;

    HASH_FIND(hh, tasks->threads, &tid, sizeof(tid), task);
    return task;
}

bool task_is_complete(const struct tasks *tasks, const struct task *task)
{
    return task->losses == tasks->losses;
}

/* ---- names ---- */

static void name_free(struct tasks *tasks, char **name)
{
    if (*name)
        block_free(&tasks->bytes, *name, strlen(*name) + 1);
    *name = NULL;
}

/* Sets a name to at most len bytes of text. On ENOMEM returns false and removes the name. */
static bool name_set(struct tasks *tasks, char **name, const char *text, size_t len)
{
    size_t shown = strnlen(text, len < NAME_BYTES ? len : NAME_BYTES - 1);
    char *copy = block_alloc(&tasks->bytes, shown + 1);

    name_free(tasks, name);
    *name = copy;
    if (copy)
        memcpy(copy, text, shown);
    return copy;
}

const char *task_name(const struct logged_process *process, const struct task *task)
{
    return task && task->name ? task->name : process->name;
}

/* ---- exits and losses ---- */

static void thread_free(struct tasks *tasks, struct task *task)
{
    if (tasks->thread_removed)
        tasks->thread_removed(tasks->arg, task);
    HASH_DEL(tasks->threads, task);
    TAILQ_REMOVE(&task->process->threads, task, along);
    name_free(tasks, &task->name);
    block_free(&tasks->bytes, task, sizeof(*task));
}

static size_t process_bytes(const struct tasks *tasks)
{
    return sizeof(struct logged_process) + tasks->n_values * sizeof(uint64_t);
}

static void threads_free(struct tasks *tasks, struct logged_process *process)
{
    while (!TAILQ_EMPTY(&process->threads))
        thread_free(tasks, TAILQ_FIRST(&process->threads));
}

void tasks_drop(struct tasks *tasks, struct logged_process *process)
{
    threads_free(tasks, process);
    maps_drop(&tasks->bytes, &process->maps);
    name_free(tasks, &process->name);
    TAILQ_REMOVE(&tasks->by_update, process, by_update);
    HASH_DEL(tasks->processes, process);
    tasks->n_executed -= process->executed;
    block_free(&tasks->bytes, process, process_bytes(tasks));
}

void tasks_free(struct tasks *tasks)
{
    while (!TAILQ_EMPTY(&tasks->by_update))
        tasks_drop(tasks, TAILQ_FIRST(&tasks->by_update));
}

/* Reports and removes a process whose exit was lost: its PID is reused, or there are too many
 * processes. Its exit is reported as inexact. */
static void process_lost(struct tasks *tasks, struct logged_process *process, uint64_t time)
{
    process->inexact = true;
    if (tasks->process_exited && !TAILQ_EMPTY(&process->threads)) /* empty after tasks_leave() */
        tasks->process_exited(tasks->arg, process, process->pid, time);
    tasks_drop(tasks, process);
}

static void thread_lost(struct tasks *tasks, struct task *task, uint64_t time)
{
    struct logged_process *process = task->process;

    if (TAILQ_NEXT(task, along) || TAILQ_FIRST(&process->threads) != task) {
        process->inexact = true;
        thread_free(tasks, task);
    } else {
        process_lost(tasks, process, time);
    }
}

void tasks_leave(struct tasks *tasks, struct logged_process *process)
{
    threads_free(tasks, process);
    memset(process->value, 0, tasks->n_values * sizeof(process->value[0]));
    process->inexact = true;
    process->leader_ended = false;
}

/* ---- new tasks ---- */

static void process_update(struct tasks *tasks, struct logged_process *process)
{
    TAILQ_REMOVE(&tasks->by_update, process, by_update);
    TAILQ_INSERT_TAIL(&tasks->by_update, process, by_update);
    process->update = ++tasks->updates;
}

static struct logged_process *process_new(struct tasks *tasks, uint32_t pid, uint64_t time)
{
    struct logged_process *process = block_alloc(&tasks->bytes, process_bytes(tasks)), *oldest;

    if (!process)
        return NULL;
    process->pid = pid;
    TAILQ_INIT(&process->threads);
    HASH_ADD(hh, tasks->processes, pid, sizeof(pid), process);
    if (!hash_has(process)) {
        block_free(&tasks->bytes, process, process_bytes(tasks));
        return NULL;
    }
    TAILQ_INSERT_TAIL(&tasks->by_update, process, by_update);
    oldest = TAILQ_FIRST(&tasks->by_update);
    /* exits are unknown if records are lost, or if a process exits on another CPU or in another
     * cgroup */
    if (HASH_COUNT(tasks->processes) > STALE_MAX && tasks->losses)
        process_lost(tasks, oldest, time);
    else if (HASH_COUNT(tasks->processes) > STALE_MAX)
        tasks_drop(tasks, oldest);
    return process;
}

static struct task *thread_new(struct tasks *tasks, struct logged_process *process, uint32_t tid,
                               bool is_new)
{
    struct task *task = block_alloc(&tasks->bytes, sizeof(*task));

    if (task) {
        task->tid = tid;
        HASH_ADD(hh, tasks->threads, tid, sizeof(tid), task);
    }
    if (!task || !hash_has(task)) {
        block_free(&tasks->bytes, task, sizeof(*task));
        process->inexact = true;
        if (TAILQ_EMPTY(&process->threads))
            tasks_drop(tasks, process);
        return NULL;
    }
    task->process = process;
    task->losses = is_new ? tasks->losses : 0;
    task->since = is_new ? tasks->updates : 0;
    TAILQ_INSERT_TAIL(&process->threads, task, along);
    return task;
}

/*
 * Gives the remaining thread the number of the main thread, which has exited. This happens at an
 * exec in another thread, after all other threads exited. Records with the new number come before
 * the exec's COMM. Returns the thread; on ENOMEM removes the process and returns NULL.
 */
static struct task *become_leader(struct tasks *tasks, struct logged_process *process)
{
    struct task *thread = TAILQ_FIRST(&process->threads), *other;

    while ((other = TAILQ_NEXT(thread, along))) { /* its exit was lost */
        process->inexact = true;
        thread_free(tasks, other);
    }
    process->leader_ended = false;
    HASH_DEL(tasks->threads, thread);
    thread->tid = process->pid;
    HASH_ADD(hh, tasks->threads, tid, sizeof(thread->tid), thread);
    if (hash_has(thread))
        return thread;
    tasks_drop(tasks, process); /* ENOMEM */
    return NULL;
}

static struct task *thread_get(struct tasks *tasks, uint32_t pid, uint32_t tid, bool is_new,
                               uint64_t time)
{
    struct task *task = tasks_find(tasks, tid);

    if (tid == TASKS_KERNEL && pid != TASKS_KERNEL)
        return NULL; /* no thread has this number */
    if (task && task->process->pid != pid) {
        thread_lost(tasks, task, time);
        task = NULL;
    }
    struct logged_process *process = tasks_process(tasks, pid);
    if (!process)
        process = process_new(tasks, pid, time);
    if (!process)
        return NULL;
    process_update(tasks, process);
    if (!task && !is_new && tid == pid && process->leader_ended)
        return become_leader(tasks, process);
    return task ? task : thread_new(tasks, process, tid, is_new);
}

struct task *tasks_thread(struct tasks *tasks, uint32_t pid, uint32_t tid, uint64_t time)
{
    struct task *task = thread_get(tasks, pid, tid, false, time);

    if (task)
        task->found = 0;
    return task;
}

/* ---- records ---- */

/* The inventory may have found the new task: it is read while FORK records wait in the rings. Other
 * records of the new task follow its FORK. */
static bool apply_fork(struct tasks *tasks, const struct record_task *fork)
{
    struct task *creator = thread_get(tasks, fork->ppid, fork->ptid, false, fork->time);
    struct task *task = fork->tid != fork->ptid ? tasks_find(tasks, fork->tid) : NULL;
    struct logged_process *before =
        fork->pid != fork->ppid ? tasks_process(tasks, fork->pid) : NULL;
    const bool found = task && task->process->pid == fork->pid && task->found == tasks->losses + 1;

    if (before && !found)
        process_lost(tasks, before, fork->time);
    task = fork->tid != fork->ptid ? tasks_find(tasks, fork->tid) : NULL;
    if (task && !found)
        thread_lost(tasks, task, fork->time);
    task = thread_get(tasks, fork->pid, fork->tid, true, fork->time);
    if (task && found) {
        task->losses = tasks->losses;
        task->since = tasks->updates;
        task->found = 0;
    }
    creator =
        creator ? tasks_find(tasks, fork->ptid) : NULL; /* find it again: it may have been freed */
    const char *name = creator ? task_name(creator->process, creator) : NULL;

    if (!task || !creator || creator == task || (found && !name))
        return task;
    if (task->process == creator->process)
        return !name || name_set(tasks, &task->name, name, NAME_BYTES);
    maps_drop(&tasks->bytes, &task->process->maps);
    task->process->maps = creator->process->maps;
    if (task->process->maps)
        task->process->maps->refs++;
    return !name || name_set(tasks, &task->process->name, name, NAME_BYTES);
}

static bool apply_exit(struct tasks *tasks, const struct record_task *end)
{
    struct task *task = tasks_find(tasks, end->tid);

    if (task && task->process->pid != end->pid) {
        thread_lost(tasks, task, end->time);
        task = NULL;
    }
    struct logged_process *process = tasks_process(tasks, end->pid);
    if (!process) {
        if (tasks->process_exited && end->tid == end->pid)
            tasks->process_exited(tasks->arg, NULL, end->pid, end->time);
        return true;
    }
    process_update(tasks, process);
    process->inexact |= !task;
    if (task && tasks->thread_exited)
        tasks->thread_exited(tasks->arg, task, end->time);
    if (task)
        thread_free(tasks, task);
    process->leader_ended |= end->tid == end->pid;
    if (!TAILQ_EMPTY(&process->threads))
        return true;
    if (tasks->process_exited)
        tasks->process_exited(tasks->arg, process, process->pid, end->time);
    tasks_drop(tasks, process);
    return true;
}

static bool apply_name(struct tasks *tasks, struct task *task, const char *text, size_t len)
{
    struct logged_process *process = task ? task->process : NULL;

    return task &&
           name_set(tasks, task->tid == process->pid ? &process->name : &task->name, text, len);
}

static bool apply_comm(struct tasks *tasks, const struct record_comm *comm)
{
    struct logged_process *process = tasks_process(tasks, comm->pid);
    bool found = comm->head.misc & RECORD_FOUND;
    struct task *task, *other, *next;

    if (found && process && process->leader_ended && comm->pid == comm->tid)
        return true; /* /proc lists the exited main thread as a zombie */
    task = thread_get(tasks, comm->pid, comm->tid, false, record_time(&comm->head));
    if (task && !found && comm->head.misc & RECORD_EXECUTED && comm->pid == comm->tid) {
        process = task->process;
        for (other = TAILQ_FIRST(&process->threads); other; other = next) {
            next = TAILQ_NEXT(other, along);
            if (other == task)
                continue;
            process->inexact = true; /* its exit was lost */
            thread_free(tasks, other);
        }
        maps_drop(&tasks->bytes, &process->maps);
    }
    if (task && !task->since)
        task->found = found ? tasks->losses + 1 : 0;
    return apply_name(tasks, task, comm->name, strlen(comm->name));
}

static bool apply_map(struct tasks *tasks, const struct record_map *map)
{
    if (map->length == 0)
        return true;
    struct task *task = thread_get(tasks, map->pid, map->pid == TASKS_KERNEL ? map->pid : map->tid,
                                   false, record_time(&map->head));
    if (task && !(map->head.misc & RECORD_FOUND))
        task->found = 0;
    return task && maps_add(&tasks->bytes, &task->process->maps, map);
}

bool tasks_apply(struct tasks *tasks, const struct record *record)
{
    const struct record_note *note = (const struct record_note *)record;
    uint32_t tid;

    switch ((enum record_type)record->type) {
    case RECORD_COMM:
        return apply_comm(tasks, (const struct record_comm *)record);
    case RECORD_MAP:
        return apply_map(tasks, (const struct record_map *)record);
    case RECORD_FORK:
        return apply_fork(tasks, (const struct record_task *)record);
    case RECORD_EXIT:
        return apply_exit(tasks, (const struct record_task *)record);
    case RECORD_PROCESS:
    case RECORD_THREAD:
        tid = record->type == RECORD_PROCESS || !note->tid ? note->pid : note->tid;
        return apply_name(tasks, thread_get(tasks, note->pid, tid, true, note->time),
                          note_text(note), note->text_len);
    case RECORD_LOST:
        tasks->losses += ((const struct record_lost *)record)->lost > 0;
        return true;
    default:
        return true;
    }
}

/* ---- memory ---- */

uint64_t tasks_bytes(const struct tasks *tasks)
{
    const UT_hash_table *tables[] = {tasks->processes ? tasks->processes->hh.tbl : NULL,
                                     tasks->threads ? tasks->threads->hh.tbl : NULL};
    uint64_t bytes = tasks->bytes;

    for (unsigned i = 0; i < 2; i++)
        if (tables[i] && tables[i]->num_buckets > HASH_INITIAL_NUM_BUCKETS) /* it has grown */
            bytes += BLOCK_BYTES(tables[i]->num_buckets * sizeof(UT_hash_bucket));
    return bytes;
}
