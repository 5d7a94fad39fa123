/*
 * Who is followed, as one word: "MOST,ON,ARMED", for each ";PID,TID,ROOT,BEGUN,FD,…", and for those
 * who are not opened yet ":PID,TID,BEGUN". And back.
 */
#include "backends/perf/follow_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void follow_print(struct follow *follow, struct buf *out)
{
    if (!follow) {
        buf_char(out, '-');
        return;
    }
    pthread_mutex_lock(&follow->lock);
    buf_printf(out, "%lu,%d,%d", follow->most_fds, follow->on, follow->armed);
    for (size_t i = 0; i < FOLLOW_BUCKETS; i++) {
        for (struct followed *followed = follow->bucket[i]; followed; followed = followed->next) {
            buf_printf(out, ";%d,%d,%" PRIu64 ",%d", followed->pid, followed->tid, followed->root,
                       followed->begun);
            for (unsigned k = 0; k < follow_each(follow); k++)
                buf_printf(out, ",%d", followed->fds[k]);
        }
    }
    for (size_t i = 0; i < follow->n_births; i++)
        buf_printf(out, ":%d,%d,%d", follow->births[i].pid, follow->births[i].tid,
                   follow->births[i].begun);
    pthread_mutex_unlock(&follow->lock);
}

static bool scan_followed(struct follow *follow, const char **at)
{
    struct followed *followed;
    uint64_t root;
    int pid, tid, begun, used = 0;

    if (sscanf(*at, ";%d,%d,%" SCNu64 ",%d%n", &pid, &tid, &root, &begun, &used) < 4)
        return false;
    *at += used;
    followed = followed_make(follow, pid, tid);
    if (!followed)
        return false;
    followed->root = root;
    followed->begun = begun;
    followed_link(follow, followed);
    follow->n_fds += follow_each(follow);
    for (unsigned i = 0; i < follow_each(follow); i++) {
        if (sscanf(*at, ",%d%n", &followed->fds[i], &used) != 1)
            return false;
        *at += used;
    }
    return !followed_learn(follow, followed);
}

static bool scan_birth(struct follow *follow, const char **at)
{
    struct birth birth;
    int begun, used = 0;

    if (sscanf(*at, ":%d,%d,%d%n", &birth.pid, &birth.tid, &begun, &used) < 3)
        return false;
    *at += used;
    birth.begun = begun;
    follow_add_birth(follow, &birth);
    return true;
}

struct follow *follow_adopt(struct counter *counter, const struct plan *plan, const char *text)
{
    struct follow *follow;
    unsigned long most_fds;
    int on, armed, used = 0;
    bool well = true;

    if (sscanf(text, "%lu,%d,%d%n", &most_fds, &on, &armed, &used) < 3)
        return NULL;
    follow = follow_make(counter, plan, most_fds);
    if (!follow)
        return NULL;
    follow->on = on;
    follow->armed = armed;
    for (text += used; well && (*text == ';' || *text == ':');)
        well = *text == ';' ? scan_followed(follow, &text) : scan_birth(follow, &text);
    if (well)
        return follow;
    follow_forget(follow);
    return NULL;
}
