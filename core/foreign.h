/*
 * Slots that others hold, rule 1 of INTERFACE section 6: asked of the backend at start and at
 * admin/probe, and booked.
 */
#pragma once

#include "core/parts.h"

/* A work that asks about every CPU that is online. NULL: no memory. */
struct work *foreign_probe(struct engine *engine);
/* How many slots are foreign, as last probed. */
unsigned foreign_slots(const struct engine *engine);
