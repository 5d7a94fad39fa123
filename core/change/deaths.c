/*
 * Deaths that were not told yet. Whether a target lives is asked without the lock; with it the
 * links of the dead are marked, a change ends them, and then the text is made.
 */
#include "core/change/deaths.h"

#include "core/change/plan.h"
#include "core/slow.h"

#include <stdlib.h>

#define ASKED_SOON 50 /* system calls, above which it is slow */

/* Would its death not be told, or might it be too early for that? */
static bool link_asked(const struct pmc *pmc, const struct link *link)
{
    if (link->ended || link->gone || link->kind == TARGET_CPU)
        return false;
    if (link->kind == TARGET_CGROUP)
        return true;
    return link->proc && !link->proc->dead && !pmc->settings.word[KEY_DESCENDANTS];
}

/*
 * The engine is ending links by itself already: a text made now would tell of the dead as if they
 * lived. Commands are not waited for: they may take long, and until their commit all is as it was.
 */
static bool deaths_under_way(const struct pmc *pmc)
{
    if (!pmc->busy || pmc->busy->cause == CAUSE_COMMAND)
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

static bool any_wanted(const struct pmc *pmc)
{
    for (unsigned i = 0; i < pmc->links->n; i++)
        if (link_asked(pmc, pmc->links->link[i]) || link_dead(pmc, pmc->links->link[i]))
            return true;
    return false;
}

struct asked {
    struct link *link; /* held by the links */
    bool dead;
};

static int targets_ask(struct call *call, const struct pmc *pmc)
{
    struct links *links = links_ref(pmc->links);
    struct asked *asked = calloc(links->n, sizeof *asked);
    unsigned n = 0;

    for (unsigned i = 0; asked && i < links->n; i++)
        if (link_asked(pmc, links->link[i]))
            asked[n++].link = links->link[i];
    slow_begin(call, links->n > ASKED_SOON);
    for (unsigned i = 0; i < n; i++)
        asked[i].dead = !link_target_alive(asked[i].link);
    slow_end(call);
    for (unsigned i = 0; i < n; i++)
        if (asked[i].dead) {
            asked[i].link->gone = true;
            pmc_touch(asked[i].link->pmc);
        }
    links_unref(links, &call->engine->dead);
    int rc = asked ? CALL_DONE : err_nomem(&call->err);
    free(asked);
    return rc;
}

int deaths_settled(struct call *call)
{
    struct pmc *pmc = call->pmc;
    bool slow = pmc->links->n > ASKED_SOON || change_takes_long(pmc);
    int rc;

    if (!any_wanted(pmc))
        return CALL_DONE;
    if (deaths_under_way(pmc))
        return deaths_wait(call, pmc);
    rc = slow ? slow_admit(call) : CALL_DONE;
    if (rc)
        return rc;
    pmc_ref(pmc); /* it may be released meanwhile */
    rc = targets_ask(call, pmc);
    if (rc == CALL_DONE) {
        change_deaths(call, pmc);
        call->err = (struct err){.id = ERR_NONE};
        if (pmc_released(pmc))
            rc = err_set(&call->err, P26, "the PMC was released");
        else if (deaths_under_way(pmc))
            rc = deaths_wait(call, pmc);
    }
    pmc_unref(pmc);
    return rc;
}
