/*
 * May this caller do that? The rules that need no look at the machine.
 */
#pragma once

#include "core/pmc/parts.h"

struct pmc;

bool access_superuser(const struct rights *rights);
/* Count kernel mode, and in system scope, through this instance. */
bool access_kernel(const struct instance *instance, const struct rights *rights);
bool access_system(const struct instance *instance, const struct rights *rights);
bool access_foreign(const struct engine *engine,
                    const struct rights *rights); /* others than self */
/* Its count in tables of `from`, where the PMC is, or of the root: counts, metrics, rows. */
bool access_read(const struct pmc *pmc, const struct instance *from, const struct rights *rights);
