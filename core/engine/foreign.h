/*
 * Slots that others hold, which no PMC gets: asked of the backend at start and at
 * admin/probe, and booked.
 */
#pragma once

#include "core/pmc/parts.h"

/* Asks about every CPU that is online. May be CALL_WAIT. */
int foreign_probe(struct call *call);
/* How many slots are foreign, as last probed. */
unsigned foreign_slots(const struct engine *engine);
