/*
 * dispatch and settle: how a request goes through the engine. The lock is held for the engine's own
 * bookkeeping only; slow parts run without it and without a seat, and a request that has to wait is
 * parked.
 */
#include "fs/requests/request.h"

#include "core/pmc/pmc.h"

#include "fs/requests/caller.h"
#include "fs/requests/loop.h"
#include "fs/requests/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_PART     3 /* no request waits for more than this part of the kernel's timeout */
#define TRIM_AFTER_NS 1000000000
#define TRIM_BYTES    65536 /* a longer answer leaves memory behind */

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
    rq->hand = req ? hand_current() : NULL;
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
    if (rq->hand)
        hand_done(rq->hand);
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

/* What has changed becomes true for a later worker, before any process is told of it. */
void fs_unlock(struct fs *fs)
{
    struct block *dead = NULL;
    struct handle *ended = NULL;

    if (fs_record(fs)) {
        ended = handles_end(&fs->kept);
        dead = fs->kept.dead;
        fs->kept.dead = NULL;
    }
    pthread_mutex_unlock(&fs->lock);
    handles_free(ended);
    blocks_free(dead);
}

static void effects_take(struct fs *fs)
{
    struct effect effect;

    while (engine_next_effect(fs->tree.engine, &effect)) {
        if (effect.kind == EFFECT_WAKE)
            park_wake(&fs->park, effect.id);
        else
            notify_later(fs, &effect);
    }
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
    return earlier(earlier(engine_deadline(fs->tree.engine), fs->park.deadline_ns), fs->trim_ns);
}

void fs_drain(struct fs *fs)
{
    uint64_t deadline_ns;

    effects_take(fs);
    serve_more(fs->serve);
    deadline_ns = fs_deadline(fs);
    if (deadline_ns < fs->armed_ns || fs->attributes_stale) {
        fs->armed_ns = earlier(deadline_ns, fs->armed_ns);
        loop_kick(fs->loop);
    }
}

/* The PMC of a node, and the instance: of a PMC that was released that of the open file. */
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
 * With the lock: everything in the call that is a pointer and does not outlive an unlocking. HERE
 * is said that through an instance no user is the superuser: what is opened, made or removed in one
 * is so with the other rights only.
 */
static void request_refresh(struct request *rq)
{
    struct fs *fs = rq->fs;
    struct call *call = &rq->call;

    call->engine = fs->tree.engine;
    engine_request(fs->tree.engine, rq->hand ? hand_number(rq->hand) : 0);
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
    return (uint64_t)fs->hand->timeout_s * 1000000000 / WAIT_PART;
}

static int request_run(struct request *rq)
{
    struct call *call = &rq->call;
    int rc;

    hand_work(rq->hand);
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
 * The request has waited for as long as it may. The reader of a stream is given text without a
 * meaning, and reads again.
 */
static int request_is_late(struct request *rq, bool stream)
{
    const unsigned timeout_s = rq->fs->hand->timeout_s;

    buf_clear(&rq->out);
    if (stream && rq->node.row->idle(&rq->call))
        return CALL_DONE;
    return err_set(&rq->call.err, P37,
                   "waited for %u s for other requests, a third of the %u s after which the kernel "
                   "would end this mount (fs.fuse.max_request_timeout); do it again",
                   timeout_s / WAIT_PART, timeout_s);
}

/* CALL_WAIT, or what a request that wants to wait is told instead. With the lock. */
static int request_may_wait(struct request *rq)
{
    const uint64_t limit_ns = request_limit_ns(rq->fs);
    const uint64_t until_ns = limit_ns ? rq->hand->since_ns + limit_ns : UINT64_MAX;
    const bool stream =
        rq->node.row && (rq->node.row->flags & FILE_STREAM) && !rq->op->is_command;

    if (rq->op->locks_directory) { /* all other users of that directory would wait with it */
#ifdef PMCFS_DEBUG
        abort();
#endif
        return -EAGAIN;
    }
    if (rq->fs->stopping)
        return stream ? CALL_DONE : -ENODEV;
    if (stream && rq->call.nonblock)
        return -EAGAIN;
    if (hand_interrupted(rq->hand))
        return -EINTR;
    if (rq->call.now_ns >= until_ns)
        return request_is_late(rq, stream);
    if (limit_ns && (!rq->call.wait_until_ns || rq->call.wait_until_ns > until_ns))
        rq->call.wait_until_ns = until_ns;
    return park_admit(&rq->fs->park, rq);
}

/* ---- answers ---- */

/*
 * Does its open file remember something else than before? Of what was seen a later worker has the
 * first read, and that of the last poll: reads put nothing.
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

/* To the kernel, or kept. */
static void request_tell(struct request *rq, int rc)
{
    const int told = rc < 0 || !rq->op->reply ? fuse_reply_err(rq->req, -rc) : rq->op->reply(rq);

    rq->unwanted = told == -ENOENT;
}

/*
 * What has changed becomes true together with the answer, which is kept for a later worker until
 * then: nothing is done twice.
 */
static void request_answer(struct request *rq, int rc)
{
    struct fs *fs = rq->fs;

    if (!hand_answer_begin(hand_number(rq->hand)))
        return;
    request_tell(rq, rc);
    hand_answer_end(journal_published(fs->kept.journal) + 1);
    rq->answered = fs->answered = true;
}

/* What `error` and the statistics say of it, before it is answered. */
static void request_count(struct request *rq, int rc)
{
    const bool said = rq->call.err.id != ERR_NONE;

    if (rq->counted)
        engine_finished(&rq->call, rc, said && (!rq->op->is_quiet || rc == -EIO),
                        rq->op->is_command);
}

/* What was asked is so already; what follows may take long. */
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

static int seat_admit(struct call *call)
{
    return slow_enter(request_of(call));
}

static void seat_leave(struct call *call, bool slow)
{
    struct request *rq = request_of(call);
    struct fs *fs = rq->fs;

    if (call->committed && rq->hand && !rq->answered)
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

/* Not fs_lock(): a reload waits for this request. */
static void seat_take(struct call *call)
{
    struct request *rq = request_of(call);

    pthread_mutex_lock(&rq->fs->lock);
    request_refresh(rq);
}

static bool seat_interrupted(struct call *call)
{
    const struct request *rq = request_of(call);

    return rq->hand && !rq->answered && hand_interrupted(rq->hand);
}

const struct seat fs_seat = {seat_admit, seat_leave, seat_take, seat_interrupted};

/* It is over, or parked: the engine's objects may be others when it goes on. */
static void request_comes_back(struct request *rq)
{
    struct fs *fs = rq->fs;

    slow_leave(rq);
    if (rq->away && --fs->away == 0)
        pthread_cond_broadcast(&fs->changed);
    rq->away = false;
}

/* Without the lock. */
static void request_reply(struct request *rq, int rc)
{
    if (rq->answered)
        rq->unwanted = !hand_answer_send(fuse_session_fd(rq->fs->tree.session));
    else if (rq->req)
        request_tell(rq, rc);
    if (rq->unwanted && rq->op->undo)
        rq->op->undo(rq);
}

/* The answer is there. Entered with the lock, leaves without. */
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
    park_leave(&fs->park, rq);
    handle_note(rq);
    if (rq->hand && !rq->answered && (fs->kept.touched || engine_has_news(fs->tree.engine)))
        request_answer(rq, rc);
    handle_unref(&fs->kept, rq->handle); /* with the lock: it frees what users are charged for */
    request_comes_back(rq);
    fs_drain(fs);
    fs_unlock(fs);

    request_reply(rq, rc);
    request_free(rq);
}

/* Until it is woken; the thread reads another one meanwhile. False: no memory. */
static bool request_park(struct request *rq)
{
    struct fs *fs = rq->fs;
    struct in_hand *place = hand_park(fs->hand, rq->hand);

    if (!place)
        return false;
    rq->hand = place;
    hand_work(NULL);
    if (rq->op->text) {
        free(rq->text);
        rq->text = NULL;
        rq->call.text = NULL;
    }
    request_comes_back(rq);
    park_add(&fs->park, rq);
    fs_drain(fs);
    fs_unlock(fs);
    return true;
}

/* Entered with the lock, leaves without it. */
static void request_settle(struct request *rq, int rc)
{
    if (rc == CALL_WAIT)
        rc = request_may_wait(rq);
    if (rc == CALL_WAIT && request_park(rq))
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
    struct request *rq = park_next(&fs->park);

    if (rq)
        request_settle(rq, request_run(rq));
    return rq != NULL;
}

bool fs_run_task(struct fs *fs)
{
    static const struct op op = {.file = NULL};
    struct request *rq = request_new(fs, &op, NULL);

    if (!rq)
        return false;
    request_refresh(rq);
    if (!engine_task(&rq->call)) {
        request_free(rq);
        return false;
    }
    request_finish(rq, CALL_DONE);
    return true;
}
