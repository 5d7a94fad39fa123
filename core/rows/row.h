/*
 * Rows and their dispositions: which PMCs hold each hardware counter, with the rules of hwpmc. Pure
 * bookkeeping: no callbacks except conflict(), no clock, no locks. The rules are in pmcfs.5,
 * COUNTER ALLOCATION.
 *
 * A class is a PMU. A row is a counter that every CPU of the class has, a slot is this counter on
 * one CPU. A slot is closed if it is disabled, foreign, or taken (held by a system PMC).
 */
#pragma once

#include "core/backend.h"
#include "core/base/cpus.h"
#include "core/base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define ROWS_MAX 64 /* of a class: rows are bits of a uint64_t */

struct rows; /* all classes, all CPUs */

#define ROW_ANY (-1)

/*
 * The rows of one PMC in one class (the hardware events of a set are all of one class). The caller
 * fills in everything, except `got` for rows_reserve(), which sets it. Events without rows are not
 * members.
 */
struct claim {
    uint64_t pmc;      /* its id; 0: the claim holds no rows */
    uint64_t instance; /* the owner is the pair of uid and instance */
    uid_t uid;
    unsigned class_index;
    bool system;      /* system scope on `cpus`; otherwise process scope */
    struct cpus cpus; /* owned by the claim */
    unsigned n;
    struct claim_member {
        uint64_t fits;   /* rows that can count the event */
        unsigned needed; /* 1 or 2 */
        int wanted;      /* setting row=, or ROW_ANY */
        uint64_t got;    /* rows that it holds: `needed` bits of fits */
    } member[SET_MAX];
};

void claim_free(struct claim *claim); /* NULL allowed; the rows are released already */

enum slot_state {
    SLOT_ENABLED,
    SLOT_DISABLED,
    SLOT_FOREIGN /* another program holds it */
};
enum disposition {
    ROW_FREE,
    ROW_THREAD,    /* process PMCs hold the row */
    ROW_STANDALONE /* a slot of the row is disabled, foreign, or held by a system PMC */
};

/* `classes` is not copied and must live as long as the rows. possible: the CPUs that exist. Returns
 * NULL on ENOMEM. */
struct rows *rows_new(const struct class_info *classes, unsigned n_classes,
                      const struct cpus *possible);
void rows_free(struct rows *rows); /* asserts that there are no claims */

/* strict: an owner has at most one process PMC on a row, as in hwpmc (tunable strict_rows). */
void rows_set_strict(struct rows *rows, bool strict);

/*
 * Chooses rows for every member, or for none on failure. Keeps a pointer to the claim until
 * rows_release(). Returns 0, or sets err: E19 no row; X08 only disabled slots would fit; E32 no
 * memory. `what` names the events in the sentence.
 */
int rows_reserve(struct rows *rows, struct claim *claim, const char *what, struct err *err);
/* Frees the rows of the claim, and sets its pmc and got to 0. Ignores a claim with pmc == 0. */
void rows_release(struct rows *rows, struct claim *claim);

#define ROWS_MOVED 1

/*
 * Moves `claim`, and other claims without row= if needed, so that PMCs that cover the same process
 * do not share a row. Called when the counters of an attach are open, before they are swapped in.
 * conflict(ctx, a, b) returns true if PMCs a and b cover, or will cover, the same process. Does
 * nothing for a system PMC. Returns ROWS_MOVED if claims may have other rows, or 0; or changes
 * nothing and sets err: E05 the bounded search finds no arrangement; E32 no memory.
 */
int rows_arrange(struct rows *rows, struct claim *claim,
                 bool (*conflict)(void *ctx, uint64_t a, uint64_t b), void *ctx, struct err *err);

/* Disables or enables a slot that exists (hwpmc's PMCADMIN), with the order of checks of hwpmc. The
 * caller has checked privilege and CPU state. Returns 0, or sets err: E03, E04 PMCs use it. */
int rows_set_disabled(struct rows *rows, unsigned cpu, unsigned class_index, unsigned row,
                      bool disabled, struct err *err);
/* Sets the rows that other programs hold on this CPU, as a mask. Ignores a CPU or class that does
 * not exist. */
void rows_set_foreign(struct rows *rows, unsigned cpu, unsigned class_index, uint64_t mask);

/* Queries for info/rows, info/classes and the journal. */
int rows_number(const struct rows *rows, unsigned class_index,
                unsigned row); /* process PMCs on the row, or minus its closed slots */
enum slot_state rows_slot(const struct rows *rows, unsigned cpu, unsigned class_index,
                          unsigned row);
/*
 * A slot as an instance sees it. The root (0) sees all PMCs. An instance sees a THREAD row of
 * others as FREE, and a slot that a system PMC of others holds as foreign.
 */
struct slot_view {
    enum disposition disposition;
    enum slot_state state;
    unsigned users;  /* number of PMCs on it */
    uint64_t oldest; /* id of the oldest of these PMCs; 0: none */
};
void rows_view(const struct rows *rows, uint64_t instance, unsigned cpu, unsigned class_index,
               unsigned row, struct slot_view *view);
/* Returns true if a PMC uses a slot that other programs hold. */
bool rows_overcommitted(const struct rows *rows, unsigned class_index);
/* Gives the claim exactly the rows in claim->member[].got: while a state is loaded, or to undo a
 * rows_release() (the caller restores pmc and got). Returns false if a row does not fit the claim,
 * is taken or disabled on one of its CPUs (process scope: on any CPU), or is a THREAD row for a
 * system PMC, or on ENOMEM. */
bool rows_retake(struct rows *rows, struct claim *claim);
const char *disposition_name(enum disposition d); /* "FREE" "THREAD" "STANDALONE" */
const char *slot_name(enum slot_state s);         /* "enabled" "disabled" "foreign" */

/*
 * Matching of wants to rows: each want gets one row of its mask, and no row is used twice. A want
 * that has a row moves to another one of its mask if that makes room for a further want.
 */
struct want {
    uint64_t rows; /* any of these */
    int got;       /* the row, or -1 */
};

/*
 * Fills as many wants as possible with the rows of order[], which is sorted by cost, and uses the
 * cheapest rows that can do so. Returns the number of filled wants; 0 if n > ROWS_MAX.
 */
unsigned match_rows(struct want *wants, unsigned n, const uint8_t *order, unsigned n_order);
