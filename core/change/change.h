/*
 * Changing a PMC: whatever is written to it, and what the engine changes by itself when targets
 * end, CPUs come and go, or it is released, ends here. All or nothing: until the swap it is as it
 * was.
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
    const char *seed;
};
extern const struct verb_row verb_table[VERBS];

/* P29: the PMC is held through another descriptor (lifetime=open). */
int change_refuse_held(struct call *call);
/* What the engine does by itself; false: nothing. For a PMC on the pending list, if not busy. */
bool change_pending(struct call *call, struct pmc *pmc);
/* Frees what a PMC held that was taken off the tree. False: after the change that is under way. */
bool change_release(struct call *call, struct pmc *pmc);
/* Ends the links to targets that are known to be dead. */
bool change_deaths(struct call *call, struct pmc *pmc);
bool change_takes_long(const struct pmc *pmc); /* to end links of it */
