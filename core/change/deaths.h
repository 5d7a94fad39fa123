/*
 * Some deaths of targets are not reported, so targets are checked before texts about them are made.
 */
#pragma once

#include "core/pmc/pmc.h"

/* Ends the links of call->pmc to dead targets. Returns CALL_DONE, an errno, or CALL_WAIT while the
 * engine is ending them. */
int deaths_settled(struct call *call);
