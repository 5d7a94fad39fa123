/*
 * Who makes a request: its rights and its process.
 */
#pragma once

#include "backends/linux/linux.h"

int linux_caller_rights(struct host_state *state, pid_t tid, uid_t uid, gid_t gid,
                        struct rights **out);
pid_t linux_caller_pid(struct host_state *state, pid_t tid);
