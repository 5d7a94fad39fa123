/*
 * Waiting: parked requests, and descriptors that are polled, both by the id of the
 * object they wait for. All with the engine's lock held.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct fs;
struct handle;
struct request;

#define PARK_BUCKETS 256

TAILQ_HEAD(park_list, request);
LIST_HEAD(poll_list, handle);

struct park {
    struct fs *fs;
    struct park_list waiting[PARK_BUCKETS]; /* by call.wait_for */
    struct park_list ready;                 /* woken: to be run again, in this order */
    struct poll_list polled[PARK_BUCKETS];  /* by polled_id */
    uint64_t deadline_ns;                   /* no request's and no poller's moment is earlier */
    struct park_user *users;                /* that have something waiting */
};

void park_init(struct park *park, struct fs *fs);
void park_free(struct park *park); /* asserts that no request waits */

/* Counts the request among its user's, and charges that user for the text of a write. Returns
 * CALL_WAIT; or P11 if the user has too many requests or bytes; or E32. */
int park_admit(struct park *park, struct request *rq);
/* Takes it from the count again; once, before the reply. */
void park_leave(struct park *park, struct request *rq);
/* Before a reload forgets all users: texts are charged again when their requests wait again. */
void park_forget(struct park *park);
/* Until call.wait_for is woken or call.wait_until_ns (0: never) has come. */
void park_add(struct park *park, struct request *rq);
/* Takes the kernel's request of this number off, if it is parked or ready; NULL: it is not. */
struct request *park_take(struct park *park, uint64_t number);
/* Requests that wait for id become ready, its pollers are told. */
void park_wake(struct park *park, uint64_t id);
/* The same for those with a moment that has come, and (now_ns UINT64_MAX) for all requests. */
void park_expire(struct park *park, uint64_t now_ns);
/* One that waits becomes ready. */
void park_ready(struct park *park, struct request *rq);
/* Those that wait for id are among these. */
struct park_list *park_list(struct park *park, uint64_t id);
/* The next ready request, taken off; NULL: none. */
struct request *park_next(struct park *park);

/*
 * The newest poller of a handle, until the node's object is woken or
 * call.wait_until_ns has come; the one before is forgotten. It counts among the waiting requests of
 * the poller: 0, or P11 when that user has too many, and then it is not kept.
 */
int poll_add(struct park *park, struct handle *handle, struct request *rq);
void poll_drop(struct park *park, struct handle *handle);
/* The poller with this number of the kernel's is woken. */
void poll_notify(int fd, uint64_t number);
/* After a reload: the new engine is told of the pollers. */
void poll_tell(struct park *park);
