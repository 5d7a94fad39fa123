/*
 * The stream of a PMC's count, a line each interval. A reader gets a sequence of lines for each
 * run: the columns, the lines, and end of file when the run is over; the next run begins the next
 * one.
 */
#pragma once

#include "core/base/event.h"

#include <stdbool.h>
#include <stdint.h>

/* Where one reader is. */
struct series_cursor {
    bool begun;             /* it had lines of a run: last[] is valid */
    bool ended;             /* all was said: end of file until a run begins */
    uint64_t pmc_start;     /* the run that its lines belong to (pmc.started_ns) */
    uint64_t resets;        /* pmc.resets then: last[] is of another count otherwise */
    uint64_t due_ns;        /* of the next line */
    uint64_t elapsed_ns;    /* at the line before; for metrics */
    unsigned n;             /* events of the set that it is of */
    uint64_t last[SET_MAX]; /* values at the line before */
};
