/*
 * Deaths that were not reported yet. Checks without the lock whether targets live, then with the
 * lock ends the links of dead ones by a change before a text is made.
 */
#include "core/change/deaths.h"

#include "core/call.h"
#include "core/change/plan.h"

#include <stdlib.h>

#define ASKED_SOON 50 /* system calls; more are a slow part */

/* Returns true if the death of the target may not be reported yet. */
static bool link_asked(const struct pmc *pmc, const struct link *link)
{
    if (link->ended || link->gone || link->offline || link->kind == TARGET_CPU)
        return false;
    if (link->kind == TARGET_CGROUP)
        return true;
    return link->proc && !link->proc->dead && !pmc->settings.word[KEY_DESCENDANTS];
}

/*
 * Returns true if the engine is just ending links: a text made now would show dead targets as
 * living. Does not wait for commands, which may take long and have no effect before their swap.
 */
static bool deaths_under_way(const struct pmc *pmc)
{
    if (!pmc->busy || pmc->busy->cause == CAUSE_COMMAND)
        return false;
    if (pmc->stirred)
        return true;
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
    struct link *link; /* kept alive by the links */
    bool dead;
};

static int targets_ask(struct call *call, struct pmc *pmc)
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
        if (asked[i].dead && asked[i].link->kind == TARGET_CGROUP &&
            pmc->settings.word[KEY_REATTACH]) {
            pmc->stirred = true;
        } else if (asked[i].dead) {
            asked[i].link->gone = true;
            pmc_touch(asked[i].link->pmc);
        }
    links_unref(links, &call->engine->deferred[WORK_LINK]);
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
    pmc_ref(pmc); /* it may be released without the lock */
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
