/*
 * Which recordings are drained when.
 */
#pragma once

#include "core/pmc/parts.h"

void drain_ask(struct pmc *pmc); /* soon; nothing if it records nothing */
/* When drain_tick() wants to be called; UINT64_MAX: never. */
uint64_t drain_deadline(const struct engine *engine);
void drain_tick(struct engine *engine, uint64_t now_ns);
/* One that need not wait for another of its user's. */
bool drain_wanted(const struct engine *engine);
/* Drains those of one user that are asked for, or has the backend follow processes. False: nothing
 * is asked for. */
bool drain_task(struct call *call);
