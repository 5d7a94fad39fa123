/*
 * Slots for requests with slow parts: eight in all, four for each user, and one that only the
 * superuser gets. A free slot goes to the waiting user that has the fewest slow requests.
 */
#pragma once

#include <stdbool.h>
#include <sys/queue.h>

#define SLOW_ID UINT64_MAX /* the object that a request waits for that has no slot yet */

struct fs;
struct request;

LIST_HEAD(slow_list, request);

/*
 * With the lock. Returns 0: the request has a slot until slow_leave(); or CALL_WAIT. Must not be
 * called for a request that holds a directory's lock (op.locks_directory): builds with
 * -Ddebug_reload abort.
 */
int slow_enter(struct request *rq);
/* Gives the slot to a request that waits for one. */
void slow_leave(struct request *rq);
