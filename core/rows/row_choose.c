/*
 * The choice of rows for a PMC: all of its members get rows, or none does.
 *
 *   scope     a row may be chosen if                               otherwise
 *   process   FREE or THREAD (strict: and the owner has no PMC     E19
 *             on it)
 *   system    FREE or STANDALONE, and its slot is free on each     E19; X08: only disabled slots
 *             CPU of the claim                                     prevent it
 *
 * Order of choice, lowest first: number of process PMCs that the owner has on the row (process
 * scope), number of events that can use the row (row_events of the class), number of the row. A set
 * gets the cheapest rows that fill all members (match_rows()).
 *
 * A system claim without CPUs gets rows and holds no slots. (The engine makes none: a system PMC
 * without targets has no claim.)
 */
#include "core/rows/row_state.h"

#include <stdlib.h>
#include <string.h>

/*
 * ---- matching: augmenting paths that start at the rows ----
 *
 * The sets of rows that can be matched form a matroid, so adding rows in order of cost gives the
 * cheapest set.
 */

/* Finds a want for the row, moving filled wants to other rows. *seen: wants that were tried. */
static bool row_offer(struct want *wants, unsigned n, unsigned row, uint64_t *seen)
{
    const uint64_t bit = row_bit(row);

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
    if (n > ROWS_MAX)
        return 0;
    for (unsigned i = 0; i < n_order && filled < n; i++) {
        uint64_t seen = 0;

        if (row_offer(wants, n, order[i], &seen))
            filled++;
    }
    return filled;
}

/* ---- wants of a claim ---- */

bool claim_same_owner(const struct claim *a, const struct claim *b)
{
    return a->uid == b->uid && a->instance == b->instance;
}

unsigned claim_wants(const struct claim *claim, uint64_t allowed, struct want wants[ROWS_MAX])
{
    unsigned n = 0;

    if (claim_needed(claim) > ROWS_MAX)
        return 0;
    for (unsigned i = 0; i < claim->n; i++) {
        const struct claim_member *member = &claim->member[i];
        const uint64_t wanted_bit = member->wanted < 0 || member->wanted >= ROWS_MAX
                                        ? 0
                                        : row_bit((unsigned)member->wanted);

        /* row= is the first row; an event of two rows may take any second one */
        for (unsigned k = 0; k < member->needed; k++) {
            const uint64_t rows = member->wanted < 0 ? member->fits
                                  : k == 0           ? member->fits & wanted_bit
                                                     : member->fits & ~wanted_bit;

            wants[n++] = (struct want){.rows = rows & allowed, .got = -1};
        }
    }
    return n;
}

void claim_set_rows(struct claim *claim, const struct want *wants)
{
    unsigned n = 0;

    for (unsigned i = 0; i < claim->n; i++) {
        claim->member[i].got = 0;
        for (unsigned k = 0; k < claim->member[i].needed; k++)
            claim->member[i].got |= row_bit((unsigned)wants[n++].got);
    }
}

/* ---- order of choice ---- */

/* Counts the other process PMCs of the claim's owner on the row. */
static unsigned owners_pmcs_on(const struct row_class *class, const struct claim *claim,
                               unsigned row)
{
    unsigned n = 0;

    for (unsigned i = 0; i < class->claims.n; i++) {
        const struct claim *other = class->claims.items[i];

        n += other != claim && !other->system && claim_same_owner(other, claim) &&
             (claim_rows(other) & row_bit(row)) != 0;
    }
    return n;
}

unsigned rows_order(const struct rows *rows, const struct claim *claim, uint64_t allowed,
                    uint8_t order[ROWS_MAX])
{
    const struct row_class *class = &rows->classes[claim->class_index];
    uint64_t cost[ROWS_MAX];
    unsigned n = 0;

    while (allowed != 0) {
        const unsigned row = row_take(&allowed);
        const uint64_t owned = claim->system ? 0 : owners_pmcs_on(class, claim, row);
        const uint64_t price = owned << 32 | class->info->row_events[row];
        unsigned at = n++;

        for (; at > 0 && cost[at - 1] > price; at--) {
            cost[at] = cost[at - 1];
            order[at] = order[at - 1];
        }
        cost[at] = price;
        order[at] = (uint8_t)row;
    }
    return n;
}

/* ---- allowed rows ---- */

static uint64_t allowed_process(const struct rows *rows, const struct claim *claim)
{
    const struct row_class *class = &rows->classes[claim->class_index];
    uint64_t allowed = class_all(class) & ~rows_above_zero(class->closed);

    for (unsigned row = 0; rows->strict && row < class->n; row++)
        if (owners_pmcs_on(class, claim, row) > 0)
            allowed &= ~row_bit(row);
    return allowed;
}

static uint64_t allowed_system(const struct rows *rows, const struct row_class *class,
                               const struct cpus *cpus, bool disabled_too)
{
    uint64_t allowed = class_all(class) & ~rows_above_zero(class->threads);

    for (int c = cpus_next(cpus, 0); c >= 0; c = cpus_next(cpus, c + 1)) {
        const struct cpu_slots *slots =
            cpus_has(&rows->possible, (unsigned)c) ? &class->slots[c] : NULL;

        if (slots == NULL)
            return 0;
        allowed &= ~(slots->taken | slots->foreign);
        if (!disabled_too)
            allowed &= ~slots->disabled;
    }
    return allowed;
}

static bool claim_choose(const struct rows *rows, struct claim *claim, uint64_t allowed)
{
    struct want wants[ROWS_MAX];
    uint8_t order[ROWS_MAX];
    const unsigned n = claim_wants(claim, allowed, wants);
    const unsigned n_order = rows_order(rows, claim, allowed, order);

    if (n != claim_needed(claim) || match_rows(wants, n, order, n_order) != n)
        return false;
    claim_set_rows(claim, wants);
    return true;
}

/* ---- refusals ---- */

/* Prints "taken on cpu3" for the first CPU with a closed slot. Returns false if there is none. */
static bool slot_reason(const struct rows *rows, const struct row_class *class, unsigned row,
                        const struct cpus *cpus, struct buf *out)
{
    for (int c = cpus_next(cpus, 0); c >= 0; c = cpus_next(cpus, c + 1)) {
        const struct cpu_slots *slots = &class->slots[c];

        if (!cpus_has(&rows->possible, (unsigned)c) || (slots_closed(slots) & row_bit(row)) == 0)
            continue;
        buf_printf(out, "%s on cpu%d",
                   (slots->disabled & row_bit(row)) != 0 ? "disabled"
                   : (slots->taken & row_bit(row)) != 0  ? "taken"
                                                         : "foreign",
                   c);
        return true;
    }
    return false;
}

static void row_reason(const struct rows *rows, const struct claim *claim, unsigned row,
                       struct buf *out)
{
    const struct row_class *class = &rows->classes[claim->class_index];

    buf_printf(out, "row %u is ", row);
    if (claim->system) {
        if (class->threads[row] > 0)
            buf_str(out, "THREAD");
        else if (!slot_reason(rows, class, row, &claim->cpus, out))
            buf_str(out, "free");
    } else if (class->closed[row] > 0) {
        buf_str(out, "STANDALONE (");
        slot_reason(rows, class, row, &rows->possible, out);
        buf_char(out, ')');
    } else {
        buf_str(out, rows->strict && owners_pmcs_on(class, claim, row) > 0
                         ? "held by a PMC of the same owner (strict_rows=1)"
                         : "free");
    }
}

/* Refuses a row= that does not exist, cannot count the event, or is set for several events (E19).
 * Does not check whether the row is free. */
static int claim_check_wanted(const struct row_class *class, const struct claim *claim,
                              const char *what, struct err *err)
{
    for (unsigned i = 0; i < claim->n; i++) {
        const struct claim_member *member = &claim->member[i];

        if (member->wanted == ROW_ANY)
            continue;
        if (i > 0 && member->wanted == claim->member[0].wanted)
            return err_set(
                err, E19,
                "row=%d is a single row, and \"%s\" need one for each of %u events: write row=any",
                member->wanted, what, claim->n);
        if (member->wanted < 0 || (unsigned)member->wanted >= class->n)
            return err_set(
                err, E19,
                "row=%d for \"%s\": class \"%s\" has rows 0-%u: write one of these or row=any",
                member->wanted, what, class->info->name, class->n - 1);
        if ((member->fits & row_bit((unsigned)member->wanted)) == 0)
            return err_set(err, E19,
                           "row=%d cannot count \"%s\": write row=any, which chooses one that can",
                           member->wanted, what);
    }
    return 0;
}

/* Sets the error why no rows could be chosen: X08 if `disabled` (disabled slots would fit), else
 * E19. */
static int claim_refuse(const struct rows *rows, const struct claim *claim, const char *what,
                        bool disabled, struct err *err)
{
    const struct row_class *class = &rows->classes[claim->class_index];
    const bool wanted = claim->n == 1 && claim->member[0].wanted >= 0;
    const uint64_t set =
        wanted ? row_bit((unsigned)claim->member[0].wanted) : claim_fits(claim) & class_all(class);
    char storage[384];
    struct buf buf = buf_in(storage, sizeof storage);
    uint64_t left = set;
    int rc;

    for (unsigned n = 0; left != 0 && n < 5; n++) {
        buf_str(&buf, n == 0 ? "" : ", ");
        row_reason(rows, claim, row_take(&left), &buf);
    }
    if (left != 0)
        buf_str(&buf, "; and so on, see info/rows");
    if (disabled)
        rc = err_set(err, X08, "only rows that the administrator has disabled can count \"%s\": %s",
                     what, buf_text(&buf));
    else
        rc = err_set(err, E19, "no row left for \"%s\": it needs %u of class \"%s\", and %s", what,
                     claim_needed(claim), class->info->name,
                     set == 0 ? "none can count it" : buf_text(&buf));
    buf_free(&buf);
    return rc;
}

int rows_reserve(struct rows *rows, struct claim *claim, const char *what, struct err *err)
{
    struct row_class *class = &rows->classes[claim->class_index];
    struct claim trial = *claim;
    int rc = claim_check_wanted(class, claim, what, err);

    if (rc != 0)
        return rc;
    const uint64_t allowed = claim->system ? allowed_system(rows, class, &claim->cpus, false)
                                           : allowed_process(rows, claim);
    if (!claim_choose(rows, claim, allowed)) {
        const bool disabled =
            claim->system &&
            claim_choose(rows, &trial, allowed_system(rows, class, &claim->cpus, true));

        return claim_refuse(rows, claim, what, disabled, err);
    }
    if (vec_push(&class->claims, claim) != 0) {
        for (unsigned i = 0; i < claim->n; i++)
            claim->member[i].got = 0;
        return err_nomem(err);
    }
    claim_book(rows, claim);
    return 0;
}
