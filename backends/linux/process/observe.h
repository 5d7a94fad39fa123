/*
 * May this opener observe that process? The kernel's own answer.
 */
#pragma once

#include "backends/linux/linux.h"

/*
 * The ptrace read check as the opener, for every living thread of the process, or for thread tid
 * alone (0: all). 0, -EPERM, -ESRCH; anything else: the kernel could not be asked, take it for a
 * no.
 */
int observe_check(struct host_state *state, const struct rights *rights,
                  const struct opener *opener, pid_t pid, pid_t tid);
/* After a no: why, as the end of a sentence ("it runs as another user"). Static storage. */
const char *observe_reason(const struct host_state *state, const struct rights *rights, pid_t pid,
                           int rc);
