/*
 * Between load.c, which reads the saved state's lines, and load_pmc.c, which reads those of a PMC.
 */
#pragma once

#include "core/fields.h"
#include "core/pmc.h"
#include "core/scan.h"

struct loading {
    struct engine *engine;
    struct scan line;         /* the rest of the present line */
    struct pmc *pmc;          /* the PMC whose records follow */
    struct pmc_rest expected; /* of it */
    unsigned events, links;   /* read so far */
};

/* 0 and 1 are the root's; a node's number has room for 52 bits. */
bool load_id_sound(uint64_t id);
/* A PMC begins. */
bool load_pmc(struct loading *load);
/* A line of the PMC that was begun. False: it does not fit, or there is none of this name. */
bool load_pmc_line(struct loading *load, struct word name);
/* Nothing is missing of the PMC whose lines were read. */
bool load_pmc_complete(const struct loading *load);
