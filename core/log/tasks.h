/*
 * The tasks that one stream of records tells of: processes and their threads, from the records of
 * births (FORK), names and execs (COMM) and ends (EXIT). Everything that follows tasks reads this
 * table: exits.h what they counted, spaces.h what they have mapped, the perf backend its own groups
 * of single threads.
 *
 * A process is over with its last thread. Threads are known from the records of their births and
 * names, at the latest from the first record that names them. Only a loss of records leaves a task
 * behind, which is found when its number is another one's.
 */
#pragma once

#include "core/base/hash.h"
#include "core/log/maps.h"
#include "core/log/record.h"

#include <sys/queue.h>

#define TASKS_KERNEL UINT32_MAX /* the process that stands for the kernel */

struct task {
    UT_hash_handle hh;       /* of all threads, by number */
    TAILQ_ENTRY(task) along; /* of its process */
    struct logged_process *process;
    uint32_t tid;
    uint64_t since;  /* the number of the news of its birth; 0: perhaps it was there before */
    uint64_t losses; /* as of when nothing of it was missing; UINT64_MAX: something is */
    char *name;      /* NULL: as the process */
    void *own;       /* of the reader */
};

struct logged_process {
    UT_hash_handle hh; /* of all processes, by number */
    TAILQ_ENTRY(logged_process) by_news;
    TAILQ_HEAD(task_list, task) threads; /* in order of birth, or of news */
    uint32_t pid;
    bool inexact;      /* something that it counted is missing in value[] */
    bool leader_ended; /* another thread may take its number, by an exec */
    bool executed;     /* its program's path is not told yet */
    uint64_t news;     /* the number of the last news of it, among those of all */
    char *name;
    struct maps *maps;
    uint64_t value[]; /* n_values, of the reader */
};

struct tasks {
    struct logged_process *processes;
    struct task *threads;
    TAILQ_HEAD(process_list, logged_process) by_news; /* the one longest without news first */
    uint64_t news, losses;                     /* LOST records so far */
    uint64_t bytes;                            /* of processes, threads, names and mappings */
    unsigned n_values;
    /* Any may be NULL. A thread's end was told; a process is over (NULL: process `pid` of which
     * nothing else ever came); a thread is freed, and what the reader has with it. */
    void (*ended)(void *arg, struct task *task, uint64_t time);
    void (*over)(void *arg, const struct logged_process *process, uint32_t pid, uint64_t time);
    void (*freed)(void *arg, struct task *task);
    void *arg;
};

void tasks_init(struct tasks *tasks);
void tasks_free(struct tasks *tasks); /* what it has allocated; nothing is told of an end */
/* COMM, FORK, EXIT, MAP, LOST records, and the notes PROCESS and THREAD, which give names too;
 * others are passed over. False: no memory for what it says. */
bool tasks_take(struct tasks *tasks, const struct record *record);

struct logged_process *tasks_process(const struct tasks *tasks, uint32_t pid); /* NULL: not known */
struct task *tasks_find(const struct tasks *tasks, uint32_t tid);       /* the same */
/* This thread of this process is there at this time. NULL: no memory. */
struct task *tasks_thread(struct tasks *tasks, uint32_t pid, uint32_t tid, uint64_t time);
/* Is nothing of it missing, as far as records tell? */
bool task_is_whole(const struct tasks *tasks, const struct task *task);
/* The thread's name, or its process's, or NULL. */
const char *task_name(const struct logged_process *process, const struct task *task);

/* It is forgotten without an end. */
void tasks_drop(struct tasks *tasks, struct logged_process *process);
/* It lives, but is observed no more: a process without threads, that is inexact if it returns. */
void tasks_leave(struct tasks *tasks, struct logged_process *process);
/* Bytes allocated, those of the hash tables included. */
uint64_t tasks_bytes(const struct tasks *tasks);
