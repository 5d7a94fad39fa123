/*
 * What an open file keeps for its reader is charged to who opened it; and what it remembers, as one
 * line of text, out and in.
 */
#include "core/engine.h"

#include "core/fields.h"
#include "core/instance.h"
#include "core/reader.h"
#include "core/rests.h"
#include "core/series.h"

#include <stdlib.h>
#include <string.h>

/* NULL: more than the limit, or no memory. */
static struct account *charged(struct engine *engine, uid_t uid, uint64_t instance, uint64_t bytes,
                               uint64_t limit)
{
    struct user *user = user_get(engine, uid);
    struct account *account =
        user ? account_new(user, limit, engine_instance(engine, instance)) : NULL;

    if (account && limit == UINT64_MAX) { /* it was granted once */
        account_add(account, (int64_t)bytes);
    } else if (account && !account_charge(account, (int64_t)bytes)) {
        account_end(account);
        account = NULL;
    }
    user_unref(engine, user);
    return account;
}

bool open_file_keep(struct open_file *open, struct engine *engine, uid_t uid, uint64_t bytes,
                    uint64_t limit)
{
    struct account *account = bytes ? charged(engine, uid, open->instance, bytes, limit) : NULL;

    if (bytes && !account)
        return false;
    open_file_let_go(open);
    open->kept = account;
    open->kept_bytes = bytes;
    open->kept_uid = uid;
    return true;
}

void open_file_let_go(struct open_file *open)
{
    if (open->kept)
        account_add(open->kept, -(int64_t)open->kept_bytes);
    account_end(open->kept);
    open->kept = NULL;
    open->kept_bytes = 0;
}

/* ---- the user namespace of who opened it ---- */

/* NULL: no memory. */
static struct user *holder_charge(struct engine *engine, struct open_file *open,
                                  const struct instance *instance, uid_t uid)
{
    struct user *user = user_get(engine, uid);

    if (!user)
        return NULL;
    open->holder = user;
    open->share = user_ref(instance ? instance->share : NULL);
    engine->fds_used++;
    user->fds++;
    if (open->share)
        open->share->fds++;
    return user;
}

void open_file_forget(struct engine *engine, struct open_file *open)
{
    if (!open->holder)
        return;
    engine->fds_used--;
    open->holder->fds--;
    if (open->share)
        open->share->fds--;
    user_unref(engine, open->holder);
    user_unref(engine, open->share);
    open->holder = open->share = NULL;
}

/* Whoever is in another namespace is not the superuser. */
static int holder_check(struct call *call)
{
    const struct engine *engine = call->engine;
    const struct user *user = call->open->holder, *share = call->open->share;
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

int open_file_hold(struct call *call, struct rights *rights)
{
    int rc = 0;

    if (rights && rights->userns_fd >= 0) {
        if (!holder_charge(call->engine, call->open, call->instance, rights->uid))
            return err_set(&call->err, E32, "no memory");
        rc = holder_check(call);
    }
    if (rc)
        open_file_forget(call->engine, call->open);
    else
        call->open->rights = rights;
    return rc;
}

/* ---- what it remembers ---- */

void open_file_print(const struct open_file *open, struct buf *out)
{
    struct held held = {.proc = 0};

    out->failed |= !held_fill(&held, open->rights);
    saved_print(&saved_open_file, open, out);
    saved_print(&saved_held, &held, out);
    free(held.rights);
    if (open->reader) {
        buf_str(out, " log ");
        log_reader_print(open->reader, out);
    } else {
        buf_str(out, " series ");
        if (open->series)
            series_print(open->series, out);
        else
            buf_char(out, '-');
    }
}

bool open_file_scan(struct open_file *open, const char *text, struct engine *engine)
{
    struct held held = {.rights = NULL};
    struct word label;
    struct scan line;

    scan_init(&line, text, strlen(text));
    bool fine = saved_scan(&saved_open_file, open, &line) && saved_scan(&saved_held, &held, &line);
    fine = held_take(&held, &open->rights) && fine;
    if (!fine || !scan_word(&line, &label))
        return false;
    if (open->rights && open->rights->userns_fd >= 0) /* these were granted once */
        holder_charge(engine, open, engine_instance(engine, open->instance), open->rights->uid);
    if (open->kept_bytes)
        open_file_keep(open, engine, open->kept_uid, open->kept_bytes, UINT64_MAX);
    if (word_is(label, "log"))
        return (open->reader = log_reader_scan(line_rest(&line), engine)) != NULL;
    if (*line_rest(&line) != '-')
        open->series = series_scan(line_rest(&line));
    return word_is(label, "series") && (open->series || *line_rest(&line) == '-');
}

void open_files_settle(struct engine *engine)
{
    rests_free(engine);
}
