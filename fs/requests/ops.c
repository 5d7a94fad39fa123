/*
 * FUSE operations on the tree: lookup, attributes, mkdir, rmdir, rename, and the table of all
 * operations.
 */
#include "fs/requests/ops.h"

#include "core/pmc/pmc.h"

#include "fs/requests/caller.h"
#include "fs/requests/io.h"
#include "fs/requests/list.h"
#include "fs/requests/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct request *op_begin(const struct op *op, fuse_req_t req, fuse_ino_t ino)
{
    struct fs *fs = fuse_req_userdata(req);
    struct node node;
    struct request *rq = node_decode(ino, &node) ? request_new(fs, op, req) : NULL;

    if (!rq) {
        fuse_reply_err(req, node_decode(ino, &node) ? ENOMEM : ESTALE);
        return NULL;
    }
    rq->node = node;
    caller_fill(&rq->call, req);
    rq->call.file = op->file ? op->file : node_label(&rq->node, rq->label);
    rq->call.index = node_index(&node);
    return rq;
}

/* Starts an operation on a name in a directory. */
static void op_named(const struct op *op, fuse_req_t req, fuse_ino_t parent, const char *name,
                     mode_t mode)
{
    struct request *rq = op_begin(op, req, parent);

    if (!rq)
        return;
    rq->text = strdup(name);
    rq->entry.attr.st_mode = mode;
    request_dispatch(rq);
}

int op_entry(struct request *rq)
{
    struct fuse_entry_param *entry = &rq->entry;

    entry->ino = node_id(rq->found.kind, rq->found.object, rq->found.number);
    entry->generation = 1;
    entry->attr_timeout = node_attr_timeout(&rq->found);
    entry->entry_timeout = node_entry_timeout(&rq->found);
    return node_attr(&rq->fs->tree, &rq->found, &entry->attr);
}

static int entry_reply(struct request *rq)
{
    return fuse_reply_entry(rq->req, &rq->entry);
}

static int lookup_run(struct request *rq)
{
    if (rq->gone)
        return -ESTALE;
    return node_lookup(&rq->fs->tree, &rq->call, &rq->node, rq->text, &rq->found);
}

/* The kernel does not cache names that do not exist, because another process may create them. */
static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    static const struct op op = {.gone_ok = true,
                                 .has_text = true,
                                 .locks_directory = true,
                                 .run = lookup_run,
                                 .done = op_entry,
                                 .reply = entry_reply};

    op_named(&op, req, parent, name, 0);
}

int attr_reply(struct request *rq)
{
    return fuse_reply_attr(rq->req, &rq->entry.attr, node_attr_timeout(&rq->node));
}

int slice_reply(struct request *rq)
{
    return fuse_reply_buf(rq->req, rq->slice, rq->slice_len);
}

static int attr_run(struct request *rq)
{
    return node_attr(&rq->fs->tree, &rq->node, &rq->entry.attr);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    static const struct op op = {.gone_ok = true, .run = attr_run, .reply = attr_reply};
    struct request *rq = op_begin(fi ? &io_end : &op, req, ino);

    if (!rq)
        return;
    rq->fh = fi ? fi->fh : 0;
    request_dispatch(rq);
}

#define SET_MODE  FUSE_SET_ATTR_MODE
#define SET_OWNER (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)

static bool is_instance(const struct node *node)
{
    return node->kind == NODE_INSTANCE && node->object && node->number == NODE_DIR;
}

/* Returns true if a chmod sets the present mode, as editors do after writing a file. */
static bool mode_is_there(const struct request *rq)
{
    struct stat is;

    return !rq->node.row->is && node_attr(&rq->fs->tree, &rq->node, &is) == 0 &&
           (rq->entry.attr.st_mode & 07777) == (is.st_mode & 07777);
}

static int setattr_look(struct request *rq)
{
    return rq->to_set & FUSE_SET_ATTR_UID && caller_superuser(rq) < 0 ? -EIO : 0;
}

/*
 * The kernel has checked the permission. Times are accepted and ignored. Modes and owners can be
 * set on directories of PMCs and instances only. A truncation means that the next write through
 * this open file starts a new set.
 */
static int setattr_run(struct request *rq)
{
    struct call *call = &rq->call;
    const struct stat *attr = &rq->entry.attr;
    uid_t uid = rq->to_set & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1;
    gid_t gid = rq->to_set & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1;
    bool instance = is_instance(&rq->node);
    int rc = CALL_DONE;

    if ((rq->to_set & FUSE_SET_ATTR_SIZE) && call->open) {
        call->open->cut = false;
        call->open->began = 0;
    }
    if ((rq->to_set & SET_MODE) && mode_is_there(rq))
        rq->to_set &= ~SET_MODE;
    if (!(rq->to_set & (SET_MODE | SET_OWNER)))
        return CALL_DONE;
    if (!call->pmc && !instance)
        return err_set(&call->err, P25, "only PMCs and instances can change mode or owner");
    if ((rq->to_set & SET_MODE) && !rq->node.row->is)
        return err_set(&call->err, P25,
                       "a file has the mode of its directory: chmod the directory");
    if (rq->to_set & SET_MODE)
        rc = (instance ? engine_chmod_instance : engine_chmod)(call, attr->st_mode & 07777);
    if (rc == CALL_DONE && (rq->to_set & SET_OWNER))
        rc = (instance ? engine_chown_instance : engine_chown)(call, uid, gid);
    return rc;
}

/* Invalidates related attributes before the reply, so that access follows at once. */
static int setattr_reply(struct request *rq)
{
    if ((rq->to_set & (SET_MODE | SET_OWNER)) && rq->node.kind == NODE_PMC)
        attributes_forget(&rq->fs->tree, NODE_PMC, rq->node.object);
    return attr_reply(rq);
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
                       struct fuse_file_info *fi)
{
    static const struct op op = {.is_quiet = true,
                                 .locks_directory = true,
                                 .look = setattr_look,
                                 .run = setattr_run,
                                 .done = attr_run,
                                 .reply = setattr_reply};
    struct request *rq = op_begin(&op, req, ino);

    if (!rq)
        return;
    rq->entry.attr = *attr;
    rq->to_set = to_set;
    rq->counted = (to_set & (SET_MODE | SET_OWNER)) != 0;
    if (fi && !rq->counted)
        rq->fh = fi->fh;
    if (rq->node.row->is)
        rq->call.file = to_set & SET_MODE ? "chmod" : "chown";
    request_dispatch(rq);
}

static int mkdir_look(struct request *rq)
{
    const int rc = caller_superuser(rq);

    if (rc == 0)
        caller_maker(rq->fs, &rq->call);
    return rc;
}

static int mkdir_run(struct request *rq)
{
    struct call *call = &rq->call;
    bool instance = rq->node.row->is == DIR_INSTANCES;
    mode_t mode = rq->entry.attr.st_mode & 07777;
    uint64_t id;
    int rc;

    if (instance)
        rc = engine_mkinstance(call, rq->text, mode, &id);
    else if (rq->node.row->is == DIR_ROOT)
        rc = engine_mkdir(call, rq->text, mode, &id);
    else
        return err_set(&call->err, P25,
                       "create PMCs with mkdir in the top directory, and instances in instances/");
    if (rc == CALL_DONE)
        node_decode(node_id(instance ? NODE_INSTANCE : NODE_PMC, id, NODE_DIR), &rq->found);
    return rc;
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    static const struct op op = {.file = "mkdir",
                                 .counted = true,
                                 .has_text = true,
                                 .locks_directory = true,
                                 .look = mkdir_look,
                                 .run = mkdir_run,
                                 .done = op_entry,
                                 .reply = entry_reply};

    op_named(&op, req, parent, name, mode);
}

static int refuse(struct request *rq)
{
    return err_set(&rq->call.err, P25,
                   "files cannot be created, linked, renamed or removed: mkdir NAME creates a PMC, "
                   "and rmdir NAME (not rm -r) deletes it");
}

static int rmdir_look(struct request *rq)
{
    return rq->node.row->is == DIR_INSTANCES ? caller_superuser(rq) : 0;
}

static int rmdir_run(struct request *rq)
{
    unsigned number;

    if (rq->node.row->is == DIR_INSTANCES)
        return engine_rminstance(&rq->call, rq->text);
    if (rq->node.row->is != DIR_ROOT || file_named(DIR_ROOT, rq->text, &number))
        return refuse(rq);
    return engine_rmdir(&rq->call, rq->text);
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    static const struct op op = {.file = "rmdir",
                                 .counted = true,
                                 .has_text = true,
                                 .locks_directory = true,
                                 .look = rmdir_look,
                                 .run = rmdir_run};

    op_named(&op, req, parent, name, 0);
}

static int rename_run(struct request *rq)
{
    unsigned number;

    if (!rq->text2)
        return err_nomem(&rq->call.err);
    if (rq->node.row->is == DIR_INSTANCES)
        return err_set(&rq->call.err, P25, "an instance cannot be renamed: create another one");
    if (rq->node.row->is == DIR_ROOT && rq->found.row->is == DIR_ROOT &&
        rq->found.object != rq->node.object)
        return err_set(&rq->call.err, P25,
                       "a PMC cannot be moved between instances: create it there");
    if (rq->node.row->is != DIR_ROOT || rq->found.row->is != DIR_ROOT ||
        rq->found.object != rq->node.object || file_named(DIR_ROOT, rq->text, &number))
        return refuse(rq);
    return engine_rename(&rq->call, rq->text, rq->text2);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
                      const char *newname, unsigned flags)
{
    static const struct op op = {.file = "mv",
                                 .counted = true,
                                 .has_text = true,
                                 .locks_directory = true,
                                 .run = rename_run};
    struct request *rq;

    if (flags & ~1u) { /* RENAME_NOREPLACE is always implied; exchange and whiteout are refused */
        fuse_reply_err(req, EINVAL);
        return;
    }
    rq = op_begin(&op, req, parent);
    if (!rq)
        return;
    rq->text = strdup(name);
    rq->text2 = strdup(newname);
    if (!node_decode(newparent, &rq->found))
        rq->found = rq->node;
    request_dispatch(rq);
}

static void op_refuse(fuse_req_t req, fuse_ino_t ino, const char *what)
{
    static const struct op op = {.counted = true, .locks_directory = true, .run = refuse};
    struct request *rq = op_begin(&op, req, ino);

    if (!rq)
        return;
    rq->call.file = what;
    request_dispatch(rq);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
    (void)name, (void)mode, (void)rdev;
    op_refuse(req, parent, "mknod");
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    (void)name;
    op_refuse(req, parent, "rm");
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    (void)target, (void)name;
    op_refuse(req, parent, "ln");
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent, const char *newname)
{
    (void)ino, (void)newname;
    op_refuse(req, newparent, "ln");
}

/* No blocks and no inodes, as for the kernel's own trees: programs that watch how full file systems
 * are divide by them. */
static int statfs_run(struct request *rq)
{
    rq->statvfs = (struct statvfs){.f_bsize = 4096, .f_frsize = 4096, .f_namemax = NAME_LEN_MAX};
    return CALL_DONE;
}

static int statfs_reply(struct request *rq)
{
    return fuse_reply_statfs(rq->req, &rq->statvfs);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
    static const struct op op = {.gone_ok = true, .run = statfs_run, .reply = statfs_reply};
    struct request *rq = op_begin(&op, req, ino);

    if (rq)
        request_dispatch(rq);
}

/*
 * Parameters that are negotiated with the kernel for the life of the mount; a later worker must use
 * the same. max_write is larger than the longest command, so that a longer one arrives and is
 * refused. Without atomic_o_trunc the kernel keeps the size of a file that is written with `>`.
 */
static const struct {
    unsigned want, max_write;
} init_settings = {
    .want = FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO |
            FUSE_CAP_ASYNC_READ,
    .max_write = 2 * WRITE_MAX,
};

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
    struct fs *fs = userdata;

    conn->want = conn->capable & init_settings.want;
    conn->max_write = init_settings.max_write;
    fs->initialised = true;
}

/*
 * INTERRUPT and RELEASE are handled in serve.c. libfuse answers the rest: FORGET needs no action,
 * because node ids are computed; requests for extended attributes get ENOSYS, after which the
 * kernel no longer sends them at each write; CREATE gets ENOSYS, and the kernel sends MKNOD
 * instead.
 */
const struct fuse_lowlevel_ops fs_ops = {
    .init = op_init,
    .lookup = op_lookup,
    .getattr = op_getattr,
    .setattr = op_setattr,
    .mkdir = op_mkdir,
    .rmdir = op_rmdir,
    .rename = op_rename,
    .mknod = op_mknod,
    .unlink = op_unlink,
    .symlink = op_symlink,
    .link = op_link,
    .open = io_open,
    .lseek = io_lseek,
    .read = io_read,
    .write = io_write,
    .poll = io_poll,
    .readdir = list_readdir,
    .readdirplus = list_readdirplus,
    .statfs = op_statfs,
};
