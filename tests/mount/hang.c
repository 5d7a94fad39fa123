/*
 * A file system that hangs. MOUNTPOINT/program can be opened and mapped, but reads never return.
 * MOUNTPOINT/kept can be opened, but its close never returns, so an exec that closes it never
 * finishes. After a lookup of MOUNTPOINT/silent no request is answered. Prints "asked" when a
 * request is left without an answer.
 *
 *   hang MOUNTPOINT
 */
#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PROGRAM = 2, /* inode numbers; 1 is the root */
    KEPT
};

static bool silent;

static void no_answer(void)
{
    if (write(1, "asked\n", 6) < 0)
        _exit(1);
}

static struct stat attr_of(fuse_ino_t ino)
{
    struct stat attr = {.st_ino = ino, .st_nlink = 1, .st_mode = S_IFDIR | 0755};

    if (ino != FUSE_ROOT_ID) {
        attr.st_mode = S_IFREG | 0755;
        attr.st_size = 1 << 20;
    }
    return attr;
}

static void hang_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct stat attr = attr_of(ino);

    (void)fi;
    if (silent)
        no_answer();
    else
        fuse_reply_attr(req, &attr, 0);
}

static void hang_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    const fuse_ino_t ino = strcmp(name, "kept") == 0 ? KEPT : PROGRAM;
    struct fuse_entry_param entry = {.ino = ino, .attr = attr_of(ino)};

    (void)parent;
    if (silent)
        no_answer();
    else
        fuse_reply_entry(req, &entry);
    silent = silent || strcmp(name, "silent") == 0;
}

static void hang_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                      struct fuse_file_info *fi)
{
    (void)req, (void)ino, (void)size, (void)off, (void)fi;
    no_answer();
}

static void hang_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)fi;
    if (ino == KEPT)
        no_answer();
    else
        fuse_reply_err(req, 0);
}

int main(int argc, char **argv)
{
    static const struct fuse_lowlevel_ops ops = {
        .getattr = hang_getattr, .lookup = hang_lookup, .read = hang_read, .flush = hang_flush};
    char *words[] = {argv[0], (char[]){"-oallow_other"}, NULL};
    struct fuse_args args = FUSE_ARGS_INIT(2, words);
    struct fuse_session *session;

    if (argc != 2)
        return 2;
    session = fuse_session_new(&args, &ops, sizeof(ops), NULL);
    if (!session || fuse_session_mount(session, argv[1]) != 0)
        return 1;
    fuse_session_loop(session);
    fuse_session_unmount(session);
    return 0;
}
