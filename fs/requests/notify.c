/*
 * The errands of a thread that tells the kernel, in order: put with the lock, run without it.
 */
#include "fs/requests/notify.h"

#include "fs/requests/request.h"
#include "fs/tree/node.h"

#include <fuse_lowlevel.h>
#include <stdlib.h>
#include <string.h>

struct errand {
    STAILQ_ENTRY(errand) next;
    struct effect effect;
};

/* What the kernel does not know it ignores. */
static void entry_forget(struct fuse_session *session, uint64_t instance, unsigned number,
                         const char *name)
{
    fuse_lowlevel_notify_inval_entry(session, node_id(NODE_INSTANCE, instance, number), name,
                                     strlen(name));
}

static void errand_run(const struct effect *effect, struct fuse_session *session)
{
    if (effect->kind == EFFECT_REMOVED)
        entry_forget(session, effect->id, NODE_DIR, effect->name);
    if (effect->kind == EFFECT_INSTANCE && effect->id)
        entry_forget(session, 0, NODE_INSTANCES, effect->name);
    if (effect->kind == EFFECT_INSTANCE)
        entry_forget(session, 0, NODE_LIMITS, effect->name);
}

bool notify_next(struct fs *fs)
{
    struct errand *errand = STAILQ_FIRST(&fs->errands);

    if (!errand)
        return false;
    STAILQ_REMOVE_HEAD(&fs->errands, next);
    fs_unlock(fs);
    errand_run(&errand->effect, fs->tree.session);
    free(errand);
    fs_lock(fs);
    return true;
}

void notify_later(struct fs *fs, const struct effect *effect)
{
    struct errand *errand = malloc(sizeof *errand);

    if (!errand)
        return; /* a message less, or a name that answers ESTALE until it is looked up again */
    errand->effect = *effect;
    STAILQ_INSERT_TAIL(&fs->errands, errand, next);
}

void notify_forget(struct fs *fs)
{
    struct errand *errand;

    while ((errand = STAILQ_FIRST(&fs->errands))) {
        STAILQ_REMOVE_HEAD(&fs->errands, next);
        free(errand);
    }
}
