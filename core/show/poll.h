/*
 * Sleepers in poll (the levels are in files.h, the ticks in engine.h).
 */
#pragma once

#include "core/pmc/parts.h"

/* A look at polled PMCs that are too costly to be read with the lock held. False: none is wanted.
 */
bool poll_task(struct call *call);
bool poll_wanted(const struct engine *engine);
