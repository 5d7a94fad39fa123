/*
 * The existing and the online CPUs, and the name of the processor.
 */
#pragma once

#include "backends/linux/linux.h"

int host_cpus_open(struct host_state *state, struct err *err);
void host_cpus_close(struct host_state *state);
void host_cpus_possible(struct host_state *state, struct cpus *out);
void host_cpus_online(struct host_state *state, struct cpus *out);
void host_cpu_name(struct host_state *state, struct buf *out);
