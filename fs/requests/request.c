/*
 * The life of a request: request_dispatch() runs it and request_wait_or_finish() lets it wait or
 * finishes it. The lock is held for the engine's bookkeeping only; slow parts run without the lock
 * and without a serving slot.
 */
#include "fs/requests/request.h"

#include "core/pmc/pmc.h"
#include "fs/requests/caller.h"
#include "fs/requests/serve.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>

static __thread struct request *spare;

struct request *request_new(struct fs *fs, const struct op *op, fuse_req_t req)
{
    struct request *rq = spare;

    spare = NULL;
    if (!rq && !(rq = malloc(sizeof *rq)))
        return NULL;
    memset(rq, 0, offsetof(struct request, call.err.text));
    rq->fs = fs;
    rq->op = op;
    rq->counted = op->counted;
    rq->req = req;
    rq->inflight = req ? inflight_current() : NULL;
    rq->out = buf_in(rq->storage, sizeof rq->storage);
    rq->call.out = &rq->out;
    return rq;
}

static void request_free(struct request *rq)
{
    buf_free(&rq->out);
    free(rq->text);
    rights_free(rq->rights);
    if (rq->inflight)
        inflight_done(rq->inflight);
    if (spare)
        free(rq);
    else
        spare = rq;
}

void request_thread_end(void)
{
    free(spare);
    spare = NULL;
}

/* ---- running ---- */

/*
 * Sets all pointers of the call, which are valid while the lock is held. The instance of a released
 * PMC is that of the open file. This is the only place that removes superuser rights from requests
 * made through an instance.
 */
static void request_refresh(struct request *rq)
{
    struct fs *fs = rq->fs;
    struct engine *engine = fs->tree.engine;
    struct call *call = &rq->call;
    const struct node *node = &rq->node;

    call->engine = engine;
    engine->request = rq->inflight ? rq->inflight->number : 0;
    call->now_ns = fs->host->now_ns(fs->host_state);
    if (!rq->req) {
        call->instance = engine->root;
        return;
    }
    if (rq->fh && !rq->handle) {
        struct handle *handle = handle_find(fs->handles, rq->fh);
        rq->handle = handle ? handle_ref(handle) : NULL;
    }
    call->open = rq->handle ? &rq->handle->open : NULL;
    if (call->open && call->open->payer)
        call->payer = call->open->payer_uid;
    call->pmc = NULL;
    call->instance = engine_instance(engine, node_instance(node));
    rq->gone = !call->instance;
    if (node->kind == NODE_PMC) {
        call->pmc = ids_find(&engine->pmcs, node->object);
        rq->gone = !call->pmc;
        call->instance = call->pmc    ? call->pmc->instance
                         : call->open ? engine_instance(engine, call->open->instance)
                                      : NULL;
        if (call->pmc && call->open)
            call->open->instance = call->instance->id;
    }
    if (node->kind == NODE_LIMIT)
        rq->gone = !engine_instance(engine, node->object);
    if (rq->rights && (!call->instance || call->instance->id))
        rq->rights->superuser = false;
    call->rights = call->open ? call->open->rights : rq->rights;
}

int request_make_handle(struct request *rq)
{
    if (rq->handle)
        return 0;
    struct handle *handle = handle_make(&rq->fs->handles, rq->fh);
    if (!handle)
        return err_nomem(&rq->call.err);
    rq->call.open = &handle->open;
    rq->call.open->instance = rq->call.instance->id;
    int rc = open_file_start_charge(&rq->call, rq->rights);
    if (rc < 0) {
        rq->call.open = NULL;
        file_close(rq->fs, handle);
        return rc;
    }
    rq->rights = NULL;
    rq->handle = handle_ref(handle);
    return 0;
}

int request_refuse_gone(struct request *rq)
{
    const bool pmc = rq->node.kind == NODE_PMC;

    return err_set(&rq->call.err, P26, "the %s of this file was %s", pmc ? "PMC" : "instance",
                   pmc ? "released" : "removed");
}

char *request_copy_command(const struct request *rq)
{
    const char *message = inflight_message(rq->inflight);
    char *text = malloc(rq->size + 1);

    if (text)
        memcpy(text, message + sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in),
               rq->size);
    return text;
}

static int request_run(struct request *rq)
{
    struct call *call = &rq->call;
    int rc;

    inflight_set_current(rq->inflight);
    request_refresh(rq);
    call->wait_until_ns = 0;
    call->committed = false;
    call->err.id = ERR_NONE;
    call->err.text[0] = '\0';
    buf_clear(&rq->out);
    if (rq->rights_incomplete && (rc = caller_read_rest(rq)))
        return rc;
    if (rq->gone && !rq->op->runs_if_gone)
        return request_refuse_gone(rq);
    if (rq->op->is_command && !rq->text)
        rq->text = request_copy_command(rq);
    if (rq->op->has_text && !rq->text)
        return err_nomem(&call->err);
    return rq->op->run(rq);
}

/*
 * Returns CALL_WAIT if the request may wait, otherwise its result. After the longest time, the
 * reader of a stream gets filler text (if the head of the stream was sent) and reads again; other
 * requests get P37.
 */
static int request_may_wait(struct request *rq)
{
    struct fs *fs = rq->fs;
    struct call *call = &rq->call;
    const uint64_t limit_ns = fs->tree.engine->limit_ns;
    const uint64_t until_ns = limit_ns ? rq->inflight->since_ns + limit_ns : UINT64_MAX;
    const unsigned timeout_s = fs->inflight->timeout_s;
    const bool stream = rq->node.row && (rq->node.row->flags & FILE_STREAM) && !rq->op->is_command;

    if (rq->op->locks_directory) { /* other users of the directory would wait too */
#ifdef PMCFS_DEBUG
        abort();
#endif
        return -EAGAIN;
    }
    if (fs->stopping)
        return stream ? CALL_DONE : -ENODEV;
    if (stream && call->nonblock)
        return -EAGAIN;
    if (inflight_interrupted(rq->inflight))
        return -EINTR;
    if (call->now_ns >= until_ns) {
        buf_clear(&rq->out);
        if (stream && rq->node.row->filler(call))
            return CALL_DONE;
        return err_set(&call->err, P37,
                       "waited %u s for other requests (a third of fs.fuse.max_request_timeout, "
                       "%u s): try again",
                       timeout_s / WAIT_PART, timeout_s);
    }
    if (limit_ns && (!call->wait_until_ns || call->wait_until_ns > until_ns))
        call->wait_until_ns = until_ns;
    return wait_charge(&fs->queues, rq);
}

/* ---- answers ---- */

/*
 * Notes an open file whose journal record may have changed: always after a command or a read of a
 * stream. The first setting of its members seen_* is noted, later changes of them alone are not, so
 * that ordinary reads write nothing; poll_add() notes them for a poller. Padding bytes of
 * `position` may differ; the record is then written once more.
 */
static void handle_note(struct request *rq)
{
    struct handle *handle = rq->handle;
    const bool stream = rq->node.row && (rq->node.row->flags & FILE_STREAM);

    if (handle &&
        (rq->op->is_command || stream || !handle->recorded ||
         memcmp(&handle->position, &handle->recorded_position, sizeof handle->position) != 0 ||
         handle->recorded_old_count != (handle->open.old_count != NULL) ||
         handle->recorded_seen != handle->open.has_seen))
        handle_touch(&rq->fs->unpublished, handle);
}

/* Sends the reply to the kernel, or stores it (inflight_answer_begin()). Returns
 * libfuse's result: 0 or -errno; -ENOENT if the caller no longer waits for the reply. */
static int request_send(struct request *rq, int rc)
{
    struct fuse_file_info fi = {.fh = rq->fh, .direct_io = 1, .noflush = 1};

    if (rc >= 0 && rq->invalidates)
        attributes_forget(&rq->fs->tree, rq->stale.kind, rq->stale.object);
    switch (rc < 0 ? REPLY_CODE : rq->op->reply) {
    case REPLY_CODE:
        break;
    case REPLY_ENTRY:
        return fuse_reply_entry(rq->req, &rq->entry);
    case REPLY_ATTR:
        return fuse_reply_attr(rq->req, &rq->entry.attr, node_attr_timeout(&rq->node));
    case REPLY_BYTES:
        return fuse_reply_buf(rq->req, rq->slice, rq->slice_len);
    case REPLY_OPEN:
        return fuse_reply_open(rq->req, &fi);
    case REPLY_WRITE:
        return fuse_reply_write(rq->req, rq->size);
    case REPLY_POLL:
        return fuse_reply_poll(rq->req, rq->poll.revents);
    }
    return fuse_reply_err(rq->req, -rc);
}

/*
 * Stores the answer, which becomes valid with the same publication as the changes. If this worker
 * is killed, the next one sends it, so that nothing is done twice.
 */
static void request_answer(struct request *rq, int rc)
{
    struct fs *fs = rq->fs;

    if (!inflight_answer_begin(rq->inflight->number))
        return;
    request_send(rq, rc);
    inflight_answer_end(journal_publications(fs->unpublished.journal) + 1);
    rq->answer_stored = fs->publishes_answer = true;
}

/*
 * Updates statistics and last error, before the reply. A failure of an operation with a verb is
 * recorded with the path of the name, if there is one, and the verb: "web: mkdir".
 */
static void request_note_result(struct request *rq, int rc)
{
    const bool recorded =
        rq->call.err.id != ERR_NONE && (!rq->op->is_quiet || rc == -EIO || rc == -EDQUOT);
    char room[600];
    struct buf place = buf_in(room, sizeof room);

    if (!rq->counted)
        return;
    if (recorded) {
        node_path(&rq->fs->tree, &rq->node, rq->node.row, &place);
        if (rq->verb && rq->text) {
            buf_str(&place, place.len ? "/" : "");
            buf_value(&place, rq->text, strlen(rq->text));
        }
        buf_str(&place, place.len ? "" : ".");
        if (rq->verb)
            buf_printf(&place, ": %s", rq->verb);
    }
    engine_note_result(&rq->call, rc, recorded ? buf_text(&place) : NULL, rq->op->is_command);
    buf_free(&place);
}

/* ---- slow parts ---- */

struct request *request_of(struct call *call)
{
    return (struct request *)((char *)call - offsetof(struct request, call));
}

static void unlock_leave(struct call *call, bool gives_up_slot)
{
    struct request *rq = request_of(call);
    struct fs *fs = rq->fs;

    if (call->committed && rq->inflight && !rq->answer_stored) { /* must not run again */
        const int rc = rq->op->done ? rq->op->done(rq) : CALL_DONE;

        request_note_result(rq, rc);
        handle_note(rq);
        request_answer(rq, rc);
    }
    fs->n_unlocked += !rq->was_unlocked;
    rq->was_unlocked = true;
    fs_wake(fs);
    if (gives_up_slot) {
        fs->tree.engine->stats[STAT_WORKS]++;
        serve_leave_slot(fs->serve);
    }
    fs_unlock(fs);
}

/* Does not use fs_lock(), which would wait for a reload that waits for this request. */
static void unlock_take(struct call *call)
{
    struct request *rq = request_of(call);

    pthread_mutex_lock(&rq->fs->lock);
    request_refresh(rq);
}

static bool unlock_interrupted(struct call *call)
{
    const struct request *rq = request_of(call);

    return rq->inflight && !rq->answer_stored && inflight_interrupted(rq->inflight);
}

const struct unlock_ops fs_unlock_ops = {wait_enter_slow, unlock_leave, unlock_take,
                                         unlock_interrupted};

/* Frees the slow slot of a request that is finished or waits, and removes it from fs->n_unlocked,
 * so that a reload may run. */
static void request_end_slow(struct request *rq)
{
    struct fs *fs = rq->fs;

    wait_leave_slow(rq);
    if (rq->was_unlocked && --fs->n_unlocked == 0)
        pthread_cond_broadcast(&fs->changed);
    rq->was_unlocked = false;
}

/* Finishes a request with the result rc: calls op->done, replies, and frees the request. Called
 * with the lock, returns without it. */
static void request_finish(struct request *rq, int rc)
{
    struct fs *fs = rq->fs;
    bool wanted = true;

    if (rc == CALL_DONE && rq->op->done && !rq->answer_stored)
        rc = rq->op->done(rq);
    if (!rq->answer_stored)
        request_note_result(rq, rc);
    if (fs->trim_ns == UINT64_MAX &&
        (rq->counted ? !rq->op->is_quiet || rq->out.len > TRIM_TEXT_BYTES : !rq->req))
        fs->trim_ns = rq->call.now_ns + TRIM_AFTER_NS;
    wait_uncharge(&fs->queues, rq);
    handle_note(rq);
    if (rq->inflight && !rq->answer_stored &&
        (fs->unpublished.touched || engine_has_unwritten(fs->tree.engine)))
        request_answer(rq, rc);
    handle_unref(&fs->unpublished, rq->handle); /* with the lock, because it frees charges */
    request_end_slow(rq);
    fs_wake(fs);
    fs_unlock(fs);

    if (rq->answer_stored)
        wanted = inflight_answer_send(fuse_session_fd(fs->tree.session));
    else if (rq->req)
        wanted = request_send(rq, rc) != -ENOENT;
    if (!wanted && rq->op->undo)
        rq->op->undo(rq);
    request_free(rq);
}

/* Lets the request wait if rc is CALL_WAIT, so that the thread takes another one; otherwise
 * finishes it with this result. Called with the lock, returns without it. */
static void request_wait_or_finish(struct request *rq, int rc)
{
    struct fs *fs = rq->fs;

    if (rc == CALL_WAIT)
        rc = request_may_wait(rq);
    if (rc != CALL_WAIT) {
        request_finish(rq, rc);
        return;
    }
    struct inflight_request *place = inflight_move_to_place(fs->inflight, rq->inflight);
    if (!place) {
        request_finish(rq, err_nomem(&rq->call.err));
        return;
    }
    rq->inflight = place;
    inflight_set_current(NULL);
    if (rq->op->is_command) { /* request_run() copies it again */
        free(rq->text);
        rq->text = NULL;
        rq->call.text = NULL;
    }
    request_end_slow(rq);
    wait_add(&fs->queues, rq);
    fs_wake(fs);
    fs_unlock(fs);
}

void request_dispatch(struct request *rq, int rc)
{
    fs_lock(rq->fs);
    if (rc < 0) {
        request_fail(rq, rc);
        return;
    }
    rq->fs->tree.engine->stats[STAT_REQUESTS]++;
    request_wait_or_finish(rq, request_run(rq));
}

void request_fail(struct request *rq, int rc)
{
    request_refresh(rq);
    request_wait_or_finish(rq, rc);
}

bool fs_run_ready(struct fs *fs)
{
    struct request *rq = TAILQ_FIRST(&fs->queues.ready);

    if (!rq)
        return false;
    TAILQ_REMOVE(&fs->queues.ready, rq, wait_entry);
    request_wait_or_finish(rq, request_run(rq));
    return true;
}

bool fs_run_task(struct fs *fs, bool (*task)(struct call *call, void *arg), void *arg)
{
    static const struct op op = {.run = NULL};
    struct request *rq = request_new(fs, &op, NULL);

    if (!rq)
        return false;
    request_refresh(rq);
    if (!task(&rq->call, arg)) {
        request_free(rq);
        return false;
    }
    request_finish(rq, CALL_DONE);
    return true;
}
