/*
 * A target may die without a word: before a text tells of targets and states, they are asked.
 */
#pragma once

#include "core/pmc/pmc.h"

/* CALL_DONE once the links of call->pmc to dead targets have ended, or an errno; or
 * CALL_WAIT, while the engine is ending them already. */
int deaths_settled(struct call *call);
