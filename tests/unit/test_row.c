/*
 * Rows: their rules, reference features R01–R08.
 * test_row_model.c compares them with a naive model.
 */
#include "core/rows/row.h"

#include "tests/unit/unit.h"

#include <errno.h>

#define N_CPUS 4
#define ALL4   UINT64_C(0xf)

static struct rows *rows;
static struct err err;
static struct claim pool[64];
static unsigned n_pool;
static struct class_info classes[2];

static void rows_setup(void)
{
    static const unsigned alike[4];
    struct cpus possible = {0};

    classes[0] = (struct class_info){
        .name = "sim", .rows = 4, .width = 48, .hardware = true, .row_events = alike};
    classes[1] = (struct class_info){.name = "soft", .rows = 0, .width = 64};
    for (unsigned cpu = 0; cpu < N_CPUS; cpu++)
        cpus_add(&possible, cpu);
    rows = rows_new(classes, 2, &possible);
    ck_assert_ptr_nonnull(rows);
    cpus_free(&possible);
    n_pool = 0;
}

static void rows_teardown(void)
{
    for (unsigned i = 0; i < n_pool; i++) {
        rows_release(rows, &pool[i]);
        cpus_free(&pool[i].cpus);
    }
    rows_free(rows);
}

SUITE_SETUP(row, rows_setup, rows_teardown);

/* ---- helpers ---- */

/* Returns the claim of a new process PMC of user `uid` that needs one row of the mask `fits`. */
static struct claim *claim_make(uid_t uid, uint64_t fits)
{
    struct claim *claim = &pool[n_pool++];

    ck_assert_uint_lt(n_pool, 64);
    *claim = (struct claim){.pmc = n_pool, .uid = uid, .n = 1};
    claim->member[0] = (struct claim_member){.fits = fits, .needed = 1, .wanted = ROW_ANY};
    return claim;
}

static struct claim *claim_on(const char *cpus, uint64_t fits)
{
    struct claim *claim = claim_make(0, fits);

    claim->system = true;
    if (cpus[0] != '\0')
        ck_assert_int_eq(cpus_parse(&claim->cpus, unit_word(cpus)), 0);
    return claim;
}

static void member_add(struct claim *claim, uint64_t fits, unsigned needed)
{
    claim->member[claim->n++] =
        (struct claim_member){.fits = fits, .needed = needed, .wanted = ROW_ANY};
}

static int reserve(struct claim *claim)
{
    return rows_reserve(rows, claim, "cycles", &err);
}

static uint64_t got(const struct claim *claim)
{
    uint64_t set = 0;

    for (unsigned i = 0; i < claim->n; i++)
        set |= claim->member[i].got;
    return set;
}

/* Asserts that the claim can be reserved, on exactly this row. */
static void takes_row(struct claim *claim, unsigned row)
{
    ck_assert_msg(reserve(claim) == 0, "%s", err.text);
    ck_assert_uint_eq(got(claim), UINT64_C(1) << row);
}

static void refused(int rc, int code, enum err_id id)
{
    ck_assert_int_eq(rc, -code);
    ck_assert_int_eq(err.id, id);
}

/* ---- dispositions ---- */

TEST(owner_with_all_rows_gets_the_row_with_the_fewest_events)
{
    for (unsigned i = 0; i < 4; i++)
        takes_row(claim_make(1, ALL4), i);
    takes_row(claim_make(1, ALL4), 0);
    takes_row(claim_make(1, 3), 1);
    takes_row(claim_make(1, ALL4), 2);
}

/* ---- choice ---- */

TEST(rows_of_few_events_come_first)
{
    static const unsigned events[4] = {9, 9, 9, 1};

    classes[0].row_events = events;
    takes_row(claim_make(1, ALL4), 3);
    takes_row(claim_make(1, ALL4), 0);
}

TEST(event_of_two_rows_holds_two)
{
    struct claim *a = claim_make(1, ALL4), *b = claim_make(1, 7), *c = claim_make(2, 1);

    a->member[0].needed = 2;
    ck_assert_int_eq(reserve(a), 0);
    ck_assert_uint_eq(got(a), 3);
    b->member[0].needed = 2;
    ck_assert_int_eq(reserve(b), 0);
    ck_assert_uint_eq(got(b), 5); /* row 2, which the owner does not use, and the first other row */
    c->member[0].needed = 2;
    refused(reserve(c), EINVAL, E19);
}

TEST(set_is_reserved_completely_or_not_at_all)
{
    struct claim *a = claim_make(1, 3);

    member_add(a, 3, 1);
    member_add(a, 3, 1);
    refused(reserve(a), EINVAL, E19);
    ck_assert_uint_eq(got(a), 0);
    for (unsigned row = 0; row < 4; row++)
        ck_assert_int_eq(rows_number(rows, 0, row), 0);
}

/* ---- administration ---- */

TEST(disabled_slots_are_skipped_and_named_when_nothing_else_fits)
{
    rows_set_disabled(rows, 1, 0, 0, true, &err);
    takes_row(claim_on("0-1", 3), 1);
    refused(reserve(claim_on("1", 3)), EPERM, X08);
    ck_err_has(err, "row 0 is disabled on cpu1");
    takes_row(claim_on("2", 3), 0);
    refused(reserve(claim_on("2", 1)), EINVAL, E19);
}

TEST(users_of_a_slot_and_the_oldest)
{
    struct claim *a = claim_make(1, 1), *b = claim_make(2, 1);
    struct slot_view slot;

    takes_row(b, 0);
    takes_row(a, 0);
    rows_view(rows, 0, 3, 0, 0, &slot);
    ck_assert_uint_eq(slot.users, 2);
    ck_assert_uint_eq(slot.oldest, a->pmc);
    takes_row(claim_on("1", 2), 1);
    rows_view(rows, 0, 1, 0, 1, &slot);
    ck_assert_uint_eq(slot.users, 1);
    rows_view(rows, 0, 2, 0, 1, &slot);
    ck_assert_uint_eq(slot.users, 0);
    ck_assert_uint_eq(slot.oldest, 0);
}

TEST(retake_restores_exactly_the_same_rows)
{
    struct claim *a = claim_make(1, ALL4), *b = claim_on("0-1", ALL4);
    const uint64_t serial = b->pmc;

    a->member[0].got = 4;
    ck_true(rows_retake(rows, a));
    takes_row(b, 0);
    rows_release(rows, b);
    ck_assert_uint_eq(b->pmc, 0);
    rows_set_foreign(rows, 1, 0, 1);
    b->pmc = serial;
    b->member[0].got = 1;
    ck_true(rows_retake(rows, b));
    ck_true(rows_overcommitted(rows, 0));
    b = claim_on("0", ALL4);
    b->member[0].got = 4;
    ck_true(!rows_retake(rows, b));
}

TEST(retake_needs_enabled_rows_and_one_for_each_event)
{
    struct claim *a = claim_on("0-1", ALL4), *b = claim_make(1, ALL4);

    a->member[0].got = 1;
    rows_set_disabled(rows, 1, 0, 0, true, &err);
    ck_true(!rows_retake(rows, a));
    rows_set_disabled(rows, 1, 0, 0, false, &err);
    ck_true(rows_retake(rows, a));
    member_add(b, ALL4, 1);
    b->member[0].got = b->member[1].got = 2;
    ck_true(!rows_retake(rows, b));
    b->member[1].got = 4;
    ck_true(rows_retake(rows, b));
}

/* The groups of each PMC as a bit mask, by its serial. PMCs with a common group conflict. */
static uint64_t groups[65];

static bool in_conflict(void *ctx, uint64_t a, uint64_t b)
{
    (void)ctx;
    return (groups[a] & groups[b]) != 0;
}

static int arrange(struct claim *claim)
{
    const int rc = rows_arrange(rows, claim, in_conflict, NULL, &err);

    return rc == ROWS_MOVED ? 0 : rc;
}

TEST(attach_moves_the_pmc_to_a_separate_row)
{
    struct claim *a = claim_make(1, ALL4), *b = claim_make(2, ALL4), *c = claim_make(3, ALL4);

    takes_row(a, 0);
    takes_row(b, 0);
    takes_row(c, 0);
    groups[1] = groups[2] = 1;
    groups[3] = 2;
    ck_assert_int_eq(arrange(c), 0);
    ck_assert_uint_eq(got(c), 1);
    ck_assert_int_eq(arrange(b), 0);
    ck_assert_uint_eq(got(a), 1);
    ck_assert_uint_eq(got(b), 2);
    ck_assert_int_eq(rows_number(rows, 0, 0), 2);
    ck_assert_int_eq(rows_number(rows, 0, 1), 1);
}
