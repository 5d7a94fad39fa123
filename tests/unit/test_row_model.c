/*
 * Rows compared with a naive model over random operations. The model keeps no counts: each query
 * visits every PMC and slot, and tries by brute force whether a PMC fits.
 */
#include "core/rows/row.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

SUITE(row_model);

#define N_CPUS     4
#define N_ROWS     4
#define N_LIVE     40
#define OPERATIONS 200000

static struct rows *rows;
static struct err err;

static struct model {
    bool disabled[N_CPUS][N_ROWS], foreign[N_CPUS][N_ROWS];
    struct claim *live[N_LIVE];
    unsigned n;
} model;
static unsigned seed;

static unsigned dice(unsigned n)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % n;
}

static uint64_t got(const struct claim *claim)
{
    uint64_t set = 0;

    for (unsigned i = 0; i < claim->n; i++)
        set |= claim->member[i].got;
    return set;
}

static bool model_holds(const struct claim *claim, unsigned cpu, unsigned row)
{
    return (got(claim) >> row & 1) != 0 && (!claim->system || cpus_has(&claim->cpus, cpu));
}

static unsigned model_threads(unsigned row)
{
    unsigned n = 0;

    for (unsigned i = 0; i < model.n; i++)
        n += !model.live[i]->system && model_holds(model.live[i], 0, row);
    return n;
}

static bool model_taken(unsigned cpu, unsigned row)
{
    for (unsigned i = 0; i < model.n; i++)
        if (model.live[i]->system && model_holds(model.live[i], cpu, row))
            return true;
    return false;
}

static bool model_foreign(unsigned cpu, unsigned row)
{
    return model.foreign[cpu][row] && model_threads(row) == 0 && !model_taken(cpu, row);
}

static int model_number(unsigned row)
{
    int number = (int)model_threads(row);

    for (unsigned cpu = 0; cpu < N_CPUS; cpu++)
        number -= model.disabled[cpu][row] || model_foreign(cpu, row) || model_taken(cpu, row);
    return number;
}

static bool model_allows(const struct claim *claim, unsigned row, bool disabled_too)
{
    if (!claim->system)
        return model_number(row) >= 0;
    for (unsigned cpu = 0; cpu < N_CPUS; cpu++)
        if (cpus_has(&claim->cpus, cpu) && (model_taken(cpu, row) || model_foreign(cpu, row) ||
                                            (model.disabled[cpu][row] && !disabled_too)))
            return false;
    return model_threads(row) == 0;
}

/* Returns the row that a row= setting requires, as a bit mask; 0 without one. */
static unsigned model_asked(const struct claim *claim)
{
    return claim->member[0].wanted == ROW_ANY ? 0 : 1u << claim->member[0].wanted;
}

/* Returns whether the rows of one or two members can be assigned. Tries all assignments, masks of
 * `needed` bits. disabled_too: a system PMC may get disabled rows. */
static bool model_fits(const struct claim *claim, bool disabled_too)
{
    for (unsigned a = 1; a < 16; a++) {
        for (unsigned b = 0; b < (claim->n > 1 ? 16u : 1u); b++) {
            bool fits = (a & b) == 0 && (model_asked(claim) & ~a) == 0 &&
                        (a & ~claim->member[0].fits) == 0 &&
                        (unsigned)__builtin_popcount(a) == claim->member[0].needed;

            if (claim->n > 1)
                fits = fits && (b & ~claim->member[1].fits) == 0 &&
                       (unsigned)__builtin_popcount(b) == claim->member[1].needed;
            for (unsigned row = 0; row < N_ROWS; row++)
                fits =
                    fits && (((a | b) >> row & 1) == 0 || model_allows(claim, row, disabled_too));
            if (fits)
                return true;
        }
    }
    return false;
}

static void model_claim(struct claim *claim, uint64_t serial)
{
    *claim =
        (struct claim){.pmc = serial, .uid = dice(3), .system = dice(2) == 0, .n = 1 + dice(2)};
    for (unsigned cpu = 0; claim->system && cpu < N_CPUS; cpu++)
        if (dice(2) == 0)
            cpus_add(&claim->cpus, cpu);
    for (unsigned i = 0; i < claim->n; i++)
        claim->member[i] = (struct claim_member){
            .fits = 1 + dice(15), .needed = 1 + (dice(4) == 0), .wanted = ROW_ANY};
    if (claim->n == 1 && dice(4) == 0)
        claim->member[0].wanted = (int)dice(N_ROWS + 1);
}

static void model_reserve(uint64_t serial)
{
    struct claim *claim = malloc(sizeof *claim);
    int expected;

    ck_assert_ptr_nonnull(claim);
    model_claim(claim, serial);
    expected = model_fits(claim, false)                   ? 0
               : claim->system && model_fits(claim, true) ? -EPERM
                                                          : -EINVAL;
    ck_assert_msg(rows_reserve(rows, claim, "x", &err) == expected, "serial %lu: %s",
                  (unsigned long)serial, err.text);
    if (expected == 0 && model.n < N_LIVE) {
        model.live[model.n++] = claim;
        ck_assert_uint_eq(model_asked(claim) & ~claim->member[0].got, 0);
        for (unsigned i = 0; i < claim->n; i++)
            ck_assert_int_eq(__builtin_popcountll(claim->member[i].got & claim->member[i].fits),
                             (int)claim->member[i].needed);
        return;
    }
    rows_release(rows, claim);
    cpus_free(&claim->cpus);
    free(claim);
}

static void model_release(unsigned i)
{
    struct claim *claim = model.live[i];

    rows_release(rows, claim);
    cpus_free(&claim->cpus);
    free(claim);
    model.live[i] = model.live[--model.n];
}

static void model_administer(unsigned cpu, unsigned row, bool disable)
{
    const bool busy = model_taken(cpu, row) || (disable && model_threads(row) > 0);
    const int rc = rows_set_disabled(rows, cpu, 0, row, disable, &err);

    ck_assert_int_eq(rc, busy ? -EBUSY : 0);
    if (!busy)
        model.disabled[cpu][row] = disable;
}

static void model_probe(unsigned cpu)
{
    const uint64_t mask = dice(3) == 0 ? dice(16) : 0;

    rows_set_foreign(rows, cpu, 0, mask);
    for (unsigned row = 0; row < N_ROWS; row++)
        model.foreign[cpu][row] = (mask >> row & 1) != 0;
}

static bool row_shared(const struct claim *claim)
{
    for (unsigned i = 0; i < model.n; i++)
        if (model.live[i] != claim && !model.live[i]->system &&
            (got(claim) & got(model.live[i])) != 0 && claim->uid == model.live[i]->uid)
            return true;
    return false;
}

/* Users represent processes here: PMCs of one user conflict. */
static bool model_conflict(void *ctx, uint64_t a, uint64_t b)
{
    uid_t uid[2] = {0, 1};

    (void)ctx;
    for (unsigned i = 0; i < model.n; i++) {
        if (model.live[i]->pmc == a)
            uid[0] = model.live[i]->uid;
        if (model.live[i]->pmc == b)
            uid[1] = model.live[i]->uid;
    }
    return uid[0] == uid[1];
}

/* Returns the possible rows for the k-th row of a member; a member with row= keeps its row. */
static uint64_t model_wants(const struct claim *claim, unsigned member, unsigned k)
{
    uint64_t left = claim->member[member].got;

    if (model_asked(claim) == 0)
        return claim->member[member].fits;
    while (k-- > 0)
        left &= left - 1;
    return left & -left;
}

/* Returns whether all process PMCs of this user fit at the same time; then the search must succeed.
 */
static bool model_all_fit(uid_t uid)
{
    struct want wants[2 * 2 * N_LIVE];
    const uint8_t order[N_ROWS] = {0, 1, 2, 3};
    unsigned n = 0;

    for (unsigned i = 0; i < model.n; i++)
        for (unsigned m = 0; m < model.live[i]->n; m++)
            for (unsigned k = 0; k < model.live[i]->member[m].needed; k++)
                if (!model.live[i]->system && model.live[i]->uid == uid)
                    wants[n++].rows = model_wants(model.live[i], m, k);
    for (unsigned i = 0; i < n; i++)
        for (unsigned row = 0; row < N_ROWS; row++)
            if (model_number(row) < 0)
                wants[i].rows &= ~(UINT64_C(1) << row);
    return n <= N_ROWS && match_rows(wants, n, order, N_ROWS) == n;
}

static void model_arrange(struct claim *claim)
{
    const bool possible = model_all_fit(claim->uid);
    uint64_t before[N_LIVE];
    int rc;

    for (unsigned i = 0; i < model.n; i++)
        before[i] = got(model.live[i]);
    rc = rows_arrange(rows, claim, model_conflict, NULL, &err);
    for (unsigned i = 0; rc != ROWS_MOVED && i < model.n; i++)
        ck_assert_uint_eq(before[i], got(model.live[i]));
    rc = rc == ROWS_MOVED ? 0 : rc;
    ck_assert_msg(rc == 0 || rc == -EBUSY, "%s", err.text);
    ck_true(rc == 0 || !possible);
    ck_true(rc != 0 || claim->system || !row_shared(claim));
    for (unsigned i = 0; i < model.n; i++)
        ck_true(model_asked(model.live[i]) == 0 || before[i] == got(model.live[i]) ||
                model.live[i] == claim);
}

static void model_compare(void)
{
    bool over = false;

    for (unsigned row = 0; row < N_ROWS; row++) {
        ck_assert_int_eq(rows_number(rows, 0, row), model_number(row));
        for (unsigned cpu = 0; cpu < N_CPUS; cpu++) {
            const enum slot_state slot = model.disabled[cpu][row]  ? SLOT_DISABLED
                                         : model_foreign(cpu, row) ? SLOT_FOREIGN
                                                                   : SLOT_ENABLED;

            ck_assert_int_eq(rows_slot(rows, cpu, 0, row), slot);
            over = over || (model.foreign[cpu][row] && !model_foreign(cpu, row));
        }
    }
    ck_assert_int_eq(rows_overcommitted(rows, 0), over);
}

TEST(random_operations_agree_with_a_naive_model)
{
    static const unsigned alike[N_ROWS];
    static const struct class_info class = {
        .name = "sim", .rows = N_ROWS, .hardware = true, .row_events = alike};
    const char *given = getenv("PMCFS_SEED");
    struct cpus possible = {0};

    for (unsigned cpu = 0; cpu < N_CPUS; cpu++)
        cpus_add(&possible, cpu);
    rows = rows_new(&class, 1, &possible);
    cpus_free(&possible);
    seed = given != NULL ? (unsigned)strtoul(given, NULL, 10) : 1;
    printf("row model: PMCFS_SEED=%u\n", seed);
    fflush(stdout);
    for (uint64_t serial = 1; serial <= OPERATIONS; serial++) {
        const unsigned what = dice(12);

        if (what < 5)
            model_reserve(serial);
        else if (what < 8 && model.n > 0)
            model_release(dice(model.n));
        else if (what < 10)
            model_administer(dice(N_CPUS), dice(N_ROWS), dice(3) == 0);
        else if (what < 11 && model.n > 0)
            model_arrange(model.live[dice(model.n)]);
        else
            model_probe(dice(N_CPUS));
        model_compare();
    }
    while (model.n > 0)
        model_release(0);
    rows_free(rows);
}
