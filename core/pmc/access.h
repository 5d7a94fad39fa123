/*
 * Rules of access that need no request to the system.
 */
#pragma once

#include "core/pmc/parts.h"

struct pmc;

bool access_superuser(const struct rights *rights);
/* Return true if the rights allow, through this instance: counting kernel mode; system scope; other
 * processes than the requester's. */
bool access_kernel(const struct instance *instance, const struct rights *rights);
bool access_system(const struct instance *instance, const struct rights *rights);
bool access_foreign(const struct engine *engine,
                    const struct rights *rights); /* others than self */
/* Returns true if tables (counts, metrics, rows) of `from`, the PMC's instance or the root, may
 * show the PMC's count. */
bool access_read(const struct pmc *pmc, const struct instance *from, const struct rights *rights);
