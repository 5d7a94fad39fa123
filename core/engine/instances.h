/*
 * Instances that live as long as a PID namespace.
 */
#pragma once

#include "core/pmc/instance.h"

/* Its life is to be that of a PID namespace which no PMC was made from yet. */
bool instance_unbound(const struct instance *instance);
/*
 * Before a PMC is made there (call->instance, call->tid): the first process of the requester's PID
 * namespace is found, watched, and holds the instance. Lets go of the lock.
 */
int instance_bind(struct call *call);
