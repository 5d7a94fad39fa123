/*
 * What row.c, row_choose.c and row_arrange.c share. No other part includes this.
 *
 * The signed number of a row (seed 1.8) is kept as its two halves, one of which is always 0:
 *
 *   threads[row]  process PMCs that hold it              number = threads - closed
 *   closed[row]   slots taken, disabled or foreign       > 0 THREAD, 0 FREE, < 0 STANDALONE
 */
#pragma once

#include "core/base/vec.h"
#include "core/rows/match.h"
#include "core/rows/row.h"

/* The rows of one class on one CPU, a bit each. */
struct cpu_slots {
    uint64_t taken;    /* held by a system PMC */
    uint64_t disabled; /* by the administrator */
    uint64_t probed;   /* others hold it, as last probed */
    uint64_t foreign;  /* the part of probed that is booked: neither taken nor on a THREAD row */
};

struct row_class {
    const struct class_info *info;
    unsigned n;              /* rows; 0: without a limit */
    struct cpu_slots *slots; /* by CPU number */
    unsigned threads[MATCH_ROWS];
    unsigned closed[MATCH_ROWS];
    VEC(struct claim *) claims; /* in the order in which they were made */
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

/* Takes the lowest row off the set and returns it. */
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

/* ---- row.c ---- */

uint64_t class_all(const struct row_class *class);         /* every row of it */
uint64_t class_thread_rows(const struct row_class *class); /* those > 0 */
uint64_t class_closed_rows(const struct row_class *class); /* those < 0 */
uint64_t claim_got(const struct claim *claim);
uint64_t claim_fits(const struct claim *claim);
unsigned claim_needed(const struct claim *claim);
/* Books what the claim's members got, or takes it back. Foreign slots are settled apart. */
void claim_book(struct rows *rows, const struct claim *claim);
void claim_unbook(struct rows *rows, const struct claim *claim);
/* After any change: a probed slot is booked where it may be, and only there. */
void foreign_settle(struct rows *rows, struct row_class *class);

/* ---- row_choose.c ---- */

/* What the claim's members want, within `allowed`. The number of wants, 0 when over MATCH_ROWS. */
unsigned claim_wants(const struct claim *claim, uint64_t allowed, struct want wants[MATCH_ROWS]);
/* Gives the members what their wants got. */
void claim_give(struct claim *claim, const struct want *wants);
/* The rows of `allowed` in the order of choice for this claim. Returns their number. */
unsigned rows_order(const struct rows *rows, const struct claim *claim, uint64_t allowed,
                    uint8_t order[MATCH_ROWS]);
/* Two claims of one owner: uid and instance. */
bool claim_same_owner(const struct claim *a, const struct claim *b);
