/*
 * Instances: creation and removal, their limits, their PMCs by name (a sorted vector), the last
 * error of each user, and the right to count through an instance and to read the counts in it.
 */
#include "core/pmc/pmc.h"

#include "core/engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ERRORS_KEPT 1024 /* users whose last error is kept */
#define MANY        1000000000

const struct limit_row limit_table[LIMITS] = {
    [LIMIT_PMCS] = {.name = "max_pmcs", .max = 10000000},
    [LIMIT_FDS] = {.name = "max_fds", .max = MANY},
    [LIMIT_LOG] = {.name = "max_log", .max = INT64_MAX},
    [LIMIT_SYSTEM] = {.name = "system_scope", .words = {"0", "1"}, .max = 1},
    [LIMIT_KERNEL] = {.name = "kernel_mode", .words = {"0", "1"}, .max = 1},
    [LIMIT_LIFETIME] = {.name = "lifetime", .words = {"mount", "namespace"}, .max = 1},
};

int limit_read(enum limit limit, struct word word, uint64_t *value, struct err *err)
{
    const struct limit_row *row = &limit_table[limit];

    *value = row->words[0] && word_is(word, row->words[1]);
    if (row->words[0] ? *value || word_is(word, row->words[0])
                      : word_u64(word, false, 0, row->max, value))
        return 0;
    if (row->words[0])
        return err_set(err, P27, "%s cannot be \"" WORD_FMT "\": write %s or %s", row->name,
                       WORD_ARG(word), row->words[0], row->words[1]);
    return err_set(
        err, P27, "%s cannot be \"" WORD_FMT "\": write a number%s from 0 (no extra limit) to %llu",
        row->name, WORD_ARG(word), limit == LIMIT_LOG ? " of bytes" : "",
        (unsigned long long)row->max);
}

struct instance *instance_new(struct engine *engine, uint64_t id, const char *name)
{
    struct instance *instance = calloc(1, sizeof *instance);

    if (!instance)
        return NULL;
    instance->engine = engine;
    instance->id = id;
    instance->pmcs.has_names = true;
    if (!name)
        return instance;
    instance->name = strdup(name);
    instance->account = user_of_instance(engine, id);
    if (instance->name && instance->account && ids_add(&engine->instances, id, instance)) {
        HASH_ADD_KEYPTR(hh, engine->instance_names, instance->name, strlen(instance->name),
                        instance);
        if (hash_has(instance))
            return instance;
        ids_remove(&engine->instances, id);
    }
    instance_free(instance);
    return NULL;
}

void instance_set_limit(struct instance *instance, enum limit limit, uint64_t value)
{
    instance->limit[limit] = value;
    if ((unsigned)limit < RESOURCES)
        instance->account->limit[limit] = value;
}

void instance_free(struct instance *instance)
{
    if (!instance)
        return;
    if (hash_has(instance))
        HASH_DEL(instance->engine->instance_names, instance);
    assert(instance->n == 0 && !instance->holder);
    user_unref(instance->account);
    ids_free(&instance->pmcs);
    free(instance->name);
    for (size_t i = 0; i < instance->n_errors; i++)
        free(instance->errors[i].line);
    free(instance->errors);
    free(instance->by_name);
    free(instance);
}

/* ---- names ---- */

int name_check(const char *name, struct err *err)
{
    size_t len = strlen(name);

    if (len > NAME_LEN_MAX)
        return err_set(err, P24,
                       "a name has at most %d bytes, and this one has %zu: choose a shorter one",
                       NAME_LEN_MAX, len);
    for (size_t i = 0; i <= len; i++) {
        unsigned char c = (unsigned char)name[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!letter && (i == 0 || !strchr("._:@+-", c)))
            return err_set(err, P22,
                           "\"%s\": use only A-Z a-z 0-9 . _ : @ + - in a name, and start with a "
                           "letter or digit",
                           text_shown(name));
    }
    return 0;
}

/* Returns the index of the first PMC with a name >= this one. */
static size_t name_index(const struct instance *instance, const char *name)
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
    size_t i = name_index(instance, name);

    if (i < instance->n && strcmp(instance->by_name[i]->name, name) == 0)
        return instance->by_name[i];
    return NULL;
}

bool instance_add(struct instance *instance, struct pmc *pmc)
{
    size_t i = name_index(instance, pmc->name);

    if (vec_grow(&instance->by_name, &instance->size, instance->n + 1, sizeof pmc))
        return false;
    memmove(instance->by_name + i + 1, instance->by_name + i,
            (instance->n - i) * sizeof instance->by_name[0]);
    instance->by_name[i] = pmc;
    instance->n++;
    return true;
}

void instance_remove(struct instance *instance, struct pmc *pmc)
{
    size_t i = name_index(instance, pmc->name);

    assert(i < instance->n && instance->by_name[i] == pmc);
    instance->n--;
    memmove(instance->by_name + i, instance->by_name + i + 1,
            (instance->n - i) * sizeof instance->by_name[0]);
}

struct instance *instance_by_name(struct engine *engine, const char *name)
{
    struct instance *instance;

    HASH_FIND_STR(engine->instance_names, name, instance);
    return instance;
}

/* ---- release ---- */

void instance_set_holder(struct instance *instance, struct proc *proc)
{
    proc_ref(proc);
    instance->holder = proc;
    instance_touch(instance);
    LIST_INSERT_HEAD(&proc->held, instance, held);
}

void instance_clear_holder(struct instance *instance)
{
    struct proc *proc = instance->holder;

    if (!proc)
        return;
    LIST_REMOVE(instance, held);
    instance->holder = NULL;
    instance_touch(instance);
    proc_unref(proc, &instance->engine->deferred[WORK_LINK]);
}

static void error_touch(const struct instance *instance, uid_t uid)
{
    engine_touch(instance->engine, JOURNAL_ERROR, instance->id << 32 | uid);
}

/* The struct is freed when the kernel is notified (engine_next_name()). */
void instance_release(struct instance *instance, bool vanishes)
{
    struct engine *engine = instance->engine;

    while (instance->n)
        pmc_vanish(instance->by_name[instance->n - 1]);
    instance_clear_holder(instance);
    ids_remove(&engine->instances, instance->id);
    HASH_DEL(engine->instance_names, instance);
    instance->hh.tbl = NULL;
    instance_touch(instance);
    for (size_t i = 0; i < instance->n_errors; i++)
        error_touch(instance, instance->errors[i].uid);
    instance->vanished = vanishes;
    engine_defer(engine, &instance->work_name, WORK_INSTANCE);
}

struct instance *engine_instance(struct engine *engine, uint64_t id)
{
    return id == 0 ? engine->root : ids_find(&engine->instances, id);
}

/* ---- last errors ---- */

static struct last_error *error_entry(struct instance *instance, uid_t uid)
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
    struct last_error *entry = error_entry(instance, uid);
    char *copy = strdup(line);

    if (!entry || !copy) {
        free(copy);
        return;
    }
    if (entry->uid != uid)
        error_touch(instance, entry->uid); /* the oldest one, of another user, is replaced */
    error_touch(instance, uid);
    free(entry->line);
    *entry = (struct last_error){.uid = uid, .when = now_ns, .line = copy};
}

const char *instance_error(const struct instance *instance, uid_t uid)
{
    for (size_t i = 0; i < instance->n_errors; i++)
        if (instance->errors[i].uid == uid && instance->errors[i].line)
            return instance->errors[i].line;
    return "ok";
}

/* ---- access ---- */

/* Returns the tunable, or in an instance its limit instead. */
static bool instance_allows(const struct instance *instance, enum tunable which, enum limit limit)
{
    return instance_is_root(instance) ? tunable_bool(&instance->engine->tunables, which)
                                      : instance->limit[limit] != 0;
}

bool access_kernel(const struct instance *instance, const struct rights *rights)
{
    return access_superuser(rights) ||
           instance_allows(instance, TUNABLE_UNPRIVILEGED_KERNEL, LIMIT_KERNEL);
}

bool access_system(const struct instance *instance, const struct rights *rights)
{
    return access_superuser(rights) ||
           instance_allows(instance, TUNABLE_UNPRIVILEGED_SYSPMCS, LIMIT_SYSTEM);
}

/* Returns true if a user with these rights has the permissions `need`, as bits for others such as
 * S_IROTH, on a file with this mode, uid and gid. */
static bool mode_grants(mode_t mode, uid_t uid, gid_t gid, mode_t need, const struct rights *rights)
{
    if (rights_override_mode(rights, uid, gid))
        return true;
    if (rights->uid == uid)
        need <<= 6;
    else if (rights_in_group(rights, gid))
        need <<= 3;
    return (mode & need) == need;
}

/* Gives the same answer as path lookup and open of NAME/count. */
bool access_read(const struct pmc *pmc, const struct instance *from, const struct rights *rights)
{
    const struct instance *in = pmc->instance;

    if (!rights || (in != from && !instance_is_root(from)))
        return false;
    if ((rights->userns_fd < 0 && rights->superuser) ||
        (pmc->engine->readers != (gid_t)-1 && rights_in_group(rights, pmc->engine->readers)))
        return true;
    if (in != from && !mode_grants(in->mode, in->uid, in->gid, S_IXOTH, rights))
        return false;
    return mode_grants(pmc->mode, pmc->uid, pmc->gid, S_IROTH | S_IXOTH, rights);
}
