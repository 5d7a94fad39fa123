/*
 * Reads and writes. Each write is one command. A read at the start makes a new text, and reads at
 * higher offsets return the rest of that text. A read of a stream returns what is available.
 */
#include "fs/requests/caller.h"
#include "fs/requests/request.h"

#include "core/pmc/pmc.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/* Bytes of a stream that can be read again: the buffer of shells and head(1). */
#define BACK_MAX 8192
/* A longer command must end in a newline; otherwise an output buffer cut it. */
#define CUT_BEYOND 1024

/* ---- read ---- */

/* Copies n bytes to the reply, because a handle's text may change after the lock is dropped. */
static void slice_copy(struct request *rq, const char *from, size_t n)
{
    buf_clear(&rq->out);
    buf_add(&rq->out, from, n);
    rq->slice = rq->out.data ? rq->out.data : "";
    rq->slice_len = rq->out.failed ? 0 : n;
}

/* Charges the texts that the open file keeps plus `more`. Returns 0 or P11. */
static int text_charge(struct request *rq, size_t more)
{
    const struct text_position *position = &rq->handle->position;

    return open_file_charge_texts(&rq->call, position->text.len + position->last.len + more);
}

static void text_forget(struct request *rq)
{
    struct text_position *position = &rq->handle->position;

    if (!position->text.block)
        return;
    text_drop(&rq->fs->unpublished, &position->text);
    text_charge(rq, 0);
}

/* Replies with the rest of a kept text. Returns false if the read does not continue one. */
static bool text_continue(struct request *rq)
{
    const struct text_position *position = &rq->handle->position;
    const bool snapshot = (rq->node.row->flags & FILE_SNAPSHOT) != 0;

    if (!position->has_text || position->written || (rq->off <= position->base && !snapshot))
        return false;
    size_t at = (size_t)(rq->off - position->base);
    if (at < position->len && !position->text.block)
        return false;
    size_t n = at < position->len ? MIN(rq->size, position->len - at) : 0;
    slice_copy(rq, n > 0 ? text_of(&position->text) + at : "", n);
    if (at + n >= position->len && !snapshot)
        text_forget(rq);
    return true;
}

/*
 * Replies with a part of the new text. Keeps the text unless the reply contains all of it; a
 * FILE_SNAPSHOT is always kept. Returns 0, E32, or P11 if the rest of the text would exceed the
 * user's quota.
 */
static int text_done(struct request *rq)
{
    struct text_position *position = &rq->handle->position;
    const off_t base = position->written ? rq->off : 0;
    const size_t len = rq->out.len, at = MIN((size_t)(rq->off - base), len);
    const size_t n = MIN(rq->size, len - at);
    const bool all = at + n == len, keep = !all || (rq->node.row->flags & FILE_SNAPSHOT);
    int rc = 0;

    if (rq->out.failed)
        return err_nomem(&rq->call.err);
    if (text_continue(rq)) /* another reader of this open file has made the text */
        return CALL_DONE;
    text_forget(rq);
    if (keep)
        rc = text_charge(rq, len);
    if (keep && !rc)
        text_set(&rq->fs->unpublished, &position->text, rq->out.data, len);
    position->has_text = all || position->text.block;
    position->written = false;
    position->base = base;
    position->len = len;
    if (keep && !position->text.block)
        text_charge(rq, 0);
    rq->slice = len > 0 ? rq->out.data + at : "";
    rq->slice_len = n;
    return all ? CALL_DONE : rc;
}

/*
 * Reads a stream at its present position, or again within the last reply, because shells, head(1)
 * and less(1) read more than they need and seek back. Other offsets get ESPIPE.
 */
static int stream_run(struct request *rq)
{
    struct text_position *position = &rq->handle->position;
    const struct file_row *row = rq->node.row;

    if (rq->off != position->base) {
        const off_t begin = position->base - (off_t)position->last.len;

        if (rq->off < begin || rq->off > position->base)
            return -ESPIPE;
        slice_copy(rq, text_of(&position->last) + (rq->off - begin),
                   MIN(rq->size, (size_t)(position->base - rq->off)));
        return CALL_DONE;
    }
    if (position->text.block) { /* the rest of the last reply */
        const size_t n = MIN(rq->size, position->len - position->bytes_read);

        slice_copy(rq, text_of(&position->text) + position->bytes_read, n);
        position->bytes_read += n;
        if (position->bytes_read == position->len)
            text_forget(rq);
        return CALL_DONE;
    }
    if (!rq->call.pmc && !(row->flags & FILE_AFTER_RELEASE)) /* released: end of the stream */
        return CALL_DONE;
    return row->stream(&rq->call);
}

/*
 * Makes the reply from the new text of a stream, which consists of complete lines. If the first
 * line is longer than the reply, the rest is kept for the next read. The reply is kept for seeking
 * back, if the quota allows it.
 */
static int stream_done(struct request *rq)
{
    struct text_position *position = &rq->handle->position;
    struct unpublished *unpublished = &rq->fs->unpublished;
    int rc;

    if (rq->out.failed)
        return err_nomem(&rq->call.err);
    if (!rq->slice) {
        const size_t n = MIN(rq->size, rq->out.len), rest = rq->out.len - n;

        rq->slice = n > 0 ? rq->out.data : "";
        rq->slice_len = n;
        if (rest) {
            text_drop(unpublished, &position->last); /* replaced below */
            rc = text_charge(rq, rest);
            if (rc)
                return rc;
            position->len = rest;
            position->bytes_read = 0;
            if (!text_set(unpublished, &position->text, rq->out.data + n, rest))
                return err_nomem(&rq->call.err);
        }
    }
    if (rq->off != position->base || rq->slice_len == 0)
        return CALL_DONE;
    text_drop(unpublished, &position->last);
    if (rq->slice_len <= BACK_MAX && text_charge(rq, rq->slice_len) == 0)
        text_set(unpublished, &position->last, rq->slice, rq->slice_len);
    else
        text_charge(rq, 0);
    rq->call.err.id = ERR_NONE;
    position->base = rq->off + (off_t)rq->slice_len;
    return CALL_DONE;
}

/*
 * Finds kept data for a read (rq->slice), or makes new text. After a short reply io_uring repeats
 * the read for the rest of its buffer at the same offset, because its direct reads do not move the
 * position (Linux 6.18). Such a read gets end of file; otherwise the text would fill the buffer
 * again and again.
 */
static int read_run(struct request *rq)
{
    const struct file_row *row = rq->node.row;

    if (rq->gone && !row->stream)
        return request_refuse_gone(rq);
    rq->slice = NULL;
    rq->slice_len = 0;
    int rc = request_make_handle(rq);
    if (rc)
        return rc;
    struct text_position *position = &rq->handle->position;
    if (position->short_by > 0 && rq->size == position->short_by && rq->off == position->short_at) {
        slice_copy(rq, "", 0);
        return CALL_DONE;
    }
    position->short_by = 0; /* from here on a poll by io_uring reports the real state */
    if (row->stream)
        return stream_run(rq);
    return text_continue(rq) ? CALL_DONE : row->show(&rq->call);
}

static int read_done(struct request *rq)
{
    struct text_position *position = &rq->handle->position;
    int rc = CALL_DONE;

    if (rq->node.row->stream)
        rc = stream_done(rq);
    else if (!rq->slice)
        rc = text_done(rq);
    if (rc)
        return rc;
    position->short_at = position->by_uring ? rq->off : 0;
    position->short_by = position->by_uring && rq->slice_len > 0 ? rq->size - rq->slice_len : 0;
    position->by_uring = false;
    return CALL_DONE;
}

/*
 * Direct reads have a lock owner; reads that fill the page cache (sendfile(2), splice(2), mmap(2))
 * have none, and get EINVAL, after which users of sendfile(2) read instead. The cache cannot hold a
 * text whose length differs from the shown size: a shorter reply would change the size for later
 * readers, or be filled with NULs.
 */
void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    static const struct op op = {.counted = true,
                                 .is_quiet = true,
                                 .runs_if_gone = true,
                                 .run = read_run,
                                 .done = read_done,
                                 .reply = REPLY_BYTES};

    if (!fi->lock_owner) {
        fuse_reply_err(req, EINVAL);
        return;
    }
    struct request *rq = op_begin(&op, req, ino);
    if (!rq)
        return;
    rq->fh = fi->fh;
    rq->off = off;
    rq->size = size;
    rq->call.nonblock = (fi->flags & O_NONBLOCK) != 0;
    rq->call.room = size;
    request_dispatch(rq, 0);
}

/* ---- attributes of an open file, for lseek(2) with SEEK_END ---- */

/*
 * Makes a text that may be longer than a page to find its end; later reads at higher offsets
 * continue the same text. Does not make it for an opener without the right to read (open for
 * writing only).
 */
static int file_attr_run(struct request *rq)
{
    const struct file_row *row = rq->node.row;
    const struct call *call = &rq->call;
    struct stat *attr = &rq->entry.attr;
    bool makes_text = false;
    int rc = CALL_DONE;

    if (row->stream)
        return -ESPIPE; /* a stream has no end; tail(1) then reads from the start */
    if (row->bound && (!call->rights || !call->pmc ||
                       access_read(call->pmc, call->pmc->instance, call->rights))) {
        rc = request_make_handle(rq);
        if (rc < 0)
            return rc;
        makes_text = !rq->handle->position.has_text || rq->handle->position.written;
    }
    if (makes_text)
        rc = row->show(&rq->call);
    if (rc == CALL_DONE)
        rc = node_attr(&rq->fs->tree, &rq->node, attr);
    if (rc == CALL_DONE && makes_text)
        rc = text_done(rq);
    if (rc)
        return rc;
    if (row->bound && rq->handle && rq->handle->position.has_text)
        attr->st_size = rq->handle->position.base + (off_t)rq->handle->position.len;
    if (attr->st_size == 0)
        attr->st_size = 1; /* sendfile(2) would silently return nothing for size 0 */
    return CALL_DONE;
}

const struct op file_attr_op = {.run = file_attr_run, .reply = REPLY_ATTR};

/* ---- write ---- */

static bool is_tunable(const struct request *rq, enum tunable which)
{
    return rq->node.kind == NODE_TUNABLE && rq->node.object == (uint64_t)which;
}

/* Checks the rules of all commands. Sets call->text to the command without its newline. */
static int command_check(struct request *rq)
{
    struct call *call = &rq->call;
    const char *text = rq->text;
    size_t len = rq->size;

    if (call->open && call->open->cut)
        return err_set(&call->err, P36,
                       "ignored, because an earlier write to this open file was split by stdio "
                       "buffering: reopen the file and write the command with one write(2)");
    if (len > WRITE_MAX)
        return err_set(&call->err, P04,
                       "a command has at most %u bytes, and this one has more: split it",
                       WRITE_MAX);
    if (len > CUT_BEYOND && text[len - 1] != '\n') {
        if (call->open)
            call->open->cut = true;
        return err_set(&call->err, P03,
                       "%zu bytes without a newline at the end were split by stdio buffering, so "
                       "nothing is applied: write the command with one write(2)",
                       len);
    }
    if (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\0'))
        len--;
    /* blank lines after other lines of a list are accepted */
    if (len == 0 &&
        !(call->open && call->open->has_commands && rq->node.row->store == store_command))
        return err_set(&call->err, P05, "the command is empty: write a command");
    if (memchr(text, '\0', len))
        return err_set(&call->err, P05, "the command contains a NUL byte: write text");
    rq->text[len] = '\0';
    call->text = rq->text;
    call->len = len;
    return CALL_DONE;
}

/* Checks and executes the command. Refuses an unknown group for `readers`; users who may not write
 * the tunable at all are refused by the store function. */
static int write_run(struct request *rq)
{
    struct call *call = &rq->call;
    const int rc = call->text ? CALL_DONE : command_check(rq);

    if (rc < 0)
        return rc;
#ifdef PMCFS_DEBUG
    while (strcmp(call->text, "debug-crash") == 0)
        *(volatile char *)alloca(1024) = 0; /* until the stack overflows */
#endif
    if (rq->write.group_error && call->rights && call->rights->superuser) {
        if (rq->write.group_error == -ENOMEM)
            return err_nomem(&call->err);
        return err_set(
            &call->err, P27,
            "readers cannot be \"%s\": no such group. Write the name or number of a group, or -",
            text_shown(call->text));
    }
    return rq->node.row->store(call);
}

static int write_done(struct request *rq)
{
    if (rq->handle)
        rq->handle->position.written = true;
    if (is_tunable(rq, TUNABLE_READERS)) {
        fs_set_readers(rq->fs, rq->write.group);
        rq->fs->attributes_stale = true;
    }
    rq->stale = (struct node){.kind = NODE_INSTANCE, .object = 0};
    rq->invalidates = is_tunable(rq, TUNABLE_ROOTMODE);
    return CALL_DONE;
}

/* The offset is ignored: each write is one complete command. */
void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off,
              struct fuse_file_info *fi)
{
    static const struct op op = {.counted = true,
                                 .is_command = true,
                                 .has_text = true,
                                 .run = write_run,
                                 .done = write_done,
                                 .reply = REPLY_WRITE};
    struct request *rq = op_begin(&op, req, ino);

    (void)data, (void)off;
    if (!rq)
        return;
    rq->fh = fi->fh;
    rq->size = size;
    rq->text = request_copy_command(rq);
    rq->call.nonblock = (fi->flags & O_NONBLOCK) != 0;
    rq->call.append = (fi->flags & O_APPEND) != 0;
    if (rq->text && is_tunable(rq, TUNABLE_READERS)) {
        /* Find the group before the lock is taken, because that may be slow. */
        struct scan scan = scan_of((struct word){rq->text, strnlen(rq->text, size)});
        struct word word;

        rq->write.group = (gid_t)-1;
        if (scan_word(&scan, &word) && !word_is(word, "-")) {
            char *name = word_dup(word);
            rq->write.group_error = name ? group_find(name, &rq->write.group) : -ENOMEM;
            free(name);
        }
    }
    request_dispatch(rq, 0);
}
