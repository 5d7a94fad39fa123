/*
 * The pool alone, with works that last as long as they are told: who is next, and who waits. Prints
 * "ok NAME" or "not ok NAME" for each.
 */
#include "fs/pool.h"

#include "fs/request.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    ALICE = 1000,
    BOB,
    CAROL,
    WORKS = 100
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned started, running, most, done;
    uid_t order[WORKS + 20]; /* whose works began, in this order */
    unsigned allowed;        /* works that may end */
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int n_failures;

static void check(bool good, const char *name)
{
    n_failures += !good;
    printf("%s %s\n", good ? "ok" : "not ok", name);
}

/* What the pool calls. */
void request_work(struct request *rq)
{
    pthread_mutex_lock(&seen.lock);
    seen.order[seen.started++] = rq->call.uid;
    if (++seen.running > seen.most)
        seen.most = seen.running;
    pthread_cond_broadcast(&seen.changed);
    while (rq->call.uid != BOB && !rq->hurried && seen.allowed == 0)
        pthread_cond_wait(&seen.changed, &seen.lock);
    if (rq->call.uid != BOB && !rq->hurried)
        seen.allowed--;
    seen.running--;
    seen.done++;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
    free(rq);
}

void request_thread_end(void)
{
}

static void give_one(struct pool *pool, uid_t uid, bool hurried)
{
    struct request *rq = calloc(1, sizeof *rq);

    rq->req = (fuse_req_t)rq; /* somebody's: not NULL */
    rq->call.uid = rq->call.payer = uid;
    rq->hurried = hurried;
    if (!pool_give(pool, rq))
        abort();
}

static void give(struct pool *pool, uid_t uid)
{
    give_one(pool, uid, false);
}

/* Until a counter is there; false after 10 s. */
static bool reaches(const unsigned *counter, unsigned n)
{
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    pthread_mutex_lock(&seen.lock);
    while (rc == 0 && *counter < n)
        rc = pthread_cond_timedwait(&seen.changed, &seen.lock, &until);
    pthread_mutex_unlock(&seen.lock);
    return rc == 0;
}

static void allow(unsigned n)
{
    pthread_mutex_lock(&seen.lock);
    seen.allowed = n;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

int main(void)
{
    struct pool *pool = pool_new();
    const struct timespec moment = {.tv_nsec = 100000000};

    for (unsigned i = 0; i < WORKS; i++)
        give(pool, ALICE);
    check(reaches(&seen.started, 4), "one user's works run side by side");
    nanosleep(&moment, NULL);
    check(seen.most == 4, "but fill no more than half of the threads");
    give(pool, BOB);
    check(reaches(&seen.done, 1) && seen.order[4] == BOB, "another user's is not behind them");
    for (unsigned i = 0; i < 4; i++)
        give(pool, BOB);
    check(reaches(&seen.done, 5), "nor are more of them");
    give_one(pool, ALICE, true);
    check(reaches(&seen.done, 6), "one that keeps others waiting is not behind its own user's");
    for (unsigned i = 0; i < 4; i++)
        give(pool, CAROL);
    check(reaches(&seen.running, 8), "all threads are taken");
    give_one(pool, ALICE, true);
    give_one(pool, BOB, true);
    check(reaches(&seen.done, 8), "and such a one waits for none of them");
    check(seen.most == 9, "it has one of its own");
    allow(WORKS + 4);
    check(reaches(&seen.done, WORKS + 12), "all are done in the end");
    check(seen.most <= 9, "never more than eight at once, and one of those");
    for (unsigned i = 0; i < 3; i++)
        give(pool, ALICE);
    allow(3);
    pool_free(pool);
    check(seen.done == WORKS + 15, "what is queued at the end is done before it");
    return n_failures != 0;
}
