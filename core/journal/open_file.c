/*
 * What an open file keeps for its reader is charged to the user that opened it.
 */
#include "core/engine.h"

#include "core/pmc/instance.h"
#include "core/read/reader.h"
#include "core/show/series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_BYTES 512 /* of the row itself, its account, and what allocating them takes */

/* ---- memory ---- */

static uint64_t open_file_bytes(const struct open_file *open)
{
    uint64_t bytes = OPEN_BYTES;

    if (open->rights)
        bytes += sizeof *open->rights + open->rights->n_groups * sizeof *open->rights->groups;
    if (open->reader)
        bytes += log_reader_bytes(open->reader);
    if (open->series)
        bytes += sizeof *open->series;
    return bytes + (open->swap ? strlen(open->swap) + 1 : 0);
}

/* Without a question where it `was_granted` once, or where it is less than before. */
static bool open_file_charge(struct open_file *open, uint64_t kept, bool was_granted)
{
    const uint64_t bytes = open_file_bytes(open) + kept;
    const int64_t more = (int64_t)(bytes - open->charged);

    if (open->account && (was_granted || kept < open->kept_bytes))
        account_add(open->account, more);
    else if (open->account && !account_charge(open->account, more))
        return false;
    open->charged = bytes;
    open->kept_bytes = kept;
    return true;
}

int open_file_keep(struct call *call, uint64_t bytes)
{
    struct buf limit;
    char room[160];

    if (open_file_charge(call->open, bytes, false))
        return 0;
    buf_init(&limit, room, sizeof room);
    account_print_limit(call->open->account, &limit);
    err_set(&call->err, P11,
            "%llu bytes would have to be kept for this open file, and %s leaves less: close other "
            "open files, release a PMC, or set a smaller logsize",
            (unsigned long long)(open_file_bytes(call->open) + bytes), buf_text(&limit));
    buf_free(&limit);
    return -EDQUOT;
}

/* ---- the user to whom it is charged ---- */

/* A namespace is a descriptor. */
static bool has_fd(const struct rights *rights)
{
    return rights && rights->userns_fd >= 0;
}

static bool payer_set(struct engine *engine, struct open_file *open, uid_t uid)
{
    const uint64_t limit = tunable_u64(&engine->tunables, TUNABLE_MAX_LOG_PER_USER);
    const struct instance *instance = engine_instance(engine, open->instance);
    struct user *user = user_get(engine, uid);

    open->account = user ? account_new_open(user, limit, instance) : NULL;
    if (!open->account) {
        user_unref(engine, user);
        return false;
    }
    open->payer = user;
    open->payer_uid = uid;
    user->opens++;
    if (!has_fd(open->rights))
        return true;
    open->share = user_ref(instance ? instance->share : NULL);
    engine->fds_used++;
    user->fds++;
    if (open->share)
        open->share->fds++;
    return true;
}

void open_file_forget(struct engine *engine, struct open_file *open)
{
    if (!open->payer)
        return;
    account_add(open->account, -(int64_t)open->charged);
    account_end(open->account);
    open->account = NULL;
    open->charged = 0;
    open->payer->opens--;
    if (has_fd(open->rights)) {
        engine->fds_used--;
        open->payer->fds--;
    }
    if (open->share)
        open->share->fds--;
    user_unref(engine, open->payer);
    user_unref(engine, open->share);
    open->payer = open->share = NULL;
}

/* Whoever is in another namespace is not the superuser. */
static int fd_check(struct call *call)
{
    const struct engine *engine = call->engine;
    const struct user *user = call->open->payer, *share = call->open->share;
    const uint64_t most = tunable_u64(&engine->tunables, TUNABLE_MAX_FDS_PER_USER);
    const uint64_t limit = call->instance->limit[LIMIT_FDS];

    if (engine->fds_used + FDS_KEPT > engine->fd_limit)
        return err_set(&call->err, P10,
                       "needs a descriptor for your user namespace, and pmcfs has none left");
    if (share && limit && share->fds > limit)
        return err_set(&call->err, P11,
                       "files opened from another user namespace take a descriptor each, and this "
                       "instance's max_fds is %llu",
                       (unsigned long long)limit);
    if (user->fds > most || user->fds > engine->fd_limit / 2)
        return err_set(&call->err, P11,
                       "files opened from another user namespace take a descriptor each, and uid "
                       "%u has as many as one may have (max_fds_per_user is %llu)",
                       (unsigned)user->uid, (unsigned long long)most);
    return 0;
}

static int payer_check(struct call *call)
{
    const struct user *user = call->open->payer;
    const uint64_t most = tunable_u64(&call->engine->tunables, TUNABLE_MAX_OPEN_PER_USER);

    if (user->opens > most)
        return err_set(&call->err, P11,
                       "uid %u has as many files open as one may have "
                       "(max_open_per_user is %llu): close some",
                       (unsigned)user->uid, (unsigned long long)most);
    return has_fd(call->open->rights) ? fd_check(call) : 0;
}

int open_file_hold(struct call *call, struct rights *rights)
{
    struct open_file *open = call->open;
    int rc;

    open->rights = rights;
    if (payer_set(call->engine, open, call->payer)) {
        rc = payer_check(call);
        rc = rc ? rc : open_file_keep(call, 0);
        if (!rc)
            return 0;
        open_file_forget(call->engine, open);
    } else {
        rc = err_set(&call->err, E32, "no memory");
    }
    open->rights = NULL;
    return rc;
}

bool open_file_again(struct engine *engine, struct open_file *open)
{
    return payer_set(engine, open, open->payer_uid) && open_file_charge(open, open->kept_bytes, true);
}
