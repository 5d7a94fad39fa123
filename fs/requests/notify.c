/*
 * The errands of the thread that tells the kernel, in order: put with the lock, run without it.
 */
#include "fs/requests/notify.h"

#include "fs/requests/fs.h"
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

static void *notifier_main(void *arg)
{
    struct fs *fs = arg;
    struct notifier *notifier = &fs->notifier;
    struct errand *errand;

    pthread_mutex_lock(&fs->lock);
    while ((errand = STAILQ_FIRST(&notifier->errands)) || notifier->runs) {
        if (!errand) {
            pthread_cond_wait(&notifier->given, &fs->lock);
            continue;
        }
        STAILQ_REMOVE_HEAD(&notifier->errands, next);
        pthread_mutex_unlock(&fs->lock);
        errand_run(&errand->effect, fs->tree.session);
        free(errand);
        pthread_mutex_lock(&fs->lock);
    }
    pthread_mutex_unlock(&fs->lock);
    return NULL;
}

bool notify_start(struct fs *fs)
{
    struct notifier *notifier = &fs->notifier;

    STAILQ_INIT(&notifier->errands);
    pthread_cond_init(&notifier->given, NULL);
    notifier->runs = true;
    if (pthread_create(&notifier->thread, NULL, notifier_main, fs) != 0)
        notifier->runs = false;
    return notifier->runs;
}

void notify_stop(struct fs *fs)
{
    struct notifier *notifier = &fs->notifier;

    pthread_mutex_lock(&fs->lock);
    notifier->runs = false;
    pthread_cond_signal(&notifier->given);
    pthread_mutex_unlock(&fs->lock);
    pthread_join(notifier->thread, NULL);
}

void notify_later(struct fs *fs, const struct effect *effect)
{
    struct errand *errand = fs->notifier.runs ? malloc(sizeof *errand) : NULL;

    if (!errand)
        return; /* a message less, or a name that answers ESTALE until it is looked up again */
    errand->effect = *effect;
    STAILQ_INSERT_TAIL(&fs->notifier.errands, errand, next);
    pthread_cond_signal(&fs->notifier.given);
}
