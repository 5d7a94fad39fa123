/*
 * Which processes have perf events open: links in /proc/PID/fd say so, but not of what kind they
 * are. Those that the kernel or a BPF program holds have no process.
 */
#include "backends/perf/holders.h"

#include "backends/look.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EVENT_LINK "anon_inode:[perf_event]"

enum {
    HOLDERS_TOLD = 4,
    LOOK_NS_MAX = 300000000 /* whoever was refused waits for the sentence */
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

struct look {
    int proc, fd;
    unsigned n;
};

static long events_run(void *arg)
{
    struct look *look = arg;
    int fd = look->fd =
        (int)syscall(SYS_openat, look->proc, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    char link[sizeof EVENT_LINK];
    _Alignas(struct dirent64) char room[4096];
    long len;

    while (fd >= 0 && (len = syscall(SYS_getdents64, fd, room, sizeof room)) > 0)
        for (long at = 0; at < len;) {
            const struct dirent64 *entry = (const struct dirent64 *)(room + at);

            at += entry->d_reclen;
            look->n += syscall(SYS_readlinkat, fd, entry->d_name, link, sizeof link) ==
                           sizeof EVENT_LINK - 1 &&
                       memcmp(link, EVENT_LINK, sizeof EVENT_LINK - 1) == 0;
        }
    return 0;
}

/* Descriptors of perf events of the process whose directory in /proc this is. */
static unsigned events_of(int proc)
{
    struct look look = {.proc = proc, .fd = -1};

    look_at(events_run, &look);
    if (look.fd >= 0)
        close(look.fd);
    return look.n;
}

static void print_name(int proc, const char *pid, struct buf *out)
{
    int fd = openat(proc, "comm", O_RDONLY | O_CLOEXEC);
    char name[32];
    ssize_t len = fd < 0 ? 0 : read(fd, name, sizeof name);

    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i + 1 < len; i++) /* a program chose it */
        buf_char(out, isgraph((unsigned char)name[i]) ? name[i] : '?');
    buf_printf(out, "%sPID %s", len > 1 ? " " : "", pid);
}

static bool print_holder(int all, const char *pid, bool first, struct buf *out)
{
    int proc = openat(all, pid, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    unsigned n = proc < 0 ? 0 : events_of(proc);

    if (n > 0) {
        buf_str(out, first ? "" : ", ");
        print_name(proc, pid, out);
        buf_printf(out, " (%u)", n);
    }
    if (proc >= 0)
        close(proc);
    return n > 0;
}

unsigned holders_print(struct buf *out)
{
    const uint64_t until_ns = now_ns() + LOOK_NS_MAX;
    const long own = getpid();
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    unsigned found = 0;

    while (dir && found < HOLDERS_TOLD && now_ns() < until_ns && (entry = readdir(dir)))
        if (isdigit((unsigned char)entry->d_name[0]) && atol(entry->d_name) != own)
            found += print_holder(dirfd(dir), entry->d_name, found == 0, out);
    if (found == HOLDERS_TOLD)
        buf_str(out, ", …");
    if (dir)
        closedir(dir);
    return found;
}
