/*
 * FUSE operations on the tree: lookup, attributes, mkdir, rmdir, rename, listing, and the table of
 * all operations.
 */
#include "fs/requests/request.h"

#include "fs/requests/caller.h"

#include "core/pmc/settings.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>

struct request *op_begin(const struct op *op, fuse_req_t req, fuse_ino_t ino)
{
    struct node node;
    const bool decoded = node_decode(ino, &node);
    struct request *rq = decoded ? request_new(fuse_req_userdata(req), op, req) : NULL;

    if (!rq) {
        fuse_reply_err(req, decoded ? ENOMEM : ESTALE);
        return NULL;
    }
    const struct fuse_ctx *ctx = fuse_req_ctx(req);

    rq->node = node;
    rq->call.uid = rq->call.payer = ctx->uid;
    rq->call.gid = ctx->gid;
    rq->call.tid = ctx->pid;
    rq->call.file = node.row->name ? node.row->name : node.row->placeholder;
    rq->call.object = node_object(&node);
    return rq;
}

/* Creates a request on a name in a directory. Returns NULL after replying with an error. */
static struct request *op_begin_named(const struct op *op, fuse_req_t req, fuse_ino_t parent,
                                      const char *verb, const char *name)
{
    struct request *rq = op_begin(op, req, parent);

    if (rq) {
        rq->verb = verb;
        rq->text = strdup(name);
    }
    return rq;
}

/* Sets rq->entry from rq->found. Returns the result of node_attr(). */
static int entry_fill(struct request *rq)
{
    struct fuse_entry_param *entry = &rq->entry;
    const struct node *found = &rq->found;

    entry->ino = node_id(found->kind, found->object, found->number);
    entry->generation = 1;
    entry->attr_timeout = node_attr_timeout(found);
    entry->entry_timeout = found->kind == NODE_EVENT ? EVENT_TIMEOUT_S : TIMEOUT_S;
    /* Names of an instance are not cached: it is released by a write to another file, and the
     * kernel is notified after that write has returned. */
    if (found->number == NUMBER_OWN_DIR &&
        (found->kind == NODE_LIMIT || (found->kind == NODE_INSTANCE && found->object)))
        entry->entry_timeout = 0;
    return node_attr(&rq->fs->tree, found, &entry->attr);
}

static int lookup_run(struct request *rq)
{
    if (rq->gone)
        return -ESTALE;
    return node_lookup(&rq->fs->tree, &rq->call, &rq->node, rq->text, &rq->found);
}

/* Replies ENOENT for a name that does not exist, not an empty entry, which the kernel would cache:
 * another process may create the name. */
static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    static const struct op op = {.runs_if_gone = true,
                                 .has_text = true,
                                 .locks_directory = true,
                                 .run = lookup_run,
                                 .done = entry_fill,
                                 .reply = REPLY_ENTRY};
    struct request *rq = op_begin_named(&op, req, parent, NULL, name);

    if (rq)
        request_dispatch(rq, 0);
}

/* ---- attributes ---- */

static int attr_run(struct request *rq)
{
    return node_attr(&rq->fs->tree, &rq->node, &rq->entry.attr);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    static const struct op op = {.runs_if_gone = true, .run = attr_run, .reply = REPLY_ATTR};
    struct request *rq = op_begin(fi ? &file_attr_op : &op, req, ino);

    if (!rq)
        return;
    rq->fh = fi ? fi->fh : 0;
    request_dispatch(rq, 0);
}

#define SET_MODE  FUSE_SET_ATTR_MODE
#define SET_OWNER (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)

/*
 * The kernel has checked the permission. Times are accepted and ignored. The mode can be set on
 * directories of PMCs and instances only; on others, and on files, the present mode is accepted,
 * which editors set after writing. The owner can be set on these directories, and on files of a
 * PMC, for the PMC. A truncation means that the next write through this open file starts a new set.
 */
static int setattr_run(struct request *rq)
{
    struct call *call = &rq->call;
    const struct node *node = &rq->node;
    const struct stat *attr = &rq->entry.attr; /* the argument; attr_run() puts the result there */
    const bool instance =
        node->kind == NODE_INSTANCE && node->object && node->number == NUMBER_OWN_DIR;
    const mode_t mode = attr->st_mode & 07777;
    int to_set = rq->to_set & (SET_MODE | SET_OWNER);
    struct stat present;
    int rc = CALL_DONE;

    if ((rq->to_set & FUSE_SET_ATTR_SIZE) && call->open) {
        call->open->cut = false;
        call->open->started_set = 0;
    }
    if ((to_set & SET_MODE) && (!node->row->is || (!call->pmc && !instance)) &&
        node_attr(&rq->fs->tree, node, &present) == 0 && mode == (present.st_mode & 07777))
        to_set &= ~SET_MODE;
    if (!to_set)
        return CALL_DONE;
    if (!call->pmc && !instance)
        return err_set(&call->err, P25, "only PMCs and instances can change mode or owner");
    if ((to_set & SET_MODE) && !node->row->is)
        return err_set(&call->err, P25,
                       "a file has the mode of its directory: chmod the directory");
    if (to_set & SET_MODE)
        rc = (instance ? engine_chmod_instance : engine_chmod)(call, mode);
    if (rc == CALL_DONE && (to_set & SET_OWNER))
        rc = (instance ? engine_chown_instance
                       : engine_chown)(call, to_set & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1,
                                       to_set & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1);
    rq->stale = *node;
    rq->invalidates = node->kind == NODE_PMC; /* the files have the mode and owner too */
    return rc;
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
                       struct fuse_file_info *fi)
{
    static const struct op op = {.is_quiet = true,
                                 .locks_directory = true,
                                 .run = setattr_run,
                                 .done = attr_run,
                                 .reply = REPLY_ATTR};
    struct request *rq = op_begin(&op, req, ino);
    int rc = 0;

    if (!rq)
        return;
    rq->entry.attr = *attr;
    rq->to_set = to_set;
    rq->counted = (to_set & (SET_MODE | SET_OWNER)) != 0;
    if (fi && !rq->counted) /* only a truncation needs the open file */
        rq->fh = fi->fh;
    if (to_set & FUSE_SET_ATTR_UID && caller_read_user(rq) < 0)
        rc = -EIO; /* of a quiet operation, info/last_error shows EIO */
    request_dispatch(rq, rc);
}

/* ---- directories ---- */

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
        node_decode(node_id(instance ? NODE_INSTANCE : NODE_PMC, id, NUMBER_OWN_DIR), &rq->found);
    return rc;
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    static const struct op op = {.counted = true,
                                 .has_text = true,
                                 .locks_directory = true,
                                 .run = mkdir_run,
                                 .done = entry_fill,
                                 .reply = REPLY_ENTRY};
    struct request *rq = op_begin_named(&op, req, parent, "mkdir", name);

    if (!rq)
        return;
    const struct fs *fs = rq->fs;
    struct call *call = &rq->call;
    const int rc = caller_read_user(rq);

    rq->entry.attr.st_mode = mode;
    if (rc == 0)
        call->creator_pid = caller_process(rq);
    if (call->creator_pid)
        call->creator_key = fs->host->caller_key(fs->host_state, call->creator_pid);
    request_dispatch(rq, rc);
}

static int refuse_run(struct request *rq)
{
    return err_set(&rq->call.err, P25,
                   "files cannot be created, linked, renamed or removed: mkdir NAME creates a PMC, "
                   "and rmdir NAME (not rm -r) deletes it");
}

static int rmdir_run(struct request *rq)
{
    unsigned number;

    if (rq->node.row->is == DIR_INSTANCES)
        return engine_rminstance(&rq->call, rq->text);
    if (rq->node.row->is != DIR_ROOT || file_named(DIR_ROOT, rq->text, &number))
        return refuse_run(rq);
    return engine_rmdir(&rq->call, rq->text);
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    static const struct op op = {
        .counted = true, .has_text = true, .locks_directory = true, .run = rmdir_run};
    struct request *rq = op_begin_named(&op, req, parent, "rmdir", name);

    /* Only the superuser removes an instance. The kernel checks who may remove a PMC. */
    if (rq)
        request_dispatch(rq, rq->node.row->is == DIR_INSTANCES ? caller_read_user(rq) : 0);
}

static int rename_run(struct request *rq)
{
    const struct node *from = &rq->node, *to = &rq->new_parent;
    unsigned number;

    if (from->row->is == DIR_INSTANCES)
        return err_set(&rq->call.err, P25, "an instance cannot be renamed: create another one");
    if (from->row->is == DIR_ROOT &&
        (to->row->is == DIR_INSTANCES || (to->row->is == DIR_ROOT && to->object != from->object)))
        return err_set(&rq->call.err, P25,
                       "a PMC cannot be moved between instances: create it there");
    if (from->row->is != DIR_ROOT || to->row->is != DIR_ROOT ||
        file_named(DIR_ROOT, rq->text, &number))
        return refuse_run(rq);
    return engine_rename(&rq->call, rq->text, rq->new_name);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
                      const char *newname, unsigned flags)
{
    static const struct op op = {
        .counted = true, .has_text = true, .locks_directory = true, .run = rename_run};
    const size_t len = strlen(name) + 1;

    if (flags & ~1u) { /* RENAME_NOREPLACE is always implied; exchange and whiteout are refused */
        fuse_reply_err(req, EINVAL);
        return;
    }
    struct request *rq = op_begin(&op, req, parent);
    if (!rq)
        return;
    rq->verb = "mv";
    rq->text = malloc(len + strlen(newname) + 1);
    if (rq->text) {
        memcpy(rq->text, name, len);
        rq->new_name = strcpy(rq->text + len, newname);
    }
    if (!node_decode(newparent, &rq->new_parent))
        rq->new_parent = rq->node;
    request_dispatch(rq, 0);
}

/* ---- listing ----
 * Cookies are positions in an order that never changes, so no entry is skipped or repeated while
 * others are created and removed. Except in events/, if a driver or module adds or removes events
 * during the listing.
 */

static int readdir_run(struct request *rq)
{
    uint64_t cookie = (uint64_t)rq->off;
    struct node_entry entry;
    int rc = CALL_DONE;

    if (!rq->gone && node_needs_catalog(&rq->node))
        rc = engine_catalog_load(&rq->call, cookie == 0); /* may drop the lock */
    if (rq->gone)
        return -ENOENT; /* as in every removed directory */
    if (rc)
        return rc;
    rq->text = malloc(rq->size);
    if (!rq->text)
        return -ENOMEM;
    const struct fuse_in_header *head = inflight_message(rq->inflight);
    for (; node_next(&rq->fs->tree, &rq->node, cookie, &entry); cookie = entry.cookie) {
        const struct node *node = &entry.node;
        const size_t room = rq->size - rq->slice_len;
        char *to = rq->text + rq->slice_len;
        size_t n;

        if (head->opcode == FUSE_READDIR) { /* name, number and type: the object is not needed */
            struct stat attr;               /* fuse_add_direntry() reads only these two members */

            attr.st_ino = node_id(node->kind, node->object, node->number);
            attr.st_mode = node->row->is ? S_IFDIR : S_IFREG;
            n = fuse_add_direntry(rq->req, to, room, entry.name, &attr, (off_t)entry.cookie);
        } else {
            rq->found = *node;
            if (entry_fill(rq) < 0) /* the object is gone */
                continue;
            if (entry.cookie <= 2) /* only attributes: . and .. are not looked up */
                rq->entry = (struct fuse_entry_param){.attr = rq->entry.attr};
            n = fuse_add_direntry_plus(rq->req, to, room, entry.name, &rq->entry,
                                       (off_t)entry.cookie);
        }
        if (n > room) /* did not fit */
            break;
        rq->slice_len += n;
    }
    rq->slice = rq->text;
    return CALL_DONE;
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                       struct fuse_file_info *fi)
{
    static const struct op op = {
        .runs_if_gone = true, .locks_directory = true, .run = readdir_run, .reply = REPLY_BYTES};
    struct request *rq = op_begin(&op, req, ino);

    (void)fi;
    if (!rq)
        return;
    rq->size = size;
    rq->off = off;
    request_dispatch(rq, 0);
}

/* ---- all others ---- */

/* Refuses a new file. In a PMC or in admin/tunables, a setting or a tunable was probably meant. */
static int mknod_run(struct request *rq)
{
    const struct word name = word_of(rq->text);

    if (rq->node.row->is == DIR_PMC && key_find(name) != KEYS)
        return err_set(&rq->call.err, P25,
                       "a PMC has no file \"" WORD_FMT "\": write " WORD_FMT "=VALUE to config",
                       WORD_ARG(name), WORD_ARG(name));
    if (rq->node.row->is == DIR_TUNABLES)
        return err_set(&rq->call.err, P25,
                       "no tunable \"" WORD_FMT "\": ls admin/tunables lists them", WORD_ARG(name));
    return refuse_run(rq);
}

static void op_refuse(fuse_req_t req, fuse_ino_t parent, const char *name, const char *verb)
{
    static const struct op op = {.counted = true, .locks_directory = true, .run = refuse_run};
    struct request *rq = op_begin_named(&op, req, parent, verb, name);

    if (rq)
        request_dispatch(rq, 0);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
    static const struct op op = {
        .counted = true, .has_text = true, .locks_directory = true, .run = mknod_run};
    struct request *rq = op_begin_named(&op, req, parent, "create", name);

    (void)mode, (void)rdev;
    if (rq)
        request_dispatch(rq, 0);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    op_refuse(req, parent, name, "rm");
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    (void)target;
    op_refuse(req, parent, name, "ln");
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent, const char *newname)
{
    (void)ino;
    op_refuse(req, newparent, newname, "ln");
}

/* Reports no blocks and no inodes, like the kernel's own trees: programs that compute how full file
 * systems are skip those. */
static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
    const struct statvfs statvfs = {.f_bsize = 4096, .f_frsize = 4096, .f_namemax = NAME_LEN_MAX};

    (void)ino;
    fuse_reply_statfs(req, &statvfs);
}

/*
 * Parameters that are negotiated with the kernel for the life of the mount; a later worker must use
 * the same. max_write is larger than the longest command, so that a longer one arrives and is
 * refused. Without atomic_o_trunc the kernel keeps the size of a file that is written with `>`.
 */
static void op_init(void *userdata, struct fuse_conn_info *conn)
{
    struct fs *fs = userdata;

    conn->want = conn->capable & (FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS |
                                  FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_ASYNC_READ);
    conn->max_write = 2 * WRITE_MAX;
    fs->initialised = true;
}

/* Refuses SEEK_DATA and SEEK_HOLE, the only requests that the kernel sends here (a SEEK_END is a
 * GETATTR): no file has holes, and grep(1) and cp(1) would take an answer for the size. */
static void op_seek_hole(fuse_req_t req, fuse_ino_t ino, off_t off, int whence,
                         struct fuse_file_info *fi)
{
    (void)ino, (void)off, (void)whence, (void)fi;
    fuse_reply_err(req, EINVAL);
}

/*
 * INTERRUPT and RELEASE are processed in serve.c. libfuse answers the rest: FORGET needs no action,
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
    .open = op_open,
    .lseek = op_seek_hole,
    .read = op_read,
    .write = op_write,
    .poll = op_poll,
    .readdir = op_readdir,
    .readdirplus = op_readdir,
    .statfs = op_statfs,
};
