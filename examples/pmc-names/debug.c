/*
 * Separate debug files, found by build-id or by debug link. A debug link is a name inside the
 * executable, so its author controls it. The file is looked up below the root directory of the
 * process, and opened with the same checks as the executable; elfutils alone would not do that.
 */
#include "examples/pmc-names/names.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STORE    "/usr/lib/debug"
#define READ_MAX ((off_t)1 << 30) /* bytes; no checksum is made of a larger file */

/* The checksum of a debug link (CRC-32). */
static uint32_t sum_add(uint32_t sum, const unsigned char *data, ssize_t n)
{
    sum = ~sum;
    for (ssize_t i = 0; i < n; i++) {
        sum ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
    }
    return ~sum;
}

static bool sum_is(int fd, uint32_t wanted)
{
    static unsigned char data[65536];
    struct stat status;
    uint32_t sum = 0;
    off_t at = 0;

    if (fstat(fd, &status) < 0 || status.st_size > READ_MAX)
        return false;
    for (ssize_t n; at < READ_MAX && (n = pread(fd, data, sizeof data, at)) > 0; at += n)
        sum = sum_add(sum, data, n);
    return sum == wanted;
}

static int build_id_open(const char *root, const unsigned char *id, int len)
{
    struct buf path = {0};

    buf_printf(&path, STORE "/.build-id/%02x/", id[0]);
    for (int i = 1; i < len; i++)
        buf_printf(&path, "%02x", id[i]);
    buf_str(&path, ".debug");
    int fd = path.failed ? -1 : place_open_below(root, buf_text(&path));
    buf_free(&path);
    return fd;
}

/* Opens BEFORE DIRECTORY SUBDIRECTORY/LINK if its checksum is `sum`. DIRECTORY is that of the
 * executable. */
static int link_open(const struct found *found, const char *root, const char *before,
                     const char *subdirectory, const char *link, uint32_t sum)
{
    const char *slash = strrchr(found->path, '/');
    char *path;
    int fd;

    if (!slash || strchr(link, '/') ||
        asprintf(&path, "%s%.*s%s/%s", before, (int)(slash - found->path), found->path,
                 subdirectory, link) < 0)
        return -1;
    fd = place_open_below(root, path);
    free(path);
    if (fd < 0 || sum_is(fd, sum))
        return fd;
    close(fd);
    return -1;
}

static int link_find(const struct found *found, const char *link, uint32_t sum)
{
    int fd = link_open(found, found->root, "", "", link, sum);

    if (fd < 0)
        fd = link_open(found, found->root, "", "/.debug", link, sum);
    if (fd < 0)
        fd = link_open(found, found->root, STORE, "", link, sum);
    return fd < 0 && *found->root ? link_open(found, "", STORE, "", link, sum) : fd;
}

/* Callback of libdwfl: opens the separate debug file of a module, below the root of the process
 * first. If none is found, elfutils searches STORE by build-id, its cache, and DEBUGINFOD_URLS. */
static int debug_find(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                      const char *file, const char *link, GElf_Word crc, char **debug)
{
    const struct found *found = *data;
    const unsigned char *id;
    GElf_Addr at;
    const int len = dwfl_module_build_id(module, &id, &at);
    int fd = len > 1 && *found->root ? build_id_open(found->root, id, len) : -1;

    (void)file;
    if (fd < 0 && link)
        fd = link_find(found, link, crc);
    return fd < 0 ? dwfl_standard_find_debuginfo(module, data, name, base, NULL, NULL, 0, debug)
                  : fd;
}

Dwfl *debug_begin(void)
{
    static char path[] = ":" STORE, *store = path;
    static const Dwfl_Callbacks callbacks = {.find_debuginfo = debug_find,
                                             .section_address = dwfl_offline_section_address,
                                             .debuginfo_path = &store};

    return dwfl_begin(&callbacks);
}

void debug_found(Dwfl_Module *module, struct found *found)
{
    void **data;

    dwfl_module_info(module, &data, NULL, NULL, NULL, NULL, NULL, NULL);
    *data = found;
}
