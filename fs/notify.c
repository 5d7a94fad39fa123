/*
 * The notifier: a queue and a thread.
 */
#include "fs/notify.h"

#include "fs/node.h"

#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct errand {
    struct errand *next;
    struct effect effect;
};

struct notifier {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct errand *first, **last;
    struct fuse_session *session;
    bool busy; /* with the session */
    bool ending;
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
    if (!session)
        return;
    if (effect->kind == EFFECT_REMOVED)
        entry_forget(session, effect->id, NODE_DIR, effect->name);
    if (effect->kind == EFFECT_INSTANCE && effect->id)
        entry_forget(session, 0, NODE_INSTANCES, effect->name);
    if (effect->kind == EFFECT_INSTANCE)
        entry_forget(session, 0, NODE_LIMITS, effect->name);
}

static void *notifier_main(void *arg)
{
    struct notifier *notifier = arg;

    pthread_mutex_lock(&notifier->lock);
    while (notifier->first || !notifier->ending) {
        struct errand *errand = notifier->first;
        struct fuse_session *session = notifier->session;

        if (!errand) {
            pthread_cond_wait(&notifier->changed, &notifier->lock);
            continue;
        }
        notifier->first = errand->next;
        if (!notifier->first)
            notifier->last = &notifier->first;
        notifier->busy = true;
        pthread_mutex_unlock(&notifier->lock);
        errand_run(&errand->effect, session);
        free(errand);
        pthread_mutex_lock(&notifier->lock);
        notifier->busy = false;
        pthread_cond_broadcast(&notifier->changed);
    }
    pthread_mutex_unlock(&notifier->lock);
    return NULL;
}

struct notifier *notifier_new(void)
{
    struct notifier *notifier = calloc(1, sizeof *notifier);

    if (!notifier)
        return NULL;
    pthread_mutex_init(&notifier->lock, NULL);
    pthread_cond_init(&notifier->changed, NULL);
    notifier->last = &notifier->first;
    if (pthread_create(&notifier->thread, NULL, notifier_main, notifier) != 0) {
        free(notifier);
        return NULL;
    }
    return notifier;
}

void notifier_free(struct notifier *notifier)
{
    if (!notifier)
        return;
    pthread_mutex_lock(&notifier->lock);
    notifier->ending = true;
    pthread_cond_broadcast(&notifier->changed);
    pthread_mutex_unlock(&notifier->lock);
    pthread_join(notifier->thread, NULL);
    pthread_cond_destroy(&notifier->changed);
    pthread_mutex_destroy(&notifier->lock);
    free(notifier);
}

void notifier_session(struct notifier *notifier, struct fuse_session *session)
{
    pthread_mutex_lock(&notifier->lock);
    notifier->session = session;
    while (!session && notifier->busy)
        pthread_cond_wait(&notifier->changed, &notifier->lock);
    pthread_mutex_unlock(&notifier->lock);
}

void notify_later(struct notifier *notifier, const struct effect *effect)
{
    struct errand *errand = malloc(sizeof *errand);

    if (!errand)
        return; /* a message less, or a name that answers ESTALE until it is looked up again */
    *errand = (struct errand){.effect = *effect};
    pthread_mutex_lock(&notifier->lock);
    *notifier->last = errand;
    notifier->last = &errand->next;
    pthread_cond_broadcast(&notifier->changed);
    pthread_mutex_unlock(&notifier->lock);
}
