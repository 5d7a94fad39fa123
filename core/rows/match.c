/*
 * Augmenting paths that start at the rows. The sets of rows that can be matched form a matroid, so
 * adding rows in order of cost gives the cheapest set.
 */
#include "core/rows/match.h"

#include <stdbool.h>

/* Finds a want for the row, moving filled wants to other rows. *seen: wants that were tried. */
static bool row_offer(struct want *wants, unsigned n, unsigned row, uint64_t *seen)
{
    const uint64_t bit = UINT64_C(1) << row;

    for (unsigned i = 0; i < n; i++) {
        if ((wants[i].rows & bit) != 0 && wants[i].got < 0) {
            wants[i].got = (int)row;
            return true;
        }
    }
    for (unsigned i = 0; i < n; i++) {
        if ((wants[i].rows & bit) == 0 || (*seen & UINT64_C(1) << i) != 0)
            continue;
        *seen |= UINT64_C(1) << i;
        if (row_offer(wants, n, (unsigned)wants[i].got, seen)) {
            wants[i].got = (int)row;
            return true;
        }
    }
    return false;
}

unsigned match_rows(struct want *wants, unsigned n, const uint8_t *order, unsigned n_order)
{
    unsigned filled = 0;

    for (unsigned i = 0; i < n; i++)
        wants[i].got = -1;
    if (n > MATCH_ROWS)
        return 0;
    for (unsigned i = 0; i < n_order && filled < n; i++) {
        uint64_t seen = 0;

        if (row_offer(wants, n, order[i], &seen))
            filled++;
    }
    return filled;
}
