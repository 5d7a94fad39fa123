/*
 * PMCs of one instance by name (a sorted vector), each user's last sentence, and what users have.
 */
#include "core/instance.h"

#include "core/pmc.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ERRORS_KEPT 1024 /* users whose last sentence is remembered */

struct instance *instance_new(struct engine *engine, uint64_t id)
{
    struct instance *instance = calloc(1, sizeof *instance);

    if (instance) {
        instance->engine = engine;
        instance->id = id;
    }
    return instance;
}

void instance_free(struct instance *instance)
{
    if (!instance)
        return;
    assert(instance->n == 0);
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
    for (unsigned i = 0; i < USER_BUCKETS; i++)
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

void user_unref(struct engine *engine, struct user *user)
{
    if (!user || --user->refs > 0)
        return;
    assert(user->pmcs == 0 && user->fds == 0 && user->links == 0);
    users_sweep(engine, user->uid % USER_BUCKETS);
}

/* ---- what logs take ---- */

struct account {
    struct user *user;
    uint64_t limit; /* of all the user's accounts */
    uint64_t bytes; /* of this one */
    bool ended;
};

/* Of all accounts: asked only when a log grows or ends. A leaf, below each log's own. */
static pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER;

struct account *account_new(struct user *user, uint64_t limit)
{
    struct account *account = calloc(1, sizeof *account);

    if (account)
        *account = (struct account){.user = user, .limit = limit};
    return account;
}

static bool account_take(struct account *account, int64_t bytes, bool asks)
{
    bool last = false, granted;

    pthread_mutex_lock(&accounts);
    granted = bytes <= 0 || !asks ||
              (account->user->log <= account->limit &&
               (uint64_t)bytes <= account->limit - account->user->log);
    if (granted) {
        account->bytes += (uint64_t)bytes;
        account->user->log += (uint64_t)bytes;
        last = account->ended && account->bytes == 0;
    }
    pthread_mutex_unlock(&accounts);
    if (last)
        free(account);
    return granted;
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
