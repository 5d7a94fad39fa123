/*
 * Foreign slots: slots that other programs hold, which no PMC gets. The backend finds them at the
 * start and at a write to admin/probe.
 */
#pragma once

#include "core/pmc/parts.h"

/* Probes every online CPU. May return CALL_WAIT. */
int foreign_probe(struct call *call);
/* Returns the number of foreign slots at the last probe. */
unsigned foreign_slots(const struct engine *engine);
