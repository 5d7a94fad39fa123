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
/* Looks up the group of the tunable `readers` and sets it. Takes the lock. The look-up may take very
 * long (a remote data base), so never on the main loop's thread. Returns false without memory. */
bool readers_resolve(struct fs *fs);
