/*
 * The inventory before a recording starts: names and mappings of processes and of the kernel.
 */
#pragma once

#include "backends/linux/linux.h"

void linux_inventory(struct host_state *state, pid_t pid, bool data, uint64_t time_ns,
                     const struct intake *intake);
void linux_kernel_maps(struct host_state *state, uint64_t time_ns, const struct intake *intake);
