/*
 * Sleeping pollers. The levels are in files.h.
 */
#pragma once

#include "core/state.h"

/* Takes a snapshot of the polled PMCs. Returns false if none is requested. */
bool poll_task(struct call *call);
bool poll_wanted(const struct engine *engine);
/* Returns when poll_tick() must be called; UINT64_MAX: never. */
uint64_t poll_deadline(const struct engine *engine);
void poll_tick(struct engine *engine, uint64_t now_ns);
