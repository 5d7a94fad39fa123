/*
 * dispatch and settle: how a request goes through the engine. The lock is held for the engine's own
 * bookkeeping only; slow parts run without it, and a request that has to wait is parked.
 */
#include "fs/request.h"

#include "fs/interrupt.h"
#include "fs/loop.h"
#include "fs/notify.h"
#include "fs/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TRIM_AFTER_NS 1000000000

static __thread struct request *spare;
static __thread bool serves; /* requests that were woken: a slow work of theirs is for others */

struct request *request_new(struct fs *fs, fuse_req_t req)
{
    struct request *rq = spare;

    spare = NULL;
    if (!rq && !(rq = malloc(sizeof *rq)))
        return NULL;
    memset(rq, 0, offsetof(struct request, storage));
    rq->fs = fs;
    rq->req = req;
    buf_init(&rq->out, rq->storage, sizeof rq->storage);
    rq->call.out = &rq->out;
    rq->call.interrupted = &rq->interrupted;
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

void fs_unlock(struct fs *fs)
{
    pthread_mutex_unlock(&fs->lock);
}

static void effects_take(struct fs *fs)
{
    struct effect effect;

    while (engine_next_effect(fs->engine, &effect)) {
        if (effect.kind == EFFECT_WAKE)
            park_wake(&fs->park, effect.id);
        else
            notify_later(fs->notifier, &effect);
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
    return earlier(earlier(engine_deadline(fs->engine), fs->park.deadline_ns), fs->trim_ns);
}

/* serving: this thread calls fs_run_ready() at once, so that nobody has to be woken for that. */
static void drain(struct fs *fs, bool serving)
{
    uint64_t deadline_ns;
    bool ready;

    effects_take(fs);
    ready = fs->park.ready && !serving;
    deadline_ns = fs_deadline(fs);
    if (deadline_ns < fs->armed_ns || ready || fs->park.due || fs->attributes_stale) {
        fs->armed_ns = earlier(deadline_ns, fs->armed_ns);
        loop_kick(fs->loop);
    }
}

void fs_drain(struct fs *fs)
{
    drain(fs, false);
}

/* The PMC of a node, and the instance: of a PMC that was released that of the open file. */
static void objects_refresh(struct request *rq)
{
    struct engine *engine = rq->fs->engine;
    struct call *call = &rq->call;
    const struct node *node = &rq->node;

    call->pmc = NULL;
    call->instance = engine_instance(engine, node_instance(node));
    rq->gone = !call->instance;
    if (node->kind == NODE_PMC) {
        call->pmc = engine_pmc(engine, node->object);
        rq->gone = !call->pmc;
        call->instance = call->pmc    ? engine_pmc_instance(call->pmc)
                         : call->open ? engine_instance(engine, call->open->instance)
                                      : NULL;
        if (call->pmc && call->open)
            call->open->instance = instance_id(call->instance);
    }
    if (node->kind == NODE_LIMIT)
        rq->gone = !engine_instance(engine, node->object);
}

/*
 * With the lock: everything in the call that is a pointer and does not outlive an unlocking. HERE
 * is said that through an instance nobody is the superuser: what is opened, made or removed in one
 * is so with the other rights only.
 */
static void request_refresh(struct request *rq)
{
    struct fs *fs = rq->fs;
    struct call *call = &rq->call;

    call->engine = fs->engine;
    call->now_ns = now_of(fs);
    if (rq->fh && !rq->handle) {
        struct handle *handle = handle_find(&fs->handles, rq->fh);
        rq->handle = handle ? handle_ref(handle) : NULL;
    }
    call->open = rq->handle ? &rq->handle->open : NULL;
    if (call->open && call->open->payer)
        call->payer = call->open->payer_uid;
    objects_refresh(rq);
    if (rq->rights && (!call->instance || instance_id(call->instance)))
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
    rq->call.open->instance = instance_id(rq->call.instance);
    rc = open_file_hold(&rq->call, NULL);
    if (rc < 0) {
        rq->call.open = NULL;
        handle_remove(&rq->fs->handles, handle);
        handle_free(handle);
        return rc;
    }
    rq->handle = handle_ref(handle);
    return 0;
}

static int request_run(struct request *rq)
{
    struct call *call = &rq->call;

    request_refresh(rq);
    call->work = NULL;
    call->wait_until_ns = 0;
    call->err.id = ERR_NONE;
    call->err.text[0] = '\0';
    buf_clear(&rq->out);
    if (!rq->ran)
        engine_stat_add(rq->fs->engine, STAT_REQUESTS, 1);
    rq->ran = true;
    if (rq->gone && !rq->gone_ok)
        return err_set(&call->err, P26, "the %s of this file was %s",
                       rq->node.kind == NODE_PMC ? "PMC" : "instance",
                       rq->node.kind == NODE_PMC ? "released" : "removed");
    return rq->run(rq);
}

/* CALL_WAIT, or what a request that wants to wait is told instead. With the lock. */
static int request_may_wait(struct request *rq)
{
    bool stream = rq->node.row && (rq->node.row->flags & FILE_STREAM);

    if (rq->fs->stopping)
        return stream ? CALL_DONE : -ENODEV;
    if (stream && rq->call.nonblock)
        return -EAGAIN;
    if (rq->hears_interrupt && fuse_req_interrupted(rq->req))
        return -EINTR;
    return park_admit(&rq->fs->park, rq);
}

static void work_count(struct fs *fs)
{
    fs->works++;
    engine_stat_add(fs->engine, STAT_WORKS, 1);
}

/* Without the lock. Runs the work where we are; returns with the lock and the work's answer. */
static int work_run(struct request *rq)
{
    struct fs *fs = rq->fs;
    struct work *work = rq->call.work;

    work->run(work);
    pthread_mutex_lock(&fs->lock); /* also while a reload waits for this very work */
    if (--fs->works == 0)
        pthread_cond_broadcast(&fs->changed);
    interrupt_slow_end(rq);
    request_refresh(rq);
    rq->call.work = NULL;
    return work->finish(&rq->call, work);
}

/*
 * The answer is there. Entered with the lock, leaves without. Returns NULL, or a new request for a
 * work of the engine's own, counted already.
 */
static struct request *request_finish(struct request *rq, int rc)
{
    struct fs *fs = rq->fs;
    struct work *work;

    if (rc == CALL_DONE && rq->done)
        rc = rq->done(rq);
    if (rq->counted) {
        bool said = rq->call.err.id != ERR_NONE;
        if (rc < 0 && said && rq->is_command && rq->call.open &&
            (rq->node.row->flags & FILE_GOES_ON))
            rq->call.open->refused = true;
        engine_finished(&rq->call, rc, said && (!rq->is_quiet || rc == -EIO), rq->is_command);
    }
    if (fs->trim_ns == UINT64_MAX && (rq->counted ? !rq->is_quiet : !rq->req))
        fs->trim_ns = rq->call.now_ns + TRIM_AFTER_NS;
    park_leave(&fs->park, rq);
    if (handle_unref(rq->handle)) /* with the lock: what it frees is charged to the engine's users */
        handle_free(rq->handle);
    work = engine_next_work(fs->engine);
    if (work)
        work_count(fs);
    drain(fs, !work && (serves || pool_is_here()));
    fs_unlock(fs);

    if (rq->req)
        rq->reply(rq, rc);
    request_free(rq);
    if (!work)
        return NULL;
    rq = request_new(fs, NULL); /* this thread's spare, which is there: it cannot fail */
    rq->call.work = work;
    return rq;
}

/* Entered with the lock, leaves without it. */
static void request_settle(struct request *rq, int rc)
{
    struct fs *fs = rq->fs;

    for (;;) {
        if (rc == CALL_WORK) {
            bool heard = rq->req && rq->call.work->slow;
            work_count(fs);
            if (heard)
                interrupt_slow_begin(rq);
            fs_unlock(fs);
            if (heard)
                interrupt_slow_hear(rq);
        } else if (rc == CALL_WAIT && rq->req) {
            rc = request_may_wait(rq);
            if (rc != CALL_WAIT)
                continue;
            if (rq->hears_interrupt) {
                park_add(&fs->park, rq);
                drain(fs, serves || pool_is_here());
                fs_unlock(fs);
                return;
            }
            interrupt_hear_between(rq);
            rc = request_run(rq);
            continue;
        } else {
            rq = request_finish(rq, rc);
            if (!rq)
                return;
        }
        if (rq->call.work->slow && (serves || !pool_is_here()) && pool_give(fs->pool, rq))
            return;
        rc = work_run(rq);
    }
}

void request_dispatch(struct request *rq)
{
    fs_lock(rq->fs);
    request_settle(rq, request_run(rq));
}

/*
 * Here and below not fs_lock(): a reload waits for works, and they perhaps for this thread of the
 * pool. Main goes on with what is ready when it is over.
 */
static bool woken_run(struct fs *fs)
{
    struct request *rq = NULL;

    pthread_mutex_lock(&fs->lock);
    if (!fs->reloading)
        rq = park_next(&fs->park);
    if (rq)
        request_settle(rq, request_run(rq));
    else
        fs_unlock(fs);
    return rq != NULL;
}

void fs_run_ready(struct fs *fs)
{
    serves = true;
    while (woken_run(fs))
        ;
    serves = false;
}

void request_work(struct request *rq)
{
    struct fs *fs = rq->fs;

    request_settle(rq, work_run(rq));
    fs_run_ready(fs);
}

void request_end(struct request *rq, int rc)
{
    request_refresh(rq);
    request_settle(rq, rc);
}

/* All of them: one that takes long must not be waited for by the next. */
void fs_run_works(struct fs *fs)
{
    struct request *rq;

    while ((rq = request_new(fs, NULL)) && (rq->call.work = engine_next_work(fs->engine))) {
        request_settle(rq, CALL_WORK);
        fs_lock(fs);
    }
    fs_drain(fs);
    fs_unlock(fs);
    if (rq)
        request_free(rq);
}
