/*
 * Between the parts of follow.h: follow.c, and follow_save.c, which makes it text and back.
 */
#pragma once

#include "backends/perf/follow.h"

#include <pthread.h>
#include <stdint.h>

enum {
    FOLLOW_BUCKETS = 256
};

struct followed {
    struct followed *next; /* of the same bucket */
    pid_t pid, tid;
    uint64_t root;
    bool begun; /* it counts when the PMC is on: no exec is waited for */
    int fds[];  /* for each CPU: the leader, the events */
};

struct birth {
    pid_t pid, tid;
    bool begun;
};

struct follow {
    struct counter *counter;
    struct perf_event_attr *attr; /* the leader, the events in the group's order */
    unsigned members, n_cpus;
    int *cpu;
    uint64_t set;
    unsigned long most_fds;
    pthread_mutex_t lock; /* of what follows */
    bool on, armed;
    struct followed *bucket[FOLLOW_BUCKETS];
    unsigned n_fds;
    struct birth *births;
    size_t n_births, size_births;
};

/* Without system calls, nothing open. NULL: no memory. */
struct follow *follow_make(struct counter *counter, const struct plan *plan,
                           unsigned long most_fds);
struct followed *followed_make(const struct follow *follow, pid_t pid, pid_t tid);
void followed_link(struct follow *follow, struct followed *followed);
/* The ids of its groups are made known. 0 or -errno. */
int followed_learn(const struct follow *follow, struct followed *followed);
/* Descriptors of a thread. */
unsigned follow_each(const struct follow *follow);
void follow_add_birth(struct follow *follow, const struct birth *birth);
