/*
 * The floor of the benchmark: the minimal file system with low-level libfuse that answers a read
 * with a counter's value. It has one file `count` (one perf read(2), one number) and the given
 * number of empty directories. A new directory has a file `config` that accepts any text.
 *
 * floor [-t threads] [-n names] [-p pid] MOUNTPOINT     stays in the foreground until unmounted
 */
#include <errno.h>
#include <fuse_lowlevel.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TIMEOUT_S   86400.0
#define THREADS_MAX 64
#define ENTRY_BYTES 32 /* size of a directory entry with a name of 5 to 8 letters */

enum node {
    NODE_ROOT = FUSE_ROOT_ID,
    NODE_COUNT,
    NODE_NAMES
};

/* First inode of the directories that were created; the inode after each is its config. */
#define NODE_MADE ((fuse_ino_t)1 << 32)

static int perf_fd = -1;
static unsigned n_names;
static char *listing;
static atomic_uint_fast64_t made;

static bool node_attr(fuse_ino_t ino, struct stat *st)
{
    memset(st, 0, sizeof(*st));
    st->st_ino = ino;
    st->st_nlink = 1;
    st->st_mode =
        ino == NODE_COUNT || (ino > NODE_MADE && ino % 2) ? S_IFREG | 0644 : S_IFDIR | 0755;
    return ino >= NODE_MADE || (ino >= NODE_ROOT && ino < (fuse_ino_t)NODE_NAMES + n_names);
}

static fuse_ino_t node_named(const char *name)
{
    unsigned n;
    char extra;

    if (strcmp(name, "count") == 0)
        return NODE_COUNT;
    if (sscanf(name, "p%u%c", &n, &extra) == 1 && n < n_names)
        return (fuse_ino_t)NODE_NAMES + n;
    return 0;
}

static void floor_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct fuse_entry_param entry = {.attr_timeout = TIMEOUT_S, .entry_timeout = TIMEOUT_S};

    if (parent == NODE_ROOT)
        entry.ino = node_named(name);
    else if (parent >= NODE_MADE && strcmp(name, "config") == 0)
        entry.ino = parent + 1;
    if (entry.ino == 0 || !node_attr(entry.ino, &entry.attr))
        fuse_reply_err(req, ENOENT);
    else
        fuse_reply_entry(req, &entry);
}

static void floor_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct stat st;

    (void)fi;
    if (node_attr(ino, &st))
        fuse_reply_attr(req, &st, TIMEOUT_S);
    else
        fuse_reply_err(req, ENOENT);
}

/* Builds the listing of the root once, so that a readdir is only a copy. */
static bool list_names(void)
{
    listing = malloc(((size_t)n_names + 1) * ENTRY_BYTES);
    for (unsigned i = 0; listing && i <= n_names; i++) {
        char name[32] = "count";
        struct stat st;

        if (i > 0)
            snprintf(name, sizeof(name), "p%05u", i - 1);
        node_attr(NODE_COUNT + i, &st);
        fuse_add_direntry(NULL, listing + (size_t)i * ENTRY_BYTES, ENTRY_BYTES, name, &st, i + 1);
    }
    return listing != NULL;
}

static void floor_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                          struct fuse_file_info *fi)
{
    size_t left = ino == NODE_ROOT ? ((size_t)n_names + 1 - (size_t)off) * ENTRY_BYTES : 0;

    (void)fi;
    size -= size % ENTRY_BYTES;
    fuse_reply_buf(req, listing + (size_t)off * ENTRY_BYTES, left < size ? left : size);
}

static void floor_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    fi->direct_io = 1;
    fi->noflush = 1;
    fuse_reply_open(req, fi);
}

static void floor_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    (void)fi;
    fuse_reply_err(req, 0);
}

static void floor_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                       struct fuse_file_info *fi)
{
    uint64_t value[3] = {0}; /* value, time enabled, time running */
    char text[32];
    int len;

    (void)fi;
    if (ino == NODE_COUNT && read(perf_fd, value, sizeof(value)) < 0) {
        fuse_reply_err(req, EIO);
        return;
    }
    len = snprintf(text, sizeof(text), "%" PRIu64 "\n", value[0]);
    if (off >= len)
        fuse_reply_buf(req, NULL, 0);
    else
        fuse_reply_buf(req, text + off, (size_t)(len - off) < size ? (size_t)(len - off) : size);
}

static void floor_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    struct fuse_entry_param entry = {.attr_timeout = TIMEOUT_S, .entry_timeout = TIMEOUT_S};

    (void)parent;
    (void)name;
    (void)mode;
    entry.ino = NODE_MADE + 2 * made++;
    node_attr(entry.ino, &entry.attr);
    fuse_reply_entry(req, &entry);
}

static void floor_write(fuse_req_t req, fuse_ino_t ino, const char *text, size_t size, off_t off,
                        struct fuse_file_info *fi)
{
    (void)ino;
    (void)text;
    (void)off;
    (void)fi;
    fuse_reply_write(req, size);
}

static void floor_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    (void)parent;
    (void)name;
    fuse_reply_err(req, 0);
}

static int perf_open(pid_t pid)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof(attr),
        .config = PERF_COUNT_SW_PAGE_FAULTS,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        .inherit = 1,
    };

    return (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void *serve(void *arg)
{
    struct fuse_session *session = arg;
    struct fuse_buf buf = {.mem = NULL};

    while (!fuse_session_exited(session)) {
        int n = fuse_session_receive_buf(session, &buf);

        if (n == -EINTR)
            continue;
        if (n <= 0)
            break;
        fuse_session_process_buf(session, &buf);
    }
    free(buf.mem);
    return NULL;
}

static int serve_all(struct fuse_session *session, unsigned n)
{
    pthread_t thread[THREADS_MAX];
    unsigned started = 0;

    while (started < n && pthread_create(&thread[started], NULL, serve, session) == 0)
        started++;
    for (unsigned i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    return started == n ? 0 : 1;
}

static const struct fuse_lowlevel_ops ops = {
    .lookup = floor_lookup,
    .getattr = floor_getattr,
    .readdir = floor_readdir,
    .open = floor_open,
    .release = floor_release,
    .read = floor_read,
    .mkdir = floor_mkdir,
    .write = floor_write,
    .rmdir = floor_rmdir,
};

int main(int argc, char **argv)
{
    char *fuse_argv[] = {"floor", "-oallow_other,default_permissions,fsname=floor", NULL};
    struct fuse_args args = FUSE_ARGS_INIT(2, fuse_argv);
    struct fuse_session *session;
    unsigned threads = 4;
    pid_t pid = 0;
    int opt, rc;

    while ((opt = getopt(argc, argv, "t:n:p:")) != -1) {
        switch (opt) {
        case 't':
            threads = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'n':
            n_names = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'p':
            pid = (pid_t)strtol(optarg, NULL, 10);
            break;
        default:
            return 2;
        }
    }
    if (optind + 1 != argc || threads == 0 || threads > THREADS_MAX) {
        fprintf(stderr, "usage: floor [-t threads] [-n names] [-p pid] MOUNTPOINT\n");
        return 2;
    }
    perf_fd = perf_open(pid);
    if (perf_fd < 0) {
        perror("floor: perf_event_open");
        return 1;
    }
    if (!list_names())
        return 1;
    session = fuse_session_new(&args, &ops, sizeof(ops), NULL);
    if (session == NULL || fuse_session_mount(session, argv[optind]) != 0)
        return 1;
    rc = serve_all(session, threads);
    fuse_session_unmount(session);
    fuse_session_destroy(session);
    return rc;
}
