/*
 * The pool: a queue and up to eight threads, shared out among users: whoever has the fewest works
 * under way is next, and one user's fill at most half of the threads. What keeps others waiting in
 * the kernel comes before that, is not counted, and has a thread of its own besides.
 */
#include "fs/pool.h"

#include "fs/request.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    THREADS_MAX = 8,
    THREADS_PER_USER = THREADS_MAX / 2
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t given, hurried;
    struct request *first, **last;
    pthread_t threads[THREADS_MAX], spare;
    uint64_t owners[THREADS_MAX]; /* of the works under way, in no order */
    unsigned n_owners;
    unsigned n_threads, n_idle;
    unsigned n_queued;
    bool has_spare, ending;
};

static __thread bool here;

bool pool_is_here(void)
{
    return here;
}

struct pool *pool_new(void)
{
    struct pool *pool = calloc(1, sizeof *pool);

    if (!pool)
        return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->given, NULL);
    pthread_cond_init(&pool->hurried, NULL);
    pool->last = &pool->first;
    return pool;
}

/* The engine's own works are nobody's. */
static uint64_t owner_of(const struct request *rq)
{
    return rq->req ? rq->call.payer : UINT64_MAX;
}

static unsigned running_of(const struct pool *pool, uint64_t owner)
{
    unsigned n = 0;

    for (unsigned i = 0; i < pool->n_owners; i++)
        n += pool->owners[i] == owner;
    return n;
}

/* With the pool's lock, as all of these: a place in the queue, or NULL. */
static struct request **pool_choose_hurried(struct pool *pool)
{
    struct request **at = &pool->first;

    while (*at && !(*at)->hurried)
        at = &(*at)->next;
    return *at ? at : NULL;
}

/* What is to be run next. */
static struct request **pool_choose(struct pool *pool)
{
    unsigned fewest = pool->ending ? THREADS_MAX + 1 : THREADS_PER_USER;
    struct request **best = NULL, **hurried = pool_choose_hurried(pool);

    if (hurried)
        return hurried;
    for (struct request **at = &pool->first; *at && fewest > 0; at = &(*at)->next) {
        unsigned n = running_of(pool, owner_of(*at));
        if (n < fewest) {
            fewest = n;
            best = at;
        }
    }
    return best;
}

/* The next request, its owner noted if it counts; or NULL at the end. */
static struct request *pool_take(struct pool *pool, bool spare)
{
    struct request **at, *rq;

    while (!(at = spare ? pool_choose_hurried(pool) : pool_choose(pool))) {
        if (pool->ending)
            return NULL;
        pool->n_idle += !spare;
        pthread_cond_wait(spare ? &pool->hurried : &pool->given, &pool->lock);
        pool->n_idle -= !spare;
    }
    rq = *at;
    *at = rq->next;
    if (!*at)
        pool->last = at;
    pool->n_queued--;
    rq->next = NULL;
    if (!rq->hurried)
        pool->owners[pool->n_owners++] = owner_of(rq);
    return rq;
}

static void pool_done(struct pool *pool, uint64_t owner)
{
    unsigned i = 0;

    while (pool->owners[i] != owner)
        i++;
    pool->owners[i] = pool->owners[--pool->n_owners];
}

/*
 * Whose work has ended takes the next one itself. Nobody else has to be woken for it: if others are
 * idle, it is the only one that may be taken now and could not before.
 */
static void pool_serve(struct pool *pool, bool spare)
{
    struct request *rq;

    here = !spare; /* which gives on what else there is to do */
    pthread_mutex_lock(&pool->lock);
    while ((rq = pool_take(pool, spare))) {
        const uint64_t owner = owner_of(rq);
        const bool counts = !rq->hurried;
        pthread_mutex_unlock(&pool->lock);
        request_work(rq);
        pthread_mutex_lock(&pool->lock);
        if (counts)
            pool_done(pool, owner);
    }
    pthread_mutex_unlock(&pool->lock);
    request_thread_end();
}

static void *pool_main(void *pool)
{
    pool_serve(pool, false);
    return NULL;
}

static void *pool_spare(void *pool)
{
    pool_serve(pool, true);
    return NULL;
}

bool pool_give(struct pool *pool, struct request *rq)
{
    bool given;

    pthread_mutex_lock(&pool->lock);
    if (pool->n_queued >= pool->n_idle && pool->n_threads < THREADS_MAX &&
        pthread_create(&pool->threads[pool->n_threads], NULL, pool_main, pool) == 0)
        pool->n_threads++;
    if (rq->hurried && !pool->has_spare)
        pool->has_spare = pthread_create(&pool->spare, NULL, pool_spare, pool) == 0;
    given = pool->n_threads > 0 && !pool->ending;
    if (given) {
        rq->next = NULL;
        *pool->last = rq;
        pool->last = &rq->next;
        pool->n_queued++;
        pthread_cond_signal(&pool->given);
        if (rq->hurried)
            pthread_cond_signal(&pool->hurried);
    }
    pthread_mutex_unlock(&pool->lock);
    return given;
}

void pool_free(struct pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    pthread_cond_broadcast(&pool->given);
    pthread_cond_broadcast(&pool->hurried);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->n_threads; i++)
        pthread_join(pool->threads[i], NULL);
    if (pool->has_spare)
        pthread_join(pool->spare, NULL);
    pthread_cond_destroy(&pool->given);
    pthread_cond_destroy(&pool->hurried);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
