/*
 * The operations of the tree: mkdir, rmdir, rename, chmod, chown of PMCs and instances; charges of
 * open files and of requests; statistics and error lines of finished operations.
 */
#include "core/engine.h"

#include "core/change/change.h"
#include "core/pmc/pmc.h"
#include "core/read/reader.h"
#include "core/show/series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SAVE_NS UINT64_C(1000000000) /* minimum time between two saves of the totals */

static uint64_t real_now(const struct engine *engine)
{
    return engine->host->realtime_ns(engine->host_state);
}

/* ---- PMCs: checks ---- */

static int check_pmc_limit(struct call *call, uid_t uid, struct user *instance_account)
{
    struct user *user = user_get(call->engine, uid, instance_account);
    int rc = 0;

    if (!user)
        return err_nomem(&call->err);
    if (user_left(user, USED_PMCS, 0) == 0)
        rc = err_set(&call->err, P11,
                     "uid %u has as many PMCs as %s allows: remove one with rmdir first",
                     (unsigned)uid, user_limit_shown(user, USED_PMCS));
    user_unref(user);
    return rc;
}

static int check_free_name(struct call *call, const char *name)
{
    int rc = name_check(name, &call->err);

    if (rc)
        return rc;
    if (instance_find(call->instance, name))
        return err_set(&call->err, P23, "the PMC %s exists already: choose another name", name);
    if (call->engine->is_reserved_name && call->engine->is_reserved_name(name))
        return err_set(&call->err, P23, "%s is a name that pmcfs uses: choose another name", name);
    return 0;
}

/* Checks the name and the limits of PMCs. The limit per user does not apply to the superuser. */
static int check_new(struct call *call, const char *name)
{
    const uint64_t all = tunable_u64(&call->engine->tunables, TUNABLE_MAX_PMCS);
    int rc = check_free_name(call, name);

    if (rc)
        return rc;
    if (call->engine->pmcs.n >= all)
        return err_set(&call->err, P12,
                       "all users together have as many PMCs as max_pmcs allows (%llu): remove one "
                       "with rmdir first",
                       (unsigned long long)all);
    return access_superuser(call->rights)
               ? 0
               : check_pmc_limit(call, call->payer, call->instance->account);
}

/*
 * lifetime=namespace: finds the first process of the requester's container, without the lock. Then
 * watches it and binds the instance to it, unless another request has bound the instance already.
 * Binds nothing if the requester is in the daemon's PID namespace. Returns 0, P15 if the namespace
 * is not visible, P14, E32, or another error of process_first().
 */
static int instance_bind(struct call *call)
{
    struct engine *engine = call->engine;
    const struct host *host = engine->host;
    struct process *process = NULL;
    bool taken = false; /* a new proc owns `process` */

    lock_drop(call, false);
    int rc = host->process_first(engine->host_state, call->tid, &process, &call->err);
    lock_retake(call);
    if (call->err.id == P15)
        return err_set(&call->err, P15,
                       "lifetime=namespace needs your PID namespace, and pmcfs cannot see it: run "
                       "pmcfs in the host's PID namespace");
    if (rc || !process)
        return rc;
    struct proc *proc = proc_get(engine, process, &taken);
    rc = proc ? proc_watch(proc, &call->err) : err_nomem(&call->err);
    if (proc) {
        struct instance *instance = call->instance;

        proc_ref(proc);
        if (rc == 0 && instance && !instance->holder && instance->limit[LIMIT_LIFETIME])
            instance_set_holder(instance, proc);
        proc_unref(proc, &engine->deferred[WORK_LINK]);
    }
    if (!taken) {
        lock_drop(call, false);
        host->process_free(process);
        lock_retake(call);
    }
    return rc;
}

/* ---- PMCs: operations ---- */

int engine_mkdir(struct call *call, const char *name, mode_t mode, uint64_t *id)
{
    struct engine *engine = call->engine;
    int rc = check_new(call, name);

    if (rc == 0 && call->instance->limit[LIMIT_LIFETIME] && !call->instance->holder) {
        rc = instance_bind(call);
        if (rc == 0) /* check again: the lock was dropped */
            rc = call->instance ? check_new(call, name) : -ESTALE;
    }
    if (rc)
        return rc;
    struct pmc *pmc = pmc_new(call->instance, name);
    if (!pmc)
        return err_nomem(&call->err);
    if (!pmc_add_to_tree(pmc, engine_serial(engine), call->uid, call->payer)) {
        pmc_drop(pmc);
        return err_nomem(&call->err);
    }
    pmc->gid = call->gid;
    pmc->creator_pid = call->creator_pid;
    pmc->creator_key = call->creator_key;
    pmc->mode = mode & (mode_t)tunable_u64(&engine->tunables, TUNABLE_DIRMODE) & 0777;
    pmc->created_ns = pmc->changed_ns = real_now(engine);
    pmc->created_monotonic_ns = engine->host->now_ns(engine->host_state);
    pmc->created_tsc = engine->host->tsc(engine->host_state);
    *id = pmc->id;
    return CALL_DONE;
}

int engine_rmdir(struct call *call, const char *name)
{
    struct pmc *pmc = instance_find(call->instance, name);

    if (!pmc)
        return call->engine->is_reserved_name && call->engine->is_reserved_name(name)
                   ? err_set(&call->err, P25, "%s is part of pmcfs and cannot be removed", name)
                   : -ENOENT;
    pmc_remove_from_tree(pmc);
    call->committed = true;
    change_release(call, pmc); /* a running change does this at its end */
    return CALL_DONE;
}

int engine_rename(struct call *call, const char *from, const char *to)
{
    struct pmc *pmc = instance_find(call->instance, from);

    if (!pmc)
        return call->engine->is_reserved_name && call->engine->is_reserved_name(from)
                   ? err_set(&call->err, P25, "%s is part of pmcfs and cannot be renamed", from)
                   : -ENOENT;
    int rc = check_free_name(call, to);
    if (rc)
        return rc;
    instance_remove(call->instance, pmc);
    bool fine = pmc_set_name(pmc, to);
    ids_set_name(&call->instance->pmcs, pmc->id, pmc->name);
    instance_add(call->instance, pmc); /* cannot fail: one was just removed */
    if (!fine)
        return err_nomem(&call->err);
    pmc_touch(pmc);
    pmc->changed_ns = real_now(call->engine);
    return CALL_DONE;
}

/* Sets the mode, without the x bit that the directory shows only for `readers` and that programs
 * such as `chmod u+x` pass back. */
int engine_chmod(struct call *call, mode_t mode)
{
    struct pmc *pmc = call->pmc;
    mode_t shown = pmc->mode & 077 ? 07 : 070;

    if (call->engine->readers != (gid_t)-1 && !(pmc->mode & shown) && (mode & shown & ~0111u) == 0)
        mode &= ~shown;
    pmc->mode = mode & 0777;
    pmc->changed_ns = real_now(call->engine);
    pmc_touch(pmc);
    return CALL_DONE;
}

int engine_chown(struct call *call, uid_t uid, gid_t gid)
{
    bool to_self = call->rights && call->rights->superuser && uid == call->uid;
    /* from another user namespace: only to its ids, and the requester's payer goes on paying */
    bool mapped = call->rights && call->rights->userns_fd >= 0;
    uid_t payer = mapped ? call->payer : uid;
    bool has_limit = uid != (uid_t)-1 && payer != call->pmc->payer && !to_self;
    /* the number of PMCs of the instance does not change */
    int rc = has_limit ? check_pmc_limit(call, payer, NULL) : 0;

    if (rc)
        return rc;
    if (uid != (uid_t)-1 && !pmc_charge(call->pmc, uid, payer))
        return err_nomem(&call->err);
    if (gid != (gid_t)-1)
        call->pmc->gid = gid;
    call->pmc->changed_ns = real_now(call->engine);
    pmc_touch(call->pmc);
    if (call->pmc->claim)
        call->pmc->claim->uid = call->pmc->uid;
    return CALL_DONE;
}

/* ---- instances ---- */

static int check_superuser(struct call *call)
{
    return access_superuser(call->rights)
               ? 0
               : err_set(&call->err, E39,
                         "only the superuser (CAP_PERFMON or CAP_SYS_ADMIN in the initial user "
                         "namespace) may create and remove instances");
}

/* Adds the sticky bit: PMCs are removed by their owner or the instance's owner. */
static mode_t sticky_mode(mode_t mode)
{
    return (mode & 0777) | S_ISVTX;
}

int engine_mkinstance(struct call *call, const char *name, mode_t mode, uint64_t *id)
{
    struct engine *engine = call->engine;
    int rc = check_superuser(call);

    if (rc == 0)
        rc = name_check(name, &call->err);
    if (rc)
        return rc;
    if (instance_by_name(engine, name))
        return err_set(&call->err, P23, "the instance %s exists already: choose another name",
                       name);
    if (engine->instances.n >= INSTANCES_MAX)
        return err_set(&call->err, P34, "there are %d instances, the maximum: remove one first",
                       INSTANCES_MAX);
    if (engine->next_instance > INSTANCE_ID_MAX)
        return err_set(
            &call->err, P34,
            "%llu instances were created since the mount, and no number is left: mount again",
            (unsigned long long)INSTANCE_ID_MAX);
    struct instance *instance = instance_new(engine, engine->next_instance, name);
    if (!instance)
        return err_nomem(&call->err);
    engine->next_instance++;
    instance->uid = call->uid;
    instance_touch(instance);
    instance->gid = call->gid;
    instance->mode = sticky_mode(mode);
    instance->changed_ns = real_now(engine);
    *id = instance->id;
    return CALL_DONE;
}

int engine_rminstance(struct call *call, const char *name)
{
    struct instance *instance = instance_by_name(call->engine, name);
    int rc = check_superuser(call);

    if (rc)
        return rc;
    if (!instance)
        return -ENOENT;
    if (instance->n)
        return err_set(&call->err, P35,
                       "instance %s has %zu PMC%s: rmdir them, or write \"release\" to "
                       "admin/instances/%s/ctl to remove all",
                       name, instance->n, instance->n == 1 ? "" : "s", name);
    instance_release(instance, false);
    return CALL_DONE;
}

int engine_chmod_instance(struct call *call, mode_t mode)
{
    call->instance->mode = sticky_mode(mode);
    instance_touch(call->instance);
    call->instance->changed_ns = real_now(call->engine);
    return CALL_DONE;
}

int engine_chown_instance(struct call *call, uid_t uid, gid_t gid)
{
    if (uid != (uid_t)-1)
        call->instance->uid = uid;
    if (gid != (gid_t)-1)
        call->instance->gid = gid;
    instance_touch(call->instance);
    call->instance->changed_ns = real_now(call->engine);
    return CALL_DONE;
}

/* ---- open files: their memory is charged to the user that opened them ---- */

#define OPEN_BYTES 1024 /* the handle, its allocation and its record */

static uint64_t open_file_bytes(const struct open_file *open)
{
    return OPEN_BYTES + open->remembers + (open->old_count ? strlen(open->old_count) + 1 : 0);
}

/* Charges the memory of an open file with `kept` bytes of texts, instead of the earlier charge.
 * Makes no check if `was_granted` (a later worker repeats the charge), or if the texts shrink.
 * Returns false without a change if a quota is exceeded. */
static bool open_file_charge(struct open_file *open, uint64_t kept, bool was_granted)
{
    const uint64_t bytes = open_file_bytes(open) + kept;
    const int64_t more = (int64_t)(bytes - open->charged);

    if (open->payer && (was_granted || kept < open->kept_bytes))
        user_charge_unchecked(open->payer, USED_TEXTS, more);
    else if (open->payer && !user_charge(open->payer, USED_TEXTS, more))
        return false;
    open->charged = bytes;
    open->kept_bytes = kept;
    return true;
}

int engine_refuse_memory(struct call *call, const struct user *user, uint64_t bytes,
                         const char *what)
{
    return err_set(&call->err, P11,
                   "%s needs %llu bytes of memory, and %s leaves less: close other files, release "
                   "a PMC, or set a smaller logsize",
                   what, (unsigned long long)bytes, user_limit_shown(user, USED_TEXTS));
}

int open_file_charge_texts(struct call *call, uint64_t bytes)
{
    if (open_file_charge(call->open, bytes, false))
        return 0;
    return engine_refuse_memory(call, call->open->payer, open_file_bytes(call->open) + bytes,
                                "this open file");
}

/* Sets open->payer to the account of uid in the file's instance. Returns false on ENOMEM. */
static bool payer_set(struct engine *engine, struct open_file *open, uid_t uid)
{
    const struct instance *instance = engine_instance(engine, open->instance);

    open->payer = user_get(engine, uid, instance ? instance->account : NULL);
    open->payer_uid = uid;
    return open->payer;
}

void open_file_end_charge(struct open_file *open)
{
    if (!open->payer)
        return;
    user_charge_unchecked(open->payer, USED_TEXTS, -(int64_t)open->charged);
    user_unref(open->payer);
    open->payer = NULL;
    open->charged = 0;
}

int open_file_start_charge(struct call *call, struct rights *rights)
{
    struct open_file *open = call->open;
    int rc = payer_set(call->engine, open, call->payer) ? 0 : err_nomem(&call->err);

    rc = rc ? rc : open_file_charge_texts(call, 0);
    if (rc == 0 && rights)
        rc = rights_share(call->engine, open->payer, &rights, &call->err);
    if (rc == 0) {
        call->rights = open->rights = rights;
        return 0;
    }
    open_file_end_charge(open);
    return rc;
}

bool open_file_recharge(struct engine *engine, struct open_file *open)
{
    return payer_set(engine, open, open->payer_uid) &&
           open_file_charge(open, open->kept_bytes, true);
}

void open_file_release(struct engine *engine, struct open_file *open)
{
    struct pmc *pmc = open->holds ? ids_find(&engine->pmcs, open->holds) : NULL;

    open->holds = 0;
    if (pmc)
        pmc_vanish(pmc);
    open_file_end_charge(open);
}

void open_file_clear(struct open_file *open)
{
    rights_unref(open->rights);
    free(open->old_count);
    free(open->series);
    log_reader_free(open->reader);
    *open = (struct open_file){.cut = false};
}

void open_file_forget(struct open_file *open)
{
    open_file_end_charge(open);
    if (open->reader && open->reader->cursor)
        log_keep_blocks(open->reader->cursor->log);
    open_file_clear(open);
}

/* ---- memory of requests ---- */

int engine_charge_request(struct call *call, uint64_t bytes, const char *what, struct user **user)
{
    struct user *payer =
        call->open && call->open->payer
            ? user_ref(call->open->payer)
            : user_get(call->engine, call->payer, call->instance ? call->instance->account : NULL);

    *user = NULL;
    if (!payer)
        return err_nomem(&call->err);
    if (user_charge(payer, USED_TEXTS, (int64_t)bytes)) {
        *user = payer;
        return 0;
    }
    engine_refuse_memory(call, payer, bytes, what);
    user_unref(payer);
    return -EDQUOT;
}

void engine_uncharge_request(struct user *user, uint64_t bytes)
{
    user_charge_unchecked(user, USED_TEXTS, -(int64_t)bytes);
    user_unref(user);
}

/* ---- the end of a request ---- */

/* Counts an operation. Returns true if the totals must be saved. */
static bool totals_count(struct totals *totals, bool failed, uint64_t now_ns)
{
    totals->operations++;
    totals->failed += failed;
    if (now_ns - totals->saved_ns < SAVE_NS)
        return false;
    totals->saved_ns = now_ns;
    return true;
}

void engine_note_result(struct call *call, int rc, const char *where, bool command)
{
    struct engine *engine = call->engine;
    const struct err_row *row = &err_table[call->err.id];
    uid_t uid = call->rights ? call->rights->uid : call->uid;
    char room[800];
    struct buf line = buf_in(room, sizeof room);

    if (totals_count(&engine->totals, rc < 0, call->now_ns))
        engine_touch(engine, JOURNAL_ENGINE, 0);
    if (call->instance && totals_count(&call->instance->totals, rc < 0, call->now_ns))
        instance_touch(call->instance);
    if (command && call->open)
        call->open->has_commands = true;
    if (command && call->pmc && rc >= 0 && !call->empty)
        pmc_set_error(call->pmc, NULL);
    if (call->err.id == ERR_NONE || !where)
        return;
    if (call->pmc && (command || rc == -EIO)) {
        buf_printf(&line, "%s %s %s: %s", err_errno_name(row->code), row->id, call->file,
                   call->err.text);
        pmc_set_error(call->pmc, buf_text(&line));
        buf_clear(&line);
    }
    if (call->instance) {
        buf_seconds(&line, engine->host->realtime_ns(engine->host_state));
        buf_printf(&line, " %s %s %s: %s", err_errno_name(row->code), row->id, where,
                   call->err.text);
        instance_set_error(call->instance, uid, call->now_ns, buf_text(&line));
    }
    buf_free(&line);
}
