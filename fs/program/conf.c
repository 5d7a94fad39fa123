/*
 * Opened without waiting, looked at, and only then read.
 */
#include "fs/program/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONF_BYTES_MAX ((size_t)1 << 20)
#define TOO_LONG       "it is longer than 1 MiB"

static int check_kind(int fd, const char **why)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (S_ISREG(st.st_mode))
        return 0;
    *why = S_ISDIR(st.st_mode) ? "it is a directory" : "it is no regular file";
    return -EINVAL;
}

static int read_all(int fd, struct buf *out, const char **why)
{
    char chunk[4096];
    ssize_t n;

    while ((n = read(fd, chunk, sizeof chunk)) > 0) {
        if (out->len + (size_t)n > CONF_BYTES_MAX) {
            *why = TOO_LONG;
            return -EFBIG;
        }
        buf_add(out, chunk, (size_t)n);
    }
    return n < 0 ? -errno : out->failed ? -ENOMEM : 0;
}

int conf_load(const char *path, struct buf *out, const char **why)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    int rc = fd < 0 ? -errno : 0;

    *why = NULL;
    if (rc == 0)
        rc = check_kind(fd, why);
    if (rc == 0)
        rc = read_all(fd, out, why);
    if (fd >= 0)
        close(fd);
    if (rc && !*why)
        *why = strerror(-rc);
    return rc;
}
