/*
 * Tells when the kernel has ended the observation of a process that lives on: it executed a set-id,
 * file-capability or unreadable program, and every event was taken off it, root's too.
 */
#pragma once

#include "backends/perf/state.h"

struct guard;

/* sink.dropped(tag) once. 0 or -errno: then nothing will be told. System calls. */
int perf_guard(struct backend_state *state, pid_t pid, uint64_t tag, struct guard **out);
void perf_unguard(struct guard *guard); /* NULL allowed */
/* Did an exec take the events off? Not when the process, or its first thread, ended otherwise. */
bool perf_guard_left(const struct guard *guard);
int perf_guard_fd(const struct guard *guard);
/* What happened while nobody listened is told too: the descriptor still says HUP. */
int perf_guard_adopt(struct backend_state *state, int fd, uint64_t tag, struct guard **out);
void perf_guard_forget(struct guard *guard);
