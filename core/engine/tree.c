/*
 * The operations of the tree: mkdir, rmdir, rename, chmod, chown, release, and last errors.
 */
#include "core/engine.h"

#include "core/change/change.h"
#include "core/engine/instances.h"
#include "core/pmc/rights.h"
#include "core/read/reader.h"
#include "core/show/series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int check_user_limit(struct call *call, uid_t uid, struct user *share)
{
    struct user *user = user_get(call->engine, uid, share);
    struct buf limit;
    char room[96];
    int rc = 0;

    if (!user)
        return err_nomem(&call->err);
    buf_init(&limit, room, sizeof room);
    user_limit_print(user, USED_PMCS, &limit);
    if (user_left(user, USED_PMCS) == 0)
        rc = err_set(&call->err, P11,
                     "uid %u has as many PMCs as %s allows: remove one with rmdir first",
                     (unsigned)uid, buf_text(&limit));
    buf_free(&limit);
    user_unref(user);
    return rc;
}

/* Checks the limits of PMCs. The limit per user does not apply to the superuser. */
static int check_limits(struct call *call, bool superuser)
{
    const uint64_t all = tunable_u64(&call->engine->tunables, TUNABLE_MAX_PMCS);

    if (call->engine->pmcs.n >= all)
        return err_set(&call->err, P12,
                       "all users together have as many PMCs as max_pmcs allows (%llu): remove one "
                       "with rmdir first",
                       (unsigned long long)all);
    return superuser ? 0 : check_user_limit(call, call->payer, call->instance->share);
}

static int check_name(struct call *call, const char *name)
{
    int rc = name_check(name, &call->err);

    if (rc)
        return rc;
    if (instance_find(call->instance, name))
        return err_set(&call->err, P23, "the PMC %s exists already: choose another name", name);
    if (call->engine->reserved && call->engine->reserved(name))
        return err_set(&call->err, P23, "%s is a name that pmcfs uses: choose another name", name);
    return 0;
}

static int check_new(struct call *call, const char *name)
{
    int rc = check_name(call, name);

    return rc ? rc : check_limits(call, call->rights && call->rights->superuser);
}

int engine_mkdir(struct call *call, const char *name, mode_t mode, uint64_t *id)
{
    struct engine *engine = call->engine;
    mode_t mask = (mode_t)tunable_u64(&engine->tunables, TUNABLE_DIRMODE);
    int rc = check_new(call, name);

    if (rc == 0 && instance_unbound(call->instance)) {
        rc = instance_bind(call);
        if (rc == 0) /* check again: the lock was dropped */
            rc = call->instance ? check_new(call, name) : -ESTALE;
    }
    if (rc)
        return rc;
    struct pmc *pmc = pmc_new(call->instance, name);
    if (!pmc)
        return err_nomem(&call->err);
    if (!pmc_put_on(pmc, engine_serial(engine), call->uid, call->payer)) {
        pmc_drop(pmc);
        return err_nomem(&call->err);
    }
    pmc->gid = call->gid;
    pmc->maker = call->maker;
    pmc->maker_key = call->maker_key;
    pmc->mode = mode & mask & 0777;
    pmc->created_ns = pmc->changed_ns = engine->host->realtime_ns(engine->host_state);
    pmc->made_ns = engine->host->now_ns(engine->host_state);
    pmc->made_tsc = engine->host->tsc(engine->host_state);
    *id = pmc->id;
    return CALL_DONE;
}

int engine_rmdir(struct call *call, const char *name)
{
    struct pmc *pmc = instance_find(call->instance, name);

    if (!pmc)
        return call->engine->reserved && call->engine->reserved(name)
                   ? err_set(&call->err, P25, "%s is part of pmcfs and cannot be removed", name)
                   : -ENOENT;
    pmc_take_off(pmc);
    call->committed = true;
    change_release(call, pmc); /* if a change is running, it does this; on ENOMEM later */
    return CALL_DONE;
}

int engine_rename(struct call *call, const char *from, const char *to)
{
    struct pmc *pmc = instance_find(call->instance, from);

    if (!pmc)
        return call->engine->reserved && call->engine->reserved(from)
                   ? err_set(&call->err, P25, "%s is part of pmcfs and cannot be renamed", from)
                   : -ENOENT;
    int rc = check_name(call, to);
    if (rc)
        return rc;
    instance_remove(call->instance, pmc);
    bool fine = pmc_set_name(pmc, to);
    instance_add(call->instance, pmc); /* cannot fail: one was just removed */
    if (!fine)
        return err_nomem(&call->err);
    pmc_touch(pmc);
    pmc->changed_ns = call->engine->host->realtime_ns(call->engine->host_state);
    return CALL_DONE;
}

/* Ignores the x bit that the directory shows for `readers`, which `chmod u+x` would set. */
int engine_chmod(struct call *call, mode_t mode)
{
    struct pmc *pmc = call->pmc;
    mode_t shown = pmc->mode & 077 ? 07 : 070;

    if (call->engine->readers != (gid_t)-1 && !(pmc->mode & shown) && (mode & shown & ~0111u) == 0)
        mode &= ~shown;
    pmc->mode = mode & 0777;
    pmc_touch(pmc);
    return CALL_DONE;
}

int engine_chown(struct call *call, uid_t uid, gid_t gid)
{
    bool to_self = call->rights && call->rights->superuser && uid == call->uid;
    bool mapped = call->rights && call->rights->userns_fd >= 0; /* only to ids of its namespace */
    uid_t payer = mapped ? call->payer : uid;
    bool counts = uid != (uid_t)-1 && payer != call->pmc->payer && !to_self;
    int rc = counts ? check_user_limit(call, payer, NULL) : 0;

    if (rc)
        return rc;
    if (uid != (uid_t)-1 && !pmc_charge(call->pmc, uid, payer))
        return err_nomem(&call->err);
    if (gid != (gid_t)-1)
        call->pmc->gid = gid;
    pmc_touch(call->pmc);
    if (call->pmc->claim)
        call->pmc->claim->uid = call->pmc->uid;
    return CALL_DONE;
}

/* ---- open files ---- */

void engine_release(struct engine *engine, struct open_file *open)
{
    struct pmc *pmc = open->holds ? ids_find(&engine->pmcs, open->holds) : NULL;

    open->holds = 0;
    if (pmc)
        pmc_vanish(pmc);
    open_file_forget(open);
}

void open_file_clear(struct open_file *open)
{
    rights_unref(open->rights);
    free(open->swap);
    free(open->series);
    log_reader_free(open->reader);
    *open = (struct open_file){.cut = false};
}

void open_file_leave(struct open_file *open)
{
    open_file_forget(open);
    if (open->reader)
        log_reader_leave(open->reader);
    open_file_clear(open);
}

void engine_finished(struct call *call, int rc, bool record, bool command)
{
    struct engine *engine = call->engine;
    uid_t uid = call->rights ? call->rights->uid : call->uid;
    struct buf line;
    char room[800];

    engine->work.operations++;
    engine->work.failed += rc < 0;
    if (call->instance) {
        call->instance->work.operations++;
        call->instance->work.failed += rc < 0;
    }
    if (command && call->pmc && rc >= 0)
        pmc_set_error(call->pmc, NULL);
    if (call->err.id == ERR_NONE || !record)
        return;
    buf_init(&line, room, sizeof room);
    buf_printf(&line, "%s %s %s: %s", err_errno_name(err_table[call->err.id].code),
               err_table[call->err.id].id, call->file ? call->file : "tree", call->err.text);
    if (call->pmc && (command || rc == -EIO))
        pmc_set_error(call->pmc, buf_text(&line));
    if (call->instance)
        instance_set_error(call->instance, uid, call->now_ns, buf_text(&line));
    buf_free(&line);
}
