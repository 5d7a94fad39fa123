/*
 * Instances with lifetime=namespace, which are removed with a PID namespace.
 */
#pragma once

#include "core/pmc/instance.h"

/* Returns true if the instance shall be bound to the PID namespace of its first PMC. */
bool instance_unbound(const struct instance *instance);
/*
 * Binds call->instance to the first process of the requester's PID namespace, before its first PMC
 * is created. Drops the lock.
 */
int instance_bind(struct call *call);
