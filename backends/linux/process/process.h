/*
 * Processes named by users, held by a pidfd.
 */
#pragma once

#include "backends/linux/linux.h"

/* Members of struct host (core/host.h). */
int linux_process_open(struct host_state *state, pid_t tid, uint64_t number, bool thread,
                       struct process **out, struct err *err);
int linux_process_first(struct host_state *state, pid_t tid, struct process **out, struct err *err);
void linux_process_free(struct process *process);
pid_t linux_process_pid(const struct process *process);
pid_t linux_process_tid(const struct process *process);
uint64_t linux_process_key(const struct process *process);
bool linux_process_alive(const struct process *process);
int linux_process_may_observe(struct host_state *state, const struct rights *rights,
                              const struct opener *opener, const struct process *process,
                              struct err *err);
int linux_process_may_observe_pid(struct host_state *state, const struct rights *rights,
                                  const struct opener *opener, pid_t pid);
bool linux_process_headless(const struct process *process);
int linux_process_watch(struct process *process, uint64_t tag);
void linux_process_unwatch(struct process *process);
uint64_t linux_pid_key(struct host_state *state, pid_t pid);
uint64_t linux_caller_key(struct host_state *state, pid_t pid);
pid_t linux_process_seen_by(struct host_state *state, pid_t tid, pid_t pid);
void linux_process_print(const struct process *process, struct buf *out);
int linux_process_adopt(struct host_state *state, const char *printed, struct process **out);
void linux_process_forget(struct process *process);
