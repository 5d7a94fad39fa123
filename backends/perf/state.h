/*
 * What the parts of the perf backend share.
 */
#pragma once

#include "core/backend.h"

#include <pthread.h>
#include <sys/queue.h>

struct sideband; /* sideband.h: FORK/EXEC/EXIT records of all CPUs, while they are needed */
struct guard;    /* end_events.h */
struct recorder; /* recorder.h: the rings of a PMC, or of the sideband */
struct pmus;     /* pmu.h: the machine's PMUs, their formats, events and masks */

struct backend_state {
    const struct host *host;
    struct host_state *host_state;
    const struct loop *loop;
    const struct sink *sink;
    struct sideband *sideband; /* counting side: record, count, attach */
    pthread_mutex_t setup; /* recorders, their rings and what tells of every CPU: system calls */
    LIST_HEAD(, recorder) recorders; /* with setup */
    LIST_HEAD(, guard) late;         /* the same: adopted, and not listening yet */
    struct pmus *pmus;               /* naming side: probe, names */
    struct class_info *classes;      /* pmus->classes */
    unsigned n_counters;             /* atomic; perf_backend.close asserts 0 */
};
