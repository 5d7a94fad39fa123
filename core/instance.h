/*
 * An instance: PMCs by name, and the last sentence of each user. The root is instance 0. And users:
 * what each has, of all instances.
 */
#pragma once

#include "core/parts.h"

struct instance {
    struct engine *engine;
    uint64_t id;
    struct pmc **by_name; /* sorted by name */
    size_t n, size;
    struct last_error { /* by uid; the oldest is dropped beyond a bound */
        uid_t uid;
        uint64_t when;
        char *line;
    } * errors;
    size_t n_errors;
};

struct instance *instance_new(struct engine *engine, uint64_t id);
void instance_free(struct instance *instance); /* asserts that it has no PMC */
struct pmc *instance_find(const struct instance *instance, const char *name);
bool instance_add(struct instance *instance, struct pmc *pmc);
void instance_remove(struct instance *instance, struct pmc *pmc);
void instance_set_error(struct instance *instance, uid_t uid, uint64_t now_ns, const char *line);
const char *instance_error(const struct instance *instance, uid_t uid); /* "ok" without one */

/* Lives as long as a PMC of his, or a change of one. */
struct user {
    struct user *next;
    uid_t uid;
    unsigned refs;
    unsigned pmcs;               /* on the tree */
    _Atomic unsigned long fds;   /* descriptors of links, as accounted and booked */
    _Atomic unsigned long links; /* links that have some, the same */
};
struct user *user_find(const struct engine *engine, uid_t uid); /* NULL: he has nothing */
struct user *user_get(struct engine *engine, uid_t uid);        /* a reference; NULL: no memory */
void user_unref(struct engine *engine, struct user *user);      /* NULL allowed */
