/*
 * The requester: FUSE's context, and on demand what the host knows about that thread.
 */
#pragma once

#include "core/call.h"

#include <fuse_lowlevel.h>

struct fs;
struct request;

/* uid, gid and thread of the process that waits for the answer to req. */
void caller_fill(struct call *call, fuse_req_t req);
/* Its process, which mkdir writes down. Looks at /proc, so without the lock. */
void caller_maker(struct fs *fs, struct call *call);
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
/* With the lock, if rq->reads_rights: a slow part. May be CALL_WAIT. */
int caller_rights_read(struct request *rq);
/* Only the payer, where the file asks for no rights: the user itself, where it cannot be known. */
void caller_payer(struct request *rq);
