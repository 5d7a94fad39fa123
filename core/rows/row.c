/*
 * Rows: the signed numbers, the slots of each CPU, administration and queries. row_choose.c chooses
 * the rows of a PMC, row_arrange.c moves PMCs. (R numbers: rules of hwpmc, in tests/reference-ids.)
 *
 *   event                        number   condition                                   rule
 *   process PMC created, freed   +1, -1   number >= 0                                 R01 R02
 *   system PMC gets, loses a CPU -1, +1   number <= 0, the slot free                  R03 R04
 *   slot disabled                -1       not THREAD (E03), not taken (E04)           R05
 *   slot enabled                 +1       not taken (E04)                             R06
 *   disabled while disabled,      0       the same checks                             R07
 *     enabled while enabled
 *   slot found foreign           -1       not THREAD, not taken; else overcommitted
 *   attach, detach of a process   0                                                   R08
 *     PMC; start, stop
 *
 * A slot that is disabled and foreign counts once, and shows as disabled.
 */
#include "core/rows/row_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- booking ---- */

static struct row_class *claim_class(const struct rows *rows, const struct claim *claim)
{
    assert(claim->class_index < rows->n_classes);
    return &rows->classes[claim->class_index];
}

uint64_t class_all(const struct row_class *class)
{
    return class->n == 0 ? 0 : UINT64_MAX >> (ROWS_MAX - class->n);
}

uint64_t rows_above_zero(const unsigned counts[ROWS_MAX])
{
    uint64_t set = 0;

    for (unsigned row = 0; row < ROWS_MAX; row++)
        if (counts[row] > 0)
            set |= row_bit(row);
    return set;
}

uint64_t claim_rows(const struct claim *claim)
{
    uint64_t set = 0;

    for (unsigned i = 0; i < claim->n; i++)
        set |= claim->member[i].got;
    return set;
}

uint64_t claim_fits(const struct claim *claim)
{
    uint64_t set = 0;

    for (unsigned i = 0; i < claim->n; i++)
        set |= claim->member[i].fits;
    return set;
}

unsigned claim_needed(const struct claim *claim)
{
    unsigned n = 0;

    for (unsigned i = 0; i < claim->n; i++)
        n += claim->member[i].needed;
    return n;
}

/* Sets the slots of a CPU and updates `closed`. Every change of taken, disabled or foreign slots is
 * made here. */
static void slots_write(struct row_class *class, unsigned cpu, struct cpu_slots next)
{
    const uint64_t before = slots_closed(&class->slots[cpu]), after = slots_closed(&next);

    for (uint64_t set = after & ~before; set != 0;)
        class->closed[row_take(&set)]++;
    for (uint64_t set = before & ~after; set != 0;)
        class->closed[row_take(&set)]--;
    class->slots[cpu] = next;
}

static void claim_change(struct rows *rows, const struct claim *claim, bool book)
{
    struct row_class *class = claim_class(rows, claim);
    const uint64_t got = claim_rows(claim);

    if (!claim->system) {
        for (uint64_t set = got; set != 0;) {
            const unsigned row = row_take(&set);

            class->threads[row] = book ? class->threads[row] + 1 : class->threads[row] - 1;
        }
        return;
    }
    if (got == 0)
        return;
    for (int c = cpus_next(&claim->cpus, 0); c >= 0; c = cpus_next(&claim->cpus, c + 1)) {
        struct cpu_slots next = class->slots[c];

        assert(book ? (next.taken & got) == 0 : (next.taken & got) == got);
        next.taken ^= got;
        slots_write(class, (unsigned)c, next);
    }
}

void claim_book(struct rows *rows, const struct claim *claim)
{
    claim_change(rows, claim, true);
}

void claim_unbook(struct rows *rows, const struct claim *claim)
{
    claim_change(rows, claim, false);
}

void foreign_settle(struct rows *rows, struct row_class *class)
{
    const uint64_t threads = rows_above_zero(class->threads);

    for (int c = cpus_next(&rows->possible, 0); c >= 0; c = cpus_next(&rows->possible, c + 1)) {
        struct cpu_slots next = class->slots[c];

        next.foreign = next.probed & ~next.taken & ~threads;
        if (next.foreign != class->slots[c].foreign)
            slots_write(class, (unsigned)c, next);
    }
}

void rows_release(struct rows *rows, struct claim *claim)
{
    if (claim->pmc == 0)
        return;
    struct row_class *class = claim_class(rows, claim);
    for (unsigned i = 0; i < class->claims.n; i++) {
        if (class->claims.items[i] != claim)
            continue;
        claim_unbook(rows, claim);
        vec_remove(&class->claims, i);
        foreign_settle(rows, class);
        break;
    }
    claim->pmc = 0;
    for (unsigned i = 0; i < claim->n; i++)
        claim->member[i].got = 0;
}

/* Returns true if the claim's rows are within its masks, as many as needed, and not repeated. */
static bool claim_is_valid(const struct row_class *class, const struct claim *claim)
{
    uint64_t seen = 0;

    for (unsigned i = 0; i < claim->n; i++) {
        const struct claim_member *member = &claim->member[i];

        if ((unsigned)__builtin_popcountll(member->got) != member->needed ||
            (member->got & ~(member->fits & class_all(class))) != 0 || (member->got & seen) != 0)
            return false;
        seen |= member->got;
    }
    return true;
}

/* Ignores foreign slots: the claim held its rows before these were probed. */
bool rows_retake(struct rows *rows, struct claim *claim)
{
    struct row_class *class = claim_class(rows, claim);
    const struct cpus *cpus = claim->system ? &claim->cpus : &rows->possible;
    const uint64_t got = claim_rows(claim);

    if (!claim_is_valid(class, claim) || (claim->system && cpus_count(&claim->cpus) > 0 &&
                                          (rows_above_zero(class->threads) & got) != 0))
        return false;
    for (int c = cpus_next(cpus, 0); c >= 0; c = cpus_next(cpus, c + 1))
        if (!cpus_has(&rows->possible, (unsigned)c) ||
            ((class->slots[c].taken | class->slots[c].disabled) & got) != 0)
            return false;
    if (vec_push(&class->claims, claim) != 0)
        return false;
    claim_book(rows, claim);
    foreign_settle(rows, class);
    return true;
}

/* ---- life ---- */

struct rows *rows_new(const struct class_info *classes, unsigned n_classes,
                      const struct cpus *possible)
{
    struct rows *rows = calloc(1, sizeof *rows);

    if (rows == NULL)
        return NULL;
    for (int c = cpus_next(possible, 0); c >= 0; c = cpus_next(possible, c + 1))
        rows->n_cpus = (unsigned)c + 1;
    /* + 1: calloc(0) may return NULL */
    rows->classes = calloc(n_classes + 1, sizeof *rows->classes);
    bool fine = rows->classes != NULL && cpus_copy(&rows->possible, possible);
    for (; fine && rows->n_classes < n_classes; rows->n_classes++) {
        struct row_class *class = &rows->classes[rows->n_classes];

        class->info = &classes[rows->n_classes];
        class->n = class->info->rows < ROWS_MAX ? class->info->rows : ROWS_MAX;
        class->slots = calloc(rows->n_cpus + 1, sizeof class->slots[0]);
        fine = class->slots != NULL;
    }
    if (fine)
        return rows;
    rows_free(rows);
    return NULL;
}

void claim_free(struct claim *claim)
{
    if (claim)
        cpus_free(&claim->cpus);
    free(claim);
}

void rows_free(struct rows *rows)
{
    if (rows == NULL)
        return;
    for (unsigned i = 0; i < rows->n_classes; i++) {
        assert(rows->classes[i].claims.n == 0);
        free(rows->classes[i].claims.items);
        free(rows->classes[i].slots);
    }
    free(rows->classes);
    cpus_free(&rows->possible);
    free(rows);
}

void rows_set_strict(struct rows *rows, bool strict)
{
    rows->strict = strict;
}

/* ---- administration: order of checks as in hwpmc ---- */

int rows_set_disabled(struct rows *rows, unsigned cpu, unsigned class_index, unsigned row,
                      bool disabled, struct err *err)
{
    struct row_class *class = &rows->classes[class_index];

    assert(cpus_has(&rows->possible, cpu) && class_index < rows->n_classes && row < class->n);
    if (disabled && class->threads[row] > 0)
        return err_set(err, E03,
                       "row %u of class \"%s\" is used by %u process PMC%s: release all first "
                       "(info/rows names the oldest)",
                       row, class->info->name, class->threads[row],
                       class->threads[row] == 1 ? "" : "s");
    if ((class->slots[cpu].taken & row_bit(row)) != 0)
        return err_set(
            err, E04,
            "row %u of class \"%s\" has a system PMC on cpu%u: release it first (see info/rows)",
            row, class->info->name, cpu);
    struct cpu_slots next = class->slots[cpu];
    next.disabled &= ~row_bit(row);
    if (disabled)
        next.disabled |= row_bit(row);
    slots_write(class, cpu, next);
    return 0;
}

void rows_set_foreign(struct rows *rows, unsigned cpu, unsigned class_index, uint64_t mask)
{
    if (class_index >= rows->n_classes || !cpus_has(&rows->possible, cpu))
        return;
    struct row_class *class = &rows->classes[class_index];
    class->slots[cpu].probed = mask & class_all(class);
    foreign_settle(rows, class);
}

/* ---- queries ---- */

/* Returns NULL if the class or the row does not exist. */
static const struct row_class *class_of(const struct rows *rows, unsigned class_index, unsigned row)
{
    if (class_index >= rows->n_classes || row >= rows->classes[class_index].n)
        return NULL;
    return &rows->classes[class_index];
}

int rows_number(const struct rows *rows, unsigned class_index, unsigned row)
{
    const struct row_class *class = class_of(rows, class_index, row);

    return class == NULL ? 0 : (int)class->threads[row] - (int)class->closed[row];
}

enum slot_state rows_slot(const struct rows *rows, unsigned cpu, unsigned class_index, unsigned row)
{
    const struct row_class *class = class_of(rows, class_index, row);

    if (class == NULL || !cpus_has(&rows->possible, cpu))
        return SLOT_ENABLED;
    if ((class->slots[cpu].disabled & row_bit(row)) != 0)
        return SLOT_DISABLED;
    return (class->slots[cpu].foreign & row_bit(row)) != 0 ? SLOT_FOREIGN : SLOT_ENABLED;
}

void rows_view(const struct rows *rows, uint64_t instance, unsigned cpu, unsigned class_index,
               unsigned row, struct slot_view *view)
{
    const struct row_class *class = class_of(rows, class_index, row);
    const int number = rows_number(rows, class_index, row);
    bool threads = false, takes = false;

    *view = (struct slot_view){.disposition = number > 0   ? ROW_THREAD
                                              : number < 0 ? ROW_STANDALONE
                                                           : ROW_FREE,
                               .state = rows_slot(rows, cpu, class_index, row)};
    for (unsigned i = 0; class != NULL && i < class->claims.n; i++) {
        const struct claim *claim = class->claims.items[i];

        if ((claim_rows(claim) & row_bit(row)) == 0 ||
            (claim->system && !cpus_has(&claim->cpus, cpu)) ||
            (instance && claim->instance != instance))
            continue;
        view->users++;
        if (view->oldest == 0 || claim->pmc < view->oldest)
            view->oldest = claim->pmc;
        threads |= !claim->system;
        takes |= claim->system;
    }
    if (class == NULL || !instance || !cpus_has(&rows->possible, cpu))
        return;
    /* hide the PMCs of other instances */
    if (view->disposition == ROW_THREAD && !threads)
        view->disposition = ROW_FREE;
    if (view->state == SLOT_ENABLED && !takes && (class->slots[cpu].taken & row_bit(row)) != 0)
        view->state = SLOT_FOREIGN;
}

bool rows_overcommitted(const struct rows *rows, unsigned class_index)
{
    if (class_index >= rows->n_classes)
        return false;
    for (unsigned cpu = 0; cpu < rows->n_cpus; cpu++) {
        const struct cpu_slots *slots = &rows->classes[class_index].slots[cpu];

        if ((slots->probed & ~slots->foreign) != 0)
            return true;
    }
    return false;
}

const char *disposition_name(enum disposition d)
{
    static const char *const names[] = {
        [ROW_FREE] = "FREE", [ROW_THREAD] = "THREAD", [ROW_STANDALONE] = "STANDALONE"};

    return names[d];
}

const char *slot_name(enum slot_state s)
{
    static const char *const names[] = {
        [SLOT_ENABLED] = "enabled", [SLOT_DISABLED] = "disabled", [SLOT_FOREIGN] = "foreign"};

    return names[s];
}
