/*
 * The life of a request: request_dispatch() runs it and request_settle() lets it wait or finishes
 * it. The lock is held for the engine's bookkeeping only; slow parts run without the lock and
 * without a serving slot.
 */
#include "fs/requests/request.h"

#include "core/pmc/pmc.h"

#include "fs/requests/caller.h"
#include "fs/requests/loop.h"
#include "fs/requests/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_PART     3 /* a request waits at most for this part of the kernel's timeout */
#define TRIM_AFTER_NS 1000000000
#define TRIM_BYTES    65536 /* a longer reply leaves free memory that is worth trimming */

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
    buf_init(&rq->out, rq->storage, sizeof rq->storage);
    rq->call.out = &rq->out;
    return rq;
}

static void request_clear(struct request *rq)
{
    buf_free(&rq->out);
    free(rq->text);
    free(rq->text2);
    rights_free(rq->rights);
}

void request_free(struct request *rq)
{
    request_clear(rq);
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

void fs_lock(struct fs *fs)
{
    pthread_mutex_lock(&fs->lock);
    while (fs->reloading)
        pthread_cond_wait(&fs->changed, &fs->lock);
}

bool fs_record(struct fs *fs)
{
    const bool anew = engine_put(fs->tree.engine);
    const bool fine = handles_record(&fs->kept, anew ? fs->handles : NULL);
    const bool answered = fs->answered;

    fs->answered = false;
    return engine_publish(fs->tree.engine, fine, answered);
}

/* Drops the lock. Changes are published for a later worker before any process sees them. */
void fs_unlock(struct fs *fs)
{
    struct work_queue unused = STAILQ_HEAD_INITIALIZER(unused);

    if (fs_record(fs))
        STAILQ_CONCAT(&unused, &fs->kept.unused);
    pthread_mutex_unlock(&fs->lock);
    handles_free(&unused);
}

static uint64_t now_of(const struct fs *fs)
{
    return fs->host->now_ns(fs->host_state);
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

uint64_t fs_deadline(const struct fs *fs)
{
    return earlier(earlier(engine_deadline(fs->tree.engine), fs->queues.deadline_ns), fs->trim_ns);
}

void fs_drain(struct fs *fs)
{
    uint64_t deadline_ns, pmc_id;

    while (engine_next_wake(fs->tree.engine, &pmc_id))
        wait_wake(&fs->queues, pmc_id);
    serve_more(fs->serve);
    deadline_ns = fs_deadline(fs);
    if (deadline_ns < fs->armed_ns || fs->attributes_stale) {
        fs->armed_ns = earlier(deadline_ns, fs->armed_ns);
        loop_kick(fs->loop);
    }
}

/* Looks up the PMC and the instance of the node. A released PMC's instance is that of the open
 * file. */
static void objects_refresh(struct request *rq)
{
    struct engine *engine = rq->fs->tree.engine;
    struct call *call = &rq->call;
    const struct node *node = &rq->node;

    call->pmc = NULL;
    call->instance = engine_instance(engine, node_instance(node));
    rq->gone = !call->instance;
    if (node->kind == NODE_PMC) {
        call->pmc = engine_pmc(engine, node->object);
        rq->gone = !call->pmc;
        call->instance = call->pmc    ? call->pmc->instance
                         : call->open ? engine_instance(engine, call->open->instance)
                                      : NULL;
        if (call->pmc && call->open)
            call->open->instance = call->instance->id;
    }
    if (node->kind == NODE_LIMIT)
        rq->gone = !engine_instance(engine, node->object);
}

/*
 * Sets all pointers of the call, which are valid while the lock is held. This is the only place
 * that removes superuser rights from requests made through an instance.
 */
static void request_refresh(struct request *rq)
{
    struct fs *fs = rq->fs;
    struct call *call = &rq->call;

    call->engine = fs->tree.engine;
    engine_request(fs->tree.engine, rq->inflight ? inflight_number(rq->inflight) : 0);
    call->now_ns = now_of(fs);
    if (!rq->req) {
        call->instance = engine_root(fs->tree.engine);
        return;
    }
    if (rq->fh && !rq->handle) {
        struct handle *handle = handle_find(fs->handles, rq->fh);
        rq->handle = handle ? handle_ref(handle) : NULL;
    }
    call->open = rq->handle ? &rq->handle->open : NULL;
    if (call->open && call->open->payer)
        call->payer = call->open->payer_uid;
    objects_refresh(rq);
    if (rq->rights && (!call->instance || call->instance->id))
        rq->rights->superuser = false;
    call->rights = call->open ? call->open->rights : rq->rights;
}

int request_remembers(struct request *rq)
{
    struct handle *handle = rq->handle ? NULL : handle_make(&rq->fs->handles, rq->fh);
    int rc;

    if (rq->handle)
        return 0;
    if (!handle)
        return err_set(&rq->call.err, E32, "no memory");
    rq->call.open = &handle->open;
    rq->call.open->instance = rq->call.instance->id;
    rc = open_file_hold(&rq->call, NULL);
    if (rc < 0) {
        rq->call.open = NULL;
        handle_remove(&rq->fs->handles, handle);
        handle_unref(&rq->fs->kept, handle);
        return rc;
    }
    rq->handle = handle_ref(handle);
    return 0;
}

int request_refuse_gone(struct request *rq)
{
    const bool pmc = rq->node.kind == NODE_PMC;

    return err_set(&rq->call.err, P26, "the %s of this file was %s", pmc ? "PMC" : "instance",
                   pmc ? "released" : "removed");
}

uint64_t request_limit_ns(const struct fs *fs)
{
    return (uint64_t)fs->inflight->timeout_s * 1000000000 / WAIT_PART;
}

static int request_run(struct request *rq)
{
    struct call *call = &rq->call;
    int rc;

    inflight_work(rq->inflight);
    request_refresh(rq);
    call->wait_until_ns = 0;
    call->committed = false;
    call->err.id = ERR_NONE;
    call->err.text[0] = '\0';
    buf_clear(&rq->out);
    if (!rq->ran)
        engine_stat_add(rq->fs->tree.engine, STAT_REQUESTS, 1);
    rq->ran = true;
    if (rq->reads_rights && (rc = caller_rights_read(rq)))
        return rc;
    if (rq->gone && !rq->op->gone_ok)
        return request_refuse_gone(rq);
    if (rq->op->has_text && !rq->text && !(rq->op->text && rq->op->text(rq)))
        return err_nomem(&call->err);
    return rq->op->run(rq);
}

/*
 * Ends a request that has waited for the longest time. The reader of a stream gets filler text and
 * reads again; other requests get P37.
 */
static int request_is_late(struct request *rq, bool stream)
{
    const unsigned timeout_s = rq->fs->inflight->timeout_s;

    buf_clear(&rq->out);
    if (stream && rq->node.row->idle(&rq->call))
        return CALL_DONE;
    return err_set(
        &rq->call.err, P37,
        "waited %u s for other requests (a third of fs.fuse.max_request_timeout, %u s): try again",
        timeout_s / WAIT_PART, timeout_s);
}

/* Returns CALL_WAIT if the request may wait, otherwise its result. Needs the lock. */
static int request_may_wait(struct request *rq)
{
    const uint64_t limit_ns = request_limit_ns(rq->fs);
    const uint64_t until_ns = limit_ns ? rq->inflight->since_ns + limit_ns : UINT64_MAX;
    const bool stream = rq->node.row && (rq->node.row->flags & FILE_STREAM) && !rq->op->is_command;

    if (rq->op->locks_directory) { /* other users of the directory would wait too */
#ifdef PMCFS_DEBUG
        abort();
#endif
        return -EAGAIN;
    }
    if (rq->fs->stopping)
        return stream ? CALL_DONE : -ENODEV;
    if (stream && rq->call.nonblock)
        return -EAGAIN;
    if (inflight_interrupted(rq->inflight))
        return -EINTR;
    if (rq->call.now_ns >= until_ns)
        return request_is_late(rq, stream);
    if (limit_ns && (!rq->call.wait_until_ns || rq->call.wait_until_ns > until_ns))
        rq->call.wait_until_ns = until_ns;
    return wait_admit(&rq->fs->queues, rq);
}

/* ---- answers ---- */

/*
 * Notes a changed open file for the journal. Of `seen` values only the first read and the last poll
 * are recorded, so that ordinary reads write nothing.
 */
static void handle_note(struct request *rq)
{
    struct handle *handle = rq->handle;
    const bool stream = rq->node.row && (rq->node.row->flags & FILE_STREAM);

    if (handle &&
        (rq->op->is_command || stream || rq->poll_number || !handle_is_noted(handle) ||
         handle->swapped != handle->open.swapped || handle->seen != handle->open.has_seen))
        handle_touch(&rq->fs->kept, handle);
}

/* Sends the reply to the kernel, or stores it (inflight_answer_begin()). */
static void request_send(struct request *rq, int rc)
{
    const int sent = rc < 0 || !rq->op->reply ? fuse_reply_err(rq->req, -rc) : rq->op->reply(rq);

    rq->unwanted = sent == -ENOENT;
}

/*
 * Stores the answer, which becomes valid with the same publication as the changes. A later worker
 * sends it, so that nothing is done twice.
 */
static void request_answer(struct request *rq, int rc)
{
    struct fs *fs = rq->fs;

    if (!inflight_answer_begin(inflight_number(rq->inflight)))
        return;
    request_send(rq, rc);
    inflight_answer_end(journal_published(fs->kept.journal) + 1);
    rq->answered = fs->answered = true;
}

/* Updates statistics and last error, before the reply. */
static void request_count(struct request *rq, int rc)
{
    const bool said = rq->call.err.id != ERR_NONE;

    if (rq->counted)
        engine_finished(&rq->call, rc, said && (!rq->op->is_quiet || rc == -EIO),
                        rq->op->is_command);
}

/* Stores the answer of a command that is already committed, before a slow part. */
static void answer_early(struct request *rq)
{
    const int rc = rq->op->done ? rq->op->done(rq) : CALL_DONE;

    request_count(rq, rc);
    handle_note(rq);
    request_answer(rq, rc);
}

/* ---- slow parts ---- */

static struct request *request_of(struct call *call)
{
    return (struct request *)((char *)call - offsetof(struct request, call));
}

static int unlock_admit(struct call *call)
{
    return wait_enter_slow(request_of(call));
}

static void unlock_leave(struct call *call, bool slow)
{
    struct request *rq = request_of(call);
    struct fs *fs = rq->fs;

    if (call->committed && rq->inflight && !rq->answered)
        answer_early(rq);
    fs->away += !rq->away;
    rq->away = true;
    fs_drain(fs);
    if (slow) {
        engine_stat_add(fs->tree.engine, STAT_WORKS, 1);
        serve_leave(fs->serve);
    }
    fs_unlock(fs);
}

/* Does not use fs_lock(), because a reload waits for this request. */
static void unlock_take(struct call *call)
{
    struct request *rq = request_of(call);

    pthread_mutex_lock(&rq->fs->lock);
    request_refresh(rq);
}

static bool unlock_interrupted(struct call *call)
{
    const struct request *rq = request_of(call);

    return rq->inflight && !rq->answered && inflight_interrupted(rq->inflight);
}

const struct unlock_ops fs_unlock_ops = {unlock_admit, unlock_leave, unlock_take,
                                         unlock_interrupted};

/* The request is finished or waits: a reload may replace the engine's objects. */
static void request_comes_back(struct request *rq)
{
    struct fs *fs = rq->fs;

    wait_leave_slow(rq);
    if (rq->away && --fs->away == 0)
        pthread_cond_broadcast(&fs->changed);
    rq->away = false;
}

/* Sends the reply. Called without the lock. */
static void request_reply(struct request *rq, int rc)
{
    if (rq->answered)
        rq->unwanted = !inflight_answer_send(fuse_session_fd(rq->fs->tree.session));
    else if (rq->req)
        request_send(rq, rc);
    if (rq->unwanted && rq->op->undo)
        rq->op->undo(rq);
}

/* Finishes a request. Called with the lock, returns without it. */
static void request_finish(struct request *rq, int rc)
{
    struct fs *fs = rq->fs;

    if (rc == CALL_DONE && rq->op->done && !rq->answered)
        rc = rq->op->done(rq);
    if (!rq->answered)
        request_count(rq, rc);
    if (fs->trim_ns == UINT64_MAX &&
        (rq->counted ? !rq->op->is_quiet || rq->out.len > TRIM_BYTES : !rq->req))
        fs->trim_ns = rq->call.now_ns + TRIM_AFTER_NS;
    wait_leave(&fs->queues, rq);
    handle_note(rq);
    if (rq->inflight && !rq->answered && (fs->kept.touched || engine_has_news(fs->tree.engine)))
        request_answer(rq, rc);
    handle_unref(&fs->kept, rq->handle); /* with the lock, because it frees charges */
    request_comes_back(rq);
    fs_drain(fs);
    fs_unlock(fs);

    request_reply(rq, rc);
    request_free(rq);
}

/* Lets the request wait; the thread takes another one. Returns false on ENOMEM. */
static bool request_wait(struct request *rq)
{
    struct fs *fs = rq->fs;
    struct inflight_request *place = inflight_keep(fs->inflight, rq->inflight);

    if (!place)
        return false;
    rq->inflight = place;
    inflight_work(NULL);
    if (rq->op->text) {
        free(rq->text);
        rq->text = NULL;
        rq->call.text = NULL;
    }
    request_comes_back(rq);
    wait_add(&fs->queues, rq);
    fs_drain(fs);
    fs_unlock(fs);
    return true;
}

/* Lets the request wait or finishes it. Called with the lock, returns without it. */
static void request_settle(struct request *rq, int rc)
{
    if (rc == CALL_WAIT)
        rc = request_may_wait(rq);
    if (rc == CALL_WAIT && request_wait(rq))
        return;
    request_finish(rq, rc == CALL_WAIT ? err_nomem(&rq->call.err) : rc);
}

void request_dispatch(struct request *rq)
{
    const int rc = rq->op->look ? rq->op->look(rq) : 0;

    fs_lock(rq->fs);
    if (rc < 0)
        request_end(rq, rc);
    else
        request_settle(rq, request_run(rq));
}

void request_end(struct request *rq, int rc)
{
    request_refresh(rq);
    request_settle(rq, rc);
}

bool fs_run_ready(struct fs *fs)
{
    struct request *rq = wait_next(&fs->queues);

    if (rq)
        request_settle(rq, request_run(rq));
    return rq != NULL;
}

bool fs_run(struct fs *fs, bool (*task)(struct call *call, void *arg), void *arg)
{
    static const struct op op = {.file = NULL};
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

static bool run_own(struct call *call, void *arg)
{
    (void)arg;
    return engine_task(call);
}

bool fs_run_task(struct fs *fs)
{
    return fs_run(fs, run_own, NULL);
}
