/*
 * The state of the perf backend, which all its parts use.
 */
#pragma once

#include "core/backend.h"

#include <pthread.h>
#include <sys/queue.h>

struct sideband; /* sideband.h: fork, exec and exit records of all CPUs, while needed */
struct guard;    /* end_events.c: an exec guard or exit watch */
struct recorder; /* recorder.h: the rings of a PMC, or of the sideband */
struct pmus;     /* pmu.h: the PMUs, their formats, events and CPU masks */

struct backend_state {
    const struct host *host;
    struct host_state *host_state;
    const struct loop *loop;
    const struct sink *sink;
    struct sideband *sideband;       /* used by record, count and attach */
    pthread_mutex_t setup;           /* held while rings are opened or closed, and in track_…() */
    LIST_HEAD(, recorder) recorders; /* needs setup */
    LIST_HEAD(, guard) late_guards;  /* needs setup; guards that guards_listen() will start */
    struct pmus *pmus;               /* PMUs of the host */
    unsigned n_counters;             /* atomic; perf_backend.close asserts 0 */
};
