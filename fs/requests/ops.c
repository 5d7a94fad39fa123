/*
 * Operations on the tree: each becomes a request with its run, done and reply.
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

/* The reply of operations that answer with an errno only. */
static void op_reply_err(struct request *rq, int rc)
{
    fuse_reply_err(rq->req, rc < 0 ? -rc : 0);
}

struct request *op_begin(fuse_req_t req, fuse_ino_t ino)
{
    struct fs *fs = fuse_req_userdata(req);
    struct node node;
    struct request *rq;

    if (!node_decode(ino, &node)) {
        fuse_reply_err(req, ESTALE);
        return NULL;
    }
    rq = request_new(fs, req);
    if (!rq) {
        fuse_reply_err(req, ENOMEM);
        return NULL;
    }
    rq->node = node;
    rq->reply = op_reply_err;
    caller_fill(&rq->call, req);
    rq->call.file = node_label(&rq->node, rq->label);
    rq->call.index = node_index(&node);
    return rq;
}

/* A copy of a name; without memory the request is answered and NULL given. */
static bool op_keep(struct request *rq, char **to, const char *name)
{
    *to = strdup(name);
    if (*to)
        return true;
    fuse_reply_err(rq->req, ENOMEM);
    request_free(rq);
    return false;
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

static void entry_reply(struct request *rq, int rc)
{
    if (rc < 0)
        fuse_reply_err(rq->req, -rc);
    else
        fuse_reply_entry(rq->req, &rq->entry);
}

static int lookup_run(struct request *rq)
{
    if (rq->gone)
        return -ESTALE;
    return node_lookup(&rq->fs->tree, &rq->call, &rq->node, rq->text, &rq->found);
}

/* Names that do not exist are not remembered by the kernel: any moment somebody may make them. */
static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct request *rq = op_begin(req, parent);

    if (!rq || !op_keep(rq, &rq->text, name))
        return;
    rq->gone_ok = true;
    rq->run = lookup_run;
    rq->done = op_entry;
    rq->reply = entry_reply;
    request_dispatch(rq);
}

void op_reply_attr(struct request *rq, int rc)
{
    if (rc < 0)
        fuse_reply_err(rq->req, -rc);
    else
        fuse_reply_attr(rq->req, &rq->attr, node_attr_timeout(&rq->node));
}

static int attr_run(struct request *rq)
{
    return node_attr(&rq->fs->tree, &rq->node, &rq->attr);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct request *rq = fi ? NULL : op_begin(req, ino);

    if (fi)
        io_end(req, ino, fi);
    if (!rq)
        return;
    rq->gone_ok = true;
    rq->run = attr_run;
    rq->reply = op_reply_attr;
    request_dispatch(rq);
}

#define SET_MODE  FUSE_SET_ATTR_MODE
#define SET_OWNER (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)

static bool is_instance(const struct node *node)
{
    return node->kind == NODE_INSTANCE && node->object && node->number == NODE_DIR;
}

/* Editors ask for the mode that the file had before they wrote it. */
static bool mode_is_there(const struct request *rq)
{
    struct stat is;

    return !rq->node.row->is && node_attr(&rq->fs->tree, &rq->node, &is) == 0 &&
           (rq->attr.st_mode & 07777) == (is.st_mode & 07777);
}

/*
 * The kernel has checked the right to do this. Times are accepted and mean nothing; modes are the
 * directory's to have, owners the PMC's or the instance's. A size says that what is written next
 * through this open file begins anew.
 */
static int setattr_run(struct request *rq)
{
    struct call *call = &rq->call;
    uid_t uid = rq->to_set & FUSE_SET_ATTR_UID ? rq->attr.st_uid : (uid_t)-1;
    gid_t gid = rq->to_set & FUSE_SET_ATTR_GID ? rq->attr.st_gid : (gid_t)-1;
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
        return err_set(&call->err, P25,
                       "it belongs to the tree: only PMCs and instances change mode or owner");
    if ((rq->to_set & SET_MODE) && !rq->node.row->is)
        return err_set(&call->err, P25, "a file's mode is that of its directory: chmod that");
    if (rq->to_set & SET_MODE)
        rc = (instance ? engine_chmod_instance : engine_chmod)(call, rq->attr.st_mode & 07777);
    if (rc == CALL_DONE && (rq->to_set & SET_OWNER))
        rc = (instance ? engine_chown_instance : engine_chown)(call, uid, gid);
    return rc;
}

/* What else has changed with it is told first, so that access follows at once. */
static void setattr_reply(struct request *rq, int rc)
{
    if (rc == CALL_DONE && (rq->to_set & (SET_MODE | SET_OWNER)) && rq->node.kind == NODE_PMC)
        attributes_forget(&rq->fs->tree, NODE_PMC, rq->node.object);
    op_reply_attr(rq, rc);
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
                       struct fuse_file_info *fi)
{
    struct request *rq = op_begin(req, ino);

    if (!rq)
        return;
    if (fi && !(to_set & (SET_MODE | SET_OWNER)))
        rq->fh = fi->fh;
    rq->attr = *attr;
    rq->to_set = to_set;
    rq->is_quiet = true;
    rq->counted = (to_set & (SET_MODE | SET_OWNER)) != 0;
    if (rq->node.row->is)
        rq->call.file = to_set & SET_MODE ? "chmod" : "chown";
    rq->run = setattr_run;
    rq->done = attr_run;
    rq->reply = setattr_reply;
    if ((to_set & FUSE_SET_ATTR_UID) && caller_rights(rq) < 0) {
        fuse_reply_err(req, EIO);
        request_free(rq);
        return;
    }
    request_dispatch(rq);
}

static int mkdir_run(struct request *rq)
{
    struct call *call = &rq->call;
    bool instance = rq->node.row->is == DIR_INSTANCES;
    mode_t mode = rq->attr.st_mode & 07777;
    uint64_t id;
    int rc;

    if (instance)
        rc = engine_mkinstance(call, rq->text, mode, &id);
    else if (rq->node.row->is == DIR_ROOT)
        rc = engine_mkdir(call, rq->text, mode, &id);
    else
        return err_set(&call->err, P25,
                       "directories are made at the root (each is a PMC) and in instances/ only");
    if (rc == CALL_DONE)
        node_decode(node_id(instance ? NODE_INSTANCE : NODE_PMC, id, NODE_DIR), &rq->found);
    return rc;
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    struct request *rq = op_begin(req, parent);
    int rc;

    if (!rq || !op_keep(rq, &rq->text, name))
        return;
    rc = caller_rights(rq);
    if (rc < 0) {
        fuse_reply_err(req, -rc);
        request_free(rq);
        return;
    }
    caller_maker(rq->fs, &rq->call);
    rq->attr.st_mode = mode;
    rq->call.file = "mkdir";
    rq->counted = true;
    rq->run = mkdir_run;
    rq->done = op_entry;
    rq->reply = entry_reply;
    request_dispatch(rq);
}

static int refuse(struct request *rq)
{
    return err_set(&rq->call.err, P25,
                   "files cannot be made, linked, renamed or removed by hand "
                   "(mkdir makes a PMC, rmdir releases it)");
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
    struct request *rq = op_begin(req, parent);
    int rc = 0;

    if (!rq || !op_keep(rq, &rq->text, name))
        return;
    if (rq->node.row->is == DIR_INSTANCES)
        rc = caller_rights(rq);
    if (rc < 0) {
        fuse_reply_err(req, -rc);
        request_free(rq);
        return;
    }
    rq->call.file = "rmdir";
    rq->counted = true;
    rq->run = rmdir_run;
    request_dispatch(rq);
}

static int rename_run(struct request *rq)
{
    unsigned number;

    if (rq->node.row->is == DIR_INSTANCES)
        return err_set(&rq->call.err, P25, "an instance keeps its name");
    if (rq->node.row->is == DIR_ROOT && rq->found.row->is == DIR_ROOT &&
        rq->found.object != rq->node.object)
        return err_set(&rq->call.err, P25, "a PMC stays in the instance that it was made in");
    if (rq->node.row->is != DIR_ROOT || rq->found.row->is != DIR_ROOT ||
        rq->found.object != rq->node.object || file_named(DIR_ROOT, rq->text, &number))
        return refuse(rq);
    return engine_rename(&rq->call, rq->text, rq->text2);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
                      const char *newname, unsigned flags)
{
    struct request *rq;

    if (flags & ~1u) { /* RENAME_NOREPLACE is how it is anyway; no exchanging, no whiteouts */
        fuse_reply_err(req, EINVAL);
        return;
    }
    rq = op_begin(req, parent);
    if (!rq || !op_keep(rq, &rq->text, name) || !op_keep(rq, &rq->text2, newname))
        return;
    if (!node_decode(newparent, &rq->found))
        rq->found = rq->node;
    rq->call.file = "mv";
    rq->counted = true;
    rq->run = rename_run;
    request_dispatch(rq);
}

static void op_refuse(fuse_req_t req, fuse_ino_t ino, const char *what)
{
    struct request *rq = op_begin(req, ino);

    if (!rq)
        return;
    rq->call.file = what;
    rq->counted = true;
    rq->run = refuse;
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

/* Of an instance: what it has, and may have, itself. */
static int statfs_run(struct request *rq)
{
    struct fs *fs = rq->fs;
    uint64_t max = tunable_u64(engine_tunables(fs->tree.engine), TUNABLE_MAX_PMCS);
    size_t n = engine_pmc_count(fs->tree.engine);
    const struct instance *instance = rq->call.instance;

    if (!instance)
        return -ESTALE;
    if (instance->id) {
        n = instance->n;
        max = instance->limit[LIMIT_PMCS] ? instance->limit[LIMIT_PMCS] : max;
    }
    rq->statvfs = (struct statvfs){.f_bsize = 4096,
                                   .f_frsize = 4096,
                                   .f_files = max,
                                   .f_ffree = n < max ? max - n : 0,
                                   .f_namemax = NAME_LEN_MAX};
    rq->statvfs.f_favail = rq->statvfs.f_ffree;
    return CALL_DONE;
}

static void statfs_reply(struct request *rq, int rc)
{
    if (rc < 0)
        fuse_reply_err(rq->req, -rc);
    else
        fuse_reply_statfs(rq->req, &rq->statvfs);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
    struct request *rq = op_begin(req, ino);

    if (!rq)
        return;
    rq->gone_ok = true;
    rq->run = statfs_run;
    rq->reply = statfs_reply;
    request_dispatch(rq);
}

/*
 * What is agreed with the kernel for the life of the mount; a later worker must agree to exactly
 * the same. max_write leaves room above the longest command, so that one too long arrives as such.
 * Without atomic_o_trunc the size that the kernel knows of a file written with `>` stays what it is
 * told, and does not become 0.
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
 * What is not here libfuse answers: FORGET with nothing, since node ids are computed; the questions
 * for extended attributes with ENOSYS, which ends the kernel's at each write; CREATE too, for which
 * MKNOD comes instead.
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
    .release = io_release,
    .readdir = list_readdir,
    .readdirplus = list_readdirplus,
    .statfs = op_statfs,
};
