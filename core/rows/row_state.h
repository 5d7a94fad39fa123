/*
 * Private to row.c, row_choose.c and row_arrange.c.
 *
 * hwpmc's signed number of a row is kept as its two halves, one of which is always 0:
 *
 *   threads[row]  process PMCs that hold the row         number = threads - closed
 *   closed[row]   slots taken, disabled or foreign       > 0 THREAD, 0 FREE, < 0 STANDALONE
 */
#pragma once

#include "core/base/vec.h"
#include "core/rows/row.h"

/* The rows of one class on one CPU, one bit per row. */
struct cpu_slots {
    uint64_t taken;    /* held by a system PMC */
    uint64_t disabled; /* by the administrator */
    uint64_t probed;   /* held by other programs when last probed */
    uint64_t foreign;  /* the booked part of `probed`: neither taken nor on a THREAD row */
};

struct row_class {
    const struct class_info *info;
    unsigned n;              /* rows; 0: its events need none, and it has no claims */
    struct cpu_slots *slots; /* by CPU number */
    unsigned threads[ROWS_MAX];
    unsigned closed[ROWS_MAX];
    VEC(struct claim *) claims; /* in order of creation */
};

struct rows {
    struct row_class *classes;
    unsigned n_classes;
    struct cpus possible;
    unsigned n_cpus; /* highest number + 1 */
    bool strict;
};

static inline uint64_t row_bit(unsigned row)
{
    return UINT64_C(1) << row;
}

/* Removes the lowest row from the set and returns it. */
static inline unsigned row_take(uint64_t *set)
{
    const unsigned row = (unsigned)__builtin_ctzll(*set);

    *set &= *set - 1;
    return row;
}

static inline uint64_t slots_closed(const struct cpu_slots *slots)
{
    return slots->taken | slots->disabled | slots->foreign;
}

uint64_t class_all(const struct row_class *class); /* every row */
/* Returns the THREAD rows for class->threads, the STANDALONE rows for class->closed. */
uint64_t rows_above_zero(const unsigned counts[ROWS_MAX]);
uint64_t claim_rows(const struct claim *claim);
uint64_t claim_fits(const struct claim *claim);
unsigned claim_needed(const struct claim *claim);
/* Book or unbook the rows of the claim. Then call foreign_settle(), except after booking rows that
 * rows_reserve() has chosen, which are not foreign. */
void claim_book(struct rows *rows, const struct claim *claim);
void claim_unbook(struct rows *rows, const struct claim *claim);
/* Books exactly the probed slots that are neither taken nor on a THREAD row. */
void foreign_settle(struct rows *rows, struct row_class *class);

bool claim_same_owner(const struct claim *a, const struct claim *b);
/* Lists a want for each row that a member needs, with the rows of `allowed` that it can get.
 * Returns the number of wants, or 0 if there are more than ROWS_MAX. */
unsigned claim_wants(const struct claim *claim, uint64_t allowed, struct want wants[ROWS_MAX]);
/* Copies the matched rows to the members. */
void claim_set_rows(struct claim *claim, const struct want *wants);
/* Sorts the rows of `allowed` by the order of choice for this claim. Returns their number. */
unsigned rows_order(const struct rows *rows, const struct claim *claim, uint64_t allowed,
                    uint8_t order[ROWS_MAX]);
