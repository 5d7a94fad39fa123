/*
 * The table of accounts, and charging.
 */
#include "core/users/users.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define NO_UID ((uid_t)-1) /* the account of an instance */

/* Extra allowance of USED_TEXTS. An instance has INSTANCE_EXTRA and a quarter of its limit. */
#define USER_EXTRA     (UINT64_C(16) << 20)
#define INSTANCE_EXTRA (UINT64_C(64) << 10)

static const struct {
    enum tunable tunable;
    const char *instance_limit, *unit;
} resources[RESOURCES] = {
    [USED_PMCS] = {TUNABLE_MAX_PMCS_PER_USER, "max_pmcs", "PMCs"},
    [USED_FDS] = {TUNABLE_MAX_FDS_PER_USER, "max_fds", "descriptors"},
    [USED_BYTES] = {TUNABLE_MAX_LOG_PER_USER, "max_log", "bytes of logs"},
};

/* ---- the table ---- */

static struct user *account_get(struct engine *engine, uid_t uid, uint64_t instance)
{
    struct user **bucket = &engine->users[uid % USER_BUCKETS], *user = *bucket;

    while (user && (user->uid != uid || user->instance != instance))
        user = user->next;
    if (user || !(user = calloc(1, sizeof *user)))
        return user_ref(user);
    user->engine = engine;
    user->uid = uid;
    user->instance = instance;
    user->next = *bucket;
    *bucket = user;
    return user_ref(user);
}

struct user *user_of_instance(struct engine *engine, uint64_t instance)
{
    return account_get(engine, NO_UID, instance);
}

struct user *user_get(struct engine *engine, uid_t uid, struct user *instance_account)
{
    struct user *user = account_get(engine, uid, instance_account ? instance_account->instance : 0);

    if (!instance_account || !user || user->user_account)
        return user;
    user->user_account = user_get(engine, uid, NULL);
    if (user->user_account) {
        user->instance_account = user_ref(instance_account);
        return user;
    }
    user_unref(user);
    return NULL;
}

struct user *user_ref(struct user *user)
{
    if (user)
        user->refs++;
    return user;
}

/* Frees the accounts of a bucket that have neither references nor charged bytes. */
static void users_sweep(struct engine *engine, unsigned bucket)
{
    struct user **at = &engine->users[bucket], *user;

    while ((user = *at)) {
        if (user->refs || user->used[USED_BYTES]) {
            at = &user->next;
            continue;
        }
        struct user *user_account = user->user_account, *instance_account = user->instance_account;
        *at = user->next;
        free(user);
        user_unref(user_account);
        user_unref(instance_account);
        at = &engine->users[bucket]; /* user_unref() may have changed the list */
    }
}

void users_free(struct engine *engine)
{
    for (unsigned i = 0; i < USER_BUCKETS; i++)
        users_sweep(engine, i);
}

void user_unref(struct user *user)
{
    if (!user || --user->refs > 0)
        return;
    assert(user->used[USED_PMCS] == 0 && user->used[USED_FDS] == 0);
    users_sweep(user->engine, user->uid % USER_BUCKETS);
}

/* ---- charging ---- */

static enum resource charged_as(enum resource what)
{
    return what == USED_TEXTS ? USED_BYTES : what;
}

void user_charge_unchecked(struct user *user, enum resource what, int64_t n)
{
    what = charged_as(what);
    if (user->user_account) {
        user->user_account->used[what] += (uint64_t)n;
        user->instance_account->used[what] += (uint64_t)n;
    }
    user->used[what] +=
        (uint64_t)n; /* must be last: the user may be freed when the count reaches 0 */
}

/* Returns the limit of one account, of a user or an instance; UINT64_MAX: no limit. */
static uint64_t limit_of(const struct user *user, enum resource what)
{
    const struct engine *engine = user->engine;
    uint64_t limit, extra;

    if (user->uid == NO_UID) {
        limit = user->limit[charged_as(what)];
        if (limit == 0)
            return UINT64_MAX;
        extra = limit / 4 + INSTANCE_EXTRA;
    } else {
        limit = tunable_u64(&engine->tunables, resources[charged_as(what)].tunable);
        if (what == USED_FDS && limit > engine->fd_limit / 4) /* the rest is for other users */
            return engine->fd_limit / 4;
        extra = USER_EXTRA;
    }
    return what == USED_TEXTS && limit < UINT64_MAX - extra ? limit + extra : limit;
}

static uint64_t left_of(const struct user *user, enum resource what, uint64_t own)
{
    const uint64_t limit = limit_of(user, what), used = user->used[charged_as(what)] - own;

    return limit > used ? limit - used : 0;
}

/* Returns the account with less left: the user's or the instance's. */
static const struct user *scarcer_account(const struct user *user, enum resource what, uint64_t own)
{
    if (!user->user_account)
        return user;
    return left_of(user->instance_account, what, own) < left_of(user->user_account, what, own)
               ? user->instance_account
               : user->user_account;
}

uint64_t user_left(const struct user *user, enum resource what, uint64_t own)
{
    return left_of(scarcer_account(user, what, own), what, own);
}

uint64_t user_limit(const struct user *user, enum resource what)
{
    return limit_of(scarcer_account(user, what, 0), what);
}

/* Charges one account unless that exceeds its limit. Safe against charges by other threads. */
static bool charge_within(struct user *user, enum resource what, uint64_t n)
{
    const uint64_t limit = limit_of(user, what);
    _Atomic uint64_t *const used = &user->used[charged_as(what)];
    uint64_t before = *used;

    do {
        if (before > limit || n > limit - before)
            return false;
    } while (!atomic_compare_exchange_weak(used, &before, before + n));
    return true;
}

bool user_charge(struct user *user, enum resource what, int64_t n)
{
    if (n <= 0) {
        user_charge_unchecked(user, what, n);
        return true;
    }
    if (!user->user_account)
        return charge_within(user, what, (uint64_t)n);
    if (!charge_within(user->user_account, what, (uint64_t)n))
        return false;
    if (!charge_within(user->instance_account, what, (uint64_t)n)) {
        user->user_account->used[charged_as(what)] -= (uint64_t)n;
        return false;
    }
    user->used[charged_as(what)] += (uint64_t)n;
    return true;
}

bool user_charge_log(void *user, int64_t bytes)
{
    return user_charge(user, USED_BYTES, bytes);
}

const char *user_limit_name(const struct user *user, enum resource what)
{
    return scarcer_account(user, what, 0)->uid == NO_UID
               ? resources[charged_as(what)].instance_limit
               : tunable_row(resources[charged_as(what)].tunable)->name;
}

const char *user_limit_shown(const struct user *user, enum resource what)
{
    static _Thread_local char text[96];
    const struct user *scarcest = scarcer_account(user, what, 0);
    const uint64_t limit = limit_of(scarcest, charged_as(what));
    const bool quarter =
        what == USED_FDS && scarcest->uid != NO_UID && limit == user->engine->fd_limit / 4;

    snprintf(text, sizeof text, "%s%s (%" PRIu64 " %s)",
             scarcest->uid == NO_UID ? "this instance's " : "",
             quarter ? "a quarter of RLIMIT_NOFILE" : user_limit_name(user, what), limit,
             resources[charged_as(what)].unit);
    return text;
}
