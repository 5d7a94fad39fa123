/*
 * Matching of wants to rows: each want gets one row of its mask, and no row is used twice. A want
 * that has a row moves to another one of its mask if that makes room for a further want.
 */
#pragma once

#include <stdint.h>

#define MATCH_ROWS 64 /* rows are bits of a uint64_t */

struct want {
    uint64_t rows; /* any of these */
    int got;       /* the row, or -1 */
};

/*
 * Fills as many wants as possible with the rows of order[], which is sorted by cost, and uses the
 * cheapest rows that can do so. Returns the number of filled wants; 0 if n > MATCH_ROWS.
 */
unsigned match_rows(struct want *wants, unsigned n, const uint8_t *order, unsigned n_order);
