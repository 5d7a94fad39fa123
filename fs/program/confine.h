/*
 * The daemon's own rights: capabilities, core dumps, ptrace. The rights of openers are in
 * core/users, core/pmc and backends/linux.
 */
#pragma once

#include <stdbool.h>

/* Returns true if the process has the capability now. */
bool capability_held(int capability);
/* Logs a warning, with the consequence, for each missing capability that pmcfs uses or containers
 * usually have, unless another capability replaces it. */
void capabilities_report(void);

/*
 * Permanently drops unused capabilities and the ability to gain new ones by exec, and forbids core
 * dumps and ptrace by other users. Call before a second thread exists. Returns false after a
 * message.
 */
bool confine_process(void);
