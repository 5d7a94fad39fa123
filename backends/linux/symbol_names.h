/*
 * Names for addresses: the function of core/host.h.
 */
#pragma once

#include "backends/linux/symbol_files.h"

void linux_names(struct host_state *state, struct log_files *files, const struct frame_asker *asker,
                 struct frame_query *queries, size_t n);

/* symbol_kernel.c: names for those that have no mapping, from /proc/kallsyms. */
void symbol_kernel(struct frame_query *queries, size_t n);
