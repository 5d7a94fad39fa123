/*
 * The operations of instances/: create, remove, chown, chmod, and lifetime=namespace.
 */
#include "core/engine/instances.h"

#include "core/engine.h"
#include "core/pmc/access.h"
#include "core/pmc/pmc.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

/* ---- the directory ---- */

static int only_superuser(struct call *call)
{
    if (access_superuser(call->rights))
        return 0;
    return err_set(&call->err, E39,
                   "only the superuser (CAP_PERFMON or CAP_SYS_ADMIN in the initial user "
                   "namespace) may create and remove instances");
}

static int check_new(struct call *call, const char *name)
{
    struct engine *engine = call->engine;
    int rc = only_superuser(call);

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
    return 0;
}

/* Adds the sticky bit: PMCs are removed by their owner or the instance's owner. */
static mode_t mode_of(mode_t mode)
{
    return (mode & 0777) | S_ISVTX;
}

static uint64_t real_now(const struct engine *engine)
{
    return engine->host->realtime_ns(engine->host_state);
}

int engine_mkinstance(struct call *call, const char *name, mode_t mode, uint64_t *id)
{
    struct engine *engine = call->engine;
    struct instance *instance;
    int rc = check_new(call, name);

    if (rc)
        return rc;
    instance = instance_make(engine, engine->next_instance, name);
    if (!instance)
        return err_nomem(&call->err);
    engine->next_instance++;
    instance->uid = call->uid;
    instance_touch(instance);
    instance->gid = call->gid;
    instance->mode = mode_of(mode);
    instance->changed_ns = real_now(engine);
    *id = instance->id;
    return CALL_DONE;
}

int engine_rminstance(struct call *call, const char *name)
{
    struct instance *instance = instance_by_name(call->engine, name);
    int rc = only_superuser(call);

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
    call->instance->mode = mode_of(mode);
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

/* ---- lifetime=namespace ---- */

/* Finds the first process of the requester's PID namespace; NULL for the daemon's namespace. */
static int find_first(struct call *call, struct process **process)
{
    const struct host *host = call->engine->host;
    int rc = host->process_first(call->engine->host_state, call->tid, process, &call->err);

    return call->err.id != P15 ? rc
                               : err_set(&call->err, P15,
                                         "lifetime=namespace needs your PID namespace, and pmcfs "
                                         "cannot see it: run pmcfs in the host's PID namespace");
}

/* Binds the instance to the process, unless another request has bound it. */
static int process_hold(struct call *call, struct process *process)
{
    struct engine *engine = call->engine;
    struct instance *instance = call->instance;
    bool taken = false;
    struct proc *proc = proc_get(engine, process, &taken);
    int rc = proc ? proc_watch(proc, &call->err) : err_nomem(&call->err);

    if (proc)
        proc_ref(proc);
    if (rc == 0 && instance && !instance->holder && instance->limit[LIMIT_LIFETIME]) {
        proc_ref(proc);
        instance_hold(instance, proc);
    }
    if (proc)
        proc_unref(proc, &engine->deferred[WORK_LINK]);
    if (taken)
        return rc;
    slow_begin(call, false);
    engine->host->process_free(process);
    slow_end(call);
    return rc;
}

bool instance_unbound(const struct instance *instance)
{
    return instance->limit[LIMIT_LIFETIME] && !instance->holder;
}

/* Finds the first process without the lock, then watches it and binds the instance. */
int instance_bind(struct call *call)
{
    struct process *process = NULL;
    int rc;

    slow_begin(call, false);
    rc = find_first(call, &process);
    slow_end(call);
    return rc == 0 && process ? process_hold(call, process) : rc;
}
