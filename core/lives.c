/*
 * A process is over with its last thread. Threads are known from the records of their births and
 * names, at the latest from their first step. Only a loss of records leaves somebody behind, who is
 * found when his number is somebody else's.
 */
#include "core/lives.h"

#include <stdlib.h>
#include <string.h>

enum {
    TABLE_FIRST = 64,
    UNSEEN_MAX = 1024, /* processes born of which nothing came: perhaps they are not covered */
    STALE_MAX = 65536, /* processes, where ends may have been missed */
    PARTED_MAX = 4096
};

/* ---- tables and lists ---- */

static size_t bucket_of(const struct life_table *table, uint32_t key)
{
    return (key * 2654435769u) & (table->size - 1);
}

static void *life_find(const struct life_table *table, uint32_t key)
{
    struct life_node *node = table->size ? table->bucket[bucket_of(table, key)] : NULL;

    while (node && node->key != key)
        node = node->next;
    return node;
}

/* False: there is no room at all. */
static bool table_grow(struct life_table *table)
{
    struct life_table bigger = {.size = table->size ? 2 * table->size : TABLE_FIRST, .n = table->n};

    bigger.bucket = calloc(bigger.size, sizeof(struct life_node *));
    if (!bigger.bucket)
        return table->size > 0;
    for (size_t i = 0; i < table->size; i++) {
        for (struct life_node *node = table->bucket[i], *next; node; node = next) {
            struct life_node **at = &bigger.bucket[bucket_of(&bigger, node->key)];

            next = node->next;
            node->next = *at;
            *at = node;
        }
    }
    free(table->bucket);
    *table = bigger;
    return true;
}

/* False: no memory. */
static bool table_add(struct life_table *table, struct life_node *node)
{
    struct life_node **at;

    if (table->n >= table->size && !table_grow(table))
        return false;
    at = &table->bucket[bucket_of(table, node->key)];
    node->next = *at;
    *at = node;
    table->n++;
    return true;
}

static void table_remove(struct life_table *table, struct life_node *node)
{
    struct life_node **at = &table->bucket[bucket_of(table, node->key)];

    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    table->n--;
}

static void list_add(struct life_list *list, struct life *process)
{
    process->younger = NULL;
    process->older = list->youngest;
    *(list->youngest ? &list->youngest->younger : &list->oldest) = process;
    list->youngest = process;
    list->n++;
}

static void list_remove(struct life_list *list, struct life *process)
{
    *(process->older ? &process->older->younger : &list->oldest) = process->younger;
    *(process->younger ? &process->younger->older : &list->youngest) = process->older;
    list->n--;
}

/* ---- ends ---- */

static void thread_free(struct lives *lives, struct life_thread *thread)
{
    *(thread->prev ? &thread->prev->next : &thread->process->threads) = thread->next;
    if (thread->next)
        thread->next->prev = thread->prev;
    table_remove(&lives->threads, &thread->node);
    free(thread);
}

static void process_free(struct lives *lives, struct life *process)
{
    while (process->threads)
        thread_free(lives, process->threads);
    list_remove(process->seen ? &lives->seen : &lives->unseen, process);
    table_remove(&lives->processes, &process->node);
    free(process);
}

bool life_is_exact(const struct lives *lives, const struct life *process)
{
    return !process->inexact && process->losses == lives->losses;
}

static void process_end(struct lives *lives, struct life *process, uint64_t time)
{
    lives->ended(lives->arg, process, process->node.key, time);
    process_free(lives, process);
}

/* Its number is somebody else's by now, or there are too many: its end was lost. */
static void process_lost(struct lives *lives, struct life *process, uint64_t time)
{
    process->inexact = true;
    if (process->seen)
        process_end(lives, process, time);
    else
        process_free(lives, process);
}

static void thread_lost(struct lives *lives, struct life_thread *thread, uint64_t time)
{
    struct life *process = thread->process;

    process->inexact = true;
    thread_free(lives, thread);
    if (!process->threads)
        process_lost(lives, process, time);
}

/* Those that nobody will miss make room. */
static void processes_bound(struct lives *lives, uint64_t time)
{
    if (lives->unseen.n > UNSEEN_MAX)
        process_free(lives, lives->unseen.oldest);
    if (lives->seen.n <= STALE_MAX)
        return;
    if (lives->losses)
        process_lost(lives, lives->seen.oldest, time);
    else if (!lives->n) /* who leaves a CPU or a cgroup ends elsewhere, and has nothing to tell */
        process_free(lives, lives->seen.oldest);
}

/* ---- those that go without an end ---- */

static void life_part_add(struct lives *lives, uint32_t pid)
{
    struct life_node *node;

    if (!lives->n || lives->parted_many || life_find(&lives->parted, pid))
        return;
    node = lives->parted.n < PARTED_MAX ? calloc(1, sizeof(*node)) : NULL;
    if (node)
        node->key = pid;
    if (!node || !table_add(&lives->parted, node)) {
        free(node);
        lives->parted_many = true;
    }
}

/* It is here again, or is another one. Was it there before? */
static bool parted_take(struct lives *lives, uint32_t pid)
{
    struct life_node *node = life_find(&lives->parted, pid);

    if (node)
        table_remove(&lives->parted, node);
    free(node);
    return node || lives->parted_many;
}

static void parted_clear(struct lives *lives)
{
    for (size_t i = 0; i < lives->parted.size; i++)
        while (lives->parted.bucket[i])
            parted_take(lives, lives->parted.bucket[i]->key);
    lives->parted_many = false;
}

static void process_part(struct lives *lives, struct life *process)
{
    life_part_add(lives, process->node.key);
    process_free(lives, process);
}

/* ---- beginnings ---- */

static struct life *life_make(struct lives *lives, uint32_t pid, bool born)
{
    struct life *process = calloc(1, sizeof(*process) + lives->n * sizeof(process->value[0]));

    if (!process)
        return NULL;
    process->node.key = pid;
    process->losses = born ? lives->losses : 0;
    if (!table_add(&lives->processes, &process->node)) {
        free(process);
        return NULL;
    }
    list_add(&lives->unseen, process);
    return process;
}

static struct life_thread *life_thread_make(struct lives *lives, struct life *process, uint32_t tid,
                                            enum mark mark)
{
    struct life_thread *thread = calloc(1, sizeof(*thread));

    if (thread)
        thread->node.key = tid;
    if (!thread || !table_add(&lives->threads, &thread->node)) {
        free(thread);
        process->inexact = true;
        if (!process->threads)
            process_free(lives, process);
        return NULL;
    }
    thread->process = process;
    thread->mark = mark;
    thread->next = process->threads;
    if (thread->next)
        thread->next->prev = thread;
    process->threads = thread;
    return thread;
}

static void life_see(struct lives *lives, struct life *process)
{
    if (process->seen)
        return;
    list_remove(&lives->unseen, process);
    process->seen = true;
    list_add(&lives->seen, process);
}

static struct life_thread *thread_get(struct lives *lives, uint32_t pid, uint32_t tid, bool found,
                                      uint64_t time)
{
    struct life_thread *thread = life_find(&lives->threads, tid);
    struct life *process;

    if (thread && thread->process->node.key != pid) {
        thread_lost(lives, thread, time);
        thread = NULL;
    }
    process = life_find(&lives->processes, pid);
    if (!process) {
        bool parted = parted_take(lives, pid);

        process = life_make(lives, pid, found);
        if (process)
            process->inexact = parted;
    }
    if (!process)
        return NULL;
    life_see(lives, process);
    return thread ? thread : life_thread_make(lives, process, tid, lives->strangers);
}

struct life_thread *lives_thread(struct lives *lives, uint32_t pid, uint32_t tid, uint64_t time)
{
    return thread_get(lives, pid, tid, false, time);
}

/* ---- records ---- */

static void take_fork(struct lives *lives, const struct record_task *task)
{
    struct life_thread *thread;
    struct life *process;

    thread_get(lives, task->ppid, task->ptid, false, task->time);
    thread = task->tid != task->ptid ? life_find(&lives->threads, task->tid) : NULL;
    if (thread)
        thread_lost(lives, thread, task->time);
    process = life_find(&lives->processes, task->pid);
    if (process && task->pid != task->ppid) {
        process_lost(lives, process, task->time);
        process = NULL;
    }
    if (!process) {
        parted_take(lives, task->pid);
        process = life_make(lives, task->pid, task->pid != task->ppid);
    }
    if (process && !life_find(&lives->threads, task->tid))
        life_thread_make(lives, process, task->tid, MARK_NONE);
    processes_bound(lives, task->time);
}

static void take_exit(struct lives *lives, const struct record_task *task)
{
    struct life_thread *thread = life_find(&lives->threads, task->tid);
    struct life *process;

    if (thread && thread->process->node.key != task->pid) {
        thread_lost(lives, thread, task->time);
        thread = NULL;
    }
    process = life_find(&lives->processes, task->pid);
    if (!process) { /* of its threads the first one stands for it */
        if (task->tid == task->pid)
            lives->ended(lives->arg, NULL, task->pid, task->time);
        return;
    }
    life_see(lives, process);
    process->inexact |= !thread || !thread->done;
    if (thread)
        thread_free(lives, thread);
    if (!process->threads)
        process_end(lives, process, task->time);
}

/* Who executes goes on alone, with the number of its process. */
static void take_exec(struct lives *lives, struct life_thread *thread)
{
    struct life *process = thread->process;
    unsigned others = 0;

    for (struct life_thread *at = process->threads, *next; at; at = next) {
        next = at->next;
        if (at == thread)
            continue;
        if (others++ == 0 && at->mark > thread->mark)
            thread->mark = at->mark;
        thread_free(lives, at);
    }
    process->inexact |= others > 1; /* one of them went on, the others' ends were lost */
    thread->done = false;
}

static void take_comm(struct lives *lives, const struct record_comm *comm)
{
    bool found = comm->head.misc & RECORD_FOUND;
    struct life_thread *thread =
        thread_get(lives, comm->pid, comm->tid, found, record_time(&comm->head));

    if (thread && !found && comm->head.misc & RECORD_EXECUTED)
        take_exec(lives, thread);
}

void lives_take(struct lives *lives, const struct record *record)
{
    switch ((enum record_type)record->type) {
    case RECORD_FORK:
        take_fork(lives, (const struct record_task *)record);
        break;
    case RECORD_EXIT:
        take_exit(lives, (const struct record_task *)record);
        break;
    case RECORD_COMM:
        take_comm(lives, (const struct record_comm *)record);
        processes_bound(lives, record_time(record));
        break;
    case RECORD_LOST:
        lives->losses += ((const struct record_lost *)record)->lost > 0;
        break;
    default:
        break;
    }
}

void lives_leave(struct lives *lives, uint32_t pid)
{
    struct life *process = life_find(&lives->processes, pid);

    if (process)
        process_part(lives, process);
}

void lives_mark(struct lives *lives, enum mark old, enum mark mark)
{
    for (size_t i = 0; i < lives->threads.size; i++)
        for (struct life_node *node = lives->threads.bucket[i]; node; node = node->next)
            if (((struct life_thread *)node)->mark == old)
                ((struct life_thread *)node)->mark = mark;
    if (lives->strangers == old)
        lives->strangers = mark;
}

void lives_clear(struct lives *lives)
{
    while (lives->seen.oldest)
        process_part(lives, lives->seen.oldest);
    while (lives->unseen.oldest)
        process_free(lives, lives->unseen.oldest);
}

static void values_zero(const struct lives *lives, const struct life_list *list)
{
    for (struct life *process = list->oldest; process; process = process->younger)
        memset(process->value, 0, lives->n * sizeof(process->value[0]));
}

void lives_reset(struct lives *lives)
{
    values_zero(lives, &lives->seen);
    values_zero(lives, &lives->unseen);
    parted_clear(lives);
}

void lives_free(struct lives *lives)
{
    lives_clear(lives);
    parted_clear(lives);
    free(lives->parted.bucket);
    free(lives->processes.bucket);
    free(lives->threads.bucket);
}
