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
 * What that thread may do, into rq->rights; looks at /proc, so without the lock. 0, or a negative
 * errno with a sentence. Of a thread in another user namespace, where /proc can take its time
 * (65,536 groups: 20 ms), the most is left to caller_rights_read().
 */
int caller_rights(struct request *rq);
/* With the lock, if rq->reads_rights: a slow part. May be CALL_WAIT. */
int caller_rights_read(struct request *rq);
/* Only the payer, where the file asks for no rights: the user itself, where it cannot be known. */
void caller_payer(struct request *rq);
