/*
 * Listing of directories. Cookies are positions in an order that never changes, so no entry is
 * skipped or repeated while others are created and removed. Except in events/, if a driver or
 * module adds or removes events during the listing.
 */
#include "fs/requests/list.h"

#include "fs/requests/ops.h"
#include "fs/requests/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int readdir_run(struct request *rq)
{
    if (rq->gone)
        return -ENOENT; /* as in every removed directory */
    return node_needs_catalog(&rq->node) ? engine_catalog_load(&rq->call, rq->off == 0) : CALL_DONE;
}

/* Adds an entry to the reply. Returns its length, which is more than `room` if it did not fit. */
static size_t readdir_add(struct request *rq, const struct node_entry *entry, size_t room)
{
    char *to = rq->text + rq->slice_len;
    const struct node *node = &entry->node;

    if (!rq->plus) { /* name, number and type: the object is not needed */
        struct stat attr = {
            .st_ino = node_id(node->kind, node->object, node->number),
            .st_mode = node->row->is ? S_IFDIR : S_IFREG,
        };
        return fuse_add_direntry(rq->req, to, room, entry->name, &attr, (off_t)entry->cookie);
    }
    rq->found = *node;
    if (op_entry(rq) < 0)
        return 0;
    if (entry->cookie <= 2) /* . and .. are not looked up: only their number is set */
        rq->entry = (struct fuse_entry_param){.attr = rq->entry.attr};
    return fuse_add_direntry_plus(rq->req, to, room, entry->name, &rq->entry, (off_t)entry->cookie);
}

static int readdir_done(struct request *rq)
{
    uint64_t cookie = (uint64_t)rq->off;
    struct node_entry entry;

    if (rq->gone)
        return -ENOENT;
    free(rq->text);
    rq->slice_len = 0;
    rq->text = malloc(rq->size);
    if (!rq->text)
        return -ENOMEM;
    while (node_next(&rq->fs->tree, &rq->node, cookie, &entry)) {
        size_t room = rq->size - rq->slice_len, n = readdir_add(rq, &entry, room);
        if (n > room)
            break;
        rq->slice_len += n;
        cookie = entry.cookie;
    }
    rq->slice = rq->text;
    return CALL_DONE;
}

static void readdir_begin(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, bool plus)
{
    static const struct op op = {.gone_ok = true,
                                 .locks_directory = true,
                                 .run = readdir_run,
                                 .done = readdir_done,
                                 .reply = slice_reply};
    struct request *rq = op_begin(&op, req, ino);

    if (!rq)
        return;
    rq->size = size;
    rq->off = off;
    rq->plus = plus;
    request_dispatch(rq);
}

void list_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    (void)fi;
    readdir_begin(req, ino, size, off, false);
}

void list_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                      struct fuse_file_info *fi)
{
    (void)fi;
    readdir_begin(req, ino, size, off, true);
}
