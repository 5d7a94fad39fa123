/*
 * Who sleeps in poll (the levels are in files.h, the ticks in engine.h).
 */
#pragma once

#include "core/parts.h"

/* A look at polled PMCs that are too costly to be read with the lock held. NULL: none is wanted. */
struct work *poll_work(struct engine *engine);
