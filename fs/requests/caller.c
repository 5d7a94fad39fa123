#include "fs/requests/caller.h"

#include "fs/requests/message.h"
#include "fs/requests/request.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

static int rights_failed(struct call *call, int rc)
{
    const int shortage = err_shortage(&call->err, rc);

    if (shortage)
        return shortage;
    return err_set(&call->err, P14, "cannot check the rights of thread %d: %s: try again",
                   (int)call->tid, strerror(-rc));
}

static int rights_begin(struct request *rq)
{
    struct fs *fs = rq->fs;
    struct call *call = &rq->call;
    int rc = fs->host->caller_rights(fs->host_state, call->tid, call->uid, call->gid, &rq->rights);

    if (rc < 0)
        return rights_failed(call, rc);
    call->payer = rq->rights->payer;
    return 0;
}

void caller_set_payer(struct request *rq)
{
    if (rights_begin(rq) < 0)
        rq->call.err.id = ERR_NONE;
    rights_free(rq->rights);
    rq->rights = NULL;
}

int caller_read_user(struct request *rq)
{
    struct fs *fs = rq->fs;
    int rc = rights_begin(rq);

    if (rc < 0 || rq->rights->userns_fd >= 0)
        return rc;
    rc = fs->host->caller_rights_rest(fs->host_state, rq->call.tid, rq->rights);
    return rc < 0 ? rights_failed(&rq->call, rc) : 0;
}

int caller_read_rest(struct request *rq)
{
    struct fs *fs = rq->fs;
    int rc = slow_admit(&rq->call);

    if (rc)
        return rc;
    lock_drop(&rq->call, true);
    rc = fs->host->caller_rights_rest(fs->host_state, rq->call.tid, rq->rights);
    lock_retake(&rq->call);
    rq->rights_incomplete = false;
    return rc < 0 ? rights_failed(&rq->call, rc) : 0;
}

pid_t caller_process(const struct request *rq)
{
    const struct fs *fs = rq->fs;

    return rq->rights && rq->rights->pid ? rq->rights->pid
                                         : fs->host->caller_pid(fs->host_state, rq->call.tid);
}

/* ---- the group `readers` ---- */

#define GROUP_BYTES_MAX (1 << 20)

int group_find(const char *name, gid_t *gid)
{
    struct group group, *found = NULL;
    char *buffer = NULL;
    uint64_t number;
    int rc = ERANGE;

    *gid = (gid_t)-1;
    if (name[0] == '\0')
        return 0;
    if (word_u64(word_of(name), false, 0, UINT32_MAX - 1, &number)) {
        *gid = (gid_t)number;
        return 0;
    }
    /* A group with many members needs a larger buffer. */
    for (size_t size = 4096; rc == ERANGE && size <= GROUP_BYTES_MAX; size *= 4) {
        free(buffer);
        buffer = malloc(size);
        rc = buffer ? getgrnam_r(name, &group, buffer, size, &found) : ENOMEM;
    }
    if (rc == 0 && found)
        *gid = found->gr_gid;
    free(buffer);
    return is_shortage(-rc) ? -ENOMEM : rc == 0 && found ? 0 : -ENOENT;
}

void fs_set_readers(struct fs *fs, gid_t gid)
{
    fs->tree.readers = gid;
    if (gid != (gid_t)-1)
        fs->had_readers = true;
    fs->tree.engine->readers = gid;
}

bool readers_resolve(struct fs *fs)
{
    char name[sizeof((struct tunable_value *)0)->text];
    gid_t gid;

    fs_lock(fs);
    snprintf(name, sizeof name, "%s", tunable_text(&fs->tree.engine->tunables, TUNABLE_READERS));
    fs_unlock(fs);
    const int rc = group_find(name, &gid);
    if (rc < 0)
        message_log(LOG_WARNING,
                    rc == -ENOENT
                        ? "readers: no group \"%s\": nobody gets access"
                        : "readers: no memory or file descriptor to look up the group \"%s\"",
                    name);
    fs_lock(fs);
    /* if the setting differs now, the write that changed it has resolved it */
    if (strcmp(name, tunable_text(&fs->tree.engine->tunables, TUNABLE_READERS)) == 0)
        fs_set_readers(fs, gid);
    fs_unlock(fs);
    return rc == 0 || rc == -ENOENT;
}
