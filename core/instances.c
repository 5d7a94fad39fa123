/*
 * Instances made, removed, given away, and bound to a PID namespace: the operations of instances/.
 */
#include "core/instances.h"

#include "core/access.h"
#include "core/engine.h"
#include "core/pmc.h"

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
                   "namespace) makes and removes instances");
}

static int check_new(struct call *call, const char *name)
{
    struct engine *engine = call->engine;
    int rc = only_superuser(call);

    if (rc)
        return rc;
    if (!name_legal(name, &call->err))
        return -err_table[call->err.id].code;
    if (instance_by_name(engine, name))
        return err_set(&call->err, P23, "there is an instance %s already", name);
    if (engine->instances.n >= INSTANCES_MAX)
        return err_set(&call->err, P34, "there are %d instances, and no more than that are kept",
                       INSTANCES_MAX);
    if (engine->next_instance > INSTANCE_ID_MAX)
        return err_set(&call->err, P34,
                       "%llu instances were made since the mount, and each has a number of its "
                       "own: there is none left until the next mount",
                       (unsigned long long)INSTANCE_ID_MAX);
    return 0;
}

/* The sticky bit: PMCs in it are removed by their owner and that of the instance. */
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
        return err_set(&call->err, E32, "no memory");
    engine->next_instance++;
    instance->uid = call->uid;
    instance->gid = call->gid;
    instance->mode = mode_of(mode);
    instance->made_ns = instance->changed_ns = real_now(engine);
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
                       "admin/instances/%s/ctl to release them with it",
                       name, instance->n, instance->n == 1 ? "" : "s", name);
    instance_release(instance, false);
    return CALL_DONE;
}

int engine_chmod_instance(struct call *call, mode_t mode)
{
    call->instance->mode = mode_of(mode);
    call->instance->changed_ns = real_now(call->engine);
    return CALL_DONE;
}

int engine_chown_instance(struct call *call, uid_t uid, gid_t gid)
{
    if (uid != (uid_t)-1)
        call->instance->uid = uid;
    if (gid != (gid_t)-1)
        call->instance->gid = gid;
    call->instance->changed_ns = real_now(call->engine);
    return CALL_DONE;
}

/* ---- lifetime=namespace ---- */

/* First the namespace's first process is found; then, with the lock, shared and held; then watched.
 */
struct binding {
    struct work work;
    struct engine *engine;
    uint64_t instance;
    pid_t tid;
    bool found;
    struct process *process; /* found; to be freed unless a proc took it */
    struct proc *proc;       /* a reference of the work's own */
    bool watch;
    int rc;
    struct err err;
};

/* Leaves process NULL when the namespace is the daemon's own: then nothing is bound. */
static int find_first(struct binding *binding)
{
    struct engine *engine = binding->engine;
    int rc = engine->host->process_first(engine->host_state, binding->tid, &binding->process,
                                         &binding->err);

    return binding->err.id != P15
               ? rc
               : err_set(&binding->err, P15,
                         "the instance's life is that of a PID namespace (lifetime=namespace), "
                         "and yours cannot be seen from where pmcfs runs");
}

static void binding_run(struct work *work)
{
    struct binding *binding = (struct binding *)work;
    const struct host *host = binding->engine->host;

    if (!binding->found) {
        binding->rc = find_first(binding);
        return;
    }
    if (binding->process)
        host->process_free(binding->process);
    if (binding->watch)
        binding->rc = host->process_watch(binding->proc->process, binding->proc->id);
}

/* Holds the instance, unless somebody was faster. Without memory: rc, as for what follows. */
static void binding_hold(struct binding *binding, struct instance *instance)
{
    bool taken;
    struct proc *proc = proc_get(binding->engine, binding->process, &taken);

    if (!proc) {
        binding->rc = err_set(&binding->err, E32, "no memory");
        return;
    }
    if (taken)
        binding->process = NULL;
    proc_ref(proc);
    binding->proc = proc;
    binding->watch = !proc->watched;
    proc->watched = true;
    if (instance && !instance->holder && instance->limit[LIMIT_LIFETIME]) {
        proc_ref(proc);
        instance_hold(instance, proc);
    }
}

/* Its end would not be told. */
static void binding_lose(struct binding *binding)
{
    binding->proc->watched = false;
    while (binding->proc->held)
        instance_let_go(binding->proc->held);
    binding->rc = err_set(&binding->err, P14, "the end of your PID namespace cannot be watched: %s",
                          err_errno_name(binding->rc));
}

static int binding_end(struct call *call, struct binding *binding)
{
    struct engine *engine = binding->engine;
    int rc = binding->rc;

    if (rc)
        call->err = binding->err;
    if (binding->proc)
        proc_bury(engine, proc_unref(engine, binding->proc));
    call->bound = rc == 0;
    free(binding);
    return rc;
}

static int binding_finish(struct call *call, struct work *work)
{
    struct binding *binding = (struct binding *)work;

    if (!binding->found && binding->process) {
        binding->found = true;
        binding_hold(binding, engine_instance(binding->engine, binding->instance));
        call->work = work; /* what no proc took is freed without the lock */
        return CALL_WORK;
    }
    if (binding->watch && binding->rc)
        binding_lose(binding);
    return binding_end(call, binding);
}

int instance_bind(struct call *call)
{
    struct instance *instance = call->instance;
    struct binding *binding;

    if (!instance->limit[LIMIT_LIFETIME] || instance->holder || call->bound)
        return CALL_DONE;
    binding = calloc(1, sizeof *binding);
    if (!binding)
        return err_set(&call->err, E32, "no memory");
    binding->work = (struct work){binding_run, binding_finish, false};
    binding->engine = call->engine;
    binding->instance = instance->id;
    binding->tid = call->tid;
    call->work = &binding->work;
    return CALL_WORK;
}
