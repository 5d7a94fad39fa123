/*
 * Which recordings are drained when (the ticks are in engine.h).
 */
#pragma once

#include "core/parts.h"

void drain_ask(struct pmc *pmc); /* soon; nothing if it records nothing */
/* When drain_tick() wants to be called; UINT64_MAX: never. */
uint64_t drain_deadline(const struct engine *engine);
void drain_tick(struct engine *engine, uint64_t now_ns);
/* A drain of those that are asked for. NULL: none is. */
struct work *drain_work(struct engine *engine);
