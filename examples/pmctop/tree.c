/*
 * The mounted tree: where it is, and the texts of its files.
 */
#include "examples/pmctop/top.h"

#include "core/base/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 65536
};

/* Returns the mount point, the fifth word of a line of mountinfo, or NULL for another file system.
 */
static char *mount_point(char *line)
{
    char *at = line;

    if (!strstr(line, " - fuse.pmcfs "))
        return NULL;
    for (int i = 0; i < 4 && at; i++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    if (!at)
        return NULL;
    at[strcspn(at, " ")] = '\0';
    text_unescape(at);
    return strdup(at);
}

/* Returns /pmc if it is a mount that this user can read, otherwise the first such mount, or else
 * the first mount. */
static char *mount_find(void)
{
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    char *line = NULL, *found = NULL, *place, *counts;
    int best = 0, rank;
    size_t size = 0;

    while (mounts && getline(&line, &size, mounts) > 0) {
        place = mount_point(line);
        if (!place)
            continue;
        counts = NULL;
        rank = 1 + (asprintf(&counts, "%s/counts", place) > 0 && access(counts, R_OK) == 0);
        rank += rank == 2 && strcmp(place, "/pmc") == 0;
        if (rank > best) {
            free(found);
            found = strdup(place);
            best = rank;
        }
        free(counts);
        free(place);
    }
    free(line);
    if (mounts)
        fclose(mounts);
    return found;
}

static int file_open(const struct tree *tree, const char *name)
{
    char *path = NULL;
    int fd = -1;

    if (asprintf(&path, "%s/%s", tree->path, name) >= 0)
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    free(path);
    return fd;
}

/* Reads the text of a newly opened file. All parts are of the moment of the first read; a short
 * read is the end. Returns false and sets errno on failure. */
static bool text_read(int fd, struct text *text)
{
    size_t room = PIECE_BYTES;
    ssize_t n;

    text->n = 0;
    do {
        if (vec_room(text, room + 1)) {
            errno = ENOMEM;
            return false;
        }
        do
            n = pread(fd, text->items + text->n, room, (off_t)text->n);
        while (n < 0 && errno == EINTR);
        text->n += n > 0 ? (size_t)n : 0;
    } while (n == (ssize_t)room);
    text->items[text->n] = '\0';
    return n >= 0;
}

/* Finds the device number of a file, given as for statx(2), without sending a request to pmcfs. */
static bool device_of(int directory, const char *path, int flags, unsigned device[2])
{
    struct statx status;

    if (statx(directory, path, flags | AT_STATX_DONT_SYNC, STATX_TYPE, &status) < 0)
        return false;
    device[0] = status.stx_dev_major;
    device[1] = status.stx_dev_minor;
    return true;
}

static bool is_mounted(const struct tree *tree)
{
    unsigned device[2];

    return device_of(AT_FDCWD, tree->path, 0, device) && device[0] == tree->device[0] &&
           device[1] == tree->device[1];
}

bool tree_open(struct tree *tree)
{
    const char *given = getenv("PMC");

    tree->path = given && *given ? strdup(given) : mount_find();
    if (!tree->path) {
        snprintf(tree->trouble, sizeof tree->trouble,
                 "no pmcfs is mounted: mount one as root with \"pmcfs /pmc\" or \"systemctl start "
                 "pmcfs\"");
        return false;
    }
    const int fd = file_open(tree, "counts");
    const bool readable = fd >= 0 && device_of(fd, "", AT_EMPTY_PATH, tree->device);
    if (fd >= 0)
        close(fd);
    if (readable) {
        if ((!given || !*given) && strcmp(tree->path, "/pmc") != 0)
            fprintf(stderr, "pmctop: using the pmcfs on %s, because none is mounted on /pmc\n",
                    tree->path);
        return true;
    }
    snprintf(tree->trouble, sizeof tree->trouble,
             "no pmcfs that you may read is mounted on %s (%s): mount one there, or set PMC=DIR",
             tree->path, strerror(errno));
    return false;
}

void tree_close(struct tree *tree)
{
    free(tree->path);
}

bool tree_no_memory(struct tree *tree)
{
    strcpy(tree->trouble, "out of memory");
    return false;
}

bool tree_file(const struct tree *tree, const char *name, struct text *text)
{
    int fd = file_open(tree, name);
    bool read = fd >= 0 && text_read(fd, text);

    if (fd >= 0)
        close(fd);
    return read;
}

/* Opens and closes the file each time, so that the tree can be unmounted. */
bool tree_counts(struct tree *tree, struct text *text)
{
    if (is_mounted(tree) && tree_file(tree, "counts", text))
        return true;
    if (!is_mounted(tree))
        snprintf(tree->trouble, sizeof tree->trouble, "pmcfs was unmounted from %s", tree->path);
    else
        snprintf(tree->trouble, sizeof tree->trouble, "cannot read %s/counts: %s", tree->path,
                 strerror(errno));
    return false;
}
