/*
 * A target may die without a word: before a text tells of targets and states, they are asked.
 */
#pragma once

#include "core/pmc.h"

/* Answers what show() answers, once the links of call->pmc whose target is dead have ended; or
 * CALL_WAIT, while the engine is ending them already. */
int deaths_then(struct call *call, int (*show)(struct call *call));
