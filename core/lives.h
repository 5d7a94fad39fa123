/*
 * The processes of a recording and their threads, as records of births, names, execs and ends tell:
 * who has ended, and whose end was lost. What each process counted is kept with it, for exits.c.
 */
#pragma once

#include "core/record.h"

/* What may be wrong with a thread's next step. */
enum mark {
    MARK_NONE,
    MARK_OWES, /* a rest may have told of it already */
    MARK_SPANS /* some of it may be of before a reset */
};

struct life_node {
    struct life_node *next; /* in its bucket */
    uint32_t key;
};

struct life_table {
    struct life_node **bucket;
    size_t size, n; /* size: a power of two, or 0 */
};

struct life_thread {
    struct life_node node; /* first; the thread's number */
    struct life *process;
    struct life_thread *prev, *next; /* of the process */
    enum mark mark;
    bool done; /* its last step was told, and nothing of it is missing */
};

struct life {
    struct life_node node; /* first; the process's number */
    struct life *older, *younger;
    struct life_thread *threads;
    bool seen; /* something of its own came */
    bool inexact;
    uint64_t losses; /* when it was born */
    uint64_t value[];
};

struct life_list {
    struct life *oldest, *youngest;
    size_t n;
};

struct lives {
    unsigned n; /* values of a process */
    struct life_table processes, threads;
    struct life_table parted; /* who counted, and may do so again: what it counted is not known */
    bool parted_many;         /* more than there is room for: it may be anybody */
    struct life_list seen, unseen;
    uint64_t losses;     /* LOST records so far */
    enum mark strangers; /* of threads of whose birth nothing is known */
    /* Its last thread has ended at this time, or (inexact) its end was lost. NULL: process `pid` of
     * which nothing else ever came. */
    void (*ended)(void *arg, const struct life *process, uint32_t pid, uint64_t time);
    void *arg;
};

/* Everybody is forgotten, without an end; who comes again is not exact. */
void lives_clear(struct lives *lives);
void lives_reset(struct lives *lives); /* values are zero, what was forgotten does not matter */
void lives_free(struct lives *lives);  /* what it has allocated */
/* COMM, FORK, EXIT and LOST records; others are passed over. */
void lives_take(struct lives *lives, const struct record *record);
/* This thread of this process is there at this time. NULL: no memory. */
struct life_thread *lives_thread(struct lives *lives, uint32_t pid, uint32_t tid, uint64_t time);
bool life_is_exact(const struct lives *lives, const struct life *process);
/* It lives, but is observed no more: forgotten as by lives_clear(). */
void lives_leave(struct lives *lives, uint32_t pid);
/* Who has this mark, strangers included, gets another. */
void lives_mark(struct lives *lives, enum mark old, enum mark mark);
