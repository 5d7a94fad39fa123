#include "backends/proc.h"
#include "backends/helper.h"
#include "core/base/err.h"
#include "core/base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TASK_EXITING   4    /* PF_EXITING */
#define TASK_IO_WORKER 0x10 /* PF_IO_WORKER */

/* Files of /proc have no size, so reads until end of file. */
char *proc_text_at(int dir, const char *path)
{
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC), failed = 0;
    VEC(char) text = {.n = 0};
    ssize_t n = 1;
    if (fd < 0)
        return NULL;
    while (n > 0 && !failed) {
        failed = vec_room(&text, 4096) ? ENOMEM : 0;
        n = failed ? 0 : read(fd, text.items + text.n, text.cap - text.n - 1);
        text.n += n > 0 ? (size_t)n : 0;
        failed = n < 0 ? errno : failed;
    }
    close(fd);
    if (failed) {
        free(text.items);
        errno = failed;
        return NULL;
    }
    text.items[text.n] = '\0';
    return text.items;
}

char *proc_text(const char *path)
{
    return proc_text_at(AT_FDCWD, path);
}

char *proc_task_text(pid_t tid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", tid, name);
    return proc_text(path);
}

char *proc_fd_text(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    return proc_text(path);
}

uint64_t proc_number(const char *path, uint64_t otherwise)
{
    char *text = proc_text(path);
    const uint64_t number = text ? strtoull(text, NULL, 10) : otherwise;

    free(text);
    return number;
}

const char *proc_field(const char *text, const char *key)
{
    size_t len = strlen(key);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) != 0)
            continue;
        const char *p = line + len + strspn(line + len, " \t");
        if (*p == ':')
            return p + 1 + strspn(p + 1, " \t");
    }
    return NULL;
}

bool proc_status_dead(const char *status)
{
    const char *state = proc_field(status, "State");
    return !state || *state == 'Z' || *state == 'X';
}

/* Uses the list of threads, in which the first thread comes first: reading status takes 20 ms if
 * the process has 65,536 groups. */
pid_t proc_tgid(pid_t tid)
{
    _Alignas(struct dirent64) char entries[2 * sizeof(struct dirent64)];
    char path[64];
    long tgid = 0;
    ssize_t len = 0;
    snprintf(path, sizeof path, "/proc/%d/task", tid);
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    while (tgid == 0 && (len = getdents64(fd, entries, sizeof entries)) > 0)
        for (ssize_t at = 0; tgid == 0 && at < len;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            tgid = strtol(entry->d_name, NULL, 10);
            at += entry->d_reclen;
        }
    close(fd);
    if (tgid == 0)
        errno = ESRCH;
    return (pid_t)tgid;
}

/* Parses a text of stat. The second field (the name) may contain blanks and brackets, so parsing
 * starts at the last bracket. Returns 0, or -ESRCH if the text is not complete. */
static int stat_scan(const char *text, struct proc_stat *out)
{
    unsigned flags = 0;
    const char *p = strrchr(text, ')');
    int n = p ? sscanf(p,
                       ") %c %*s %*s %*s %*s %*s %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                       "%*s %" SCNu64,
                       &out->state, &flags, &out->start)
              : 0;

    out->exiting = n == 3 && (flags & TASK_EXITING);
    out->io_worker = n == 3 && (flags & TASK_IO_WORKER);
    return n == 3 ? 0 : -ESRCH;
}

int proc_stat_at(int dir, const char *path, struct proc_stat *out)
{
    char text[1024];
    int fd = -1;
    const ssize_t len = helper_read(dir, path, &fd, text, sizeof text - 1, UINT64_MAX);

    fd_close(fd);
    if (len < 0)
        return (int)len;
    text[len] = '\0';
    return stat_scan(text, out);
}

bool proc_is_gone(int rc)
{
    return rc == -ENOENT || rc == -ESRCH;
}

bool is_temporary(int rc)
{
    return is_shortage(rc) || rc == -ETIME;
}

bool proc_stat_dead(const struct proc_stat *stat)
{
    return stat->state == 'Z' || stat->state == 'X';
}

int proc_stat(pid_t pid, pid_t tid, struct proc_stat *out)
{
    char path[64];

    if (tid)
        snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, tid);
    else
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
    return proc_stat_at(AT_FDCWD, path, out);
}

int proc_stat_directly(pid_t pid, struct proc_stat *out)
{
    char *text = proc_task_text(pid, "stat");
    int rc = text ? stat_scan(text, out) : -errno;
    free(text);
    return rc;
}

int proc_list_numbers(int dirfd, const char *path, pid_t **out, size_t *n)
{
    _Alignas(struct dirent64) char entries[16384];
    const int fd = path ? openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : dirfd;
    int rc = (path ? fd < 0 : lseek(fd, 0, SEEK_SET) < 0) ? -errno : 0;
    VEC(pid_t) numbers = {.n = 0};
    ssize_t len;
    *out = NULL;
    *n = 0;
    while (rc == 0 && (len = getdents64(fd, entries, sizeof entries)) != 0) {
        if (len < 0)
            rc = -errno;
        for (ssize_t at = 0; rc == 0 && at < len;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            char *end;
            long number = strtol(entry->d_name, &end, 10);
            if (number > 0 && *end == '\0')
                rc = vec_push(&numbers, (pid_t)number);
            at += entry->d_reclen;
        }
    }
    if (path)
        fd_close(fd);
    if (rc < 0) {
        free(numbers.items);
        return rc;
    }
    *out = numbers.items;
    *n = numbers.n;
    return 0;
}

int proc_threads(pid_t pid, pid_t **tids, size_t *n)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/task", pid);
    return proc_list_numbers(AT_FDCWD, path, tids, n);
}

int proc_alive(pid_t pid)
{
    struct proc_stat stat;
    pid_t *tids;
    size_t n;
    int rc = proc_threads(pid, &tids, &n), alive = is_shortage(rc) ? rc : 0;
    for (size_t i = 0; i < n && !alive; i++) {
        rc = proc_stat(pid, tids[i], &stat);
        alive = is_shortage(rc) ? rc
                : rc < 0        ? rc == -ETIME /* it executes a program */
                                : !proc_stat_dead(&stat) && !stat.exiting;
    }
    free(tids);
    return alive;
}

/* All namespaces are on one internal file system, so its device is read only once. readlink(2)
 * takes half the time of stat(2), because it does not create the inode. */
int ns_identify(pid_t tid, const char *which, struct ns_id *out)
{
    static _Atomic dev_t device;  /* 0: not read yet */
    char path[64], name[64] = ""; /* "user:[4026531837]" */
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d/ns/%s", tid, which);
    if (!device && stat(path, &st) == 0)
        device = st.st_dev;
    if (!device || readlink(path, name, sizeof name - 1) < 0)
        return -errno;
    const char *number = strchr(name, '[');
    *out = (struct ns_id){.dev = device, .ino = number ? strtoull(number + 1, NULL, 10) : 0};
    return number ? 0 : -EIO;
}

int ns_identify_fd(int fd, struct ns_id *out)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    *out = (struct ns_id){.dev = st.st_dev, .ino = st.st_ino};
    return 0;
}

int ns_open(pid_t tid, const char *which)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/%s", tid, which);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

bool ns_same(const struct ns_id *a, const struct ns_id *b)
{
    return a->dev == b->dev && a->ino == b->ino;
}
