/*
 * The pool: a queue and up to four threads.
 */
#include "fs/pool.h"

#include "fs/request.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS_MAX = 4 };

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t given;
    struct request *first, **last;
    pthread_t threads[THREADS_MAX];
    unsigned n_threads, n_idle;
    unsigned n_queued;
    bool ending;
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
    pool->last = &pool->first;
    return pool;
}

/* With the pool's lock: the next request, or NULL at the end. */
static struct request *pool_take(struct pool *pool)
{
    struct request *rq;

    while (!pool->first && !pool->ending) {
        pool->n_idle++;
        pthread_cond_wait(&pool->given, &pool->lock);
        pool->n_idle--;
    }
    rq = pool->first;
    if (rq) {
        pool->first = rq->next;
        if (!pool->first)
            pool->last = &pool->first;
        pool->n_queued--;
        rq->next = NULL;
    }
    return rq;
}

static void *pool_main(void *arg)
{
    struct pool *pool = arg;
    struct request *rq;

    here = true;
    pthread_mutex_lock(&pool->lock);
    while ((rq = pool_take(pool))) {
        pthread_mutex_unlock(&pool->lock);
        request_work(rq);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    request_thread_end();
    return NULL;
}

bool pool_give(struct pool *pool, struct request *rq)
{
    bool given;

    pthread_mutex_lock(&pool->lock);
    if (pool->n_queued >= pool->n_idle && pool->n_threads < THREADS_MAX &&
        pthread_create(&pool->threads[pool->n_threads], NULL, pool_main, pool) == 0)
        pool->n_threads++;
    given = pool->n_threads > 0 && !pool->ending;
    if (given) {
        rq->next = NULL;
        *pool->last = rq;
        pool->last = &rq->next;
        pool->n_queued++;
        pthread_cond_signal(&pool->given);
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
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->n_threads; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->given);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
