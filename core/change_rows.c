/*
 * The rows of a change: the claim that its set will need, taken in place of the old one, and moved
 * at attach so that no two PMCs on one row cover one process.
 */
#include "core/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The CPUs of all links afterwards. `all` and cgroups keep slots for the CPUs that are to come. */
static bool claim_cpus(const struct change *change, struct claim *claim)
{
    const struct class_info *class = &change->engine->classes[claim->class_index];
    bool ok = true, whole_machine = false;

    for (unsigned i = 0; i < change->n_fresh; i++) {
        if (change->fresh[i]->kind == TARGET_CPU)
            ok &= cpus_add(&claim->cpus, change->fresh[i]->cpu);
        whole_machine |= change->fresh[i]->kind == TARGET_CGROUP;
    }
    for (unsigned i = 0; i < change->n_replaced; i++)
        if (change->replaced[i].ended && change->replaced[i].ended->offline)
            ok &= cpus_add(&claim->cpus, change->replaced[i].ended->cpu);
    for (unsigned i = 0; i < change->pmc->links->n; i++) {
        const struct link *link = change->pmc->links->link[i];

        if (link->ended || plan_leaves(change, link))
            continue;
        if (link->kind == TARGET_CPU)
            ok &= cpus_add(&claim->cpus, link->cpu);
        whole_machine |= link->kind == TARGET_CGROUP;
    }
    if (whole_machine)
        ok &= cpus_copy(&claim->cpus, &change->engine->possible);
    else if (claim->system && change->wants_all)
        ok &= cpus_add_all(&claim->cpus,
                           cpus_count(&class->cpus) ? &class->cpus : &change->engine->possible);
    return ok;
}

static int refuse_row(struct change *change)
{
    const struct event *event = &change->set->event[0];

    return err_set(&change->err, E19,
                   "row=%llu: \"%s\" is of class \"%s\", which has no rows: write row=any",
                   (unsigned long long)change->want.value[KEY_ROW], event->written,
                   change->engine->classes[event->class_index].name);
}

/* The claim that the set will need, unreserved; NULL: it needs no rows (yet). */
static int make_claim(struct change *change, struct claim **out)
{
    bool system = mode_table[change->effective].system;
    struct claim *claim;
    unsigned n = 0;

    *out = NULL;
    for (unsigned i = 0; change->set && i < change->set->n; i++)
        n += change->set->event[i].rows != 0;
    if (n == 0 && change->set && change->want.value[KEY_ROW] != UINT64_MAX &&
        (change->new_set || !change->pmc->set || (change->given & GIVEN(KEY_ROW))))
        return refuse_row(change);
    if (n == 0 || change->want.value[KEY_MULTIPLEX])
        return 0;
    claim = calloc(1, sizeof *claim);
    if (!claim)
        return plan_no_memory(change);
    claim->pmc = change->pmc->id;
    claim->instance = change->pmc->instance->id;
    claim->uid = change->pmc->uid;
    claim->system = system;
    cpus_init(&claim->cpus);
    for (unsigned i = 0; i < change->set->n; i++) {
        const struct event *event = &change->set->event[i];

        if (!event->rows)
            continue;
        uint64_t row = change->want.value[KEY_ROW];
        claim->class_index = event->class_index;
        claim->member[claim->n++] = (struct claim_member){
            .fits = event->rows,
            .needed = event->rows_needed,
            .asked = row == UINT64_MAX ? ROW_ANY : (int)row,
        };
    }
    if (!claim_cpus(change, claim)) {
        cpus_free(&claim->cpus);
        free(claim);
        return plan_no_memory(change);
    }
    if (system && cpus_count(&claim->cpus) == 0) {
        cpus_free(&claim->cpus);
        free(claim);
        return 0;
    }
    *out = claim;
    return 0;
}

/* Do a and b cover, or are they about to cover, one process? Of fresh links no counter is looked
 * at. */
static bool covers_link(struct engine *engine, const struct pmc *pmc, const struct link *link,
                        bool fresh, const struct link *other)
{
    if (link->ended || other->ended || link->kind > TARGET_THREAD || other->kind > TARGET_THREAD)
        return false;
    if (link->pid == other->pid)
        return link->kind == TARGET_PROCESS || other->kind == TARGET_PROCESS ||
               link->tid == other->tid;
    return pmc->settings.value[KEY_DESCENDANTS] && !fresh && link->counter &&
           engine->backend->covers(link->counter, other->pid);
}

/* The links of a PMC: those it has, and those of the change under way. */
struct view {
    const struct pmc *pmc;
    struct link *const *link[2];
    unsigned n[2];
};

/* A PMC that was released, but holds its rows until its counters are closed; NULL: already at that.
 */
static const struct pmc *pmc_leaving(struct engine *engine, uint64_t pmc_id)
{
    uint64_t id = 0;

    for (struct proc *proc; (proc = ids_next(&engine->procs, id, &id));)
        for (const struct link *link = proc->links; link; link = link->next_of_proc)
            if (link->pmc->id == pmc_id && link->pmc->links)
                return link->pmc;
    return NULL;
}

static struct view view_of(struct engine *engine, uint64_t id)
{
    const struct pmc *pmc = ids_find(&engine->pmcs, id);

    if (!pmc)
        pmc = pmc_leaving(engine, id);
    struct view view = {.pmc = pmc};

    if (!pmc)
        return view;
    view.link[0] = pmc->links->link;
    view.n[0] = pmc->links->n;
    if (pmc->busy) {
        view.link[1] = pmc->busy->fresh;
        view.n[1] = pmc->busy->n_fresh;
    }
    return view;
}

static bool conflict(void *ctx, uint64_t a, uint64_t b)
{
    struct engine *engine = ctx;
    struct view va = view_of(engine, a), vb = view_of(engine, b);

    if (!va.pmc || !vb.pmc)
        return true; /* its counters are being closed: on what, nobody knows any more */
    for (unsigned x = 0; x < 4; x++) {
        unsigned s = x / 2, t = x % 2;

        for (unsigned i = 0; i < va.n[s]; i++)
            for (unsigned j = 0; j < vb.n[t]; j++)
                if (covers_link(engine, va.pmc, va.link[s][i], s == 1, vb.link[t][j]) ||
                    covers_link(engine, vb.pmc, vb.link[t][j], t == 1, va.link[s][i]))
                    return true;
    }
    return false;
}

static bool claim_alike(const struct claim *a, const struct claim *b)
{
    if (!a || !b)
        return a == b;
    if (a->system != b->system || a->n != b->n || !cpus_equal(&a->cpus, &b->cpus))
        return false;
    for (unsigned i = 0; i < a->n; i++)
        if (a->member[i].fits != b->member[i].fits || a->member[i].needed != b->member[i].needed ||
            a->member[i].asked != b->member[i].asked)
            return false;
    return true;
}

static void claim_free(struct claim *claim)
{
    if (claim)
        cpus_free(&claim->cpus);
    free(claim);
}

/* The PMC's claim as it was; true if its rows are held again (or were never let go). */
static bool rows_hold(struct change *change)
{
    struct claim *claim = change->pmc->claim;

    if (claim->pmc)
        return true;
    memcpy(claim->member, change->before->member, sizeof claim->member);
    claim->n = change->before->n;
    claim->pmc = change->before->pmc;
    if (rows_retake(change->engine->rows, claim))
        return true;
    claim->pmc = 0;
    return false;
}

void change_rows_back(struct change *change)
{
    struct pmc *pmc = change->pmc;

    if (!change->before)
        return;
    if (!rows_hold(change)) {
        claim_free(pmc->claim); /* taken meanwhile: it counts on without a row */
        pmc->claim = NULL;
    }
    free(change->before);
    change->before = NULL;
}

/*
 * Rows of the old claim are free for the new one. Afterwards they are held too, as far as both can
 * be, so that nobody takes them while the change may still fail; else change_rows_back() takes them
 * again.
 */
static bool rows_aside(struct change *change)
{
    struct claim *claim = change->pmc->claim;

    if (!claim)
        return true;
    change->before = malloc(sizeof *claim);
    if (!change->before)
        return false;
    *change->before = *claim;
    rows_release(change->engine->rows, claim);
    return true;
}

int plan_rows(struct change *change)
{
    struct engine *engine = change->engine;
    struct pmc *pmc = change->pmc;
    struct claim *claim;
    int rc = make_claim(change, &claim);

    if (rc)
        return rc;
    if (claim_alike(claim, pmc->claim) && !change->new_set) {
        claim_free(claim);
        claim = pmc->claim;
    } else {
        rc = rows_aside(change) ? 0 : plan_no_memory(change);
        if (rc == 0 && claim)
            rc = rows_reserve(engine->rows, claim, change->set->event[0].written, &change->err);
        if (rc) {
            change_rows_back(change);
            claim_free(claim);
            return rc;
        }
        change->claim = claim;
        change->new_claim = true;
    }
    if (claim && !claim->system && change->n_fresh)
        rc = rows_arrange(engine->rows, claim, conflict, engine, &change->err);
    if (rc == 0 && change->new_claim && change->before)
        rows_hold(change);
    return rc;
}
