/*
 * Rows and their dispositions: hwpmc's bookkeeping of the PMCs that hold each hardware counter.
 * Pure: no calls out, no clock, no locks. pmcfs.5 has the rules under COUNTER ALLOCATION.
 */
#pragma once

#include "core/backend.h"
#include "core/base/cpus.h"
#include "core/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct rows; /* all classes, all CPUs */

#define ROW_ANY (-1)

/*
 * What one PMC holds of one class (a set lies in one hardware class). Filled by the owner of the
 * PMC, completed by rows_reserve(). Members without rows (software) are not in it.
 */
struct claim {
    uint64_t pmc;      /* serial; 0: holds nothing */
    uint64_t instance; /* owner = uid and instance */
    uid_t uid;
    unsigned class_index;
    bool system;      /* system scope, on the CPUs below; else process scope */
    struct cpus cpus; /* owned by the claim */
    unsigned n;
    struct claim_member {
        uint64_t fits;   /* rows that can count it */
        unsigned needed; /* 1 or 2 */
        int asked;       /* row= of the PMC, or ROW_ANY */
        uint64_t got;    /* rows it holds: `needed` bits of fits */
    } member[SET_MAX];
};

enum slot_state {
    SLOT_ENABLED,
    SLOT_DISABLED,
    SLOT_FOREIGN
};
enum disposition {
    ROW_FREE,
    ROW_THREAD,
    ROW_STANDALONE
};

/* Copies nothing of classes: the array must live as long. possible: CPU numbers that exist. */
struct rows *rows_new(const struct class_info *classes, unsigned n_classes,
                      const struct cpus *possible);
void rows_free(struct rows *rows); /* asserts that no claim is left */

/* strict: R01 as in hwpmc (tunable strict_rows). */
void rows_set_strict(struct rows *rows, bool strict);

/*
 * Choose rows for every member (rules 1–4), all or nothing. The claim is remembered by pointer
 * until rows_release(). E19 no row; X08 only disabled slots would fit. `what` names the events
 * in the sentence.
 */
int rows_reserve(struct rows *rows, struct claim *claim, const char *what, struct err *err);
void rows_release(struct rows *rows, struct claim *claim); /* a claim with pmc == 0 is ignored */

/*
 * Rule 5, at attach: conflict(ctx, a, b) tells whether PMCs a and b cover (or are about to cover)
 * one process. Moves `claim`, and where needed others (not those with an asked row), so that no two
 * conflicting claims share a row. All or nothing; E05 when no arrangement is found. A bounded
 * search.
 */
int rows_arrange(struct rows *rows, struct claim *claim,
                 bool (*conflict)(void *ctx, uint64_t a, uint64_t b), void *ctx, struct err *err);

/* Administration (PMCADMIN, R05–R07). Order of checks as in the seed, without privilege and CPU
 * state. */
int rows_disable(struct rows *rows, unsigned cpu, unsigned class_index, unsigned row,
                 struct err *err);
int rows_enable(struct rows *rows, unsigned cpu, unsigned class_index, unsigned row,
                struct err *err);
void rows_set_foreign(struct rows *rows, unsigned cpu, unsigned class_index, uint64_t mask);

/* Questions for info/rows, info/classes and the state that is saved. */
int rows_number(const struct rows *rows, unsigned class_index,
                unsigned row); /* the signed number */
enum disposition rows_disposition(const struct rows *rows, unsigned class_index, unsigned row);
enum slot_state rows_slot(const struct rows *rows, unsigned cpu, unsigned class_index,
                          unsigned row);
/* PMCs on the slot as seen from cpu: their number, and the oldest's serial (0: none). */
unsigned rows_users(const struct rows *rows, unsigned cpu, unsigned class_index, unsigned row,
                    uint64_t *oldest);
/*
 * A slot as an instance sees it. The root (0) sees all; for the others what is not theirs is free,
 * or foreign where a system PMC has it.
 */
struct slot_view {
    enum disposition disposition;
    enum slot_state state;
    unsigned users;
    uint64_t oldest;
};
void rows_view(const struct rows *rows, uint64_t instance, unsigned cpu, unsigned class_index,
               unsigned row, struct slot_view *view);
bool rows_overcommitted(const struct rows *rows, unsigned class_index);
/* While a state is loaded: take exactly claim->member[].got again. False: taken already. */
bool rows_retake(struct rows *rows, struct claim *claim);
const char *disposition_name(enum disposition d); /* "FREE" "THREAD" "STANDALONE" */
const char *slot_name(enum slot_state s);         /* "enabled" "disabled" "foreign" */
