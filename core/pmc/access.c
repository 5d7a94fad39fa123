/*
 * Rules of access that depend on rights and tunables only.
 */
#include "core/pmc/access.h"

#include "core/engine.h"
#include "core/pmc/instance.h"
#include "core/pmc/pmc.h"

#include <sys/stat.h>

bool access_superuser(const struct rights *rights)
{
    return rights && rights->superuser;
}

/* Returns the tunable, or in an instance its limit instead. */
static bool allowed(const struct instance *instance, enum tunable which, enum limit limit)
{
    return instance_is_root(instance) ? tunable_bool(&instance->engine->tunables, which)
                                      : instance->limit[limit] != 0;
}

bool access_kernel(const struct instance *instance, const struct rights *rights)
{
    return access_superuser(rights) || allowed(instance, TUNABLE_UNPRIVILEGED_KERNEL, LIMIT_KERNEL);
}

bool access_system(const struct instance *instance, const struct rights *rights)
{
    return access_superuser(rights) ||
           allowed(instance, TUNABLE_UNPRIVILEGED_SYSPMCS, LIMIT_SYSTEM);
}

bool access_foreign(const struct engine *engine, const struct rights *rights)
{
    return access_superuser(rights) ||
           tunable_u64(&engine->tunables, TUNABLE_UNPRIVILEGED_PROC_DEBUG) != 0;
}

static bool reads_all(const struct engine *engine, const struct rights *rights)
{
    return (rights->userns_fd < 0 && rights->superuser) ||
           (engine->readers != (gid_t)-1 && rights_in_group(rights, engine->readers));
}

/* Returns true if the mode gives these bits (S_IROTH | S_IXOTH) to a user with these rights. */
static bool mode_grants(mode_t mode, uid_t uid, gid_t gid, mode_t need, const struct rights *rights)
{
    if (rights_pass_bits(rights, uid, gid))
        return true;
    if (rights->uid == uid)
        need <<= 6;
    else if (rights_in_group(rights, gid))
        need <<= 3;
    return (mode & need) == need;
}

bool engine_may_read(const struct pmc *pmc, const struct rights *rights)
{
    return access_read(pmc, pmc->instance, rights);
}

/* Gives the same answer as path lookup and open of NAME/count. */
bool access_read(const struct pmc *pmc, const struct instance *from, const struct rights *rights)
{
    const struct instance *in = pmc->instance;

    if (!rights || (in != from && !instance_is_root(from)))
        return false;
    if (reads_all(pmc->engine, rights))
        return true;
    if (in != from && !mode_grants(in->mode, in->uid, in->gid, S_IXOTH, rights))
        return false;
    return mode_grants(pmc->mode, pmc->uid, pmc->gid, S_IROTH | S_IXOTH, rights);
}
