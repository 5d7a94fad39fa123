/*
 * Turns writes to the files of a PMC into changes.
 */
#include "core/change/plan.h"

#include "core/files.h"

#include <string.h>

const struct verb_row verb_table[VERBS] = {
    [VERB_START] =
        {"start",
         "start or continue counting. Attaches the writing process if there never was a target",
         "PMCSTART, PMIOSTART, cpc_enable"},
    [VERB_STOP] = {"stop", "stop counting and keep the value", "PMCSTOP, PMIOSTOP, cpc_disable"},
    [VERB_RESET] = {"reset",
                    "set the value back to the initial count and the times to 0. Not while running",
                    "PMIORESET"},
    [VERB_RESTART] = {"restart", "reset and start in one step", "cpc_set_restart"},
    [VERB_FLUSH] = {"flush", "make all records so far readable", "FLUSHLOG"},
    [VERB_CLOSE] = {"close", "write the last record and close the log", "CLOSELOG"},
    [VERB_DETACH] = {"detach", "detach from all targets", "PMCDETACH"},
};

int change_refuse_held(struct call *call)
{
    const struct pmc *pmc = call->pmc;

    if (pmc->held_by && (!call->open || call->open->holds != pmc->id))
        return err_set(&call->err, P29,
                       "lifetime=open: another open file holds %s until it is closed", pmc->name);
    return 0;
}

/* Runs the command; CALL_WAIT while the PMC is busy. */
int store_command(struct call *call)
{
    struct pmc *pmc = call->pmc;
    int rc;

    if (pmc->busy) {
        call->wait_for = pmc->id;
        return CALL_WAIT;
    }
    rc = change_refuse_held(call);
    return rc ? rc
              : change_run(call, pmc, CAUSE_COMMAND,
                           pmc->links->n > 0 || strcmp(call->file, "count") != 0);
}
