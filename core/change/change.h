/*
 * Changes of PMCs: commands, and changes that the engine makes when targets exit or lose their
 * events, CPUs go online or offline, cgroups are created or removed, or a PMC is released. A change
 * takes effect completely or not at all; settings, links and counts change only at the swap.
 */
#pragma once

#include "core/pmc/pmc.h"

enum verb {
    VERB_NONE,
    VERB_START,
    VERB_STOP,
    VERB_RESET,
    VERB_RESTART,
    VERB_FLUSH,
    VERB_CLOSE,
    VERB_DETACH,
    VERBS
};
struct verb_row {
    const char *name;
    const char *help;
    const char *reference;
};
extern const struct verb_row verb_table[VERBS];

/* Refuses a PMC that another open file holds (lifetime=open). P29. */
int change_check_held(struct call *call);
/* WORK_CHANGE: makes the change that a PMC needs now (a released one: change_release()). Returns
 * false if it needs none, or if a change is running. */
bool change_deferred(struct call *call, struct pmc *pmc);
/* Closes the counters, links and recording of a PMC that was removed from the tree, and releases
 * its rows. Returns false if that is done already, or if a change is running: change_end() then
 * queues the release. */
bool change_release(struct call *call, struct pmc *pmc);
/* Finds dead targets of call->pmc and ends their links; drops the lock to check them. Returns
 * CALL_DONE, -errno, or CALL_WAIT if no slow slot is free or a change of the engine is ending such
 * links. */
int change_end_dead_links(struct call *call);
