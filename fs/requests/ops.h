/*
 * FUSE operations on the tree. Operations on open files are in io.h.
 */
#pragma once

#include <fuse_lowlevel.h>

extern const struct fuse_lowlevel_ops fs_ops;

/* Helpers of the operations. */
struct op;
struct request;
/* Creates a request on a node. Returns NULL after replying with an error. */
struct request *op_begin(const struct op *op, fuse_req_t req, fuse_ino_t ino);
/* Replies with the attributes of rq->entry, or with rq->slice. */
int attr_reply(struct request *rq);
int slice_reply(struct request *rq);
/* Sets rq->entry from rq->found. Needs the lock. Returns 0 or -ESTALE. */
int op_entry(struct request *rq);
