/*
 * Schedules the drains of recordings.
 */
#pragma once

#include "core/state.h"

/* Requests a drain of the PMC. Does nothing if the PMC does not record or a task drains it now. */
void drain_schedule(struct pmc *pmc);
/* Returns the time for the next drain_tick(), or UINT64_MAX. */
uint64_t drain_deadline(const struct engine *engine);
/* Requests a drain of every PMC on engine->recording_pmcs, if drain_deadline() has passed. */
void drain_tick(struct engine *engine, uint64_t now_ns);
/* Returns true if drain_task() has work now. */
bool drain_wanted(const struct engine *engine);
/* Has the backend read its sideband if sideband_due, or else drains requested PMCs of one user, up
 * to a limit, without the lock. Returns false if there was no work. */
bool drain_task(struct call *call);
