/*
 * Users, and what they have of all that is limited. A log grows on any thread: what is used is
 * atomic. Everything else needs the engine's lock.
 */
#pragma once

#include "core/pmc/parts.h"

/* Limits: of each user by a tunable, of an instance by its administrator. */
enum resource {
    USED_PMCS,
    USED_FDS,   /* of counters and recordings, and of user namespaces that open files hold */
    USED_BYTES, /* of logs and their buffers, of open files and the texts kept for them */
    RESOURCES,
    USED_TEXTS = RESOURCES /* the same bytes, for open files: a log that is full can be read */
};

/*
 * A user; an instance, as the user of what it has; or a user in an instance, where everything
 * counts for both. Lives as long as a reference, or a log that is charged to it.
 */
struct user {
    struct engine *engine;
    struct user *next;
    uid_t uid;
    uint64_t instance;       /* 0: everywhere */
    struct user *of, *share; /* of a user in an instance: references to the user and the instance */
    unsigned refs;
    bool draining;                     /* a task drains PMCs of this user */
    _Atomic uint64_t limit[RESOURCES]; /* of an instance; 0: none */
    _Atomic uint64_t used[RESOURCES];
};

/* A reference, which is made if there is none. NULL: no memory. share: of the instance, or NULL. */
struct user *user_get(struct engine *engine, uid_t uid, struct user *share);
struct user *user_get_share(struct engine *engine, uint64_t instance);
struct user *user_find(const struct engine *engine, uid_t uid); /* NULL: it has nothing */
struct user *user_ref(struct user *user);
void user_unref(struct user *user);     /* NULL allowed */
void users_free(struct engine *engine); /* those that only have logs stay */

/* Adds n, which may be negative, without a check. */
void user_add(struct user *user, enum resource what, int64_t n);
/* Adds n unless that exceeds a limit, in one operation: other threads never make it more. */
bool user_charge(struct user *user, enum resource what, int64_t n);
bool user_charge_log(void *user, int64_t bytes); /* for log_set_charge() */
/* How much there still may be. */
uint64_t user_left(const struct user *user, enum resource what);
/* The limit that leaves least: "max_fds"; "this instance's max_fds (50 descriptors)". */
const char *user_limit_name(const struct user *user, enum resource what);
void user_limit_print(const struct user *user, enum resource what, struct buf *out);
