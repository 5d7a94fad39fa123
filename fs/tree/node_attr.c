/*
 * Attributes of nodes: owner, mode, times, size, links.
 */
#include "fs/tree/node.h"

#include "core/engine.h"
#include "core/pmc/pmc.h"

#include <errno.h>

#define PAGE 4096 /* smallest shown size */

static void attr_times(struct stat *attr, uint64_t ns)
{
    const struct timespec time = {.tv_sec = (time_t)(ns / 1000000000),
                                  .tv_nsec = (long)(ns % 1000000000)};

    attr->st_atim = attr->st_mtim = attr->st_ctim = time;
}

/*
 * Sets the shown size. Never less than the text, because some readers read no more than the size. A
 * power of two with an equal block size makes wc -c and tail -c read the file.
 */
static void attr_size(struct tree *tree, const struct node *node, struct pmc *pmc,
                      struct instance *instance, struct stat *attr)
{
    struct call call = {.engine = tree->engine, .pmc = pmc, .instance = instance};
    uint64_t bound = node->row->bound ? node->row->bound(&call) : 0;

    attr->st_size = PAGE;
    while ((uint64_t)attr->st_size < bound)
        attr->st_size *= 2;
    attr->st_blksize = (blksize_t)attr->st_size;
}

/*
 * A PMC's files use the r and w bits of its directory, as far as they can be read and written. If
 * the PMC was released, streams still have attributes: cat calls fstat before it reads one to its
 * end.
 */
static int pmc_node_attr(struct tree *tree, const struct node *node, struct stat *attr)
{
    struct pmc *pmc = ids_find(&tree->engine->pmcs, node->object);
    const struct file_row *row = node->row;
    const bool theirs = row->is || (row->flags & FILE_READERS);
    const mode_t bit = row->is ? 01 : 04;

    if (!pmc && !row->stream)
        return row->is ? -ESTALE : -ENODEV;
    if (!pmc) {
        attr->st_mode = S_IFREG;
        attr->st_nlink = 0;
        attr->st_size = PAGE;
        attr_times(attr, tree->started_ns);
        return 0;
    }
    attr->st_uid = pmc->uid;
    attr->st_gid = pmc->gid;
    attr_times(attr, pmc->changed_ns);
    if (row->is) {
        attr->st_mode = S_IFDIR | (pmc->mode & 07777);
        attr->st_nlink = 2;
    } else {
        attr->st_mode = S_IFREG | (row->show || row->stream ? pmc->mode & 0444 : 0) |
                        (row->store ? pmc->mode & 0222 : 0);
        attr_size(tree, node, pmc, NULL, attr);
    }
    if (tree->readers == (gid_t)-1)
        return 0;
    /* The directory and a few files (FILE_READERS) are accessible to the group `readers`. If the
     * PMC grants nothing to its group and others, or its group is `readers`, they show the group
     * `readers`. Otherwise they look accessible to all users, and open checks the opener. Files
     * lose the bits of others if these could not search the directory before. */
    const bool as_others = (pmc->mode & 077) && attr->st_gid != tree->readers;
    if (as_others && !row->is && !(pmc->mode & 01))
        attr->st_mode &= ~(mode_t)07;
    if (theirs)
        attr->st_mode |= as_others ? bit : bit << 3;
    if (theirs && !as_others)
        attr->st_gid = tree->readers;
    return 0;
}

/* Returns the number of links: 2, and one for each subdirectory. 1 for admin/instances, because its
 * subdirectories are not counted. */
static nlink_t dir_links(struct tree *tree, const struct node *dir, size_t pmcs)
{
    const struct file_row *row = dir->row, *below;
    nlink_t links = 2;
    unsigned number = 0;

    while ((below = file_next(row->is, number, &number)))
        if (below->is && node_shows_file(dir, below))
            links++;
    if (row->is == DIR_ROOT)
        links += (nlink_t)pmcs;
    else if (row->is == DIR_INSTANCES)
        links += (nlink_t)tree->engine->instances.n;
    else if (row->is == DIR_ADMIN)
        links += cpus_count(&tree->engine->possible);
    else if (row->is == DIR_EVENTS && engine_catalog(tree->engine))
        links += (nlink_t)engine_catalog(tree->engine)->n_classes;
    return row->is == DIR_LIMITS ? 1 : links;
}

int node_attr(struct tree *tree, const struct node *node, struct stat *attr)
{
    const struct file_row *row = node->row;
    uint64_t id = node->kind == NODE_LIMIT ? node->object : node_instance(node);
    struct instance *instance = engine_instance(tree->engine, id);

    *attr = (struct stat){.st_ino = node_id(node->kind, node->object, node->number),
                          .st_nlink = 1,
                          .st_blksize = PAGE};
    if (node->kind == NODE_PMC)
        return pmc_node_attr(tree, node, attr);
    if (!instance)
        return row->is ? -ESTALE : -ENODEV;
    attr->st_mode = (row->is ? S_IFDIR : S_IFREG) | row->mode;
    if (row->is)
        attr->st_nlink = dir_links(tree, node, instance->n);
    else
        attr_size(tree, node, NULL, instance, attr);
    if (row->is == DIR_ROOT)
        attr->st_mode = S_IFDIR | (mode_t)tunable_u64(&tree->engine->tunables, TUNABLE_ROOTMODE);
    attr_times(attr, row->flags & FILE_OPEN_TIME ? tree->metrics_opened_ns : tree->started_ns);
    if (node->kind == NODE_INSTANCE && node->object && node->number == NUMBER_OWN_DIR) {
        attr->st_mode = S_IFDIR | instance->mode; /* the files in it belong to root */
        attr->st_uid = instance->uid;
        attr->st_gid = instance->gid;
        attr_times(attr, instance->changed_ns);
    }
    return 0;
}

/* Texts that may be longer than a page change their size, so the kernel must not cache it. */
double node_attr_timeout(const struct node *node)
{
    return node->row->bound ? 0 : TIMEOUT_S;
}

/* May precede the reply to chmod: to invalidate attributes the kernel takes no lock of a directory,
 * unlike for names. */
void attributes_forget(struct tree *tree, enum node_kind kind, uint64_t object)
{
    for (unsigned number = NUMBER_OWN_DIR; number < file_row_end(kind); number++)
        if (file_row(kind, number))
            fuse_lowlevel_notify_inval_inode(tree->session, node_id(kind, object, number), -1, 0);
}
