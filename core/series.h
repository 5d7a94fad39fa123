/*
 * The stream of a PMC's count, a line each interval.
 */
#pragma once

#include "core/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* Where one reader is. */
struct series_cursor {
    bool begun;         /* the column line was given, last[] is valid */
    bool ended;
    uint64_t pmc_start; /* the run it belongs to (pmc.started_ns) */
    uint64_t resets;    /* pmc.resets then: last[] is of another count otherwise */
    uint64_t due_ns;    /* of the next line */
    unsigned n;
    uint64_t last[];    /* values at the line before */
};

void series_print(const struct series_cursor *cursor, struct buf *out); /* for the saved state */
struct series_cursor *series_scan(const char *text);
