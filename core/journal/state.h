/*
 * The engine's objects and their records: which are to be put, how they are printed, and how a
 * later worker's engine is made of them. With the engine's lock.
 */
#pragma once

#include "core/base/journal.h"
#include "core/engine.h"
#include "core/pmc/parts.h"

/* The text of an object's record; nothing when it is not there any more. */
void object_print(struct engine *engine, enum journal_kind kind, uint64_t id, struct buf *out);
