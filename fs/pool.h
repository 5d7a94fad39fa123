/*
 * A few threads for works that take longer than about 100 µs, made when first needed.
 */
#pragma once

#include <stdbool.h>

struct pool;
struct request;

struct pool *pool_new(void);
/* Ends the threads once the queue is empty, and frees. NULL is allowed. */
void pool_free(struct pool *pool);
/*
 * request_work(rq) is called in a thread of the pool. False: there is none; run it where you are.
 */
bool pool_give(struct pool *pool, struct request *rq);
/* Is this thread one of a pool? */
bool pool_is_here(void);
