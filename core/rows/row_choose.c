/*
 * The choice of rows for a PMC: all of its members get rows, or none does.
 *
 *   scope     a row may be chosen if                               otherwise
 *   process   FREE or THREAD (strict: and the owner has no PMC     E19
 *             on it)
 *   system    FREE or STANDALONE, and its slot is free on every    E19; X08: only disabled slots
 *             CPU                                                  prevent it
 *
 * Order of choice, lowest first: number of process PMCs that the owner has on the row (process
 * scope), number of events that can use the row (row_events of the class), number of the row. A set
 * gets the cheapest rows that fill all members (match_rows()).
 *
 * A system PMC that is not attached has no CPUs: its rows are chosen, but it holds no slots.
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

/* ---- wants of a claim ---- */

static bool claim_same_owner(const struct claim *a, const struct claim *b)
{
    return a->uid == b->uid && a->instance == b->instance;
}

/* Lists the rows that each member can have within `allowed`. Returns the number of wants, or 0 if
 * there are more than MATCH_ROWS. */
static unsigned claim_wants(const struct claim *claim, uint64_t allowed,
                            struct want wants[MATCH_ROWS])
{
    unsigned n = 0;

    if (claim_needed(claim) > MATCH_ROWS)
        return 0;
    for (unsigned i = 0; i < claim->n; i++) {
        const struct claim_member *member = &claim->member[i];
        const uint64_t wanted = member->wanted < 0 || member->wanted >= MATCH_ROWS
                                    ? 0
                                    : row_bit((unsigned)member->wanted);

        /* row= is the first row; an event of two rows may take any second one */
        for (unsigned k = 0; k < member->needed; k++) {
            const uint64_t rows = member->wanted < 0 ? member->fits
                                  : k == 0           ? member->fits & wanted
                                                     : member->fits & ~wanted;

            wants[n++] = (struct want){.rows = rows & allowed, .got = -1};
        }
    }
    return n;
}

/* Copies the matched rows to the members. */
static void claim_set_rows(struct claim *claim, const struct want *wants)
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
static unsigned row_owned(const struct row_class *class, const struct claim *claim, unsigned row)
{
    unsigned n = 0;

    for (unsigned i = 0; i < class->claims.n; i++) {
        const struct claim *other = class->claims.items[i];

        n += other != claim && !other->system && claim_same_owner(other, claim) &&
             (claim_rows(other) & row_bit(row)) != 0;
    }
    return n;
}

/* Sorts the rows of `allowed` by the order of choice for this claim. Returns their number. */
static unsigned rows_order(const struct rows *rows, const struct claim *claim, uint64_t allowed,
                           uint8_t order[MATCH_ROWS])
{
    const struct row_class *class = &rows->classes[claim->class_index];
    uint64_t cost[MATCH_ROWS];
    unsigned n = 0;

    while (allowed != 0) {
        const unsigned row = row_take(&allowed);
        const uint64_t owned = claim->system ? 0 : row_owned(class, claim, row);
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
        if (row_owned(class, claim, row) > 0)
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
    struct want wants[MATCH_ROWS];
    uint8_t order[MATCH_ROWS];
    const unsigned n = claim_wants(claim, allowed, wants);

    if (n != claim_needed(claim) ||
        match_rows(wants, n, order, rows_order(rows, claim, allowed, order)) != n)
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

static void row_reason(const struct rows *rows, const struct claim *claim, const struct cpus *cpus,
                       unsigned row, struct buf *out)
{
    const struct row_class *class = &rows->classes[claim->class_index];

    buf_printf(out, "row %u is ", row);
    if (claim->system) {
        if (class->threads[row] > 0)
            buf_str(out, "THREAD");
        else if (!slot_reason(rows, class, row, cpus, out))
            buf_str(out, "free");
    } else if (class->closed[row] > 0) {
        buf_str(out, "STANDALONE (");
        slot_reason(rows, class, row, &rows->possible, out);
        buf_char(out, ')');
    } else {
        buf_str(out, rows->strict && row_owned(class, claim, row) > 0
                         ? "held by a PMC of the same owner (strict_rows=1)"
                         : "free");
    }
}

static void rows_reasons(const struct rows *rows, const struct claim *claim,
                         const struct cpus *cpus, uint64_t set, struct buf *out)
{
    for (unsigned n = 0; set != 0; n++) {
        if (n == 5) {
            buf_str(out, "; and so on, see info/rows");
            return;
        }
        buf_str(out, n == 0 ? "" : ", ");
        row_reason(rows, claim, cpus, row_take(&set), out);
    }
}

/* Refuses a row= that cannot count the event, free or not. */
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

/* Prints why no rows could be chosen. disabled: disabled slots would fit. */
static int claim_refuse(const struct rows *rows, const struct claim *claim, const struct cpus *cpus,
                        const char *what, bool disabled, struct err *err)
{
    const struct row_class *class = &rows->classes[claim->class_index];
    const bool wanted = claim->n == 1 && claim->member[0].wanted >= 0;
    const uint64_t set =
        wanted ? row_bit((unsigned)claim->member[0].wanted) : claim_fits(claim) & class_all(class);
    char storage[384];
    struct buf buf;
    int rc;

    buf_init(&buf, storage, sizeof storage);
    rows_reasons(rows, claim, cpus, set, &buf);
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

/* Chooses claim->member[].got for these CPUs. The claim must not be booked. */
static int claim_fill(const struct rows *rows, struct claim *claim, const struct cpus *cpus,
                      const char *what, struct err *err)
{
    const struct row_class *class = &rows->classes[claim->class_index];
    struct claim trial = *claim;
    int rc = claim_check_wanted(class, claim, what, err);

    if (rc != 0)
        return rc;
    if (!claim->system) {
        if (claim_choose(rows, claim, allowed_process(rows, claim)))
            return 0;
        return claim_refuse(rows, claim, cpus, what, false, err);
    }
    if (claim_choose(rows, claim, allowed_system(rows, class, cpus, false)))
        return 0;
    return claim_refuse(rows, claim, cpus, what,
                        claim_choose(rows, &trial, allowed_system(rows, class, cpus, true)), err);
}

int rows_reserve(struct rows *rows, struct claim *claim, const char *what, struct err *err)
{
    struct row_class *class = &rows->classes[claim->class_index];
    int rc = claim_fill(rows, claim, &claim->cpus, what, err);

    if (rc != 0)
        return rc;
    if (vec_push(&class->claims, claim) != 0) {
        for (unsigned i = 0; i < claim->n; i++)
            claim->member[i].got = 0;
        return err_set(err, E32,
                       "no memory to reserve a row for \"%s\": try again later, or release PMCs",
                       what);
    }
    claim_book(rows, claim);
    return 0;
}

/*
 * ---- arrangement ----
 *
 * Arrangement of rows. Process PMCs that cover the same process must not share a row. Before an
 * attach the PMC moves to rows without conflict; if there are none, other PMCs move away.
 *
 * The search displaces claims. A claim tries every set of rows that can count it. Claims in
 * conflict on these rows are displaced and must find rows in turn. Placed claims stay.
 *
 *   the row is held by …                                     may the claim take it?
 *   no claim, or claims without conflict                     yes, tried first
 *   a claim in conflict, without row= and not yet placed     yes, that claim is displaced
 *   a claim in conflict, with row= or already placed         no
 *
 * The search finds an arrangement if one exists within its bounds: CHAIN_MAX placed claims and
 * STEPS_MAX steps. Moving a claim is only bookkeeping. STANDALONE rows never change.
 */

#define CHAIN_MAX 32
#define STEPS_MAX 20000

enum known {
    UNKNOWN,
    NO,
    YES
};

struct search {
    struct rows *rows;
    struct row_class *class;
    bool (*conflict)(void *ctx, uint64_t a, uint64_t b);
    void *ctx;
    uint64_t allowed; /* rows for process PMCs */
    unsigned steps;   /* remaining */
    unsigned placed;  /* number of placed claims */
    bool no_memory;
    struct node { /* parallel to class->claims.items[] */
        enum {
            AT_REST,
            DISPLACED,
            PLACED
        } state;
        unsigned by;    /* DISPLACED by the claim with this index */
        uint8_t *known; /* enum known for each other claim; NULL until placed */
    } * nodes;
};

/* ---- conflicts ---- */

static bool claim_movable(const struct claim *claim)
{
    for (unsigned i = 0; i < claim->n; i++)
        if (claim->member[i].wanted != ROW_ANY)
            return false;
    return true;
}

static bool search_conflict(struct search *s, unsigned a, unsigned b)
{
    const struct claim *one = s->class->claims.items[a], *two = s->class->claims.items[b];
    uint8_t *known = &s->nodes[a].known[b];

    if (*known == UNKNOWN) {
        const bool strict = s->rows->strict && claim_same_owner(one, two);

        *known = !two->system && one->pmc != two->pmc &&
                         (strict || s->conflict(s->ctx, one->pmc, two->pmc))
                     ? YES
                     : NO;
    }
    return *known == YES;
}

/* Finds the rows that claim `a` may not take (blocked) or that displace another claim (busy). */
static void search_rows(struct search *s, unsigned a, uint64_t *blocked, uint64_t *busy)
{
    const uint64_t fits = claim_fits(s->class->claims.items[a]) & s->allowed;

    *blocked = *busy = 0;
    for (unsigned b = 0; b < s->class->claims.n; b++) {
        const struct claim *other = s->class->claims.items[b];
        const uint64_t got = claim_rows(other) & fits;

        if (b == a || got == 0 || s->nodes[b].state == DISPLACED || !search_conflict(s, a, b))
            continue;
        if (s->nodes[b].state == PLACED || !claim_movable(other))
            *blocked |= got;
        else
            *busy |= got;
    }
}

/* ---- the search ---- */

/* The rows that a claim tries: a set that grows row by row in order of choice. */
struct choice {
    unsigned claim; /* index */
    uint64_t busy;
    bool may_displace; /* second pass */
    uint8_t order[MATCH_ROWS];
    unsigned n_order, needed;
    struct want wants[MATCH_ROWS];
    uint8_t taken[MATCH_ROWS];
    unsigned n_taken;
};

static bool search_next(struct search *s);

/* Takes a complete set, displaces the claims in conflict and places these. */
static bool choice_settle(struct search *s, struct choice *choice)
{
    struct claim *claim = s->class->claims.items[choice->claim];
    const uint64_t fits = claim_fits(claim);
    bool done;

    claim_set_rows(claim, choice->wants);
    for (unsigned b = 0; b < s->class->claims.n; b++) {
        if (s->nodes[b].state != AT_REST || (claim_rows(s->class->claims.items[b]) & fits) == 0 ||
            (claim_rows(s->class->claims.items[b]) & claim_rows(claim)) == 0 ||
            !search_conflict(s, choice->claim, b))
            continue;
        s->nodes[b].state = DISPLACED;
        s->nodes[b].by = choice->claim;
    }
    done = search_next(s);
    for (unsigned b = 0; !done && b < s->class->claims.n; b++)
        if (s->nodes[b].state == DISPLACED && s->nodes[b].by == choice->claim)
            s->nodes[b].state = AT_REST;
    return done;
}

/* Tries every set of rows that fills the wants, with and without order[at]. */
static bool choice_grow(struct search *s, struct choice *choice, unsigned at)
{
    if (s->steps == 0 || s->no_memory)
        return false;
    s->steps--;
    if (choice->n_taken == choice->needed) {
        bool displaces = false;

        for (unsigned i = 0; i < choice->n_taken; i++)
            displaces |= (choice->busy & row_bit(choice->taken[i])) != 0;
        if (displaces != choice->may_displace)
            return false; /* the first pass has tried the sets that displace no claim */
        match_rows(choice->wants, choice->needed, choice->taken, choice->n_taken);
        return choice_settle(s, choice);
    }
    if (choice->n_order - at < choice->needed - choice->n_taken)
        return false;
    choice->taken[choice->n_taken++] = choice->order[at];
    if (match_rows(choice->wants, choice->needed, choice->taken, choice->n_taken) ==
            choice->n_taken &&
        choice_grow(s, choice, at + 1))
        return true;
    choice->n_taken--;
    return choice_grow(s, choice, at + 1);
}

static bool choice_make(struct search *s, unsigned index, bool may_displace)
{
    const struct claim *claim = s->class->claims.items[index];
    struct choice choice = {.claim = index, .may_displace = may_displace};
    uint64_t blocked, rows;

    search_rows(s, index, &blocked, &choice.busy);
    if (may_displace && choice.busy == 0)
        return false;
    rows = s->allowed & ~blocked;
    if (!may_displace)
        rows &= ~choice.busy;
    choice.needed = claim_wants(claim, rows, choice.wants);
    choice.n_order = rows_order(s->rows, claim, rows & claim_fits(claim), choice.order);
    return choice_grow(s, &choice, 0);
}

/* Places the first displaced claim, then the next. Returns true when all are placed. */
static bool search_next(struct search *s)
{
    struct claim *claim;
    struct claim_member before[SET_MAX];
    unsigned index = 0;
    bool done;

    while (index < s->class->claims.n && s->nodes[index].state != DISPLACED)
        index++;
    if (index == s->class->claims.n)
        return true;
    if (s->placed == CHAIN_MAX)
        return false;
    if (s->nodes[index].known == NULL)
        s->nodes[index].known = calloc(s->class->claims.n, 1);
    if (s->nodes[index].known == NULL) {
        s->no_memory = true;
        return false;
    }
    claim = s->class->claims.items[index];
    for (unsigned i = 0; i < claim->n; i++)
        before[i] = claim->member[i];
    s->nodes[index].state = PLACED;
    s->placed++;
    done = choice_make(s, index, false) || choice_make(s, index, true);
    if (!done) {
        for (unsigned i = 0; i < claim->n; i++)
            claim->member[i] = before[i];
        s->nodes[index].state = DISPLACED;
        s->placed--;
    }
    return done;
}

/* ---- the operation ---- */

/* Returns true if the claim has no conflict where it is, which is the usual case. */
static bool claim_has_no_conflict(const struct rows *rows, const struct claim *claim,
                                  bool (*conflict)(void *ctx, uint64_t a, uint64_t b), void *ctx)
{
    const struct row_class *class = &rows->classes[claim->class_index];
    const uint64_t got = claim_rows(claim);

    for (unsigned i = 0; i < class->claims.n; i++) {
        const struct claim *other = class->claims.items[i];

        if (other != claim && !other->system && other->pmc != claim->pmc &&
            (claim_rows(other) & got) != 0 && conflict(ctx, claim->pmc, other->pmc))
            return false;
    }
    return true;
}

/* Runs the search with `claim` displaced. */
static bool search_run(struct search *s, const struct claim *claim)
{
    bool done;

    s->nodes = calloc(s->class->claims.n, sizeof s->nodes[0]);
    if (s->nodes == NULL) {
        s->no_memory = true;
        return false;
    }
    for (unsigned i = 0; i < s->class->claims.n; i++)
        if (s->class->claims.items[i] == claim)
            s->nodes[i].state = DISPLACED;
    done = search_next(s);
    for (unsigned i = 0; i < s->class->claims.n; i++)
        free(s->nodes[i].known);
    free(s->nodes);
    return done;
}

int rows_arrange(struct rows *rows, struct claim *claim,
                 bool (*conflict)(void *ctx, uint64_t a, uint64_t b), void *ctx, struct err *err)
{
    struct row_class *class = &rows->classes[claim->class_index];
    struct search search = {.rows = rows,
                            .class = class,
                            .conflict = conflict,
                            .ctx = ctx,
                            .steps = STEPS_MAX,
                            .allowed = class_all(class) & ~rows_above_zero(class->closed)};
    bool done;

    if (claim->system || claim->n == 0 || claim_has_no_conflict(rows, claim, conflict, ctx))
        return 0;
    for (unsigned i = 0; i < class->claims.n; i++)
        if (!class->claims.items[i]->system)
            claim_unbook(rows, class->claims.items[i]);
    done = search_run(&search, claim);
    for (unsigned i = 0; i < class->claims.n; i++)
        if (!class->claims.items[i]->system)
            claim_book(rows, class->claims.items[i]);
    foreign_settle(rows, class);
    if (done)
        return 0;
    if (search.no_memory)
        return err_set(
            err, E32,
            "no memory to arrange the rows of class \"%s\": try again later, or release PMCs",
            class->info->name);
    return err_set(err, E05,
                   "other PMCs of the same process hold the rows of class \"%s\" that could count "
                   "this one%s: detach one of them, or write multiplex=on",
                   class->info->name, claim_movable(claim) ? "" : " (row= allows no other)");
}
