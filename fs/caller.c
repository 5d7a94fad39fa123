/*
 * From FUSE's context to the engine's idea of a caller.
 */
#include "fs/caller.h"

#include "fs/fs.h"

#include <errno.h>
#include <string.h>

void caller_fill(struct call *call, fuse_req_t req)
{
    const struct fuse_ctx *ctx = fuse_req_ctx(req);

    call->uid = call->payer = ctx->uid;
    call->gid = ctx->gid;
    call->tid = ctx->pid;
}

void caller_maker(struct fs *fs, struct call *call)
{
    call->maker = fs->host->caller_pid(fs->host_state, call->tid);
    call->maker_key = call->maker ? fs->host->caller_key(fs->host_state, call->maker) : 0;
}

int caller_rights(struct fs *fs, struct call *call, struct rights **rights)
{
    int rc = fs->host->rights(fs->host_state, call->tid, call->uid, call->gid, rights);

    if (rc == -ENOMEM)
        return err_set(&call->err, E32, "no memory");
    if (rc < 0)
        return err_set(&call->err, P14, "cannot find out the rights of thread %d: %s",
                       (int)call->tid, strerror(-rc));
    call->payer = (*rights)->payer;
    return 0;
}

void caller_payer(struct fs *fs, struct call *call)
{
    struct rights *rights = NULL;

    if (caller_rights(fs, call, &rights) < 0)
        call->err.id = ERR_NONE;
    rights_free(rights);
}
