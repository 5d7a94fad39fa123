/*
 * Requests with slow parts: how many there may be at once.
 */
#pragma once

#include <stdbool.h>
#include <sys/queue.h>

#define SLOW_ID UINT64_MAX /* the object that a request waits for that may not be slow yet */

struct fs;
struct request;

LIST_HEAD(slow_list, request);

/* With the lock. 0: it is one of the slow ones until slow_leave(); or CALL_WAIT. */
int slow_enter(struct request *rq);
/* Makes room for one that waits. */
void slow_leave(struct request *rq);
