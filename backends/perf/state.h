/*
 * What the parts of the perf backend share.
 */
#pragma once

#include "core/backend.h"

struct sideband; /* sideband.h: FORK/EXEC/EXIT records of all CPUs, while somebody needs them */
struct pmus;     /* pmu.h: the machine's PMUs, their formats, events and masks */

struct backend_state {
    const struct host *host;
    struct host_state *host_state;
    const struct loop *loop;
    const struct sink *sink;
    struct sideband *sideband;  /* counting side: attach.c, counter.c, sideband.c */
    struct pmus *pmus;          /* naming side: pmu.c, spec.c, pfm.c, tracepoint.c … */
    struct class_info *classes; /* pmus->classes */
    unsigned n_counters;        /* atomic; perf_backend.close asserts 0 */
};
