/*
 * PMCs of one instance by name (a sorted vector), each user's last sentence, and what users have.
 */
#include "core/pmc/instance.h"

#include "core/engine.h"
#include "core/pmc/pmc.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ERRORS_KEPT 1024 /* users whose last sentence is remembered */
#define MANY        1000000000

const struct limit_row limit_table[LIMITS] = {
    [LIMIT_PMCS] = {.name = "max_pmcs", .max = 10000000},
    [LIMIT_FDS] = {.name = "max_fds", .max = MANY},
    [LIMIT_LOG] = {.name = "max_log", .max = INT64_MAX},
    [LIMIT_SYSTEM] = {.name = "system_scope", .words = {"0", "1"}},
    [LIMIT_KERNEL] = {.name = "kernel_mode", .words = {"0", "1"}},
    [LIMIT_LIFETIME] = {.name = "lifetime", .words = {"mount", "namespace"}},
};

/* A reference. NULL: no memory. */
static struct user *share_new(struct engine *engine, uint64_t id)
{
    struct user *share = calloc(1, sizeof *share);

    if (share) {
        *share = (struct user){.instance = id, .refs = 1, .next = engine->users[USER_BUCKETS]};
        engine->users[USER_BUCKETS] = share;
    }
    return share;
}

struct instance *instance_new(struct engine *engine, uint64_t id)
{
    struct instance *instance = calloc(1, sizeof *instance);

    if (instance) {
        instance->engine = engine;
        instance->id = id;
        ids_init(&instance->pmcs);
    }
    return instance;
}

struct instance *instance_make(struct engine *engine, uint64_t id, const char *name)
{
    struct instance *instance = instance_new(engine, id);

    if (!instance)
        return NULL;
    instance->name = strdup(name);
    instance->share = share_new(engine, id);
    if (instance->name && instance->share && ids_add(&engine->instances, id, instance))
        return instance;
    instance_free(instance);
    return NULL;
}

uint64_t limit_max(enum limit limit)
{
    return limit_table[limit].words[0] ? 1 : limit_table[limit].max;
}

void instance_free(struct instance *instance)
{
    if (!instance)
        return;
    assert(instance->n == 0 && !instance->holder);
    user_unref(instance->engine, instance->share);
    ids_free(&instance->pmcs);
    free(instance->name);
    for (size_t i = 0; i < instance->n_errors; i++)
        free(instance->errors[i].line);
    free(instance->errors);
    free(instance->by_name);
    free(instance);
}

/* Index of the first PMC whose name is not less. */
static size_t place(const struct instance *instance, const char *name)
{
    size_t low = 0, high = instance->n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (strcmp(instance->by_name[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct pmc *instance_find(const struct instance *instance, const char *name)
{
    size_t i = place(instance, name);

    if (i < instance->n && strcmp(instance->by_name[i]->name, name) == 0)
        return instance->by_name[i];
    return NULL;
}

bool instance_add(struct instance *instance, struct pmc *pmc)
{
    size_t i = place(instance, pmc->name);

    if (instance->n == instance->size) {
        size_t size = instance->size ? 2 * instance->size : 16;
        struct pmc **grown = realloc(instance->by_name, size * sizeof(struct pmc *));

        if (!grown)
            return false;
        instance->by_name = grown;
        instance->size = size;
    }
    memmove(instance->by_name + i + 1, instance->by_name + i,
            (instance->n - i) * sizeof instance->by_name[0]);
    instance->by_name[i] = pmc;
    instance->n++;
    return true;
}

void instance_remove(struct instance *instance, struct pmc *pmc)
{
    size_t i = place(instance, pmc->name);

    assert(i < instance->n && instance->by_name[i] == pmc);
    instance->n--;
    memmove(instance->by_name + i, instance->by_name + i + 1,
            (instance->n - i) * sizeof instance->by_name[0]);
}

struct instance *instance_by_name(const struct engine *engine, const char *name)
{
    for (size_t i = engine->instances.first; i < engine->instances.used; i++) {
        struct instance *instance = engine->instances.slots[i].object;

        if (instance && strcmp(instance->name, name) == 0)
            return instance;
    }
    return NULL;
}

/* ---- the end ---- */

void instance_hold(struct instance *instance, struct proc *proc)
{
    instance->holder = proc;
    instance_touch(instance);
    instance->next_held = proc->held;
    proc->held = instance;
}

void instance_let_go(struct instance *instance)
{
    struct proc *proc = instance->holder;
    struct instance **at;

    if (!proc)
        return;
    for (at = &proc->held; *at != instance;)
        at = &(*at)->next_held;
    *at = instance->next_held;
    instance->holder = NULL;
    instance_touch(instance);
    proc_bury(instance->engine, proc_unref(instance->engine, proc));
}

/* The struct itself lives on until the kernel has been told: that needs no memory. */
void instance_release(struct instance *instance, bool vanishes)
{
    struct engine *engine = instance->engine;

    while (instance->n)
        pmc_vanish(instance->by_name[instance->n - 1]);
    instance_let_go(instance);
    ids_remove(&engine->instances, instance->id);
    instance_touch(instance);
    instance->vanished = vanishes;
    instance->next_removed = engine->removed;
    engine->removed = instance;
}

struct instance *engine_instance(struct engine *engine, uint64_t id)
{
    return id == 0 ? engine->root : ids_find(&engine->instances, id);
}

/* ---- sentences ---- */

static struct last_error *error_slot(struct instance *instance, uid_t uid)
{
    struct last_error *oldest = NULL;

    for (size_t i = 0; i < instance->n_errors; i++) {
        if (instance->errors[i].uid == uid)
            return &instance->errors[i];
        if (!oldest || instance->errors[i].when < oldest->when)
            oldest = &instance->errors[i];
    }
    if (instance->n_errors >= ERRORS_KEPT)
        return oldest;
    struct last_error *grown = realloc(instance->errors, (instance->n_errors + 1) * sizeof *grown);
    if (!grown)
        return oldest;
    instance->errors = grown;
    grown[instance->n_errors] = (struct last_error){.uid = uid};
    return &grown[instance->n_errors++];
}

void instance_set_error(struct instance *instance, uid_t uid, uint64_t now_ns, const char *line)
{
    struct last_error *slot = error_slot(instance, uid);
    char *copy = strdup(line);

    if (!slot || !copy) {
        free(copy);
        return;
    }
    free(slot->line);
    engine_touch(instance->engine, JOURNAL_ERROR, instance->id << 32 | uid);
    *slot = (struct last_error){.uid = uid, .when = now_ns, .line = copy};
}

const char *instance_error(const struct instance *instance, uid_t uid)
{
    for (size_t i = 0; i < instance->n_errors; i++)
        if (instance->errors[i].uid == uid && instance->errors[i].line)
            return instance->errors[i].line;
    return "ok";
}

/* ---- users ---- */

static unsigned user_bucket(const struct user *user)
{
    return user->instance ? USER_BUCKETS : user->uid % USER_BUCKETS;
}

/* Nobody has him, and none of his logs is left. */
static void users_sweep(struct engine *engine, unsigned bucket)
{
    for (struct user **at = &engine->users[bucket], *user; (user = *at);) {
        if (user->refs || user->log) {
            at = &user->next;
            continue;
        }
        *at = user->next;
        free(user);
    }
}

void users_free(struct engine *engine)
{
    for (unsigned i = 0; i <= USER_BUCKETS; i++)
        users_sweep(engine, i);
}

struct user *user_find(const struct engine *engine, uid_t uid)
{
    struct user *user = engine->users[uid % USER_BUCKETS];

    while (user && user->uid != uid)
        user = user->next;
    return user;
}

struct user *user_get(struct engine *engine, uid_t uid)
{
    struct user *user = user_find(engine, uid);

    if (!user && (user = calloc(1, sizeof *user))) {
        user->uid = uid;
        user->next = engine->users[uid % USER_BUCKETS];
        engine->users[uid % USER_BUCKETS] = user;
    }
    if (user)
        user->refs++;
    return user;
}

struct user *user_ref(struct user *user)
{
    if (user)
        user->refs++;
    return user;
}

void user_unref(struct engine *engine, struct user *user)
{
    if (!user || --user->refs > 0)
        return;
    assert(user->pmcs == 0 && user->fds == 0 && user->links == 0 && user->opens == 0);
    users_sweep(engine, user_bucket(user));
}

/* ---- what logs and open files take ---- */

#define OPEN_ROOM      (UINT64_C(16) << 20)
#define OPEN_ROOM_HERE (UINT64_C(64) << 10)

struct account {
    struct user *user, *share;   /* share: of its instance, or NULL */
    uint64_t limit, share_limit; /* of all the user's, and the instance's, accounts */
    uint64_t bytes;              /* of this one */
    bool ended, share_refused;
};

/* Of all accounts: asked only when a log grows or ends. A leaf, below each log's own. */
static pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER;

struct account *account_new(struct user *user, uint64_t limit, const struct instance *instance)
{
    struct account *account = calloc(1, sizeof *account);

    if (!account)
        return NULL;
    *account = (struct account){.user = user, .limit = limit, .share_limit = UINT64_MAX};
    if (instance)
        account->share = instance->share;
    if (instance && instance->limit[LIMIT_LOG])
        account->share_limit = instance->limit[LIMIT_LOG];
    return account;
}

struct account *account_new_open(struct user *user, uint64_t limit, const struct instance *instance)
{
    const uint64_t more = limit < UINT64_MAX - OPEN_ROOM ? OPEN_ROOM : 0;
    struct account *account = account_new(user, limit + more, instance);

    if (account && account->share_limit < UINT64_MAX / 2)
        account->share_limit += account->share_limit / 4 + OPEN_ROOM_HERE;
    return account;
}

static bool leaves(uint64_t used, uint64_t limit, int64_t bytes)
{
    return used <= limit && (uint64_t)bytes <= limit - used;
}

static bool account_grants(struct account *account, int64_t bytes)
{
    account->share_refused =
        account->share && !leaves(account->share->log, account->share_limit, bytes);
    return !account->share_refused && leaves(account->user->log, account->limit, bytes);
}

static bool account_take(struct account *account, int64_t bytes, bool asks)
{
    bool last = false, granted;

    pthread_mutex_lock(&accounts);
    granted = bytes <= 0 || !asks || account_grants(account, bytes);
    if (granted) {
        account->bytes += (uint64_t)bytes;
        account->user->log += (uint64_t)bytes;
        if (account->share)
            account->share->log += (uint64_t)bytes;
        last = account->ended && account->bytes == 0;
    }
    pthread_mutex_unlock(&accounts);
    if (last)
        free(account);
    return granted;
}

const char *account_limit_name(const struct account *account)
{
    pthread_mutex_lock(&accounts);
    bool shares = account->share_refused;
    pthread_mutex_unlock(&accounts);
    return shares ? "max_log" : "max_log_per_user";
}

void account_print_limit(const struct account *account, struct buf *out)
{
    pthread_mutex_lock(&accounts);
    if (account->share_refused)
        buf_printf(out, "this instance's max_log (%" PRIu64 " bytes of all its logs)",
                   account->share_limit);
    else
        buf_printf(out, "max_log_per_user (%" PRIu64 " bytes of all the owner's logs)",
                   account->limit);
    pthread_mutex_unlock(&accounts);
}

bool account_charge(void *arg, int64_t bytes)
{
    return account_take(arg, bytes, true);
}

void account_add(struct account *account, int64_t bytes)
{
    account_take(account, bytes, false);
}

void account_move(struct account *account, struct user *to)
{
    pthread_mutex_lock(&accounts);
    account->user->log -= account->bytes;
    to->log += account->bytes;
    account->user = to;
    pthread_mutex_unlock(&accounts);
}

void account_end(struct account *account)
{
    bool last;

    if (!account)
        return;
    pthread_mutex_lock(&accounts);
    account->ended = true;
    last = account->bytes == 0;
    pthread_mutex_unlock(&accounts);
    if (last)
        free(account);
}
