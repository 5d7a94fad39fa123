/*
 * A task table: the processes and threads of one stream of records, from FORK, COMM and EXIT. Used
 * by exits.h for counts, by spaces.h for mappings, and by the perf backend for its groups of single
 * threads.
 *
 * A process exits with its last thread. Threads are added by FORK and COMM, or by the first other
 * record with their number. If an exit record is lost, the task stays until its number is reused.
 */
#pragma once

#include "core/base/hash.h"
#include "core/log/maps.h"
#include "core/log/record.h"

#include <sys/queue.h>

#define TASKS_KERNEL UINT32_MAX /* pid of the kernel, which is stored as a process */

struct task {
    UT_hash_handle hh;       /* in tasks.threads, by tid */
    TAILQ_ENTRY(task) along; /* in process->threads */
    struct logged_process *process;
    uint32_t tid;
    uint64_t since;  /* update number of its creation; 0: unknown, it may have run before */
    uint64_t losses; /* tasks.losses when its records were complete; UINT64_MAX: incomplete */
    char *name;      /* NULL: the name of the process */
    void *own;       /* data of the table's user */
};

struct logged_process {
    UT_hash_handle hh; /* in tasks.processes, by pid */
    TAILQ_ENTRY(logged_process) by_news;
    TAILQ_HEAD(task_list, task) threads; /* in order of creation, or of their first records */
    uint32_t pid;
    bool inexact;      /* value[] may be incomplete */
    bool leader_ended; /* another thread may get its number, by an exec */
    bool executed;     /* the path of its last exec is still unknown */
    uint64_t news;     /* update number of its last record: see tasks.news */
    char *name;
    struct maps *maps;
    uint64_t value[]; /* n_values, used by the table's user */
};

struct tasks {
    struct logged_process *processes;
    struct task *threads;
    TAILQ_HEAD(process_list, logged_process) by_news; /* least recently updated first */
    uint64_t news, losses; /* number of updates; number of LOST records */
    uint64_t bytes;        /* memory of processes, threads, names and mappings */
    unsigned n_values;
    /* Callbacks, each may be NULL. ended: a thread exited. over: a process exited; process is NULL
     * if `pid` had no records before. freed: a thread is removed; free task->own. */
    void (*ended)(void *arg, struct task *task, uint64_t time);
    void (*over)(void *arg, const struct logged_process *process, uint32_t pid, uint64_t time);
    void (*freed)(void *arg, struct task *task);
    void *arg;
};

void tasks_init(struct tasks *tasks);
void tasks_free(struct tasks *tasks); /* calls only freed() */
/* Applies a COMM, FORK, EXIT, MAP, LOST, PROCESS or THREAD record; other types are ignored. Returns
 * false if the record was not applied completely, on ENOMEM. */
bool tasks_take(struct tasks *tasks, const struct record *record);

struct logged_process *tasks_process(const struct tasks *tasks, uint32_t pid); /* or NULL */
struct task *tasks_find(const struct tasks *tasks, uint32_t tid);              /* or NULL */
/* Returns this thread of this process, and adds it if it is unknown. NULL on ENOMEM. */
struct task *tasks_thread(struct tasks *tasks, uint32_t pid, uint32_t tid, uint64_t time);
/* Returns true if no record of the task was lost. */
bool task_is_whole(const struct tasks *tasks, const struct task *task);
/* Returns the thread's name, or else its process's, or NULL. */
const char *task_name(const struct logged_process *process, const struct task *task);

/* Removes a process without calling ended() and over(). */
void tasks_drop(struct tasks *tasks, struct logged_process *process);
/* Removes the threads of a process that still runs but is not observed. The process stays, inexact
 * in case it is observed again. */
void tasks_leave(struct tasks *tasks, struct logged_process *process);
/* Returns the memory of the table in bytes, including its hash tables. */
uint64_t tasks_bytes(const struct tasks *tasks);
