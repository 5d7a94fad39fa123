/*
 * PAPI's preset names and "generic/NAME": one event of this machine each, chosen from candidates.
 */
#pragma once

#include "backends/perf/names/spec.h"

#include "core/base/catalog.h"

struct papi {
    const char *name;       /* "PAPI_TOT_INS" */
    const char *candidates; /* spellings to try in this order; "" when nothing is known to serve */
    const char *description;
};

/* "PAPI_…", "generic/…" or hwpmc's "interrupts"; -ENOENT: none of them. CS01 no such name, P09 none
 * of the candidates is there. */
int papi_parse(struct spec *spec, struct word text, struct err *err);
/* The same without "PAPI_" and "generic/", for a name that means nothing else; -ENOENT: no such. */
int papi_parse_bare(struct spec *spec, struct word text, struct err *err);
/* Offers the names, with "PAPI_" or without as the word has it. */
void papi_near(struct near *near);
/* By its exact name. */
const struct papi *papi_find(const char *name);
/* events/generic: every generic and PAPI name that this machine can count. */
void papi_list(struct backend_state *state, struct catalog *out);
