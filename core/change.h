/*
 * Changing a PMC: whatever is written to it, and what the engine changes by itself when targets
 * end, CPUs come and go, or it is released, ends here. All or nothing: until the swap it is as it
 * was.
 */
#pragma once

#include "core/pmc.h"

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
/* A work for a PMC on the pending list, or NULL when there is nothing to do (or it is busy). */
struct work *change_pending(struct pmc *pmc);
/*
 * For a PMC that was taken off the tree: the work that frees what it held. NULL: a change under way
 * will do it.
 */
struct work *change_release(struct pmc *pmc);
/* If a target of the PMC is known to be dead: the work that ends the link. */
struct work *change_deaths(struct pmc *pmc);
/* Was it asked for by a command, which may take long? */
bool change_is_command(const struct change *change);
