/*
 * Instances whose life is that of a PID namespace.
 */
#pragma once

#include "core/instance.h"

/*
 * Before a PMC is made (call->instance, call->tid). CALL_DONE: go on; CALL_WORK: the first process
 * of the requester's PID namespace has to be found and watched; when that has ended in CALL_DONE
 * call->bound is set, and the PMC can be made.
 */
int instance_bind(struct call *call);
