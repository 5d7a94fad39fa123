/*
 * May this caller do that? The rules of INTERFACE section 10 that need no look at the machine.
 */
#pragma once

#include "core/parts.h"

struct pmc;

bool access_superuser(const struct rights *rights);
bool access_kernel(const struct engine *engine,
                   const struct rights *rights); /* count kernel mode */
bool access_system(const struct engine *engine, const struct rights *rights); /* system scope */
bool access_foreign(const struct engine *engine,
                    const struct rights *rights);                     /* others than self */
bool access_read(const struct pmc *pmc, const struct rights *rights); /* counts, metrics, rows */
