/*
 * Tells when the last covered task of a counter is dead (or executed a program that ends the
 * observation): POLLHUP on dummy events that share one mapped ring.
 */
#pragma once

#include "backends/perf/state.h"

struct watch;

/*
 * newest: they write backward, and their newest record is kept.
 * fds: n descriptors of watch events, -1 allowed; the caller keeps them open until watch_free().
 * Calls tell(state->sink->ctx, tag) once, on the loop. NULL with *rc = -errno when it cannot be
 * had.
 */
struct watch *watch_new(struct backend_state *state, const int *fds, unsigned stride, unsigned n,
                        bool newest, void (*tell)(void *ctx, uint64_t tag), uint64_t tag, int *rc);
/* Is an exec the last that was written, but for an EXIT? Of newest. */
bool watch_last_is_exec(const struct watch *watch);
void watch_free(struct watch *watch); /* NULL allowed; before the descriptors are closed */
