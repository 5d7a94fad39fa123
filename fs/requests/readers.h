/*
 * The group that may read what is not its own: the tunable `readers`.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct fs;

/*
 * A group's name or number; "" is none, (gid_t)-1. -ENOENT: there is no such group; -ENOMEM: of
 * memory or descriptors. Asks the system's list of groups, so no lock.
 */
int group_find(const char *name, gid_t *gid);
/* For fs and engine. With the lock. */
void fs_set_readers(struct fs *fs, gid_t gid);
/* The number of the group in the tunable `readers`, set. Takes the lock. False: it could not be
 * looked for. */
bool readers_resolve(struct fs *fs);
