/*
 * FUSE operations on open files: open, poll, release.
 */
#include "core/pmc/pmc.h"
#include "fs/requests/caller.h"
#include "fs/requests/io.h"
#include "fs/requests/loop.h"
#include "fs/requests/ops.h"
#include "fs/requests/request.h"

#include <errno.h>
#include <sys/epoll.h>

/*
 * A file without state before its first read is charged to its reader's uid at that read, so that
 * the opener's rights need not be read. With more open files than this it is charged at open.
 */
#define MANY_OPEN 4096

#define ALWAYS_READY (EPOLLIN | EPOLLOUT | EPOLLRDNORM | EPOLLWRNORM)

/* ---- open and release ---- */

static int open_may(const struct file_row *row, int flags)
{
    int mode = flags & O_ACCMODE;

    if ((row->flags & FILE_STREAM) && mode == O_RDWR)
        return -EINVAL; /* a waiting read holds the file position, which blocks writes */
    if (mode != O_RDONLY && !row->store)
        return -EACCES; /* the superuser overrides permission bits */
    if (mode != O_WRONLY && !row->show && !row->stream)
        return -EACCES;
    return 0;
}

static bool open_wants_rights(const struct fs *fs, const struct file_row *row, int flags)
{
    return (row->flags & FILE_RIGHTS) || (flags & O_ACCMODE) != O_RDONLY ||
           ((row->flags & FILE_READERS) && fs->had_readers);
}

/* Returns true if the file only looks readable because of the group `readers`. */
static bool open_is_not_theirs(const struct request *rq)
{
    return rq->fs->had_readers && (rq->node.row->flags & FILE_READERS) &&
           (rq->flags & O_ACCMODE) != O_WRONLY && rq->rights &&
           !engine_may_read(rq->call.pmc, rq->rights);
}

/* Refuses an open and records the reason as a failed operation. */
static int open_refused(struct request *rq, struct handle *handle, int rc)
{
    engine_release(rq->fs->tree.engine, &handle->open);
    handle_remove(&rq->fs->handles, handle);
    handle_unref(&rq->fs->kept, handle);
    rq->call.open = NULL;
    rq->call.rights = rq->rights;
    rq->call.file = "open";
    rq->counted = true;
    return rc;
}

/* Changes the number of open files. Needs the lock. */
static void open_count(struct fs *fs, struct inflight_request *request, int opens)
{
    inflight_count(fs->inflight, request, opens);
    engine_stat_set(fs->tree.engine, STAT_OPEN_FILES, fs->inflight->n_open);
}

static int open_try(struct request *rq)
{
    struct fs *fs = rq->fs;
    const struct file_row *row = rq->node.row;

    if (rq->gone)
        return -ESTALE; /* the kernel looks the name up again */
    if (open_is_not_theirs(rq))
        return -EACCES;
    if (rq->remembers) {
        struct handle *handle = handle_make(&fs->handles, rq->fh);
        int rc;

        if (!handle)
            return -ENOMEM;
        rq->call.open = &handle->open;
        handle->open.instance = rq->call.instance->id;
        rc = open_file_hold(&rq->call, rq->rights);
        if (rc < 0)
            return open_refused(rq, handle, rc);
        rq->rights = NULL;
        handle->open.opener = rq->opener;
        if (row->begin && (rq->flags & O_ACCMODE) != O_WRONLY)
            row->begin(&rq->call);
        rc = open_file_keep(&rq->call, 0);
        if (rc < 0)
            return open_refused(rq, handle, rc);
        handle_touch(&fs->kept, handle);
    }
    if (row->flags & FILE_FRESH)
        fs->tree.metrics_opened_ns = fs->host->realtime_ns(fs->host_state);
    return CALL_DONE;
}

static int open_run(struct request *rq)
{
    const int rc = rq->was_open ? CALL_DONE : open_try(rq);

    open_count(rq->fs, rq->inflight, rc == CALL_DONE);
    return rc;
}

/* Closes a file, also without memory. Called with the lock, returns without it. */
static void file_close(struct fs *fs, struct inflight_request *request, uint64_t fh, int opens)
{
    struct handle *handle = handle_find(fs->handles, fh);

    open_count(fs, request, opens);
    if (handle) {
        poll_drop(&fs->queues, handle);
        engine_release(fs->tree.engine, &handle->open);
        handle_remove(&fs->handles, handle);
        handle_drop(&fs->kept, handle);
        handle_unref(&fs->kept, handle);
    }
    fs_drain(fs);
    fs_unlock(fs);
}

/* The opener did not wait, so no RELEASE follows, unless an earlier worker's answer reached it. */
static void open_undo(struct request *rq)
{
    if (rq->was_open)
        return;
    fs_lock(rq->fs);
    file_close(rq->fs, rq->inflight, rq->fh, 0);
}

static int open_reply(struct request *rq)
{
    struct fuse_file_info fi = {.fh = rq->fh, .direct_io = 1, .noflush = 1};

    return fuse_reply_open(rq->req, &fi);
}

static int open_look(struct request *rq)
{
    struct fs *fs = rq->fs;
    const bool writes = (rq->flags & O_ACCMODE) != O_RDONLY;
    const bool plain = rq->node.row->flags & FILE_PLAIN && !writes;
    int rc = open_may(rq->node.row, rq->flags);

    rq->fh = ++fs->inflight->last_fh;
    rq->was_open = plain && rq->inflight->opens > 0;
    rq->remembers = !rq->was_open && (!plain || fs->inflight->n_open >= MANY_OPEN);
    if (rq->was_open)
        return 0; /* an earlier worker may have replied success */
    if (rc == 0 && open_wants_rights(fs, rq->node.row, rq->flags))
        rc = caller_rights(rq);
    else if (rc == 0 && rq->remembers)
        caller_payer(rq);
    if (rc == 0 && writes && fs->host->opener)
        fs->host->opener(fs->host_state, rq->call.tid, &rq->opener);
    return rc;
}

void io_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    static const struct op op = {.gone_ok = true,
                                 .look = open_look,
                                 .run = open_run,
                                 .reply = open_reply,
                                 .undo = open_undo};
    struct request *rq = op_begin(&op, req, ino);

    if (!rq)
        return;
    rq->flags = fi->flags;
    request_dispatch(rq);
}

void io_release(struct fs *fs, struct inflight_request *request, uint64_t fh)
{
    fs_lock(fs);
    engine_stat_add(fs->tree.engine, STAT_REQUESTS, 1);
    file_close(fs, request, fh, -1);
    inflight_reply(fs->inflight, inflight_number(request), 0);
}

/* ---- poll ---- */

/*
 * Returns true for a poll of io_uring before a read and between its parts. poll(2), select(2) and
 * epoll always request POLLHUP; io_uring does not.
 */
static bool poll_is_of_uring(const struct fuse_file_info *fi, uint64_t number)
{
    return (fi->poll_events == EPOLLIN && !number) ||
           fi->poll_events == (EPOLLIN | EPOLLRDNORM | EPOLLPRI | EPOLLERR);
}

static int poll_gone(struct request *rq)
{
    rq->revents = EPOLLHUP | EPOLLIN | EPOLLRDNORM;
    return CALL_DONE;
}

static int poll_run(struct request *rq)
{
    struct fs *fs = rq->fs;
    struct call *call = &rq->call;
    int rc;

    rq->revents = ALWAYS_READY;
    if (rq->gone)
        return poll_gone(rq);
    if (!rq->node.row->poll && !rq->by_uring)
        return CALL_DONE;
    rc = request_remembers(rq);
    if (rc)
        return rc;
    rq->handle->place.by_uring |= rq->by_uring;
    if (!rq->node.row->poll || (rq->by_uring && rq->handle->place.short_by > 0))
        return CALL_DONE;
    rq->revents = rq->node.row->poll(call);
    if (rq->gone)
        return poll_gone(rq);
    if (rq->node.row->store) /* a write never waits; io_uring polls before it writes */
        rq->revents |= EPOLLOUT | EPOLLWRNORM;
    if (rq->node.row->stream && rq->handle->place.text.block) /* the last reply was full */
        rq->revents |= EPOLLIN | EPOLLRDNORM;
    return rq->poll_number ? poll_add(&fs->queues, rq->handle, rq) : CALL_DONE;
}

static int poll_reply(struct request *rq)
{
    return fuse_reply_poll(rq->req, rq->revents);
}

void io_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
             struct fuse_pollhandle *poll)
{
    static const struct op op = {.gone_ok = true, .run = poll_run, .reply = poll_reply};
    struct request *rq = op_begin(&op, req, ino);
    const uint64_t number = poll ? inflight_poll_number() : 0; /* needs no further decoding */

    if (poll)
        fuse_pollhandle_destroy(poll);
    if (!rq)
        return;
    rq->fh = fi->fh;
    rq->poll_number = number;
    rq->by_uring = poll_is_of_uring(fi, number);
    request_dispatch(rq);
}
