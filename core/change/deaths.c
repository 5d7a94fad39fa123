/*
 * Deaths that were not told yet. Whether a target lives is asked without the lock; with it the links
 * of the dead are marked, a change ends them, and then the text is made.
 */
#include "core/change/deaths.h"

#include "core/change/change.h"
#include "core/slow.h"

#include <stdlib.h>

#define ASKED_SOON 50 /* system calls, above which it is slow */

struct asked {
    struct link *link; /* a reference */
    bool dead;
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

/* Links whose targets are to be asked, each with a reference. NULL: no memory. */
static struct asked *asked_of(const struct pmc *pmc, unsigned *n)
{
    const struct links *links = pmc->links;
    struct asked *asked = calloc(links->n + 1, sizeof *asked);

    *n = 0;
    for (unsigned i = 0; asked && i < links->n; i++)
        if (link_asked(pmc, links->link[i])) {
            asked[(*n)++].link = links->link[i];
            links->link[i]->refs++;
        }
    return asked;
}

static int targets_ask(struct call *call, const struct pmc *pmc)
{
    struct engine *engine = call->engine;
    unsigned n;
    struct asked *asked = asked_of(pmc, &n);

    if (!asked)
        return err_nomem(&call->err);
    slow_begin(call, n > ASKED_SOON);
    for (unsigned i = 0; i < n; i++)
        asked[i].dead = !link_target_alive(asked[i].link);
    slow_end(call);
    for (unsigned i = 0; i < n; i++) {
        asked[i].link->gone |= asked[i].dead;
        if (asked[i].dead)
            pmc_touch(asked[i].link->pmc);
        link_unref(asked[i].link, &engine->dead);
    }
    free(asked);
    return CALL_DONE;
}

static bool any_wanted(const struct pmc *pmc)
{
    for (unsigned i = 0; i < pmc->links->n; i++)
        if (link_asked(pmc, pmc->links->link[i]) || link_dead(pmc, pmc->links->link[i]))
            return true;
    return false;
}

/* With a reference to the PMC, which may be released meanwhile. */
static int deaths_settle(struct call *call, struct pmc *pmc)
{
    int rc = targets_ask(call, pmc);

    if (rc)
        return rc;
    change_deaths(call, pmc);
    call->err = (struct err){.id = ERR_NONE};
    if (pmc_released(pmc))
        return err_set(&call->err, P26, "the PMC was released");
    return deaths_under_way(pmc) ? deaths_wait(call, pmc) : CALL_DONE;
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
    pmc_ref(pmc);
    rc = deaths_settle(call, pmc);
    pmc_unref(pmc);
    return rc;
}
