/*
 * Nodes: what the kernel calls an inode. A node id is computed, kind:4 | object:52 | file:8, so
 * there is no table of nodes and FORGET has nothing to do. With the engine's lock unless said.
 */
#pragma once

#include "core/call.h"
#include "fs/tree/files.h"

#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define TIMEOUT_S 3600.0
/* Of names below events/, which come and go with drivers and modules. */
#define EVENT_TIMEOUT_S 1.0

struct fuse_session;

/* What is shown. With the engine's lock, but for the session. */
struct tree {
    struct engine *engine;                  /* the present one */
    gid_t readers;                          /* (gid_t)-1: none; fs_set_readers() */
    uint64_t started_ns, metrics_opened_ns; /* CLOCK_REALTIME */
    struct fuse_session *session;
};

#define NODE_DIR       1  /* number of a directory itself in its node id */
#define NODE_LEAF      2  /* … of an event, a slot, a tunable in its */
#define NODE_EVENTS    4  /* of the root's events/ */
#define NODE_ADMIN     5  /* … and admin/ */
#define NODE_INSTANCES 6  /* of the root's instances/ */
#define NODE_LIMITS    35 /* … and admin/instances/ */

struct node {
    enum node_kind kind;
    uint64_t object; /* a serial; instance << 28 | catalogue id; cpu << 16 | row; a tunable */
    unsigned number; /* of its row */
    const struct file_row *row;
};

/* The instance that it is of by its number; 0: the root, or that of its PMC. No lock. */
uint64_t node_instance(const struct node *node);
uint64_t node_index(const struct node *node); /* for call->index. No lock. */
/* No lock. */
fuse_ino_t node_id(enum node_kind kind, uint64_t object, unsigned number);
/* False: no such id was ever given out. No lock. */
bool node_decode(fuse_ino_t ino, struct node *node);
/* 0, -ENOENT, or what the catalogue answers. May let go of the lock. */
int node_lookup(struct tree *tree, struct call *call, const struct node *dir, const char *name,
                struct node *found);
/* 0, or, when its PMC is gone, -ESTALE: the kernel then looks the name up anew; of its files that
 * are no streams -ENODEV. */
int node_attr(struct tree *tree, const struct node *node, struct stat *attr);
double node_attr_timeout(const struct node *node);
double node_entry_timeout(const struct node *node); /* how long its name holds. No lock. */
/* "count", "cpu0/3", "mincount": for sentences. label has 32 bytes for the latter two. */
const char *node_label(const struct node *node, char *label);

/*
 * The entry of a directory that comes after the cookie (0: the first). False at the end. *name is
 * valid until the lock is dropped or `scratch` is used again.
 */
struct node_entry {
    uint64_t cookie;
    const char *name;
    struct node node;
    char scratch[32];
};
bool node_next(struct tree *tree, const struct node *dir, uint64_t cookie,
               struct node_entry *entry);
/* Is this row of the directory's kind there? An instance has less than the root. */
bool node_has(const struct node *dir, const struct file_row *row);
/* Does the directory need the catalogue of events? */
bool node_needs_catalog(const struct node *dir);

/* The kernel asks again for the attributes of everything with this kind and object. No lock. */
void attributes_forget(struct tree *tree, enum node_kind kind, uint64_t object);
