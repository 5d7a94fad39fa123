/*
 * The rights of an opener, as a value: freed, copied, asked.
 */
#include "core/host.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void rights_forget(struct rights *rights)
{
    if (rights)
        free(rights->groups);
    free(rights);
}

void rights_free(struct rights *rights)
{
    if (rights && rights->userns_fd >= 0)
        close(rights->userns_fd);
    rights_forget(rights);
}

struct rights *rights_copy(const struct rights *rights)
{
    struct rights *copy = malloc(sizeof *copy);

    if (!copy)
        return NULL;
    *copy = *rights;
    copy->groups = calloc(rights->n_groups + 1, sizeof *copy->groups);
    if (rights->userns_fd >= 0)
        copy->userns_fd = fcntl(rights->userns_fd, F_DUPFD_CLOEXEC, 0);
    if (!copy->groups || (rights->userns_fd >= 0 && copy->userns_fd < 0)) {
        rights_free(copy);
        return NULL;
    }
    if (rights->n_groups) /* else groups may be NULL */
        memcpy(copy->groups, rights->groups, rights->n_groups * sizeof *copy->groups);
    return copy;
}

static bool range_has(const struct id_range ranges[MAPPED_MAX], uint32_t id)
{
    for (int i = 0; i < MAPPED_MAX; i++)
        if (id - ranges[i].first < ranges[i].count && id >= ranges[i].first)
            return true;
    return false;
}

bool rights_pass_bits(const struct rights *rights, uid_t uid, gid_t gid)
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
