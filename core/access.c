/*
 * The rules of who may do what, as far as they follow from rights and tunables.
 */
#include "core/access.h"

#include "core/pmc.h"

#include <linux/capability.h>
#include <sys/stat.h>

bool access_superuser(const struct rights *rights)
{
    return rights && rights->superuser;
}

bool access_kernel(const struct engine *engine, const struct rights *rights)
{
    return access_superuser(rights) ||
           tunable_u64(&engine->tunables, TUNABLE_UNPRIVILEGED_KERNEL) != 0;
}

bool access_system(const struct engine *engine, const struct rights *rights)
{
    return access_superuser(rights) ||
           tunable_u64(&engine->tunables, TUNABLE_UNPRIVILEGED_SYSPMCS) != 0;
}

bool access_foreign(const struct engine *engine, const struct rights *rights)
{
    return access_superuser(rights) ||
           tunable_u64(&engine->tunables, TUNABLE_UNPRIVILEGED_PROC_DEBUG) != 0;
}

static bool reads_all(const struct engine *engine, const struct rights *rights)
{
    const uint64_t dac = (UINT64_C(1) << CAP_DAC_OVERRIDE) | (UINT64_C(1) << CAP_DAC_READ_SEARCH);

    if (rights->userns_fd < 0 && (rights->superuser || (rights->capabilities & dac)))
        return true;
    return engine->readers != (gid_t)-1 && rights_in_group(rights, engine->readers);
}

bool access_read(const struct pmc *pmc, const struct rights *rights)
{
    if (!rights)
        return false;
    if (reads_all(pmc->engine, rights))
        return true;
    /* What path lookup and open of NAME/count would say: search and read of the directory's bits.
     */
    mode_t need = S_IROTH | S_IXOTH;
    if (rights->uid == pmc->uid)
        need = S_IRUSR | S_IXUSR;
    else if (rights_in_group(rights, pmc->gid))
        need = S_IRGRP | S_IXGRP;
    return (pmc->mode & need) == need;
}
