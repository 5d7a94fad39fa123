/*
 * An instance: PMCs by name, and the last sentence of each user. The root is instance 0. And users:
 * what each has, of all instances.
 */
#pragma once

#include "core/parts.h"

struct instance {
    struct engine *engine;
    uint64_t id;
    struct pmc **by_name; /* sorted by name */
    size_t n, size;
    struct last_error { /* by uid; the oldest is dropped beyond a bound */
        uid_t uid;
        uint64_t when;
        char *line;
    } * errors;
    size_t n_errors;
};

struct instance *instance_new(struct engine *engine, uint64_t id);
void instance_free(struct instance *instance); /* asserts that it has no PMC */
struct pmc *instance_find(const struct instance *instance, const char *name);
bool instance_add(struct instance *instance, struct pmc *pmc);
void instance_remove(struct instance *instance, struct pmc *pmc);
void instance_set_error(struct instance *instance, uid_t uid, uint64_t now_ns, const char *line);
const char *instance_error(const struct instance *instance, uid_t uid); /* "ok" without one */

/* Lives as long as a PMC of his, or a change of one. */
struct user {
    struct user *next;
    uid_t uid;
    unsigned refs;
    unsigned pmcs;               /* on the tree */
    bool draining;               /* a work drains PMCs of his */
    bool looking;                /* a look at PMCs of his is under way, for pollers */
    _Atomic unsigned long fds;   /* descriptors of links, as accounted and booked */
    _Atomic unsigned long links; /* links that have some, the same */
    _Atomic uint64_t log;        /* bytes of his logs and their buffers; lives on while there are */
};
struct user *user_find(const struct engine *engine, uid_t uid); /* NULL: he has nothing */
struct user *user_get(struct engine *engine, uid_t uid);        /* a reference; NULL: no memory */
void user_unref(struct engine *engine, struct user *user);      /* NULL allowed */
void users_free(
    struct engine *engine); /* of whom there were only logs; those that still are stay */

/*
 * What one PMC's log takes of its user's max_log_per_user: memory of records, and the locked memory
 * they come from. Logs may outlive their PMC; they ask here from any thread.
 */
struct account;
struct account *account_new(struct user *user, uint64_t limit); /* NULL: no memory */
/* For log_set_charge(): bytes more (or less); false: more than the user may have. */
bool account_charge(void *account, int64_t bytes);
void account_add(struct account *account, int64_t bytes); /* the same, without a question */
void account_move(struct account *account, struct user *to);
/* No PMC has it any more: it ends with its last byte. NULL allowed. */
void account_end(struct account *account);
