/*
 * What the simulated machine can count: one row an event.
 */
#pragma once

#include "backends/sim/shape.h"
#include "core/base/event.h"

enum fit {
    FIT_GENERAL, /* any row but the fixed one */
    FIT_EVEN,    /* rows 0, 2, 4… of those */
    FIT_BOTH,    /* any row, the fixed one too */
    FIT_FIXED,   /* the fixed row only */
    FIT_SOFTWARE /* no row: class "software" */
};

struct sim_event {
    const char *name;
    const char *generic; /* PAPI's name, or NULL when no generic name means it */
    enum fit fit;
    unsigned needed; /* rows */
    uint64_t rate_per_ms;
    unsigned scope;
    bool sampling, whole;
    const char *unit;
    double scale;
    const char *description;
};

extern const struct sim_event sim_events[];
extern const unsigned sim_events_n;

/* Rows of the class that can count it; 0: not in this class, or (hardware) not on this machine. */
uint64_t table_fits(const struct shape *shape, unsigned class_index, const struct sim_event *event);
/* Can it be counted by this class, as the machine is? */
bool table_counts(const struct shape *shape, unsigned class_index, const struct sim_event *event);
/* Is the class of the kind of the event: hardware, or "software"? */
bool table_is_of(const struct shape *shape, unsigned class_index, const struct sim_event *event);
