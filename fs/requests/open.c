/*
 * FUSE operations on open files: open, release, poll. Reads and writes are in io.c.
 */
#include "core/pmc/pmc.h"
#include "fs/requests/caller.h"
#include "fs/requests/request.h"

#include <errno.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/epoll.h>

/*
 * A file without state before its first read is charged to its reader's uid at that read, so that
 * the opener's rights need not be read. With more open files than this it is charged at open.
 */
#define MANY_OPEN 4096

#define ALWAYS_READY (EPOLLIN | EPOLLOUT | EPOLLRDNORM | EPOLLWRNORM)
#define GONE         (EPOLLHUP | EPOLLIN | EPOLLRDNORM)

/* ---- open and release ---- */

/* Sets how the request changes the number of open files: see inflight_set_open_change(). Needs the
 * lock. */
static void set_open_change(struct fs *fs, struct inflight_request *request, int change)
{
    inflight_set_open_change(fs->inflight, request, change);
    fs->tree.engine->stats[STAT_OPEN_FILES] = fs->inflight->n_open;
}

static int open_run(struct request *rq)
{
    struct fs *fs = rq->fs;
    const struct file_row *row = rq->node.row;
    const bool reads = (rq->open.flags & O_ACCMODE) != O_WRONLY, may_be_open = rq->open.may_be_open;
    int rc = CALL_DONE;

    if (rq->gone && !may_be_open) {
        rc = -ESTALE; /* the kernel looks the name up again */
    } else if (fs->had_readers && (row->flags & FILE_READERS) && rq->rights && reads &&
               !access_read(rq->call.pmc, rq->call.pmc->instance, rq->rights)) {
        rc = -EACCES; /* the file only looks readable because of the group `readers` */
    } else if (rq->open.makes_handle) {
        rc = request_make_handle(rq);
        if (rc == 0) {
            rq->handle->open.opener = rq->open.opener;
            if (row->begin && reads)
                row->begin(&rq->call);
            rc = open_file_charge_texts(&rq->call, 0);
            if (rc < 0)
                file_close(fs, rq->handle);
        }
        if (rc < 0) { /* recorded as a failed operation */
            rq->verb = "open";
            rq->counted = true;
        }
    }
    if (rc == CALL_DONE && !may_be_open && (row->flags & FILE_OPEN_TIME))
        fs->tree.metrics_opened_ns = fs->host->realtime_ns(fs->host_state);
    set_open_change(fs, rq->inflight, rc == CALL_DONE);
    return rc;
}

void file_close(struct fs *fs, struct handle *handle)
{
    if (fs->trim_ns == UINT64_MAX && handle->position.text.len > TRIM_TEXT_BYTES)
        fs->trim_ns = fs->host->now_ns(fs->host_state) + TRIM_AFTER_NS;
    poll_drop(&fs->queues, handle);
    open_file_release(fs->tree.engine, &handle->open);
    handle_drop(&fs->handles, &fs->unpublished, handle);
}

/* Closes an open file, which may have no handle. change: -1 for a release; 0 undoes an open.
 * Needs no memory. Called with the lock, returns without it. */
static void open_end(struct fs *fs, struct inflight_request *request, uint64_t fh, int change)
{
    struct handle *handle = handle_find(fs->handles, fh);

    set_open_change(fs, request, change);
    if (handle)
        file_close(fs, handle);
    fs_wake(fs);
    fs_unlock(fs);
}

/* Closes the file: the opener did not wait for the reply, so no RELEASE follows. Does nothing if an
 * earlier worker's answer may have reached the opener. */
static void open_undo(struct request *rq)
{
    if (rq->open.may_be_open)
        return;
    fs_lock(rq->fs);
    open_end(rq->fs, rq->inflight, rq->fh, 0);
}

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    static const struct op op = {
        .runs_if_gone = true, .run = open_run, .reply = REPLY_OPEN, .undo = open_undo};
    struct request *rq = op_begin(&op, req, ino);

    if (!rq)
        return;
    struct fs *fs = rq->fs;
    const struct file_row *row = rq->node.row;
    const int mode = fi->flags & O_ACCMODE;
    const bool writes = mode != O_RDONLY, plain = row->flags & FILE_LATE_HANDLE && !writes;
    int rc = 0;

    rq->fh = ++fs->inflight->last_fh;
    rq->open.flags = fi->flags;
    rq->open.may_be_open = plain && rq->inflight->open_change > 0;
    rq->open.makes_handle = !plain || fs->inflight->n_open >= MANY_OPEN;
    if (rq->open.may_be_open)
        rq->open.makes_handle = false; /* an earlier worker may have replied success */
    else if ((row->flags & FILE_STREAM) && mode == O_RDWR)
        rc = -EINVAL; /* a waiting read holds the file position, which blocks writes */
    else if ((writes && !row->store) || (mode != O_WRONLY && !row->show && !row->stream))
        rc = -EACCES; /* the kernel lets the superuser pass the permission bits */
    else if (writes || (row->flags & FILE_RIGHTS) ||
             ((row->flags & FILE_READERS) && fs->had_readers))
        rc = caller_read_user(rq);
    else if (rq->open.makes_handle)
        caller_set_payer(rq);
    rq->rights_incomplete = rc == 0 && rq->rights && rq->rights->userns_fd >= 0;
    if (rc == 0 && writes && fs->host->caller_opener)
        fs->host->caller_opener(fs->host_state, caller_process(rq), &rq->open.opener);
    request_dispatch(rq, rc);
}

void file_release(struct fs *fs, struct inflight_request *request, uint64_t fh)
{
    fs_lock(fs);
    fs->tree.engine->stats[STAT_REQUESTS]++;
    open_end(fs, request, fh, -1);
    inflight_reply(fs->inflight, request->number, 0);
}

/* ---- poll ---- */

static int poll_run(struct request *rq)
{
    const struct file_row *row = rq->node.row;
    unsigned *revents = &rq->poll.revents;

    *revents = rq->gone ? GONE : ALWAYS_READY;
    if (rq->gone || (!row->poll && !rq->poll.by_uring))
        return CALL_DONE;
    int rc = request_make_handle(rq);
    if (rc)
        return rc;
    rq->handle->position.by_uring |= rq->poll.by_uring;
    if (!row->poll || (rq->poll.by_uring && rq->handle->position.short_by > 0))
        return CALL_DONE;
    *revents = row->poll(&rq->call);
    if (rq->gone) { /* released while the lock was dropped */
        *revents = GONE;
        return CALL_DONE;
    }
    if (row->store) /* a write never waits; io_uring polls before it writes */
        *revents |= EPOLLOUT | EPOLLWRNORM;
    if (row->stream && rq->handle->position.text.block) /* a rest of the last reply is kept */
        *revents |= EPOLLIN | EPOLLRDNORM;
    return rq->poll.number ? poll_add(&rq->fs->queues, rq->handle, rq) : CALL_DONE;
}

void op_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
             struct fuse_pollhandle *poll)
{
    static const struct op op = {.runs_if_gone = true, .run = poll_run, .reply = REPLY_POLL};
    struct request *rq = op_begin(&op, req, ino);
    struct fuse_poll_in in = {0};

    if (rq && poll) {
        const struct fuse_in_header *head = inflight_message(rq->inflight);

        if (head->len >= sizeof *head + sizeof in)
            memcpy(&in, head + 1, sizeof in);
    }
    if (poll)
        fuse_pollhandle_destroy(poll);
    if (!rq)
        return;
    rq->fh = fi->fh;
    rq->poll.number = in.kh;
    /* io_uring polls before a read and between its parts. poll(2), select(2) and epoll always
     * request POLLHUP; io_uring does not. */
    rq->poll.by_uring = (fi->poll_events == EPOLLIN && !in.kh) ||
                        fi->poll_events == (EPOLLIN | EPOLLRDNORM | EPOLLPRI | EPOLLERR);
    request_dispatch(rq, 0);
}
