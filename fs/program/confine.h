/*
 * The daemon's own rights: capabilities, core dumps, ptrace. The rights of openers are in
 * core/users, core/pmc and backends/linux.
 */
#pragma once

#include <stdbool.h>

/* Returns true if the process has the capability now. */
bool capability_held(int capability);
/* Logs a warning for each capability that pmcfs uses, or that containers usually have, and that is
 * missing without a substitute: what does not work then. */
void capabilities_report(void);

/*
 * Permanently drops unused capabilities and the ability to gain new ones by exec, and forbids core
 * dumps and ptrace by other users. Call before a second thread exists. Returns false after a
 * message.
 */
bool confine_process(void);
