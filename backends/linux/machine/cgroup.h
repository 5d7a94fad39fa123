/*
 * Control groups (v2) as a requester names them.
 */
#pragma once

#include "backends/linux/linux.h"

#define CGROUP_DEPTH_MAX 32 /* parts of a name that reattach=on watches */

/* Members of struct host (core/host.h). */
int linux_cgroup_open(struct host_state *state, pid_t tid, const char *path, int *fd, char **name,
                      struct err *err);
int linux_cgroup_root(struct host_state *state, pid_t tid, const char *path, int *root, char **name,
                      struct err *err);
int linux_cgroup_above(int fd, const char *name);
int linux_cgroup_watch(struct host_state *state, int root, const char *name, uint64_t tag,
                       struct cgroup_watch **watch, int *fd, struct err *err);
void linux_cgroup_unwatch(struct cgroup_watch *watch);
uint64_t linux_cgroup_key(int fd);
bool linux_cgroup_alive(int fd);

void host_cgroups_open(struct host_state *state);
void host_cgroups_close(struct host_state *state);

/* For cgroup_watch.c: opens an absolute, normalised path beneath dirfd, without symbolic links and
 * other file systems. Returns a descriptor or -errno. */
int cgroup_beneath(int dirfd, const char *path);
/* Sets the sentence for a failed cgroup_beneath() and returns its -errno. */
int cgroup_failed(struct err *err, int rc, const char *path);
/* Returns the part of the path after the mount point of cgroup v2, or NULL if it is not below one.
 */
const char *cgroup_behind_mount(const char *path);
