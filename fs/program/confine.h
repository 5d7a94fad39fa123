/*
 * What the daemon itself may do: capabilities, core dumps, being traced. Everything
 * else about rights is the opener's, in core/pmc/access.h and backends/linux.
 */
#pragma once

#include <stdbool.h>

/* Asks anew. */
bool capability_held(int capability);
/* A line for each capability that was not given: what is refused without it. */
void capabilities_tell(void);

/*
 * For good, and before there is a second thread: keeps the capabilities that are used, no more can
 * be gained by executing anything, no core dumps, no tracing by others than the superuser. False
 * after having said why not.
 */
bool confine_process(void);
