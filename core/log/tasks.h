/*
 * A task table: the processes and threads of one stream of records, from FORK, COMM and EXIT, with
 * their names and mappings. It is used for the address spaces of logs, for exits.h, by
 * samples.folded and by the perf backend.
 *
 * A process exits with its last thread. Threads are added by FORK and COMM, or by the first other
 * record with their number. If an exit record is lost, the task stays until its number is reused.
 */
#pragma once

#include "core/base/vec.h"
#include "core/log/record.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* ---- mappings ---- */

/*
 * The mappings of a process, sorted by address, without overlaps. After a fork, parent and child
 * share them until one of the two changes them, which makes fork and exec cheap. Functions add the
 * memory that they allocate to *bytes, and subtract it on free.
 */
#define BLOCK_BYTES(size) ((size) + 16u) /* memory of an allocation, with overhead */

void *block_alloc(uint64_t *bytes, size_t size); /* zeroed; NULL on ENOMEM */
void block_free(uint64_t *bytes, void *block, size_t size);

/* A mapping, shared by any number of processes. Its record has the PID of the first. */
struct shared_map {
    uint64_t refs;
    uint64_t record[]; /* contains a struct record_map */
};

struct maps {
    unsigned refs, n, size;
    struct shared_map *shared[];
};

static inline const struct record_map *map_of(const struct shared_map *shared)
{
    return (const struct record_map *)shared->record;
}

static inline uint64_t map_end(const struct record_map *map)
{
    return map->length <= UINT64_MAX - map->start ? map->start + map->length : UINT64_MAX;
}

/* Adds a mapping, which replaces all that it overlaps. Returns false on ENOMEM. */
bool maps_add(uint64_t *bytes, struct maps **maps, const struct record_map *map);
void maps_drop(uint64_t *bytes, struct maps **maps);

/* ---- tasks ---- */

#define TASKS_KERNEL UINT32_MAX /* pid of the kernel, which is stored as a process */

struct task {
    UT_hash_handle hh;       /* in tasks.threads, by tid */
    TAILQ_ENTRY(task) along; /* in process->threads */
    struct logged_process *process;
    uint32_t tid;
    uint64_t since;  /* update number of its creation, or of its last step (exits.c); 0: unknown */
    uint64_t losses; /* tasks.losses at its creation; 0: unknown; UINT64_MAX: records missing */
    uint64_t found;  /* tasks.losses + 1 when the inventory found it; other records set 0 */
    char *name;      /* NULL: the name of the process */
    uint64_t off_ns; /* for recording_put.c: when it left its CPU; 0: unknown, or it runs */
    bool preempted;  /* with off_ns: the thread could have continued when it left its CPU */
    void *own;       /* data of the module that uses the table */
};

struct logged_process {
    UT_hash_handle hh; /* in tasks.processes, by pid */
    TAILQ_ENTRY(logged_process) by_update;
    TAILQ_HEAD(task_list, task) threads; /* in order of creation, or of their first records */
    uint32_t pid;
    bool inexact;      /* value[] may be incomplete */
    bool leader_ended; /* the main thread has exited: an exec may give its number to another */
    bool executed;     /* the path of its last exec is still unknown */
    uint64_t update;   /* update number of its last record: see tasks.updates */
    char *name;
    struct maps *maps;
    uint64_t value[]; /* n_values numbers of the module that uses the table */
};

struct tasks {
    struct logged_process *processes;
    struct task *threads;
    TAILQ_HEAD(process_list, logged_process) by_update; /* least recently updated first */
    uint64_t updates, losses; /* number of updates; number of LOST records */
    uint64_t bytes;           /* memory of processes, threads, names and mappings */
    unsigned n_executed;      /* processes with `executed` */
    unsigned n_values;
    /* Callbacks, each may be NULL. process_exited: process is NULL if `pid` had no records before.
     * thread_removed: free task->own. */
    void (*thread_exited)(void *arg, struct task *task, uint64_t time);
    void (*process_exited)(void *arg, const struct logged_process *process, uint32_t pid,
                           uint64_t time);
    void (*thread_removed)(void *arg, struct task *task);
    void *arg;
};

void tasks_init(struct tasks *tasks);
void tasks_free(struct tasks *tasks); /* calls only thread_removed() */
/* Applies a COMM, FORK, EXIT, MAP, LOST, PROCESS or THREAD record; other types are ignored. Returns
 * false if ENOMEM left the task, its name or its mapping out. A FORK without its parent succeeds.
 */
bool tasks_apply(struct tasks *tasks, const struct record *record);

struct logged_process *tasks_process(const struct tasks *tasks, uint32_t pid); /* or NULL */
struct task *tasks_find(const struct tasks *tasks, uint32_t tid);              /* or NULL */
/* Returns the thread that a record names, and adds it if it is unknown. NULL on ENOMEM. */
struct task *tasks_thread(struct tasks *tasks, uint32_t pid, uint32_t tid, uint64_t time);
/* Returns true if no record of the task was lost. */
bool task_is_complete(const struct tasks *tasks, const struct task *task);
/* Returns the thread's name, or else its process's, or NULL. */
const char *task_name(const struct logged_process *process, const struct task *task);

/* Removes a process without calling thread_exited() and process_exited(). */
void tasks_drop(struct tasks *tasks, struct logged_process *process);
/* Removes the threads of a process that still runs but is not observed, and zeroes its values. The
 * process stays, inexact in case it is observed again. */
void tasks_leave(struct tasks *tasks, struct logged_process *process);
/* Returns the memory of the table in bytes, including its hash tables. */
uint64_t tasks_bytes(const struct tasks *tasks);

/*
 * ---- address spaces and names ----
 *
 * The state after all COMM, MAP, FORK and EXIT records up to some record.
 */

/* Returns true for record types that contribute to address spaces and names. */
static inline bool spaces_wants(const struct record *record)
{
    switch ((enum record_type)record->type) {
    case RECORD_COMM:
    case RECORD_MAP:
    case RECORD_FORK:
    case RECORD_EXIT:
    case RECORD_PROCESS:
    case RECORD_THREAD:
        return true;
    default:
        return false;
    }
}
/* Removes the least recently updated processes until the table uses at most max_bytes. Before the
 * last process and the kernel are removed, their mappings are. */
void spaces_bound(struct tasks *tasks, uint64_t max_bytes);
/* Removes mappings, those of the least recently updated processes first and never those of the
 * latest, until the table without its hash tables uses at most max_bytes. */
void tasks_bound_maps(struct tasks *tasks, uint64_t max_bytes);
/*
 * A walk prints the address spaces as COMM and MAP records (RECORD_FOUND), a few processes per
 * call, while the table may change between calls. Order: the kernel, then processes from the least
 * recently updated to the latest. A process that is updated during the walk is printed again. A
 * walk prints at most twice the number of processes at its start, so it terminates.
 */
struct spaces_walk {
    uint64_t time; /* time of all records; set by the caller */
    bool begun;
    uint64_t left;         /* number of processes that may still be printed */
    uint64_t kernel, next; /* lower update numbers are printed already: of the kernel, of others */
};
/* Prints about max bytes, at least one process, and sets *n to the number of records. Returns true
 * if processes are left. */
bool spaces_print_some(const struct tasks *tasks, struct spaces_walk *walk, size_t max,
                       struct buf *out, size_t *n);
/* Prints all processes and returns the number of records. */
size_t spaces_print(const struct tasks *tasks, uint64_t time, struct buf *out);

/* Returns the first mapping of the process (or TASKS_KERNEL) that overlaps this range, or NULL. */
const struct record_map *tasks_overlap(const struct tasks *tasks, uint32_t pid, uint64_t start,
                                       uint64_t end);
/* Returns the name of a thread, or else of its process, or NULL. */
const char *spaces_name(const struct tasks *tasks, uint32_t pid, uint32_t tid);
