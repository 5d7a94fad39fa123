/*
 * Sleeping pollers, and the stream of a PMC's counts, one line per interval. For each run a reader
 * gets the column names, the lines, and end of file when the run stops. A new run starts a new
 * sequence.
 */
#pragma once

#include "core/state.h"

#include <stdbool.h>
#include <stdint.h>

/* The position of a reader. */
struct series_cursor {
    bool begun;             /* a sequence was started: last[] is valid */
    bool ended;             /* end of file until the next run starts */
    bool realtime;          /* its lines have the column realtime */
    uint64_t pmc_start;     /* pmc.run.started_ns of the run of its lines */
    uint64_t resets;        /* pmc.resets at the last line; if it changed, last[] is obsolete */
    uint64_t due_ns;        /* time of the next line */
    uint64_t elapsed_ns;    /* elapsed time at the previous line, for metrics */
    unsigned n;             /* number of events in last[] */
    uint64_t last[SET_MAX]; /* values at the previous line */
};

/* ---- pollers; poll_count() and the others are in engine.h ---- */

/* Takes the requested snapshot of PMCs with pollers. Returns false if none was requested, if one is
 * running already, or on ENOMEM. */
bool poll_task(struct call *call);
bool poll_wanted(const struct engine *engine); /* true if poll_task() has work now */
/* Returns when poll_tick() must be called; UINT64_MAX: never. */
uint64_t poll_deadline(const struct engine *engine);
/* Requests a snapshot of PMCs with pollers, if poll_deadline() has passed. */
void poll_tick(struct engine *engine, uint64_t now_ns);
