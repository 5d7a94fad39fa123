/*
 * Nodes, the kernel's inodes. A node id is computed (kind:4 | object:52 | file:8), so there is no
 * table of nodes and FORGET needs no action. Functions need the engine's lock unless noted.
 */
#pragma once

#include "core/call.h"
#include "fs/tree/files.h"

#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Cache time of names and attributes. */
#define TIMEOUT_S 3600.0
/* Cache time of names below events/, which depend on drivers and modules. */
#define EVENT_TIMEOUT_S 1.0

struct fuse_session;

/* The state that the tree shows. Protected by the engine's lock, except the session. */
struct tree {
    struct engine *engine;                  /* current engine */
    gid_t readers;                          /* (gid_t)-1: none; fs_set_readers() */
    uint64_t started_ns, metrics_opened_ns; /* CLOCK_REALTIME */
    struct fuse_session *session;
};

/* Values of node.number: numbers of file rows. */
#define NUMBER_OWN_DIR   1  /* an object's own directory (instance, PMC, class, CPU, limits) */
#define NUMBER_OWN_FILE  2  /* the file of an event, slot or tunable */
#define NUMBER_EVENTS    4  /* events/ of the root or an instance */
#define NUMBER_ADMIN     5  /* the root's admin/ */
#define NUMBER_INSTANCES 6  /* the root's instances/ */
#define NUMBER_LIMITS    35 /* admin/instances/ */

struct node {
    enum node_kind kind;
    /* By kind: serial of the instance (instance, limit) or PMC; event: instance << 28 | catalog id;
     * slot: cpu << 16 | row; tunable: its number. */
    uint64_t object;
    unsigned number; /* number of its file row */
    const struct file_row *row;
};

/* Returns the id of the instance that contains the node; 0: the root. Also 0 for nodes of PMCs,
 * which do not contain the instance. Needs no lock. */
uint64_t node_instance(const struct node *node);
/* Returns the object without the instance of a catalog id, as call->object. Needs no lock. */
uint64_t node_object(const struct node *node);
/* Returns the node id. Needs no lock. */
fuse_ino_t node_id(enum node_kind kind, uint64_t object, unsigned number);
/* Sets *node. Returns false if the kind or the number does not exist; does not check whether the
 * object does. Needs no lock. */
bool node_decode(fuse_ino_t ino, struct node *node);
/* Looks up a name. Returns 0, -ENOENT, or an error of the catalog. May drop the lock. */
int node_lookup(struct tree *tree, struct call *call, const struct node *dir, const char *name,
                struct node *found);
/* Sets the attributes and returns 0. If the PMC or instance is gone: streams of the PMC still have
 * attributes; directories return -ESTALE, after which the kernel looks the name up again; other
 * files return -ENODEV. */
int node_attr(struct tree *tree, const struct node *node, struct stat *attr);
/* Returns the cache time of the attributes in seconds; 0 if the size varies. Needs no lock. */
double node_attr_timeout(const struct node *node);
/* Prints the path of a file row in its instance, with the names of the node's objects: "web/count",
 * "admin/cpu0/3". `row` is the node's, or one above it. */
void node_path(struct tree *tree, const struct node *node, const struct file_row *row,
               struct buf *out);

/*
 * An entry of a directory. node_next() sets it to the entry after a cookie (0: the first) and
 * returns true, or returns false at the end. `name` is valid until the lock is dropped or the entry
 * is set again.
 */
struct node_entry {
    uint64_t cookie;
    const char *name;
    struct node node;
    char scratch[32];
};
bool node_next(struct tree *tree, const struct node *dir, uint64_t cookie,
               struct node_entry *entry);
/* Returns false if the directory is in an instance and the file exists only in the root
 * (FILE_ROOT_ONLY). `row` must be a file row of this directory. */
bool node_shows_file(const struct node *dir, const struct file_row *row);
/* Returns true for events/ and directories of classes: engine_catalog_load() must precede
 * node_next(). */
bool node_needs_catalog(const struct node *dir);

/* Invalidates the kernel's attributes of all nodes of this kind and object. Needs no lock. */
void attributes_forget(struct tree *tree, enum node_kind kind, uint64_t object);
