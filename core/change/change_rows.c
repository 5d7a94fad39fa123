/*
 * Rows, at the swap: the claim of the new set replaces the old claim. At an attach, claims are
 * moved to other rows if necessary, because PMCs that cover the same process must not share a row.
 */
#include "core/change/plan.h"

#include <assert.h>
#include <stdlib.h>

/* ---- the claim ---- */

/* Creates the claim of the desired set; its rows are chosen later. *out is NULL if no row is
 * needed: software events, multiplex=on, or no CPU. */
static int claim_make(struct change *change, struct claim **out)
{
    const struct desired *desired = &change->desired;
    const uint64_t row = settings_number(&desired->settings, KEY_ROW);
    const struct set *set = desired->set;
    const struct links *links = change->diff.links;
    const struct engine *engine = change->engine;
    const struct pmc *pmc = change->pmc;
    bool ok = true, has_cgroup = false;
    unsigned n = 0;

    *out = NULL;
    for (unsigned i = 0; set && i < set->n; i++)
        n += set->event[i].rows != 0;
    if (set && n == 0 && row != UINT64_MAX &&
        (desired->new_set || !pmc->set || (desired->command_keys & KEY_BIT(KEY_ROW))))
        return err_set(&change->err, E19,
                       "row=%llu: \"%s\" belongs to class \"%s\", which has no rows: write row=any",
                       (unsigned long long)row, set->event[0].written,
                       engine->classes[set->event[0].class_index].name);
    if (n == 0 || desired->settings.word[KEY_MULTIPLEX])
        return 0;
    struct claim *claim = calloc(1, sizeof *claim);
    if (!claim)
        return err_nomem(&change->err);
    claim->pmc = pmc->id;
    claim->instance = pmc->instance->id;
    claim->uid = pmc->uid;
    claim->system = mode_table[desired->settings.mode].system;
    claim_members(claim, set, row);
    for (unsigned i = 0; i < links->n; i++) {
        const struct link *link = links->link[i];

        if (link->kind == TARGET_CPU && link->state != LINK_ENDED)
            ok &= cpus_add(&claim->cpus, link->cpu);
        has_cgroup |= link->kind == TARGET_CGROUP && link->state != LINK_ENDED;
    }
    /* `all` and cgroups claim slots of offline CPUs too */
    const struct cpus *class = &engine->classes[claim->class_index].cpus;
    if (has_cgroup)
        ok &= cpus_copy(&claim->cpus, &engine->possible);
    else if (claim->system && desired->wants_all)
        ok &= cpus_add_all(&claim->cpus, cpus_count(class) ? class : &engine->possible);
    if (ok && (!claim->system || cpus_count(&claim->cpus))) {
        *out = claim;
        return 0;
    }
    claim_free(claim);
    return ok ? 0 : err_nomem(&change->err);
}

/* ---- processes that two PMCs cover ---- */

/* Returns true if the link covers, or will cover, a process or thread of the other link.
 * descendants: the link's PMC counts descendants. */
static bool covers_link(struct engine *engine, const struct link *link, bool descendants,
                        const struct link *other)
{
    if (link->state == LINK_ENDED || other->state == LINK_ENDED || link->kind > TARGET_THREAD ||
        other->kind > TARGET_THREAD)
        return false;
    if (link->pid == other->pid)
        return link->kind == TARGET_PROCESS || other->kind == TARGET_PROCESS ||
               link->tid == other->tid;
    return descendants && link->counter && engine->backend->covers(link->counter, other->pid);
}

/* The links of a PMC after the change. */
struct links_after {
    const struct links *links; /* NULL: released */
    bool descendants;
};

static struct links_after links_after(const struct change *change, uint64_t id)
{
    const struct pmc *pmc = ids_find(&change->engine->pmcs, id);

    if (!pmc)
        return (struct links_after){.links = NULL};
    if (pmc == change->pmc)
        return (struct links_after){change->diff.links,
                                    change->desired.settings.word[KEY_DESCENDANTS]};
    return (struct links_after){pmc->links, pmc->settings.word[KEY_DESCENDANTS]};
}

static bool claims_conflict(void *ctx, uint64_t a, uint64_t b)
{
    const struct change *change = ctx;
    struct links_after of_a = links_after(change, a), of_b = links_after(change, b);

    if (!of_a.links || !of_b.links)
        return true; /* a released PMC holds its rows until its counters are closed */
    for (unsigned i = 0; i < of_a.links->n; i++)
        for (unsigned j = 0; j < of_b.links->n; j++) {
            const struct link *one = of_a.links->link[i], *other = of_b.links->link[j];

            if (covers_link(change->engine, one, of_a.descendants, other) ||
                covers_link(change->engine, other, of_b.descendants, one))
                return true;
        }
    return false;
}

/* ---- replacing the claim ---- */

static bool claim_alike(const struct claim *a, const struct claim *b)
{
    if (!a || !b)
        return a == b;
    if (a->system != b->system || a->n != b->n || !cpus_equal(&a->cpus, &b->cpus))
        return false;
    for (unsigned i = 0; i < a->n; i++)
        if (a->member[i].fits != b->member[i].fits || a->member[i].needed != b->member[i].needed ||
            a->member[i].wanted != b->member[i].wanted)
            return false;
    return true;
}

static int claim_arrange(struct change *change, struct claim *claim)
{
    uint64_t id = 0;

    if (!claim || claim->system || !change->diff.n_opens)
        return 0;
    int rc = rows_arrange(change->engine->rows, claim, claims_conflict, change, &change->err);
    if (rc != ROWS_MOVED)
        return rc;
    for (struct pmc *pmc; (pmc = ids_next(&change->engine->pmcs, id, &id));)
        if (pmc->claim && !pmc->claim->system && pmc->claim->class_index == claim->class_index)
            pmc_touch(pmc); /* it may have moved, and its record has the rows */
    return 0;
}

/* Reserves rows. A refusal names all events of the claim. */
static int claim_reserve(struct change *change, struct claim *claim)
{
    const struct set *set = change->desired.set;
    char room[256];
    struct buf names = buf_in(room, sizeof room);

    for (unsigned i = 0; i < set->n; i++)
        if (set->event[i].rows)
            buf_printf(&names, "%s%s", names.len ? " " : "", set->event[i].written);
    int rc = rows_reserve(change->engine->rows, claim, text_shown(buf_text(&names)), &change->err);
    buf_free(&names);
    return rc;
}

int change_rows(struct change *change)
{
    struct rows *rows = change->engine->rows;
    struct claim *old = change->pmc->claim, *claim, old_copy = {.pmc = 0};
    int rc = claim_make(change, &claim);

    if (rc)
        return rc;
    if (claim_alike(claim, old) && !change->desired.new_set) {
        claim_free(claim);
        return claim_arrange(change, old);
    }
    if (old) {
        old_copy = *old;
        rows_release(rows, old);
    }
    if (claim)
        rc = claim_reserve(change, claim);
    if (rc == 0)
        rc = claim_arrange(change, claim);
    if (rc == 0) {
        claim_free(old);
        change->pmc->claim = claim;
        return 0;
    }
    if (claim)
        rows_release(rows, claim);
    claim_free(claim);
    if (old) { /* cannot fail: the lock was held, so the old rows are free */
        *old = old_copy;
        bool retaken = rows_retake(rows, old);
        assert(retaken);
        (void)retaken;
    }
    return rc;
}
