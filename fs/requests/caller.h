/*
 * The requester: ids of the FUSE context, and rights that the host reads on demand. The group of
 * the tunable `readers`, which may read the counts of all users.
 */
#pragma once

#include "core/call.h"

#include <stdbool.h>
#include <sys/types.h>

struct fs;
struct request;

/*
 * Reads the caller's rights into rq->rights, as far as mkdir, rmdir and chown need them: user,
 * payer, user namespace, and whether the caller is the superuser. A caller in another user
 * namespace never is, so its groups and capabilities (65,536 groups take 20 ms) stay unread.
 * Reads /proc: call without the lock. Returns 0, or a negative errno with a sentence.
 */
int caller_superuser(struct request *rq);
/* Reads all rights. Those of a caller in another user namespace are read by caller_rights_read(),
 * which may wait. Otherwise as caller_superuser(). */
int caller_rights(struct request *rq);
/* Reads the remaining rights if rq->reads_rights. Needs the lock, which it drops (a slow part). May
 * return CALL_WAIT. */
int caller_rights_read(struct request *rq);
/* Sets only the payer, for files that need no rights; the requester's uid if it cannot be read. */
void caller_payer(struct request *rq);

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
