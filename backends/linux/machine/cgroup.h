/*
 * Control groups (v2) as a requester names them.
 */
#pragma once

#include "backends/linux/linux.h"

/* Members of struct host (core/host.h). */
int linux_cgroup_open(struct host_state *state, pid_t tid, const char *path, int *fd, char **name,
                      struct err *err);
uint64_t linux_cgroup_key(int fd);
bool linux_cgroup_alive(int fd);
