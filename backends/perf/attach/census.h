/*
 * The census: the tasks of a target while it is being attached. It lists the existing tasks, finds
 * tasks that are created during the attach (newcomers), and decides by FORK records if a newcomer
 * has inherited the events of its creator.
 *
 * A thread creates its children one after the other, and the kernel copies the events to a child
 * before it writes the FORK record. So a child with a record before the open of its creator has
 * inherited nothing. A child has inherited all events if it was created after its creator was seen
 * outside a fork (census_check_fork()), or after the FORK record of another child later than the
 * open. Between these moments it is unknown.
 */
#pragma once

#include "backends/perf/count/counter.h"
#include "core/base/clock.h"
#include "core/base/vec.h"

#include <stddef.h>
#include <sys/queue.h>

enum task_state {
    TASK_WAITING, /* has inherited nothing; to be opened */
    TASK_OPEN,
    TASK_INHERITED,
    TASK_UNSURE,    /* may have inherited its creator's events */
    TASK_OUT,       /* admit() returned 0: left out with its descendants */
    TASK_OUT_ALONE, /* admit() refused: left out, but not its descendants */
    TASK_GONE       /* died before it could be opened */
};

struct census_task {
    UT_hash_handle hh;              /* in by_tid: the newest task with this TID */
    TAILQ_ENTRY(census_task) along; /* in the order found: a creator before its children */
    pid_t tid, pid;
    enum task_state state;
    struct census_task *creator;         /* NULL: not added by its own FORK record */
    struct census_task *events_from;     /* INHERITED, UNSURE: (perhaps) inherited from this task */
    uint64_t created_ns;                 /* time of its FORK record */
    bool dead;                           /* an EXIT record was seen */
    bool admit_done;                     /* admit() was called for its process, or need not be */
    bool admit_repeated;                 /* OPEN: admit() was called again after the open */
    uint64_t open_begin_ns, open_end_ns; /* OPEN: it was opened between these times */
    uint64_t inherits_from_ns; /* OPEN: children created after this time have inherited; 0: not
                                  known yet */
    uint64_t ran_ns;           /* OPEN: CPU time when it was first seen running; 0: not seen yet */
    int *groups;               /* OPEN: see struct shape */
};

TAILQ_HEAD(census_tasks, census_task);

struct census {
    struct backend_state *state;
    const struct plan *plan;
    int task_dir; /* /proc/PID/task of the target, so that a reused PID is noticed; -1: gone */
    struct census_tasks tasks;
    struct census_task *by_tid;
    uint64_t list_begin_ns; /* start of this try, before its list; 0: the first try */
    unsigned n_processes;   /* processes, including those left out */
    unsigned left_out;
    struct side_listener listener;
    bool listening;
    VEC(struct side_record) incoming; /* needs the sideband's lock */
    VEC(struct side_record) records;  /* records that could not be applied yet */
    bool lost;                        /* needs the sideband's lock */
    bool undecided; /* the list may be wrong (an exec, lost records, an unknown task): try again */
    int shortage;   /* -errno if a task may be missing for lack of memory or descriptors, else 0 */
};

/* Initialises the census and opens task_dir. With descendants also calls census_listen(). Returns
 * 0, P10 or E32; if the target is gone, 0 and task_dir is -1. Call census_close() in every case. */
int census_open(struct census *census, struct backend_state *state, const struct plan *plan,
                struct err *err);
/*
 * Starts to use the records of the sideband; does nothing if the sideband cannot be opened. It
 * costs a ring for each CPU, and is not needed if the list of threads is the same before and after
 * the open.
 */
void census_listen(struct census *census);
/* Frees the tasks (not their descriptors) and stops listening. */
void census_close(struct census *census);
/* Starts a new try: removes all tasks, and the records that could not be applied. The groups of the
 * tasks must be closed. */
void census_clear(struct census *census);

/* Adds a listed task if it is not known. */
void census_add_listed(struct census *census, pid_t tid, pid_t pid, enum task_state state);
/* Lists the target and its descendants, before anything is opened. Needs an empty census. Returns
 * 0, P10, P11 or E32. */
int census_list(struct census *census, struct err *err);
/* Applies the records that came: adds newcomers and decides their states. Does nothing unless
 * census_listen() has opened the sideband. Returns 0, P10, P11 or E32. */
int census_update(struct census *census, struct err *err);
/*
 * Lists again. An unknown task makes the census undecided, unless its record comes within a moment.
 * Without records a task that is gone also makes the census undecided: another task may have its
 * TID after an exec.
 */
void census_list_again(struct census *census);
/* fill() of covered_new(): adds the tasks that are covered now. */
bool census_cover(struct covered *covered, const void *census);
/* Returns true if tid is (still) a thread of process pid. */
bool census_task_exists(const struct census *census, pid_t pid, pid_t tid);
/*
 * Sets inherits_from_ns to the current time if the task is seen not to be creating a child. (A fork
 * copies the memory of the process between the copy of its events and the FORK record.) Returns
 * false if the task is gone.
 */
bool census_check_fork(struct census *census, struct census_task *task);
