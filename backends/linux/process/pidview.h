/*
 * Views: PID translation for records.
 */
#pragma once

#include "backends/linux/linux.h"

int linux_view_open(struct host_state *state, pid_t tid, struct pid_view **view);
void linux_view_free(struct pid_view *view);
pid_t linux_view_pid(struct pid_view *view, pid_t pid);
void linux_view_forget(struct pid_view *view, pid_t pid);
void linux_view_print(const struct pid_view *view, struct buf *out);
int linux_view_adopt(struct host_state *state, const char *printed, struct pid_view **view);
void linux_view_keep(struct pid_view *view);
