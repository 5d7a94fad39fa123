/*
 * What the kernel would let count together: events opened as one group on an idle thread, which are
 * checked and never run, or on a CPU, where the group runs when it is enabled.
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <sys/types.h>

struct perf_event_attr;

enum {
    TRIAL_MAX = 64
};

/* A thread that sleeps, so that events on it are never put on the hardware. */
struct parked {
    pthread_t thread;
    pid_t tid;
    sem_t ready;
};
bool parked_start(struct parked *parked); /* false: no thread */
void parked_stop(struct parked *parked);
/* A thread that takes no signals: these are for the main loop. */
bool probe_thread(pthread_t *thread, void *(*run)(void *), void *arg);

/*
 * On a thread (cpu -1) the group is enabled from the start, for a disabled one is not checked
 * against the counters; on a CPU (tid -1) it is not, so that no part of it runs alone.
 */
struct trial {
    pid_t tid;
    int cpu;
    unsigned n;
    int fd[TRIAL_MAX];
};
/* 0 or -errno. */
int trial_add(struct trial *trial, const struct perf_event_attr *attr);
/* Adds attr as often as the kernel accepts it, at most max times: how often. */
unsigned trial_fill(struct trial *trial, const struct perf_event_attr *attr, unsigned max);
void trial_clear(struct trial *trial);
