/*
 * The tunable `readers`: the group that may read the counts of all users.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct fs;

/*
 * Looks up a group by name or number. "" gives (gid_t)-1, no group. Returns 0, -ENOENT for an
 * unknown group, or -ENOMEM without memory or descriptors. Call without the lock: it may use a
 * remote data base.
 */
int group_find(const char *name, gid_t *gid);
/* Sets the group in fs and engine. Needs the lock. */
void fs_set_readers(struct fs *fs, gid_t gid);
/* Looks up the group of the tunable `readers` and sets it. Takes the lock. The look-up may take
 * very long (a remote data base), so never on the main loop's thread. Returns false without memory.
 */
bool readers_resolve(struct fs *fs);
