/*
 * The tasks of a target while it is being attached: who exists, who was born meanwhile, and whether
 * a newcomer has inherited its creator's events, decided by FORK records.
 *
 * A thread makes its children one after the other, and the kernel gives a child its copies in the
 * course of that, before the FORK record. So a child whose record came before its creator was
 * opened has none; one that was begun after another child's record that came after the opening has
 * them all; what lies between is not sure, and its creator is opened again in a way that decides
 * (attach.c).
 */
#pragma once

#include "backends/perf/sideband.h"

#include <stddef.h>

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
    pid_t tid, pid;
    enum task_state state;
    int parent;                /* its creator; -1: it was there before */
    int root;                  /* INHERITED, UNSURE: whose event it has, or perhaps has */
    uint64_t born_ns;          /* its FORK record; 0: it was listed before anything was opened */
    bool dead;                 /* an EXIT record was seen */
    bool asked;                /* admit() has spoken */
    uint64_t begin_ns, end_ns; /* OPEN: the copying began to work between these moments */
    bool sharp;                /* OPEN: whoever was born after end_ns has inherited */
    bool settled;              /* OPEN: it was not making a child all the time since */
    uint64_t ran_ns;           /* OPEN: its CPU time when it was first seen to run; 0: not yet */
    bool confirmed;            /* OPEN: admit() has said yes since */
    uint64_t next_birth_ns;    /* OPEN: the first FORK record of this creator after end_ns */
    int *fds;                  /* OPEN: its group */
};

struct census {
    struct backend_state *state;
    const struct plan *plan;
    int task_dir; /* /proc/PID/task of the target: cannot come to mean another process */
    int look_fd;  /* of a look */
    struct task *tasks;
    size_t n, size;
    int *table; /* hash: tid -> newest task, -1 none */
    size_t table_size;
    struct listed {
        pid_t pid;
        enum task_state state; /* of its threads, as admit() said */
    } * processes;             /* those to be listed, or listed, the target first */
    size_t n_processes, size_processes;
    unsigned looked_at; /* processes, with those that are left out */
    unsigned left_out;
    struct side_listener listener;
    bool listening;
    struct side_record *incoming; /* under the sideband's lock */
    size_t n_incoming, size_incoming;
    bool lost; /* under the sideband's lock */
    struct side_record *records;
    size_t n_records, size_records;
    size_t n_linked; /* EXIT and EXEC records before this have been looked at */
    bool undecided;  /* something happened that cannot be told apart: begin again */
    bool failed;     /* memory ended */
    bool starved;    /* something could not be looked at for want of a descriptor */
};

/* 0; P10; X09 or E44 when the process is gone; P13… never. Listens to the sideband if it can be
 * had. */
int census_open(struct census *census, struct backend_state *state, const struct plan *plan,
                struct err *err);
/* P10: somebody may not have been seen, because a descriptor was missing to look; or 0. */
int census_saw_all(const struct census *census, struct err *err);
/* Frees the tasks (not their descriptors) and stops listening. */
void census_close(struct census *census);
/* Forget all tasks and records: begin again. The tasks' groups are closed already. */
void census_clear(struct census *census);

/* The list that is made before anything is opened. 0, P11 or E32. */
int census_list(struct census *census, struct err *err);
/* Take the records that came, find newcomers, decide. 0, P11 or E32. */
int census_update(struct census *census, struct err *err);
/*
 * List again. False when somebody is there who is not known, without a sideband; with one that is
 * settled by waiting for the record, or leaves the census undecided.
 */
bool census_complete(struct census *census);
/* Is it (still) a thread of its process? */
bool census_lives(const struct census *census, const struct task *task);
/*
 * Could it have begun to make a child before it was opened, and not be through yet? A fork copies
 * the memory of its process between the moment of inheriting and the FORK record.
 */
enum birth {
    BIRTH_NONE,
    BIRTH_VFORK,   /* it waits, most likely for the exec of a child that it has made */
    BIRTH_WAITING, /* it is in another such call, and waits */
    BIRTH_RUNNING  /* it runs, or wants to: nobody can say in which call */
};
/* In a look (look.h), both: look_fd is what has to be closed when it was ended. */
enum birth census_makes_child(struct census *census, const struct task *task);
/* CPU time that it has used; UINT64_MAX: cannot be known. */
uint64_t census_ran_ns(struct census *census, const struct task *task);
/* Is there a FORK record made by this thread in [from, to]? */
bool census_birth_between(const struct census *census, pid_t tid, uint64_t from, uint64_t to);
uint64_t census_now_ns(void);

/* Between census.c and census_list.c. */
/* The newest task of this number; index or -1. */
int census_find(struct census *census, pid_t tid);
/* Its index, or -1 and `failed`. */
int census_add(struct census *census, const struct task *task);
/* It is to be listed. False: memory ended (`failed`). */
bool census_add_process(struct census *census, pid_t pid, enum task_state state);
/* What admit() says, put into the state of a process's tasks. 0, or P11: too many were asked about.
 */
int census_ask(struct census *census, pid_t pid, enum task_state *state, struct err *err);
