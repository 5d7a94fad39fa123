/*
 * Shared rights of open files and targets, their charges, and the access that they give. (host.h
 * declares rights_free(), rights_override_mode() and rights_in_group().)
 */
#include "core/base/arena.h"
#include "core/users/users.h"

#include <assert.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void rights_free(struct rights *rights)
{
    if (!rights)
        return;
    fd_close(rights->userns_fd);
    free(rights->groups);
    free(rights);
}

/* ---- shared rights ---- */

#define GROUP_BYTES 16 /* bytes charged per group, if there are more than GROUPS_FREE */
#define GROUPS_FREE 64

static bool rights_equal(const struct rights *a, const struct rights *b)
{
    return a->uid == b->uid && a->gid == b->gid && a->capabilities == b->capabilities &&
           a->superuser == b->superuser && a->userns == b->userns && a->n_groups == b->n_groups &&
           memcmp(a->uids, b->uids, sizeof a->uids) == 0 &&
           memcmp(a->gids, b->gids, sizeof a->gids) == 0 &&
           (a->n_groups == 0 || memcmp(a->groups, b->groups, a->n_groups * sizeof *a->groups) == 0);
}

static uint64_t mix(uint64_t digest, uint64_t value)
{
    digest = (digest ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return digest ^ digest >> 32;
}

/* Returns a hash of the rights, which is tried as their id first. */
static uint64_t digest_of(const struct rights *rights, const struct user *user)
{
    uint64_t digest = mix(user ? user->instance : 0, rights->uid);

    digest = mix(mix(digest, rights->gid), rights->capabilities);
    digest = mix(mix(digest, rights->userns), rights->superuser);
    for (unsigned i = 0; i < rights->n_groups; i++)
        digest = mix(digest, rights->groups[i]);
    return (digest >> 1) + 1;
}

static uint64_t bytes_of(const struct rights *rights)
{
    return rights->n_groups > GROUPS_FREE ? (uint64_t)rights->n_groups * GROUP_BYTES : 0;
}

/* Charges the rights (n = 1), or ends their charge (n = -1). */
static void charge(const struct rights *rights, int n)
{
    const int fds = rights->userns_fd >= 0 ? n : 0;

    rights->engine->fds_used += (unsigned long)fds;
    if (!rights->user)
        return;
    user_charge_unchecked(rights->user, USED_FDS, fds);
    user_charge_unchecked(rights->user, USED_TEXTS, n * (int64_t)bytes_of(rights));
}

/* Returns 0, or P10 or P11 if the rights cannot be charged. Rights of another user namespace use a
 * descriptor. */
static int check_charge(const struct engine *engine, const struct user *user,
                        const struct rights *rights, struct err *err)
{
    const bool has_fd = rights->userns_fd >= 0;

    if (has_fd && engine->fds_used + FDS_RESERVED >= engine->fd_limit)
        return err_set(err, P10,
                       "pmcfs has no file descriptor left for your user namespace: raise "
                       "LimitNOFILE= of pmcfs.service");
    if (user && has_fd && user_left(user, USED_FDS, 0) == 0)
        return err_set(err, P11,
                       "a file opened from your user namespace needs a file descriptor, and %s "
                       "leaves none: close other files",
                       user_limit_shown(user, USED_FDS));
    if (!user || user_left(user, USED_TEXTS, 0) >= bytes_of(rights))
        return 0;
    return err_set(err, P11,
                   "your groups need %llu bytes of memory (%u groups), and %s leaves less: close "
                   "open files, release a PMC, or set a smaller logsize",
                   (unsigned long long)bytes_of(rights), rights->n_groups,
                   user_limit_shown(user, USED_TEXTS));
}

bool rights_add(struct engine *engine, struct rights *rights)
{
    if (!ids_add(&engine->rights, rights->id, rights))
        return false;
    rights->engine = engine;
    charge(rights, 1);
    return true;
}

int rights_share(struct engine *engine, struct user *user, struct rights **at, struct err *err)
{
    struct rights *rights = *at, *found;

    rights->id = digest_of(rights, user);
    while ((found = ids_find(&engine->rights, rights->id)) &&
           (found->user != user || !rights_equal(found, rights)))
        rights->id++;
    if (found) {
        rights_free(rights);
        *at = rights_ref(found);
        return 0;
    }
    int rc = check_charge(engine, user, rights, err);
    if (rc)
        return rc;
    rights->user = user;
    rights->pid = 0;
    if (!rights_add(engine, rights))
        return err_nomem(err);
    user_ref(user);
    engine_touch(engine, JOURNAL_RIGHTS, rights->id);
    rights_ref(rights);
    return 0;
}

struct rights *rights_ref(struct rights *rights)
{
    if (rights)
        rights->refs++;
    return rights;
}

void rights_unref(struct rights *rights)
{
    if (!rights)
        return;
    assert(rights->refs > 0);
    if (--rights->refs > 0)
        return;
    ids_remove(&rights->engine->rights, rights->id);
    engine_touch(rights->engine, JOURNAL_RIGHTS, rights->id);
    if (rights->engine->journal)
        journal_note_obsolete(rights->engine->journal, bytes_of(rights) / 2);
    charge(rights, -1);
    user_unref(rights->user);
    engine_defer(rights->engine, &rights->work, WORK_RIGHTS);
}

void rights_sweep(struct engine *engine)
{
    uint64_t id = 0;

    for (struct rights *rights; (rights = ids_next(&engine->rights, id, &id));)
        if (rights->refs == 0)
            rights_unref(rights_ref(rights)); /* queues them, as the last reference does */
}

void rights_free_unused(struct engine *engine)
{
    struct work *work;

    while ((work = work_take(&engine->deferred[WORK_RIGHTS], NULL))) {
        struct rights *rights = WORK_OBJECT(work, rights, work);

        if (engine->forgetting) /* a record refers to the descriptor */
            rights->userns_fd = -1;
        rights_free(rights);
    }
}

/* ---- queries ---- */

bool access_superuser(const struct rights *rights)
{
    return rights && rights->superuser;
}

/* Returns the rights that ptrace(2) checks, which do not include groups. */
struct memory_right rights_to_memory(const struct rights *rights)
{
    if (!rights)
        return (struct memory_right){.known = false};
    return (struct memory_right){.capabilities = rights->capabilities,
                                 .userns = rights->userns,
                                 .uid = rights->uid,
                                 .gid = rights->gid,
                                 .superuser = rights->superuser,
                                 .known = true};
}

static bool range_has(const struct id_range ranges[MAPPED_MAX], uint32_t id)
{
    for (int i = 0; i < MAPPED_MAX; i++)
        if (id - ranges[i].first < ranges[i].count && id >= ranges[i].first)
            return true;
    return false;
}

bool rights_override_mode(const struct rights *rights, uid_t uid, gid_t gid)
{
    const uint64_t dac = (UINT64_C(1) << CAP_DAC_OVERRIDE) | (UINT64_C(1) << CAP_DAC_READ_SEARCH);

    if (!(rights->capabilities & dac))
        return false;
    return rights->userns_fd < 0 || (range_has(rights->uids, uid) && range_has(rights->gids, gid));
}

bool rights_in_group(const struct rights *rights, gid_t gid)
{
    bool found = rights->gid == gid;

    for (unsigned i = 0; !found && i < rights->n_groups; i++)
        found = rights->groups[i] == gid;
    return found;
}
