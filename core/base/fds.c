#include "core/base/fds.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* States of a descriptor: exempt, or of an earlier worker and kept or not. */
enum {
    FD_NONE,
    FD_MINE,
    FD_OPEN,
    FD_KEPT
};
static uint8_t *fds;
static int n_fds;

static bool fds_fit(int fd)
{
    const int n = 2 * fd + 64;
    uint8_t *grown = fd < n_fds ? fds : realloc(fds, (size_t)n);

    if (!grown)
        return false;
    if (fd >= n_fds) {
        memset(grown + n_fds, FD_NONE, (size_t)(n - n_fds));
        n_fds = n;
    }
    fds = grown;
    return true;
}

bool fd_mine(int fd)
{
    const bool fine = fd >= 0 && fds_fit(fd);

    if (fine)
        fds[fd] = FD_MINE;
    return fine;
}

bool fds_begin(void)
{
    DIR *dir = opendir("/proc/self/fd");
    bool fine = dir != NULL;

    for (struct dirent *entry; fine && (entry = readdir(dir));) {
        const int fd = (int)strtol(entry->d_name, NULL, 10);

        if (entry->d_name[0] == '.' || fd == dirfd(dir))
            continue;
        fine = fds_fit(fd);
        if (fine && fds[fd] != FD_MINE)
            fds[fd] = FD_OPEN;
    }
    if (dir)
        closedir(dir);
    return fine;
}

bool fd_keep(int fd)
{
    if (fd >= 0 && fd < n_fds && fds[fd] == FD_OPEN)
        fds[fd] = FD_KEPT;
    return fcntl(fd, F_GETFD) >= 0;
}

void fds_settle(void)
{
    for (int fd = 0; fd < n_fds; fd++)
        if (fds[fd] == FD_OPEN)
            close(fd);
    free(fds);
    fds = NULL;
    n_fds = 0;
}
