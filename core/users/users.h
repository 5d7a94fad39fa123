/*
 * Users and their use of limited resources, and the rights of open files and targets. Amounts are
 * atomic, because logs grow in any thread; everything else needs the engine's lock.
 */
#pragma once

#include "core/log/log_sets.h"
#include "core/state.h"

/* Limited resources. Tunables limit each user, the administrator limits an instance. */
enum resource {
    USED_PMCS,
    USED_FDS,   /* of counters, recordings, and user namespaces of open files */
    USED_BYTES, /* of logs and buffers, open files and their kept texts */
    RESOURCES,
    /* not a resource: charges USED_BYTES, with an extra allowance, so that a full log can be read
     */
    USED_TEXTS = RESOURCES
};

/*
 * An account: of a user, an instance, or a user in an instance, whose charges count for both. It
 * exists while there are references or charged bytes.
 */
struct user {
    struct engine *engine;
    struct user *next;
    uid_t uid;
    uint64_t instance; /* 0: a user in all instances */
    /* of a user in an instance: accounts that its charges count for too (references); or NULL */
    struct user *user_account, *instance_account;
    unsigned refs;
    bool draining;                     /* a task drains PMCs of this user */
    _Atomic uint64_t limit[RESOURCES]; /* limits of an instance; 0: none */
    _Atomic uint64_t used[RESOURCES];
};

/* Returns a reference; creates the account if needed. instance_account: NULL for the account in all
 * instances. Returns NULL on ENOMEM. */
struct user *user_get(struct engine *engine, uid_t uid, struct user *instance_account);
/* Returns a reference to the account of an instance itself. Returns NULL on ENOMEM. */
struct user *user_of_instance(struct engine *engine, uint64_t instance);
struct user *user_ref(struct user *user);
void user_unref(struct user *user);     /* NULL allowed */
void users_free(struct engine *engine); /* keeps accounts with references or charged bytes */

/* Charges n, or gives back -n, without a check of the limit. */
void user_charge_unchecked(struct user *user, enum resource what, int64_t n);
/* Adds n and returns true, or returns false if that exceeds a limit (never if n <= 0). Atomic
 * against other threads. */
bool user_charge(struct user *user, enum resource what, int64_t n);
bool user_charge_log(void *user, int64_t bytes); /* for log_set_charge() */
/* Returns how much of the limit is left if `own` of the present use is not counted; 0 if the rest
 * exceeds it. */
uint64_t user_left(const struct user *user, enum resource what, uint64_t own);
/* Returns the limit of the user or of the instance, whichever has less left; UINT64_MAX: no limit.
 * user_limit_name() returns its name, such as "max_fds". */
uint64_t user_limit(const struct user *user, enum resource what);
const char *user_limit_name(const struct user *user, enum resource what);
/* Returns the limit for a sentence: "this instance's max_fds (50 descriptors)"; for USED_TEXTS the
 * limit without the allowance. The next call in the same thread overwrites the text. */
const char *user_limit_shown(const struct user *user, enum resource what);

/*
 * ---- rights ----
 *
 * Equal rights that are charged to the same account share one object with a reference count.
 */

/*
 * Replaces *at by a reference to a shared object: to the given rights themselves, or to equal ones,
 * and then the given ones are freed. Returns 0. On P10, P11 or E32 the caller keeps the rights.
 * user NULL: not charged.
 */
int rights_share(struct engine *engine, struct user *user, struct rights **at, struct err *err);
struct rights *rights_ref(struct rights *rights); /* NULL allowed */
void rights_unref(struct rights *rights);         /* NULL allowed */
/* Makes new or loaded rights, with their id and user, a shared object without a reference, and
 * charges them. Returns false on ENOMEM. */
bool rights_add(struct engine *engine, struct rights *rights);
/* Frees loaded rights that nothing refers to. */
void rights_sweep(struct engine *engine);
/* Returns the rights to the memory of processes; for NULL: none. */
struct memory_right rights_to_memory(const struct rights *rights);
/* Frees the rights that rights_unref() queued. Call after the publication that deletes their
 * records. */
void rights_free_unused(struct engine *engine);
bool access_superuser(const struct rights *rights); /* false for NULL */
