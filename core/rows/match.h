/*
 * Wants matched to rows: each want takes one row of its mask, no row is taken twice. Not greedy: a
 * want gives its row up when another one of its own will do for it.
 */
#pragma once

#include <stdint.h>

#define MATCH_ROWS 64 /* rows are bits of a uint64_t */

struct want {
    uint64_t rows; /* any of these */
    int got;       /* the row, or -1 */
};

/*
 * Offers the rows of order[], cheapest first, until every want has one. Fills as many wants as the
 * rows can fill, by the cheapest rows that can do it. Returns how many. n > MATCH_ROWS: 0.
 */
unsigned match_rows(struct want *wants, unsigned n, const uint8_t *order, unsigned n_order);
