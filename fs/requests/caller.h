/*
 * The rights of the process that made a request, which the host reads on demand; and the group of
 * the tunable `readers`, which may read the counts of all users.
 */
#pragma once

#include "core/call.h"

#include <stdbool.h>
#include <sys/types.h>

struct fs;
struct request;

/*
 * Reads the caller's rights into rq->rights, and sets call->payer. If the caller is in another user
 * namespace, reads only the rights that mkdir, rmdir and chown need: user, payer and user namespace
 * (userns_fd >= 0). Such a caller is never the superuser, so its groups and capabilities (65,536
 * groups take 20 ms) are not read. Reads /proc: call without the lock. Returns 0, or a negative
 * errno with a sentence.
 */
int caller_read_user(struct request *rq);
/* Reads the other rights of a caller in another user namespace, and clears rq->rights_incomplete.
 * Needs the lock, which it drops (a slow part). Returns 0, CALL_WAIT, or a negative errno with a
 * sentence. */
int caller_read_rest(struct request *rq);
/* Returns the caller's process, like host->caller_pid(). Reads /proc unless the rights were read
 * before: call without the lock. */
pid_t caller_process(const struct request *rq);
/* Sets only call->payer, for files that need no rights. On failure the payer stays the requester's
 * uid. Reads /proc: call without the lock. */
void caller_set_payer(struct request *rq);

/*
 * Looks up a group by name, or takes a number as it is. "" gives (gid_t)-1, no group. Returns 0;
 * -ENOENT if there is no such group or the data base fails; or -ENOMEM without memory or
 * descriptors. Call without the lock: it may use a remote data base.
 */
int group_find(const char *name, gid_t *gid);
/* Sets the group `readers` in fs and engine. Needs the lock. */
void fs_set_readers(struct fs *fs, gid_t gid);
/* Looks up the group of the tunable `readers` and sets it. Takes the lock. The look-up may take
 * very long (a remote data base), so never call it on the main loop's thread. Returns false without
 * memory or descriptors. */
bool readers_resolve(struct fs *fs);
