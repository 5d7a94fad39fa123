/*
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
#include "core/rows/row_state.h"

#include <stdlib.h>
#include <string.h>

#define CHAIN_MAX 32
#define STEPS_MAX 20000

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
        unsigned displaced_by; /* DISPLACED: index of a claim */
        enum answer {
            UNKNOWN,
            NO,
            YES
        } * conflicts; /* with each other claim, as far as asked; NULL until placed */
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

/* Returns true if claim `b` may not be on a row of claim `a`, which is placed. */
static bool claim_excludes(struct search *s, unsigned a, unsigned b)
{
    const struct claim *one = s->class->claims.items[a], *two = s->class->claims.items[b];
    enum answer *answer = &s->nodes[a].conflicts[b];

    if (*answer == UNKNOWN) {
        const bool strict = s->rows->strict && claim_same_owner(one, two);

        *answer = !two->system && one->pmc != two->pmc &&
                          (strict || s->conflict(s->ctx, one->pmc, two->pmc))
                      ? YES
                      : NO;
    }
    return *answer == YES;
}

/* ---- the search ---- */

/* The rows that a claim tries: a set that grows row by row in order of choice. */
struct choice {
    unsigned claim;    /* index */
    uint64_t busy;     /* rows that only a displacement makes available */
    bool may_displace; /* second pass */
    uint8_t order[ROWS_MAX];
    unsigned n_order, needed;
    struct want wants[ROWS_MAX];
    uint8_t picked[ROWS_MAX]; /* the set so far */
    unsigned n_picked;
};

static bool place_displaced(struct search *s);

/* Gives the complete set of rows to the claim, displaces the claims in conflict, and places all
 * displaced claims. If that fails, the claims in conflict are no longer displaced. */
static bool place_and_displace(struct search *s, struct choice *choice)
{
    struct claim *claim = s->class->claims.items[choice->claim];

    claim_set_rows(claim, choice->wants);
    for (unsigned b = 0; b < s->class->claims.n; b++) {
        if (s->nodes[b].state != AT_REST ||
            (claim_rows(s->class->claims.items[b]) & claim_rows(claim)) == 0 ||
            !claim_excludes(s, choice->claim, b))
            continue;
        s->nodes[b].state = DISPLACED;
        s->nodes[b].displaced_by = choice->claim;
    }
    bool done = place_displaced(s);
    for (unsigned b = 0; !done && b < s->class->claims.n; b++)
        if (s->nodes[b].state == DISPLACED && s->nodes[b].displaced_by == choice->claim)
            s->nodes[b].state = AT_REST;
    return done;
}

/* Tries every set of rows that fills the wants, with and without order[at]. Returns true once all
 * displaced claims are placed. */
static bool try_rows(struct search *s, struct choice *choice, unsigned at)
{
    if (s->steps == 0 || s->no_memory)
        return false;
    s->steps--;
    if (choice->n_picked == choice->needed) {
        bool displaces = false;

        for (unsigned i = 0; i < choice->n_picked; i++)
            displaces |= (choice->busy & row_bit(choice->picked[i])) != 0;
        if (displaces != choice->may_displace)
            return false; /* the first pass has tried the sets that displace no claim */
        match_rows(choice->wants, choice->needed, choice->picked, choice->n_picked);
        return place_and_displace(s, choice);
    }
    if (choice->n_order - at < choice->needed - choice->n_picked)
        return false;
    choice->picked[choice->n_picked++] = choice->order[at];
    if (match_rows(choice->wants, choice->needed, choice->picked, choice->n_picked) ==
            choice->n_picked &&
        try_rows(s, choice, at + 1))
        return true;
    choice->n_picked--;
    return try_rows(s, choice, at + 1);
}

static bool place_claim(struct search *s, unsigned index, bool may_displace)
{
    const struct claim *claim = s->class->claims.items[index];
    const uint64_t fits = claim_fits(claim);
    struct choice choice = {.claim = index, .may_displace = may_displace};
    uint64_t rows = s->allowed;

    for (unsigned b = 0; b < s->class->claims.n; b++) {
        const struct claim *other = s->class->claims.items[b];
        const uint64_t held = claim_rows(other) & fits & s->allowed;

        if (b == index || held == 0 || s->nodes[b].state == DISPLACED ||
            !claim_excludes(s, index, b))
            continue;
        if (s->nodes[b].state == PLACED || !claim_movable(other))
            rows &= ~held;
        else
            choice.busy |= held;
    }
    if (may_displace && choice.busy == 0)
        return false;
    if (!may_displace)
        rows &= ~choice.busy;
    choice.needed = claim_wants(claim, rows, choice.wants); /* not 0: rows_reserve() accepted it */
    choice.n_order = rows_order(s->rows, claim, rows & fits, choice.order);
    return try_rows(s, &choice, 0);
}

/* Places the first displaced claim and, through place_and_displace(), which calls this again, the
 * others. Returns true if all are placed. */
static bool place_displaced(struct search *s)
{
    struct claim_member before[SET_MAX];
    unsigned index = 0;

    while (index < s->class->claims.n && s->nodes[index].state != DISPLACED)
        index++;
    if (index == s->class->claims.n)
        return true;
    if (s->placed == CHAIN_MAX)
        return false;
    if (s->nodes[index].conflicts == NULL)
        s->nodes[index].conflicts = calloc(s->class->claims.n, sizeof(enum answer));
    if (s->nodes[index].conflicts == NULL) {
        s->no_memory = true;
        return false;
    }
    struct claim *claim = s->class->claims.items[index];
    for (unsigned i = 0; i < claim->n; i++)
        before[i] = claim->member[i];
    s->nodes[index].state = PLACED;
    s->placed++;
    bool done = place_claim(s, index, false) || place_claim(s, index, true);
    if (!done) {
        for (unsigned i = 0; i < claim->n; i++)
            claim->member[i] = before[i];
        s->nodes[index].state = DISPLACED;
        s->placed--;
    }
    return done;
}

/* ---- the operation ---- */

/* Returns true if a PMC of the same process is on the present rows of the claim. Rows that an
 * owner's PMCs share since before strict_rows was set are no conflict. */
static bool claim_has_conflict(const struct rows *rows, const struct claim *claim,
                               bool (*conflict)(void *ctx, uint64_t a, uint64_t b), void *ctx)
{
    const struct row_class *class = &rows->classes[claim->class_index];
    const uint64_t got = claim_rows(claim);

    for (unsigned i = 0; i < class->claims.n; i++) {
        const struct claim *other = class->claims.items[i];

        if (other != claim && !other->system && other->pmc != claim->pmc &&
            (claim_rows(other) & got) != 0 && conflict(ctx, claim->pmc, other->pmc))
            return true;
    }
    return false;
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
    bool done = false;

    if (claim->system || claim->n == 0 || !claim_has_conflict(rows, claim, conflict, ctx))
        return 0; /* the usual case */
    search.nodes = calloc(class->claims.n, sizeof search.nodes[0]);
    search.no_memory = search.nodes == NULL;
    if (!search.no_memory) {
        for (unsigned i = 0; i < class->claims.n; i++) {
            if (class->claims.items[i] == claim)
                search.nodes[i].state = DISPLACED;
            /* the search changes only `got`; the numbers of the rows follow when it has ended */
            if (!class->claims.items[i]->system)
                claim_unbook(rows, class->claims.items[i]);
        }
        done = place_displaced(&search);
        for (unsigned i = 0; i < class->claims.n; i++) {
            free(search.nodes[i].conflicts);
            if (!class->claims.items[i]->system)
                claim_book(rows, class->claims.items[i]);
        }
        free(search.nodes);
        foreign_settle(rows, class);
    }
    if (done)
        return ROWS_MOVED;
    if (search.no_memory)
        return err_nomem(err);
    return err_set(err, E05,
                   "other PMCs of the same process hold the rows of class \"%s\" that could count "
                   "this one%s: detach one of them, or write multiplex=on",
                   class->info->name, claim_movable(claim) ? "" : " (row= allows no other)");
}
