/*
 * Instances in the saved state: a line each, after the processes that some of them end with.
 */
#pragma once

#include "core/instance.h"
#include "core/scan.h"

void instances_print(struct engine *engine, struct buf *out);
/* The rest of such a line. False: it does not fit, or no memory. */
bool instance_scan(struct engine *engine, struct scan *line);
