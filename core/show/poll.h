/*
 * Sleepers in poll (the levels are in files.h).
 */
#pragma once

#include "core/pmc/parts.h"

/* A look at polled PMCs that are too costly to be read with the lock held. False: none is wanted.
 */
bool poll_task(struct call *call);
bool poll_wanted(const struct engine *engine);
/* When poll_tick() wants to be called; UINT64_MAX: never. */
uint64_t poll_deadline(const struct engine *engine);
void poll_tick(struct engine *engine, uint64_t now_ns);
