/*
 * Dummy events that report the end of an observation by POLLHUP, where a pidfd cannot. They have a
 * mapped ring, because poll() reports POLLHUP at once for an event without one.
 *
 * Exit watch: the dummy events of a counter, which share one ring. They report that the last
 * covered task is dead (or has executed a program that ends the observation).
 * Exec guard: one dummy event on the first thread of a process. It reports that the kernel has
 * detached all events, root's too, from a process that lives on, because it executed a set-id,
 * file-capability or unreadable program.
 *
 * struct guard is either of them.
 */
#pragma once

#include "backends/perf/state.h"

struct guard;

/*
 * Watches n descriptors (stride apart, -1 allowed), which stay the caller's and stay open until
 * guard_free(). Calls sink.gone(tag), or sink.dropped(tag) for an exec guard, once, on the
 * loop. late: nothing is reported before guards_listen(), which then also reports an end that was
 * earlier. Returns 0 or -errno.
 */
int guard_new(struct backend_state *state, const int *fds, unsigned stride, unsigned n,
              bool is_exec_guard, uint64_t tag, bool late, struct guard **out);
/* Frees an exit watch or exec guard. Its descriptors stay open: close them after this. NULL
 * allowed. */
void guard_free(struct guard *guard);
/* Maps and starts all late watches and all adopted guards. Separate from the adoption because the
 * first mmap() of a ring waits until every CPU has seen that the previous mapping is gone. */
void guards_listen(struct backend_state *state);

/* Opens an exec guard, which calls sink.dropped(tag) once. Returns 0 or -errno: then nothing is
 * reported. Makes system calls. */
int perf_guard(struct backend_state *state, pid_t pid, uint64_t tag, struct guard **out);
void perf_unguard(struct guard *guard); /* closes it; NULL allowed */
/* Returns true if an exec detached the events; false if the process or its first thread ended in
 * another way, or nothing ended. */
bool perf_guard_fired(const struct guard *guard);
int perf_guard_fd(const struct guard *guard);
/* Restores a guard from its descriptor, late. An end during the reload is reported too, because
 * the descriptor still has POLLHUP. */
int perf_guard_adopt(struct backend_state *state, int fd, uint64_t tag, struct guard **out);
