/*
 * Fills struct call and struct rights from the FUSE context.
 */
#include "fs/requests/caller.h"

#include "fs/requests/request.h"

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

static int rights_failed(struct call *call, int rc)
{
    if (rc == -ENOMEM)
        return err_nomem(&call->err);
    if (rc == -EMFILE)
        return err_set(&call->err, P10,
                       "no file descriptor was left to check the rights of thread %d: raise "
                       "LimitNOFILE= of pmcfs.service",
                       (int)call->tid);
    return err_set(&call->err, P14, "cannot check the rights of thread %d: %s", (int)call->tid,
                   strerror(-rc));
}

static int rights_begin(struct request *rq)
{
    struct fs *fs = rq->fs;
    struct call *call = &rq->call;
    int rc = fs->host->rights(fs->host_state, call->tid, call->uid, call->gid, &rq->rights);

    if (rc < 0)
        return rights_failed(call, rc);
    call->payer = rq->rights->payer;
    return 0;
}

void caller_payer(struct request *rq)
{
    if (rights_begin(rq) < 0)
        rq->call.err.id = ERR_NONE;
    rights_free(rq->rights);
    rq->rights = NULL;
}

int caller_superuser(struct request *rq)
{
    struct fs *fs = rq->fs;
    int rc = rights_begin(rq);

    if (rc < 0 || rq->rights->userns_fd >= 0)
        return rc;
    rc = fs->host->rights_read(fs->host_state, rq->call.tid, rq->rights);
    return rc < 0 ? rights_failed(&rq->call, rc) : 0;
}

int caller_rights(struct request *rq)
{
    int rc = caller_superuser(rq);

    rq->reads_rights = rc == 0 && rq->rights->userns_fd >= 0;
    return rc;
}

int caller_rights_read(struct request *rq)
{
    struct fs *fs = rq->fs;
    int rc = slow_admit(&rq->call);

    if (rc)
        return rc;
    slow_begin(&rq->call, true);
    rc = fs->host->rights_read(fs->host_state, rq->call.tid, rq->rights);
    slow_end(&rq->call);
    rq->reads_rights = false;
    return rc < 0 ? rights_failed(&rq->call, rc) : 0;
}
