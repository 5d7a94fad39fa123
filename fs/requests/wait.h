/*
 * Wait queues: requests that wait for an object, pollers of an object, and the slots of slow
 * requests. An object is a 64-bit id; waking it makes its waiting requests ready to run again. Also
 * the notifications that are sent to the kernel.
 *
 * Every function needs the engine's lock unless its comment says otherwise.
 */
#pragma once

#include "core/engine.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct fs;
struct handle;
struct request;

#define WAIT_BUCKETS 256

TAILQ_HEAD(wait_list, request);
LIST_HEAD(poll_list, handle);

struct wait_queues {
    struct fs *fs;
    struct wait_list waiting[WAIT_BUCKETS]; /* by call.wait_for */
    struct wait_list ready;                 /* woken requests, in the order in which they run */
    struct poll_list polled[WAIT_BUCKETS];  /* by poller.object */
    uint64_t deadline_ns;                   /* no request or poller has an earlier deadline */
    struct wait_user *users;                /* users with waiting requests or pollers */
    LIST_HEAD(, request) slow;              /* requests in a slow slot */
};

void wait_init(struct wait_queues *queues, struct fs *fs);

/* ---- requests ---- */

/* Counts the request among the waiting ones of its user, and charges the user for the text of a
 * write. Returns CALL_WAIT, P11 if the user has too many requests or bytes, or E32. */
int wait_charge(struct wait_queues *queues, struct request *rq);
/* Reverses wait_charge(). Called once, before the reply. */
void wait_uncharge(struct wait_queues *queues, struct request *rq);
/* Drops the charges of all texts before a reload frees the users. They are charged again when their
 * requests wait again. */
void wait_forget_charges(struct wait_queues *queues);
/* Adds a request to the queue of call.wait_for. It becomes ready when that object is woken or when
 * call.wait_until_ns passes (0: no deadline). */
void wait_add(struct wait_queues *queues, struct request *rq);
/* Removes the waiting or ready request with this number of the kernel, or returns NULL. */
struct request *wait_take(struct wait_queues *queues, uint64_t number);
/* Makes all requests that wait for the object ready and notifies its pollers. */
void wait_wake(struct wait_queues *queues, uint64_t id);
/* Makes the requests ready, and notifies the pollers, whose deadline has passed. UINT64_MAX: all
 * requests, and the pollers that have a deadline. */
void wait_expire(struct wait_queues *queues, uint64_t now_ns);

/* ---- pollers ---- */

/*
 * Registers the poller of a handle until the object is woken or call.wait_until_ns passes; replaces
 * the handle's earlier poller. A poller counts among its user's waiting requests. Returns 0, P11 if
 * the user has too many, or E32.
 */
int poll_add(struct wait_queues *queues, struct handle *handle, struct request *rq);
/* Removes the handle's poller, if there is one, without a notification. */
void poll_drop(struct wait_queues *queues, struct handle *handle);
/* Wakes the poller with this number of the kernel. Needs no lock. */
void poll_notify(int fd, uint64_t number);
/* After a reload: reports all pollers to the new engine. */
void poll_announce(struct wait_queues *queues);

/* ---- slow requests: eight slots in all, four per user, one reserved for the superuser ---- */

/*
 * Takes a slow slot for the request. Returns 0, or CALL_WAIT if the user's slots or the shared ones
 * are in use or the mount stops: the request then waits until wait_leave_slow() gives it a slot. A
 * free slot goes to the waiting user with the fewest slow requests. The engine's tasks need no
 * slot.
 *
 * A request that the kernel sends with a directory's lock held (op.locks_directory) must never call
 * this, because all users of that directory would wait with it: builds with -Ddebug_reload abort.
 */
int wait_enter_slow(struct call *call);
/* Frees the slow slot of the request, if it has one, and gives the slot to the next request. */
void wait_leave_slow(struct request *rq);

/* ---- notifications ----
 * Names that are gone are reported to the kernel by a separate process (notifier_start()),
 * because the kernel waits for the directory's lock, and SIGKILL does not end that wait.
 */

#define NOTIFICATION_MAX 512 /* bytes of a notification about a name */

/* Takes the next name of engine_next_name() and reports it with the lock dropped; while the mount
 * stops, discards it. Returns false if no name is left. */
bool notify_next(struct fs *fs);
/* Takes the lock. Waits until no thread reports a name, and at most a second until the process that
 * sends notifications has exited. Needs fs->stopping. */
void notify_end(struct fs *fs);
