/*
 * Deaths that nobody has told yet. Whether a target lives is asked without the lock; with it the
 * links of the dead are marked, a change ends them, and then the text is made.
 */
#include "core/deaths.h"

#include "core/change.h"

#include <stdlib.h>

#define ASKED_SOON 50 /* system calls, above which it is slow */

struct deaths {
    struct work work;
    struct work *inner; /* the change; NULL: targets are asked */
    struct pmc *pmc;    /* a reference */
    int (*show)(struct call *call);
    unsigned n;
    struct asked {
        struct link *link; /* a reference */
        bool dead;
    } asked[];
};

/* Would nobody tell of its death, or might it be too early for that? */
static bool link_asked(const struct pmc *pmc, const struct link *link)
{
    if (link->ended || link->gone || link->kind == TARGET_CPU)
        return false;
    if (link->kind == TARGET_CGROUP)
        return true;
    return link->proc && !link->proc->dead && !pmc->settings.value[KEY_DESCENDANTS];
}

static void deaths_run(struct work *work)
{
    struct deaths *deaths = (struct deaths *)work;

    if (deaths->inner) {
        deaths->inner->run(deaths->inner);
        return;
    }
    for (unsigned i = 0; i < deaths->n; i++)
        deaths->asked[i].dead = !link_target_alive(deaths->asked[i].link);
}

static void mark_dead(struct deaths *deaths)
{
    for (unsigned i = 0; i < deaths->n; i++) {
        struct asked *asked = &deaths->asked[i];

        asked->link->gone |= asked->dead;
        link_unref(asked->link, &deaths->pmc->engine->dead);
    }
    deaths->n = 0;
}

/*
 * The engine is ending links by itself already: a text made now would tell of the dead as if they
 * lived. Commands are not waited for: they may take long, and until their commit all is as it was.
 */
static bool deaths_under_way(const struct pmc *pmc)
{
    if (!pmc->busy || change_is_command(pmc->busy))
        return false;
    for (unsigned i = 0; i < pmc->links->n; i++)
        if (link_dead(pmc, pmc->links->link[i]))
            return true;
    return false;
}

static int deaths_wait(struct call *call, const struct pmc *pmc)
{
    call->wait_for = pmc->id;
    return CALL_WAIT;
}

static int deaths_end(struct call *call, struct deaths *deaths)
{
    int (*show)(struct call *) = deaths->show;
    struct pmc *pmc = deaths->pmc;
    int rc;

    free(deaths);
    call->err = (struct err){.id = ERR_NONE};
    if (pmc_released(pmc))
        rc = err_set(&call->err, P26, "the PMC was released");
    else
        rc = deaths_under_way(pmc) ? deaths_wait(call, pmc) : show(call);
    pmc_unref(pmc);
    return rc;
}

static int deaths_finish(struct call *call, struct work *work)
{
    struct deaths *deaths = (struct deaths *)work;

    if (!deaths->inner) {
        mark_dead(deaths);
        deaths->inner = change_deaths(deaths->pmc);
    } else if (deaths->inner->finish(call, deaths->inner) == CALL_WORK) {
        deaths->inner = call->work;
    } else {
        deaths->inner = NULL;
    }
    if (!deaths->inner)
        return deaths_end(call, deaths);
    deaths->work.slow = deaths->inner->slow;
    call->work = work;
    return CALL_WORK;
}

int deaths_then(struct call *call, int (*show)(struct call *call))
{
    struct pmc *pmc = call->pmc;
    const struct links *links = pmc->links;
    bool wanted = false;

    for (unsigned i = 0; i < links->n && !wanted; i++)
        wanted = link_asked(pmc, links->link[i]) || link_dead(pmc, links->link[i]);
    if (!wanted)
        return show(call);
    if (deaths_under_way(pmc))
        return deaths_wait(call, pmc);
    struct deaths *deaths = calloc(1, sizeof *deaths + links->n * sizeof deaths->asked[0]);
    if (!deaths)
        return err_set(&call->err, E32, "no memory");
    deaths->pmc = pmc_ref(pmc);
    deaths->show = show;
    for (unsigned i = 0; i < links->n; i++)
        if (link_asked(pmc, links->link[i])) {
            deaths->asked[deaths->n++].link = links->link[i];
            links->link[i]->refs++;
        }
    deaths->work = (struct work){deaths_run, deaths_finish, deaths->n > ASKED_SOON};
    call->work = &deaths->work;
    return CALL_WORK;
}
