/*
 * The requester and its rights.
 */
#pragma once

#include "backends/linux/linux.h"

int linux_caller_rights(struct host_state *state, pid_t tid, uid_t uid, gid_t gid,
                        struct rights **out);
int linux_caller_rights_read(struct host_state *state, pid_t tid, struct rights *rights);
void linux_caller_opener(struct host_state *state, pid_t tid, struct opener *opener);
/* Returns true if pid is the process of the opener and still executes the same program. */
bool caller_is_opener(struct host_state *state, const struct opener *opener, pid_t pid);
/* Returns the thread whose cgroup namespace applies; 0: unknown. */
pid_t caller_thread(pid_t tid);
pid_t linux_caller_pid(struct host_state *state, pid_t tid);
