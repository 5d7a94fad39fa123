/*
 * Opened without waiting, looked at, and only then read.
 */
#include "fs/program/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONF_BYTES_MAX (1 << 20)

/* Why it is not read; NULL: it can be. */
static const char *refusal(int fd)
{
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return strerror(errno);
    if (S_ISDIR(st.st_mode))
        return "it is a directory";
    if (!S_ISREG(st.st_mode))
        return "it is no regular file";
    return st.st_size > CONF_BYTES_MAX ? "it is longer than 1 MiB" : NULL;
}

FILE *conf_open(const char *path, const char **why)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    FILE *file;

    *why = refusal(fd);
    file = *why ? NULL : fdopen(fd, "r");
    if (!file && !*why)
        *why = strerror(errno);
    if (!file && fd >= 0)
        close(fd);
    return file;
}
