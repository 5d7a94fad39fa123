/*
 * The helper: receives a request, opens what it is about with the daemon's rights but reads nothing
 * of it, gives up all rights, then reads and answers. It may be killed at any moment: whoever waits
 * knows from what has been answered which file was the last.
 */
#include "backends/backends.h"
#include "backends/linux/symbol.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define REQUEST_MAX (1u << 20) /* modules, or queries */

struct helper {
    struct symbol_request request;
    struct symbol_module *modules;
    struct symbol_query *queries;
    char **names;
    int *fds;
    char out[1 << 16];
    size_t out_len;
};

/* ---- points: what both parsers fill ---- */

size_t symbol_points_from(const struct symbol_point *points, size_t n, uint64_t at)
{
    size_t low = 0;

    while (low < n) {
        size_t middle = low + (n - low) / 2;

        if (points[middle].at < at)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

void symbol_point_name(struct symbol_point *point, const char *name, size_t len)
{
    free(point->name);
    point->name = strndup(name, len < SYMBOL_NAME_MAX ? len : SYMBOL_NAME_MAX);
}

/* ---- the socket ---- */

static bool receive(void *data, size_t len)
{
    while (len > 0) {
        ssize_t n = read(SYMBOL_SOCKET, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data = (char *)data + n;
        len -= (size_t)n;
    }
    return true;
}

/* One byte and up to SYMBOL_BATCH descriptors. */
static bool receive_batch(int *fds, unsigned n)
{
    union {
        char room[CMSG_SPACE(SYMBOL_BATCH * sizeof(int))];
        struct cmsghdr align;
    } control;
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof control.room};
    const struct cmsghdr *head;
    ssize_t got;

    do
        got = recvmsg(SYMBOL_SOCKET, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    head = CMSG_FIRSTHDR(&message);
    if (got != 1 || !head || head->cmsg_type != SCM_RIGHTS ||
        head->cmsg_len != CMSG_LEN(n * sizeof(int)))
        return false;
    memcpy(fds, CMSG_DATA(head), n * sizeof(int));
    return true;
}

static bool request_receive(struct helper *helper)
{
    struct symbol_request *request = &helper->request;

    if (!receive(request, sizeof *request) || request->n_modules > REQUEST_MAX ||
        request->n_queries > REQUEST_MAX)
        return false;
    helper->modules = calloc(request->n_modules + 1, sizeof *helper->modules);
    helper->queries = calloc(request->n_queries + 1, sizeof *helper->queries);
    helper->names = calloc(request->n_queries + 1, sizeof *helper->names);
    helper->fds = calloc(request->n_modules + 1, sizeof *helper->fds);
    if (!helper->modules || !helper->queries || !helper->names || !helper->fds ||
        !receive(helper->modules, request->n_modules * sizeof *helper->modules) ||
        !receive(helper->queries, request->n_queries * sizeof *helper->queries))
        return false;
    for (unsigned i = 0; i < request->n_modules; i += SYMBOL_BATCH) {
        unsigned n = request->n_modules - i;

        if (!receive_batch(helper->fds + i, n < SYMBOL_BATCH ? n : SYMBOL_BATCH))
            return false;
    }
    return true;
}

static void answer_flush(struct helper *helper)
{
    for (size_t at = 0; at < helper->out_len;) {
        ssize_t n = write(SYMBOL_SOCKET, helper->out + at, helper->out_len - at);

        if (n < 0 && errno != EINTR)
            _exit(1);
        at += n > 0 ? (size_t)n : 0;
    }
    helper->out_len = 0;
}

static void answer(struct helper *helper, const void *data, size_t len)
{
    if (helper->out_len + len > sizeof helper->out)
        answer_flush(helper);
    memcpy(helper->out + helper->out_len, data, len);
    helper->out_len += len;
}

/* ---- opening, with rights: everything here may wait for ever, nothing here reads ---- */

/* Others than the kernel answer for these: they may not, or not in time. */
static bool filesystem_is_remote(int fd)
{
    static const uint32_t remote[] = {0x65735546 /* FUSE */,
                                      0x6969 /* NFS */,
                                      0x517B /* SMB */,
                                      0xFF534D42 /* CIFS */,
                                      0xFE534D42 /* SMB2 */,
                                      0x01021997 /* 9P */,
                                      0x5346414F /* AFS */,
                                      0x6B414653 /* AFS */,
                                      0x00C36400 /* Ceph */,
                                      0x73757245 /* Coda */,
                                      0x0187 /* automount */};
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0)
        return true;
    for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
        if ((uint32_t)fs.f_type == remote[i])
            return true;
    return false;
}

/* perf-PID.map in the /tmp of that root, and not by any link; O_PATH. */
static int jit_find(int root, uint32_t pid)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
                           .resolve =
                               RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    char path[48];

    snprintf(path, sizeof path, "tmp/perf-%u.map", pid);
    return (int)syscall(SYS_openat2, root, path, &how, sizeof how);
}

/* A descriptor to read from, or -1. Takes an O_PATH one. */
static int file_open(int path_fd, const struct symbol_module *module)
{
    bool jit = module->kind == SYMBOL_JIT;
    char path[48];
    struct stat st;
    int fd = -1;

    if (!filesystem_is_remote(path_fd) && fstat(path_fd, &st) == 0 && S_ISREG(st.st_mode) &&
        (uint64_t)st.st_size <= (jit ? SYMBOL_JIT_BYTES : SYMBOL_FILE_BYTES) &&
        (!jit || st.st_uid == module->uid)) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", path_fd);
        fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    }
    close(path_fd);
    return fd;
}

static void modules_open(struct helper *helper)
{
    for (unsigned i = 0; i < helper->request.n_modules; i++) {
        const struct symbol_module *module = &helper->modules[i];
        int fd = helper->fds[i];
        char opened;

        if (module->kind == SYMBOL_JIT) {
            fd = jit_find(helper->fds[i], module->pid);
            close(helper->fds[i]);
        }
        helper->fds[i] = fd >= 0 ? file_open(fd, module) : -1;
        opened = helper->fds[i] >= 0;
        answer(helper, &opened, 1);
        answer_flush(helper);
    }
}

/* ---- reading, without rights ---- */

static int point_compare(const void *a, const void *b)
{
    const struct symbol_point *p = a, *q = b;

    return p->at < q->at ? -1 : p->at > q->at;
}

/* Asks one module for those of the queries [first, first + n) that have no name yet. */
static void module_ask(struct helper *helper, uint32_t module, size_t first, size_t n)
{
    bool jit = module < helper->request.n_modules && helper->modules[module].kind == SYMBOL_JIT;
    struct symbol_point *points;
    size_t n_points = 0;

    if (module >= helper->request.n_modules || helper->fds[module] < 0 ||
        !(points = calloc(n, sizeof *points)))
        return;
    for (size_t i = first; i < first + n; i++) {
        const struct symbol_query *query = &helper->queries[i];

        if (helper->names[i] || (query->module != module && query->other != module))
            continue;
        points[n_points].query = (uint32_t)i;
        points[n_points++].at = jit ? query->address : query->offset;
    }
    qsort(points, n_points, sizeof *points, point_compare);
    if (jit)
        symbol_jit(helper->fds[module], points, n_points);
    else
        symbol_elf(helper->fds[module], points, n_points);
    for (size_t i = 0; i < n_points; i++)
        helper->names[points[i].query] = points[i].name;
    free(points);
}

/* The queries that have the module in common; what it does not know may be asked of another. */
static void group_answer(struct helper *helper, size_t first, size_t n)
{
    uint32_t asked = SYMBOL_NONE;

    module_ask(helper, helper->queries[first].module, first, n);
    for (size_t i = first; i < first + n; i++) {
        const char *name;
        uint16_t len;

        if (!helper->names[i] && helper->queries[i].other != asked) {
            asked = helper->queries[i].other;
            module_ask(helper, asked, i, first + n - i);
        }
        name = helper->names[i];
        len = name ? (uint16_t)strlen(name) : 0;
        answer(helper, &len, sizeof len);
        if (len > 0)
            answer(helper, name, len);
        free(helper->names[i]);
    }
    answer_flush(helper);
}

static void queries_answer(struct helper *helper)
{
    size_t n = helper->request.n_queries;

    for (size_t first = 0, next; first < n; first = next) {
        next = first + 1;
        while (next < n && helper->queries[next].module == helper->queries[first].module)
            next++;
        group_answer(helper, first, next - first);
    }
}

void symbol_helper(int argc, char **argv)
{
    static struct helper helper;

    if (argc != 2 || strcmp(argv[1], SYMBOL_WORD) != 0)
        return;
    if (!request_receive(&helper))
        _exit(1);
    modules_open(&helper);
    if (!symbol_confine())
        _exit(2);
    answer(&helper, "", 1);
    answer_flush(&helper);
    queries_answer(&helper);
    _exit(0);
}
