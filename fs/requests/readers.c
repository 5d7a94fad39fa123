/*
 * Looks up the group of the tunable `readers`, without the lock.
 */
#include "fs/requests/readers.h"

#include "fs/requests/request.h"
#include "fs/requests/say.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define GROUP_BYTES_MAX (1 << 20)

/* Looks up a group by name, with a larger buffer for groups with many members. */
static int group_named(const char *name, gid_t *gid)
{
    struct group group, *found = NULL;
    char *buffer = NULL;
    int rc = ERANGE;

    for (size_t size = 4096; rc == ERANGE && size <= GROUP_BYTES_MAX; size *= 4) {
        free(buffer);
        buffer = malloc(size);
        rc = buffer ? getgrnam_r(name, &group, buffer, size, &found) : ENOMEM;
    }
    if (rc == 0 && found)
        *gid = found->gr_gid;
    free(buffer);
    if (rc == ENOMEM || rc == EMFILE || rc == ENFILE)
        return -ENOMEM;
    return rc == 0 && found ? 0 : -ENOENT;
}

int group_find(const char *name, gid_t *gid)
{
    uint64_t number;

    *gid = (gid_t)-1;
    if (name[0] == '\0')
        return 0;
    if (!word_u64((struct word){name, strlen(name)}, false, 0, UINT32_MAX - 1, &number))
        return group_named(name, gid);
    *gid = (gid_t)number;
    return 0;
}

void fs_set_readers(struct fs *fs, gid_t gid)
{
    fs->tree.readers = gid;
    if (gid != (gid_t)-1)
        fs->had_readers = true;
    engine_set_readers(fs->tree.engine, gid);
}

static const char *readers_name(const struct fs *fs)
{
    return tunable_text(engine_tunables(fs->tree.engine), TUNABLE_READERS);
}

bool readers_resolve(struct fs *fs)
{
    char name[sizeof((struct tunable_value *)0)->text];
    gid_t gid;

    fs_lock(fs);
    snprintf(name, sizeof name, "%s", readers_name(fs));
    fs_unlock(fs);
    const int rc = group_find(name, &gid);
    if (rc < 0)
        say(LOG_WARNING,
            rc == -ENOENT ? "readers: no group \"%s\": nobody gets access"
                          : "readers: no memory or file descriptor to look up the group \"%s\"",
            name);
    fs_lock(fs);
    if (strcmp(name, readers_name(fs)) == 0) /* otherwise a write has changed and resolved it */
        fs_set_readers(fs, gid);
    fs_unlock(fs);
    return rc == 0 || rc == -ENOENT;
}
