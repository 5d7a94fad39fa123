/*
 * Memory: a buddy allocator. Blocks are powers of two, with a list of free blocks for each size.
 * The file is sparse: only written pages use memory, and pages that have only free blocks are given
 * back. The tables of blocks and pages are sparse as well. Descriptors: a table with a state for
 * each.
 */
#include "core/base/arena.h"

#include "core/base/vec.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    UNIT_BITS = 9,
    FILE_BITS = 36, /* size of the file */
    PAGE = 4096,
    WARM_MAX = 1 << 20 /* bytes */
};
#define FILE_BYTES (UINT64_C(1) << FILE_BITS)
#define FILE_UNITS (FILE_BYTES >> UNIT_BITS)

/* Indices and values of next[] count units, the smallest blocks: a block's number >> UNIT_BITS.
 * 0: none. */
struct tables {
    uint32_t next[FILE_UNITS];             /* next block in the list of free blocks */
    uint8_t free_units[FILE_BYTES / PAGE]; /* per page with smaller blocks: a bit per free unit */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static int memfd = -1;
char *arena_base;
static uint64_t *used_end; /* end of the used part of the file; stored in its first page */
static struct tables *tables;
static uint32_t free_lists[FILE_BITS + 1]; /* first free block of each size, by its exponent */
/* A free zeroed block with its pages, which is in no list. Block 0: none. */
static struct {
    uint64_t block;
    size_t bytes;
} warm;

/* Maps a file (-1: anonymous memory) of which only written pages use memory. Returns NULL if there
 * is no address space or memory. */
static void *map_sparse(int file, uint64_t bytes)
{
    const int flags = MAP_NORESERVE | (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);

    return map == MAP_FAILED ? NULL : map;
}

/* Blocks of an earlier process that are kept. All of its blocks are below `inherited_end`. 0: no
 * earlier process, or all of its blocks are kept because of ENOMEM. */
struct span {
    uint64_t begin, end;
};
static VEC(struct span) kept;
static uint64_t inherited_end;

static bool arena_map(int from)
{
    if (!tables)
        tables = map_sparse(-1, sizeof *tables);
    arena_base = tables ? map_sparse(from, FILE_BYTES) : NULL;
    used_end = (uint64_t *)(void *)arena_base;
    return arena_base != NULL;
}

static bool arena_create(void)
{
    if (arena_base)
        return true;
    if (memfd < 0)
        memfd = memfd_create("pmcfs-logs", MFD_CLOEXEC);
    if (memfd < 0 || ftruncate(memfd, (off_t)FILE_BYTES) || !arena_map(memfd))
        return false;
    *used_end = PAGE;
    return true;
}

int arena_fd(void)
{
    pthread_mutex_lock(&lock);
    bool made = arena_create();
    pthread_mutex_unlock(&lock);
    return made ? memfd : -1;
}

/* Returns the exponent of the smallest block that holds this many bytes. */
static unsigned bits_of(size_t bytes)
{
    unsigned bits = UNIT_BITS;

    while (bits < FILE_BITS && UINT64_C(1) << bits < bytes)
        bits++;
    return bits;
}

/* Returns the bits in tables.free_units of a block that is smaller than a page. */
static uint8_t units_of(uint64_t block, unsigned bits)
{
    const unsigned n = 1U << (bits - UNIT_BITS), first = block % PAGE >> UNIT_BITS;

    return (uint8_t)(((1U << n) - 1) << first);
}

/* Takes a free block of this size, or else space between the used part of the file and `end`.
 * Returns 0 if there is none. */
static uint64_t block_take(size_t bytes, uint64_t end)
{
    const unsigned bits = bits_of(bytes);
    const uint64_t size = UINT64_C(1) << bits;
    uint64_t block = 0;

    pthread_mutex_lock(&lock);
    if (warm.block && bits_of(warm.bytes) == bits) {
        block = warm.block;
        warm.block = 0;
    } else if (arena_create() && free_lists[bits]) {
        block = (uint64_t)free_lists[bits] << UNIT_BITS;
        free_lists[bits] = tables->next[free_lists[bits]];
    } else if (arena_base) {
        const uint64_t fresh = (*used_end + size - 1) & ~(size - 1);

        if (size <= end && fresh <= end - size) {
            block = fresh;
            *used_end = fresh + size;
        }
    }
    if (block && size < PAGE)
        tables->free_units[block / PAGE] &= (uint8_t)~units_of(block, bits);
    pthread_mutex_unlock(&lock);
    return block;
}

uint64_t arena_alloc(size_t bytes)
{
    return block_take(bytes, FILE_BYTES);
}

uint64_t arena_alloc_sparse(size_t bytes)
{
    return block_take(bytes, FILE_BYTES / 2);
}

/* Zeroes the block and adds it to its list; memory of complete pages is given back. Needs the lock.
 */
static void block_free(uint64_t block, size_t bytes)
{
    const unsigned bits = bits_of(bytes);
    const uint64_t size = UINT64_C(1) << bits, page = block & ~(uint64_t)(PAGE - 1);
    bool is_free_page = size >= PAGE;

    if (!block)
        return;
    if (!is_free_page)
        is_free_page = (tables->free_units[block / PAGE] |= units_of(block, bits)) == UINT8_MAX;
    if (!is_free_page || fallocate(memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)page,
                                   (off_t)(size < PAGE ? PAGE : size)))
        memset(arena_base + block, 0, bytes);
    tables->next[block >> UNIT_BITS] = free_lists[bits];
    free_lists[bits] = (uint32_t)(block >> UNIT_BITS);
}

void arena_free(uint64_t block, size_t bytes)
{
    pthread_mutex_lock(&lock);
    block_free(block, bytes);
    pthread_mutex_unlock(&lock);
}

void arena_free_warm(uint64_t block, size_t bytes)
{
    pthread_mutex_lock(&lock);
    if (bytes < PAGE || bytes > WARM_MAX || !block) {
        block_free(block, bytes);
    } else {
        block_free(warm.block, warm.bytes);
        memset(arena_base + block, 0, bytes);
        warm.block = block;
        warm.bytes = bytes;
    }
    pthread_mutex_unlock(&lock);
}

void arena_trim(void)
{
    pthread_mutex_lock(&lock);
    block_free(warm.block, warm.bytes);
    warm.block = 0;
    pthread_mutex_unlock(&lock);
}

/* ---- the arena of another process ---- */

bool arena_open(int from)
{
    if (arena_base)
        munmap(arena_base, FILE_BYTES);
    memfd = from;
    if (lseek(from, 0, SEEK_END) != (off_t)FILE_BYTES || !arena_map(from) || *used_end < PAGE ||
        *used_end > FILE_BYTES)
        return false;
    inherited_end = *used_end;
    return true;
}

bool arena_clear(int from)
{
    const uint64_t none = PAGE;

    return ftruncate(from, 0) == 0 && ftruncate(from, (off_t)FILE_BYTES) == 0 &&
           pwrite(from, &none, sizeof none, 0) == (ssize_t)sizeof none;
}

void arena_keep(uint64_t block, size_t bytes)
{
    const struct span span = {block, block + (UINT64_C(1) << bits_of(bytes))};

    if (!block)
        return;
    pthread_mutex_lock(&lock);
    if (inherited_end && vec_push(&kept, span))
        inherited_end = 0; /* on ENOMEM nothing is freed */
    pthread_mutex_unlock(&lock);
}

static int span_compare(const void *left, const void *right)
{
    const struct span *a = left, *b = right;

    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* Frees a range as the largest blocks that fit. */
static void gap_free(uint64_t begin, uint64_t end)
{
    while (begin < end) {
        uint64_t size = begin & -begin;

        while (size > end - begin)
            size /= 2;
        arena_free(begin, size);
        begin += size;
    }
}

void arena_free_unkept(void)
{
    uint64_t at = PAGE;

    if (kept.n)
        qsort(kept.items, kept.n, sizeof *kept.items, span_compare);
    for (size_t i = 0; inherited_end && i < kept.n; i++) {
        if (at < kept.items[i].begin)
            gap_free(at, kept.items[i].begin);
        at = kept.items[i].end > at ? kept.items[i].end : at;
    }
    if (at < inherited_end && *used_end == inherited_end) {
        fallocate(memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
                  (off_t)(inherited_end - at));
        *used_end = at;
    } else if (at < inherited_end) {
        gap_free(at, inherited_end);
    }
    free(kept.items);
    memset(&kept, 0, sizeof kept);
    inherited_end = 0;
}

void *arena_at(uint64_t block, size_t bytes)
{
    const uint64_t size = UINT64_C(1) << bits_of(bytes);

    if (!arena_base || !block || block % size || size < bytes || block > FILE_BYTES - size)
        return NULL;
    return arena_base + block;
}

/* ---- descriptors ---- */

/* States of a descriptor: exempt, or of an earlier worker and kept or not. */
enum {
    FD_NONE,
    FD_EXEMPT,
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

bool fd_exempt(int fd)
{
    const bool fine = fd >= 0 && fds_fit(fd);

    if (fine)
        fds[fd] = FD_EXEMPT;
    return fine;
}

bool fds_mark_old(void)
{
    DIR *dir = opendir("/proc/self/fd");
    bool fine = dir != NULL;

    for (struct dirent *entry; fine && (entry = readdir(dir));) {
        const int fd = (int)strtol(entry->d_name, NULL, 10);

        if (entry->d_name[0] == '.' || fd == dirfd(dir))
            continue;
        fine = fds_fit(fd);
        if (fine && fds[fd] != FD_EXEMPT)
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

void fds_close_new(void)
{
    for (int fd = 0; fd < n_fds; fd++)
        if (fds[fd] == FD_NONE)
            close(fd);
    if (n_fds > 0)
        close_range((unsigned)n_fds, ~0U, 0);
}

void fds_close_unkept(void)
{
    for (int fd = 0; fd < n_fds; fd++)
        if (fds[fd] == FD_OPEN)
            close(fd);
    free(fds);
    fds = NULL;
    n_fds = 0;
}
