/*
 * How the end of observation is heard of, where a pidfd does not tell it: POLLHUP on dummy events
 * that share one mapped ring. Those of a counter tell when its last covered task is dead (or
 * executed a program that ends the observation). A guard has one of its own, on the first thread of
 * a process: it tells when the kernel has taken every event off a process that lives on, root's
 * too, because it executed a set-id, file-capability or unreadable program.
 */
#pragma once

#include "backends/perf/state.h"

struct guard;

/*
 * fds: n descriptors of such events, -1 allowed; the caller keeps them open until watch_free().
 * Calls sink.gone(tag) once, on the loop. late: an end is told from watches_begin() on, one that
 * came before it, too. 0 or -errno.
 */
int watch_new(struct backend_state *state, const int *fds, unsigned stride, unsigned n,
              uint64_t tag, bool late, struct guard **out);
/* Those that are late, guards that were adopted among them, listen. The kernel lets the first
 * mapping of a ring wait until every CPU has seen that the last one is gone. */
void watches_begin(struct backend_state *state);
/* NULL allowed; before the descriptors are closed, which are not its own. */
void watch_free(struct guard *watch);

/* sink.dropped(tag) once. 0 or -errno: then nothing will be told. System calls. */
int perf_guard(struct backend_state *state, pid_t pid, uint64_t tag, struct guard **out);
void perf_unguard(struct guard *guard); /* NULL allowed */
/* Did an exec take the events off? Not when the process, or its first thread, ended otherwise. */
bool perf_guard_left(const struct guard *guard);
int perf_guard_fd(const struct guard *guard);
/* Late. An end that came while nothing listened is told too: the descriptor still says HUP. */
int perf_guard_adopt(struct backend_state *state, int fd, uint64_t tag, struct guard **out);
