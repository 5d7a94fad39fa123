/*
 * The tasks of a target while it is being attached: which exist, which were born meanwhile, and
 * whether a newcomer has inherited its creator's events, decided by FORK records.
 *
 * A thread makes its children one after the other, and the kernel gives a child its copies in the
 * course of that, before the FORK record. So a child with a record from before its creator was
 * opened has none; one that was begun after its creator was seen to sleep, or after the record of
 * another child, later than the opening, has them all; what lies between is not sure.
 */
#pragma once

#include "backends/perf/count/descendants.h"
#include "core/base/clock.h"
#include "core/base/hash.h"
#include "core/base/vec.h"

#include <stddef.h>
#include <sys/queue.h>

enum task_state {
    TASK_WAITING, /* has inherited nothing; to be opened */
    TASK_OPEN,
    TASK_INHERITED,
    TASK_UNSURE,
    TASK_OUT,       /* left out with its descendants */
    TASK_OUT_ALONE, /* left out, but not what is below it */
    TASK_GONE       /* died before it could be opened */
};

struct task {
    UT_hash_handle hh;       /* by its number: the newest */
    TAILQ_ENTRY(task) along; /* in the order found: a creator before what it made */
    pid_t tid, pid;
    enum task_state state;
    struct task *creator;      /* NULL: it was listed */
    struct task *root;         /* INHERITED, UNSURE: the task that (perhaps) gave it its event */
    uint64_t born_ns;          /* its FORK record */
    bool dead;                 /* an EXIT record was seen */
    bool asked;                /* admit() has spoken */
    bool confirmed;            /* OPEN: admit() has said yes since */
    uint64_t begin_ns, end_ns; /* OPEN: it was opened between these moments */
    uint64_t through_ns;       /* OPEN: what was born after that has inherited; 0: not known yet */
    uint64_t ran_ns;           /* OPEN: its CPU time when it was first seen to run; 0: not yet */
    int *groups;               /* OPEN: see struct shape */
};

TAILQ_HEAD(tasks, task);

struct census {
    struct backend_state *state;
    const struct plan *plan;
    int task_dir; /* /proc/PID/task of the target: cannot come to mean another process; -1: gone */
    struct tasks tasks;
    struct task *by_tid;
    uint64_t begun_ns;  /* of this try: before its list */
    unsigned looked_at; /* processes, with those that are left out */
    unsigned left_out;
    struct side_listener listener;
    bool listening;
    VEC(struct side_record) incoming; /* under the sideband's lock */
    VEC(struct side_record) records;  /* those that have no place yet */
    bool lost;                        /* under the sideband's lock */
    bool undecided;                   /* something happened that cannot be told apart */
    int failed;                       /* no memory, or no descriptor to look at something: -errno */
};

/* 0, or P10. With descendants it listens at once. In both cases it is to be closed. */
int census_open(struct census *census, struct backend_state *state, const struct plan *plan,
                struct err *err);
/*
 * From now on FORK records decide, if they can be had. That costs a ring for each CPU, and is not
 * needed where the list of threads is the same before and after the opening.
 */
void census_listen(struct census *census);
/* P10, E32: something may not have been seen, for want of a descriptor or memory; or 0. */
int census_saw_all(const struct census *census, struct err *err);
/* Frees the tasks (not their descriptors) and stops listening. */
void census_close(struct census *census);
/* Forget all tasks and records: begin again. The tasks' groups are closed already. */
void census_clear(struct census *census);

/* One that is there, if it is not known. */
void census_listed(struct census *census, pid_t tid, pid_t pid, enum task_state state);
/* The list that is made before anything is opened: the target, and all below what is known. 0, P11
 * or E32. */
int census_list(struct census *census, struct err *err);
/* Take the records that came, find newcomers, decide. 0, P11 or E32. */
int census_update(struct census *census, struct err *err);
/*
 * List again. A task that is not known leaves the census undecided, unless its record comes in a
 * moment; without records so does one that is gone: another may have taken its place by an exec.
 */
void census_complete(struct census *census);
/* Puts what is covered as of this moment into a set (descendants.h), which is entered. */
void census_cover(struct covered *covered, const void *census);
/* Is it (still) a thread of its process? */
bool census_lives(const struct census *census, pid_t pid, pid_t tid);
/*
 * Where it is seen not to be making a child its through_ns is that moment, at the latest. A fork
 * copies the memory of its process between the moment of inheriting and the FORK record. False: it
 * is no thread of its process (any more).
 */
bool census_look(struct census *census, struct task *task);

/* Between task_list.c and task_list_proc.c. */
/* If this is for want of memory or of a descriptor, not all is seen. */
void census_note(struct census *census, int rc);
/* The newest task of this number, or NULL. */
struct task *census_find(const struct census *census, pid_t tid);
/* NULL, and `failed`: no memory. */
struct task *census_add(struct census *census, const struct task *like);
/* What admit() says, put into the state of a process's tasks. 0, or P11: too many were asked about.
 */
int census_ask(struct census *census, pid_t pid, enum task_state *state, struct err *err);
